"""How MCP sees the library.  The only package that knows the protocol."""
