"""The floor: a minimal server on the same SDK, with one tool that echoes."""

from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
)

ECHO = Tool(
    name="echo",
    description="Return the text.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
)


async def list_tools(_: Any, __: Any) -> ListToolsResult:
    """Offer the one tool."""
    return ListToolsResult(tools=[ECHO])


async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
    """Return the argument."""
    text = str((params.arguments or {}).get("text", ""))
    return CallToolResult(content=[TextContent(type="text", text=text)])


async def main() -> None:
    """Serve on standard input and output."""
    server: Server[Any] = Server("floor", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
