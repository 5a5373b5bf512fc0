"""Real processes, which end with the test whatever happens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients import HangingRemote, Lifeline, ServerProcess
from tests.support import SKILLS_CONTENT

Start = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server for the sample content, or as `environment` says."""
    started: list[ServerProcess] = []

    def start(*arguments: str, prefix: tuple[str, ...] = (), **environment: str) -> ServerProcess:
        server = ServerProcess(
            *arguments,
            environment=environment or {"SKILLS_DIR": str(SKILLS_CONTENT)},
            log=tmp_path / f"server-{len(started)}.log",
            prefix=prefix,
        )
        started.append(server)
        return server

    yield start
    for server in started:
        server.close()


@contextmanager
def opened_server(folder: Path) -> Iterator[ServerProcess]:
    """Start a server for the sample content, with a home of its own."""
    environment = {
        "HOME": str(folder),
        "SKILLS_MCP_HOME": str(folder / ".skills-mcp"),
        "SKILLS_DIR": str(SKILLS_CONTENT),
    }
    server = ServerProcess(environment=environment, log=folder / "server.log")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that several tests ask, and that none of them ends or changes."""
    with opened_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    line = Lifeline(tmp_path / "lifeline")
    yield line
    line.close()


@pytest.fixture
def hanging_remote() -> Iterator[HangingRemote]:
    remote = HangingRemote()
    yield remote
    remote.close()
