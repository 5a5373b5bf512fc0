"""The floor over HTTP: a minimal server on the same SDK, with one tool."""

import logging
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
)

WRITE = Tool(
    name="write",
    description="Return a text of so many characters.",
    input_schema={"type": "object", "properties": {"characters": {"type": "integer"}}},
)


async def list_tools(_: Any, __: Any) -> ListToolsResult:
    """Offer the one tool."""
    return ListToolsResult(tools=[WRITE])


async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
    """Return a text as long as asked for."""
    text = "x" * int((params.arguments or {}).get("characters", 0))
    return CallToolResult(content=[TextContent(type="text", text=text)])


def main() -> None:
    """Serve on any free port of the loopback, and say on which."""
    server: Server[Any] = Server("floor", on_list_tools=list_tools, on_call_tool=call_tool)
    logging.disable(logging.INFO)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as port:
        port.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = port.getsockname()[1]
        sys.stderr.write(f"Serving MCP at http://127.0.0.1:{number}/mcp\n")
        sys.stderr.flush()
        config = uvicorn.Config(
            server.streamable_http_app(), access_log=False, log_config=None, ws="none"
        )
        uvicorn.Server(config).run([port])


if __name__ == "__main__":
    main()
