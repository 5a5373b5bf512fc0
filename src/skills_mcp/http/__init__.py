"""MCP over HTTP (ASGI). The only Starlette in the core."""
