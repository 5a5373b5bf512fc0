"""The server whose settings cannot be used: each of its tools says what to set.

Hosts show of a server that ends at once only that the connection is closed, so this one
stays until its client goes.
"""

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
from skills_mcp.server.replies import refused
from skills_mcp.server.reply_blocks import render

_Context = ServerRequestContext[Any, Any]

_PLAIN = ReplyRules("json", 10_000)

_AFTERWARDS = "Then restart this MCP server in your agent, or the agent."


def create_unconfigured_server(error: ConfigError) -> Server[Any]:
    """Return a server for both protocol eras that answers each call with an error.

    Args:
        error: Why there is no other server; the message says what to set.
    """
    told = ConfigError(f"{error} {_AFTERWARDS}")

    async def list_tools(
        _context: _Context, _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[spec.advertise() for spec in CORE_TOOLS])

    async def call_tool(_context: _Context, _: CallToolRequestParams) -> CallToolResult:
        return render(refused(told), _PLAIN)

    return Server(
        "skills-mcp",
        version=__version__,
        title="Skills of this organisation",
        instructions=f"{NOTHING_TO_SERVE}; tell the user why. {told}",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
