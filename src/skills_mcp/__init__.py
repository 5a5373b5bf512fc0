"""Serve an organisation's engineering knowledge to every coding agent."""

__version__ = "0.1.0"
DISTRIBUTION = "skills-mcp-server"
"""The name on the package index; `skills-mcp` there belongs to somebody else."""
