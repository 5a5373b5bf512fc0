"""Server without usable settings."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from skills_mcp.about import NOTHING_TO_SERVE, __version__
from skills_mcp.errors import ConfigError
from skills_mcp.server.core_tools import CORE_TOOLS
from skills_mcp.server.known_clients import ReplyRules
from skills_mcp.server.replies import error_reply
from skills_mcp.server.reply_blocks import render_tool_result

_Context = ServerRequestContext[Any, Any]

_PLAIN_RULES = ReplyRules("json", 10_000)

_RESTART_HINT = "Then restart this MCP server in your agent, or the agent."


def create_unconfigured_server(error: ConfigError) -> Server[Any]:
    """Create a server that answers each call with a configuration error.

    Hosts show no reason for a server that exits, so this one stays until its client
    leaves.
    """
    config_error = ConfigError(f"{error} {_RESTART_HINT}")

    async def list_tools(_context: _Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[spec.advertise() for spec in CORE_TOOLS])

    async def call_tool(_context: _Context, _: CallToolRequestParams) -> CallToolResult:
        return render_tool_result(error_reply(config_error), _PLAIN_RULES)

    return Server(
        "skills-mcp",
        version=__version__,
        title="Skills of this organisation",
        instructions=f"{NOTHING_TO_SERVE}; tell the user why. {config_error}",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
