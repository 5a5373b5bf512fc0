"""A real server on stdio, in a home of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients import ServerProcess


@contextmanager
def started(
    folder: Path, *arguments: str, name: str = "server", **environment: str
) -> Iterator[ServerProcess]:
    """Start a server; it ends with the block, and its log stays.

    Args:
        folder: Where its home and its log are.
        arguments: Of the program.
        name: Of the log.
        environment: Of the server, besides what every process has.
    """
    server = ServerProcess(
        *arguments,
        environment=home_variables(folder) | environment,
        log=folder / f"{name}.log",
    )
    try:
        yield server
    finally:
        server.close()


def home_variables(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose home is this folder."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "SKILLS_MCP_HOME": str(home / ".skills-mcp"),
        # Scenarios measure and kill the process that they have started; of windows that
        # share a server, see soak.windows.
        "SKILLS_MCP_SHARE": "0",
    }
