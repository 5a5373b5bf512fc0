"""`python -m skills_mcp` is the program `skills-mcp`."""

from skills_mcp.cli import main

main()
