"""The server over HTTP: two ports, and the guards in front of MCP."""
