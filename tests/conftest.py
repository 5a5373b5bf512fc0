"""Fixtures: a home that is not yours, an environment that is empty, a real remote."""

import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none

from skills_mcp.events.spool import Spool
from skills_mcp.text import redaction
from tests.forks import CAN_FORK, Forks
from tests.postgresql import Cluster, find_programs, opened_cluster
from tests.support import Upstream
from tests.windows import FOLDER, LINGER, end_servers

_OURS = (
    *("SKILLS_", "GITHUB_TOKEN", "ANALYTICS_", "REFRESH_", "GIT_", "LOG_LEVEL"),
    *("DO_NOT_TRACK", "SEARCH_", "ALLOWED_COMMANDS", "EXEC_", "MAX_FILE_BYTES"),
    *("SKILLHUB_", "CODELIA_", "EMBEDDING_", "OPENAI_API_KEY", "GEMINI_API_KEY"),
)

# A shell that starts this in the background ignores Ctrl-C, and children inherit that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_roomy_memory(folder: str) -> bool:
    """Whether programs run in a folder of the memory, and the files of all workers fit."""
    if not hasattr(os, "ST_NOEXEC") or not os.path.isdir(folder):  # noqa: PTH112
        return False
    found = os.statvfs(folder)
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > _ROOM_BYTES


# Git and SQLite wait for a disk, and its file system looks long for a free inode where
# many files come and go: that was half of the time and a fourth of the CPU of a test with
# Git. A container gives 64 MiB of memory, which would fill.
_MEMORY = "/dev/shm"  # noqa: S108 - pytest makes a folder of its own in it
_ROOM_BYTES = 2 * 1024**3
if _is_roomy_memory(_MEMORY):
    os.environ.setdefault("TMPDIR", _MEMORY)
    tempfile.tempdir = None  # a plugin may have asked before

# No test depends on how fast the machine is: there is no deadline. "people" tries the
# same few examples in every run. "ci" looks for new ones, in each of its many runs: 150
# took as much CPU as all other tests together, and 40 take a fourth of that.
_MINE = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    database=None,
    print_blob=True,
)
settings.register_profile("people", _MINE, max_examples=15, derandomize=True)
settings.register_profile("ci", _MINE, max_examples=40)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "people")
)


def pytest_xdist_auto_num_workers() -> int:
    """Start three workers more than there are cores: tests wait for timers and servers.

    Five workers keep two cores busy for 98 % of the time, and four for 92 %.
    """
    return (os.cpu_count() or 1) + 3


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the tests: all of them stay until the end.

    Python would go through what grows, again and again, for a third of the time.
    """
    # Hypothesis keeps a generator from its first test on. It warns if that seems to be
    # held by nothing, for which it looks through all objects: now there are few, and from
    # 3.14 on a frozen holder would not be found.
    given(none())(lambda _: None)()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*_GC_THRESHOLDS)


_GC_THRESHOLDS = 20_000, 20, 20
"""Those of Python, 700, 10 and 10, take a tenth of the time of a test that makes objects."""

_LONG = (
    *("tests/faults/", "tests/e2e/", "tests/repositories/", "tests/test_core.py"),
    *("tests/docs/test_site.py", "tests/events/collector/test_crashes.py"),
)
"""Beginnings of the paths of tests that wait, or are long; nothing long may be the last."""


class _Examples:
    """Looks for examples where there are some: otherwise each object is tried.

    A plugin, as the hooks of this file are those of its folder alone.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if Path(__file__).parent in file_path.parents or b">>> " not in file_path.read_bytes():
            return [each for each in found if not isinstance(each, DoctestModule)]
        return found


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Examples())


