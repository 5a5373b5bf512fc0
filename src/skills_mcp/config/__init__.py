"""What can be set, where each value came from, and who may set it (001 §11).

Precedence: defaults < `config.yaml` of the content < the operator's file <
environment < command line (DESIGN §3.12).
"""

from skills_mcp.config.analytics import Analytics
from skills_mcp.config.environment import (
    VARIABLES,
    environment_layer,
    refuses_tracking,
)
from skills_mcp.config.layers import Layer, load_file, read_layer
from skills_mcp.config.model import (
    Assets,
    Catalog,
    Config,
    Files,
    Responses,
    Visibility,
)
from skills_mcp.config.routing import Embedding, Matching, Search
from skills_mcp.config.running import Commands, Scripts
from skills_mcp.config.schema import json_schema
from skills_mcp.config.settings import Settings
from skills_mcp.config.syncing import Limits, Refresh, Source, Sync
from skills_mcp.config.trust import OPERATOR_ONLY, OPERATOR_ONLY_KEYS, REMOTE_SECTIONS
from skills_mcp.config.values import TOOLSETS

__all__ = [
    "OPERATOR_ONLY",
    "OPERATOR_ONLY_KEYS",
    "REMOTE_SECTIONS",
    "TOOLSETS",
    "VARIABLES",
    "Analytics",
    "Assets",
    "Catalog",
    "Commands",
    "Config",
    "Embedding",
    "Files",
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
    "Visibility",
    "environment_layer",
    "json_schema",
    "load_file",
    "read_layer",
    "refuses_tracking",
]
