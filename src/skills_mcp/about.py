"""What the program is called, and which one this is."""

__version__ = "0.1.0"

DISTRIBUTION = "skills-mcp-server"
"""The name on the package index; `skills-mcp` there is another project."""

NOTHING_TO_SERVE = "No skills can be served yet"
"""How the instructions of a server begin that has no settings it can use."""
