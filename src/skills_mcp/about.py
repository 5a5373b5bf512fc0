"""Name and version of the program."""

__version__ = "0.1.0"

DISTRIBUTION = "skills-mcp-server"
"""The name on PyPI; `skills-mcp` there is another project."""

NOTHING_TO_SERVE = "No skills can be served yet"
"""Start of the instructions of a server without usable settings."""
