"""MCP server on top of the library. The only package with MCP types."""
