"""What can be set, where each value came from, and who may set it (001 §11).

Precedence: defaults < `config.yaml` of the content < the operator's file <
environment < command line (DESIGN §3.12).
"""

from skills_mcp.config.layers import Layer, environment_layer, load_file, read_layer
from skills_mcp.config.model import (
    Analytics,
    Assets,
    Config,
    Matching,
    Refresh,
    Responses,
    Scripts,
    json_schema,
)
from skills_mcp.config.settings import Settings
from skills_mcp.config.trust import REMOTE_SECTIONS

__all__ = [
    "REMOTE_SECTIONS",
    "Analytics",
    "Assets",
    "Config",
    "Layer",
    "Matching",
    "Refresh",
    "Responses",
    "Scripts",
    "Settings",
    "environment_layer",
    "json_schema",
    "load_file",
    "read_layer",
]
