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
    Auth,
    Catalog,
    Commands,
    Config,
    Embedding,
    Files,
    Grant,
    Http,
    Limits,
    Matching,
    Refresh,
    Scripts,
    Search,
    Source,
    Sync,
    TrustedHeader,
    Visibility,
    Web,
)
from skills_mcp.config.values import TOOLSETS
from skills_mcp.config.variables import (
    VARIABLES,
    is_tracking_refused,
    parse_environment,
)