@pytest.hookimpl(trylast=True)  # after what is not wanted has left
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the modules, where several workers share the tests.

    Each worker begins with an equal part of the list, and one that has nothing left takes
    from the end of another's: a part begins with its share of the long modules.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    items.sort(key=lambda item: crc32(item.location[0].encode()))
    workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    numbers: dict[str, int] = {}
    # Whole modules: no loop runs beside the browser that some of their tests have open.
    modules = {item.location[0] for item in items if _is_long(item)}
    long = [item for item in items if item.location[0] in modules]
    for item in long:
        numbers.setdefault(item.location[0], len(numbers) % workers)
    short = [item for item in items if item.location[0] not in modules]
    ordered: list[pytest.Item] = []
    for number in range(workers):
        part = [item for item in long if numbers[item.location[0]] == number]
        missing = (len(items) - len(ordered)) // (workers - number) - len(part)
        ordered += [*part, *short[: max(missing, 0)]]
        del short[: max(missing, 0)]
    items[:] = [*ordered, *short]


def _is_long(item: pytest.Item) -> bool:
    return item.location[0].startswith(_LONG) or "browser" in getattr(item, "fixturenames", ())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def _no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust no authority of this machine: each HTTP client would read all of them.

    That is a hundredth of a second or more for a client, and no test leaves loopback.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        yield


@pytest.fixture(autouse=True, scope="session")
def forks() -> Iterator[Forks]:
    """Start our programs without importing the libraries anew, where that is possible."""
    with pytest.MonkeyPatch.context() as patch:
        forks = Forks(subprocess._fork_exec)  # type: ignore[attr-defined]
        if CAN_FORK:
            patch.setattr(subprocess, "_fork_exec", forks)
        yield forks
        forks.close()


@pytest.fixture
def shell_path(forks: Forks) -> str:
    """The PATH of a shell that finds our program, as a fork where that is possible."""
    shims = [forks.open_door()] if CAN_FORK else []
    return os.pathsep.join((*shims, str(Path(sys.executable).parent), os.environ["PATH"]))


@pytest.fixture
def started_anew(forks: Forks) -> Iterator[None]:
    """Start every program as a user does, where a test is about starting."""
    forks.paused = True
    yield
    forks.paused = False


@pytest.fixture(autouse=True, scope="session")
def _runtime_folders() -> Iterator[Path]:
    """Folder of the sockets of modules; its path is short, as a socket's has to be."""
    with TemporaryDirectory(prefix="rt-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, name)
        # A server ends with its last window, so that no test waits for it.
        patch.setenv(LINGER, "0")
        yield Path(name)
        end_servers(Path(name))


@pytest.fixture(autouse=True)
def runtime_folder(_runtime_folders: Path) -> Iterator[Path]:
    """Folder of the sockets of a test, whose servers end with it."""
    with TemporaryDirectory(prefix="", dir=_runtime_folders) as name:
        yield Path(name)
        end_servers(Path(name))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, runtime_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new home for every test, so that nobody's real cache is touched."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(LINGER, "0")
    monkeypatch.setenv(FOLDER, str(runtime_folder))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv("SKILLS_MCP_HOME", str(folder / ".skills-mcp"))
    return folder


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    """Forget the secrets of a test after it: another one may use the same words."""
    before = redaction._registry.secrets
    yield
    redaction._registry.replace(before)


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Undo what the program does to the log when it runs within this process."""
    root, ours = logging.getLogger(), logging.getLogger("skills_mcp")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the index of the sample content is kept: to read it anew costs twice the CPU."""
    return tmp_path_factory.mktemp("index")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    """A Git repository that others fetch from; empty, on the branch main."""
    return Upstream.create(tmp_path)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """A spool of its own; its last segment is closed with the test."""
    spool = Spool(tmp_path / "spool")
    yield spool
    spool.rotate()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL of this run; without its programs a test is skipped, never in CI."""
    programs = find_programs()
    if programs is None:
        assert "CI" not in os.environ, "CI installs PostgreSQL, see .ci/run"
        pytest.skip("PostgreSQL is not installed")
    with opened_cluster(programs) as running:
        yield running


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a database that the tests of a module share, of each kind in turn."""
    yield from _new_database(request, tmp_path_factory.mktemp("shared"))


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database, of each kind in turn."""
    yield from _new_database(request, tmp_path)


def _new_database(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{folder / 'events.db'}"
        return
    running: Cluster = request.getfixturevalue("cluster")
    url = running.new_database()
    yield url
    running.drop(url)
