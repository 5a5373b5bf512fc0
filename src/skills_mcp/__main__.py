"""`python -m skills_mcp` is the program `skills-mcp`."""


def main() -> None:
    """Run the program and leave with its exit code."""
    from skills_mcp.cli import main as run

    run()


if __name__ == "__main__":
    main()
