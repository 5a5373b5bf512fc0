"""The settings: what they mean, where each value came from, and who may set it.

Precedence: defaults < `config.yaml` of the content < the operator's file <
environment < command line.
"""

from skills_mcp.config.layers import Layer, Settings, load_file, read_layer
from skills_mcp.config.sections import (
    Analytics,
    Assets,
    Auth,
    Catalog,
    Commands,
    Config,
    Embedding,
    Events,
    Files,
    Grant,
    Http,
    Limits,
    Matching,
    Refresh,
    Responses,
    Scripts,
    Search,
    Source,
    Sync,
    TrustedHeader,
    Upload,
    Visibility,
    Web,
)
from skills_mcp.config.trust import OPERATOR_ONLY, OPERATOR_ONLY_KEYS, REMOTE_SECTIONS
from skills_mcp.config.values import TOOLSETS
from skills_mcp.config.variables import (
    VARIABLES,
    environment_layer,
    refuses_tracking,
)

__all__ = [
    "OPERATOR_ONLY",
    "OPERATOR_ONLY_KEYS",
    "REMOTE_SECTIONS",
    "TOOLSETS",
    "VARIABLES",
    "Analytics",
    "Assets",
    "Auth",
    "Catalog",
    "Commands",
    "Config",
    "Embedding",
    "Events",
    "Files",
    "Grant",
    "Http",
    "Layer",
    "Limits",
    "Matching",
    "Refresh",
    "Responses",
    "Scripts",
    "Search",
    "Settings",
    "Source",
    "Sync",
    "TrustedHeader",
    "Upload",
    "Visibility",
    "Web",
    "environment_layer",
    "load_file",
    "read_layer",
    "refuses_tracking",
]
