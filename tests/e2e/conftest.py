"""Real processes, which end with the test whatever happens."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.clients import HangingRemote, Lifeline, ServerProcess
from tests.e2e.verdicts import Verdicts
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


WINDOWS = ("alone", "beside another", "of 2025, beside another")
"""How a window stands to others; tests of standard input run with each."""

ALONE = pytest.mark.parametrize("start", WINDOWS[:1], indirect=True)
OF_2026 = pytest.mark.parametrize("start", WINDOWS[:2], indirect=True)


def start_as(kind: str, start: Start) -> Start:
    """Start windows of a kind: alone, or with another one that shares their server."""
    if kind == "alone":
        return start

    def start_beside(
        *arguments: str, prefix: tuple[str, ...] = (), **environment: str
    ) -> ServerProcess:
        other, window = (start(*arguments, prefix=prefix, **environment) for _ in range(2))
        if "2025" in kind:
            other.shake_hands()
            window.shake_hands()
        else:
            other.request("server/discover")
        return window

    return start_beside


@contextmanager
def opened_server(folder: Path) -> Iterator[ServerProcess]:
    """Start a window for the sample content, with a home of its own, beside another."""
    environment = {
        "HOME": str(folder),
        "SKILLS_MCP_HOME": str(folder / ".skills-mcp"),
        "SKILLS_DIR": str(SKILLS_CONTENT),
    }
    with ExitStack() as windows:
        other, window = (
            ServerProcess(environment=environment, log=folder / f"{name}.log")
            for name in ("other", "window")
        )
        windows.callback(other.close)
        windows.callback(window.close)
        other.request("server/discover")
        yield window


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


@pytest.fixture(scope="session")
def verdicts() -> Iterator[Verdicts]:
    """Return what collects the verdicts of a run, and writes the page of them."""
    verdicts = Verdicts()
    yield verdicts
    verdicts.write()
