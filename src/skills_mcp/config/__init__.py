"""The settings: meaning, origin of each value, and permissions.

Precedence: defaults < `config.yaml` of the content < the operator's file <
environment < command line.
"""

from skills_mcp.config.layers import (
    OPERATOR_ONLY,
    OPERATOR_ONLY_KEYS,
    REMOTE_SECTIONS,
    Layer,
    Settings,
    load_file,
    read_layer,
)
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
from skills_mcp.config.values import TOOLSETS
from skills_mcp.config.variables import (
    VARIABLES,
    is_tracking_refused,
    parse_environment,
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
    "is_tracking_refused",
    "load_file",
    "parse_environment",
    "read_layer",
]
