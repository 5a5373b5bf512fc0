"""What the program is called, and which one this is."""

__version__ = "0.1.0"

DISTRIBUTION = "skills-mcp-server"
"""The name on the package index; `skills-mcp` there belongs to somebody else."""
