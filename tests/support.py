"""What tests share and is no fixture: real files, real repositories, a real library."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import yaml

from skills_mcp.config import Layer, Settings
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentSource,
    Freshness,
    LocalFolder,
    Mount,
    SourceState,
    accept_any_commit,
)
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.spool import Spool
from skills_mcp.events.tracker import Tracker
from skills_mcp.library.runs import Runs
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.execution import CONFINING_TIERS, AuditFile, SandboxName
from skills_mcp.scripts.prepared_runs import ScriptEnvironment
from skills_mcp.scripts.script_runner import ScriptRunner
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.snapshots.current import CurrentSnapshot
from skills_mcp.snapshots.skill_snapshot import Snapshot
from tests.git_objects import write_commit

PROJECT = Path(__file__).parent.parent
SKILLS_CONTENT = PROJECT / "fixtures" / "skills-content"
BROKEN = PROJECT / "fixtures" / "broken"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The first has no windows to draw, and needs two thirds of the CPU of the second."""

GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}

PATIENCE_SECONDS = 45
"""What only a broken program needs, however busy the machine is.

Less than a call waits for the first content (55), which no test may take for an answer.
"""

_POLL_SECONDS = 0.01


def write(path: Path, text: str | bytes = "") -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def skill_text(
    *,
    keywords: Sequence[object] = ("example",),
    description: str = "An example",
    body: str = "The rules.",
    **fields: object,
) -> str:
    """Return a valid skill file."""
    data = {"description": description, "keywords": list(keywords), **fields}
    return f"---\n{yaml.safe_dump(data, allow_unicode=True)}---\n\n{body}\n"


def write_skill(root: Path, file: str, **fields: Any) -> Path:
    """Write a valid skill file below `root`."""
    return write(root / file, skill_text(**fields))


def sha256_of(content: str | bytes) -> str:
    """Return what `sha256sum` says of a text or of a file."""
    raw = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()


def make_skill(path: str, *, keywords: Sequence[str] = ("example",), **fields: Any) -> Skill:
    """Return a skill that never was a file."""
    values: dict[str, Any] = {
        "path": SkillPath(path),
        "file": f"{path}.md",
        "name": path.rsplit("/", 1)[-1],
        "description": f"About {path}",
        "keywords": tuple(keywords),
        "body": f"Rules of {path}.",
        "inherit": True,
        "priority": 0,
        "assets": (),
        "scripts": (),
        "directory": None,
    }
    return Skill(**{**values, **fields})


_MAKING = threading.Lock()  # of two that are made at once, one would be kept


@dataclass(frozen=True)
class Upstream:
    """A bare repository that others fetch from, and the clone that pushes to it."""

    bare: Path
    work: Path

    @classmethod
    def create(cls, folder: Path, *, branch: str = "main") -> "Upstream":
        upstream = cls(folder / "upstream.git", folder / "upstream-work")
        with _MAKING:
            empty = Path(_make_empty_repositories(branch).name)
        shutil.copytree(empty / "bare", upstream.bare)
        shutil.copytree(empty / "work", upstream.work)
        own = upstream.work / ".git"
        with (own / "config").open("a") as config:
            refs = "+refs/heads/*:refs/remotes/origin/*"
            config.write(f'[remote "origin"]\n\turl = {upstream.bare}\n\tfetch = {refs}\n')
            config.write("[maintenance]\n\tauto = false\n")  # a program after each commit
        write(own / "objects/info/alternates", f"{upstream.bare / 'objects'}\n")
        return upstream

    @property
    def url(self) -> str:
        return f"file://{self.bare}"

    def commit(self, files: Mapping[str, str | None], *, push: bool = True) -> str:
        """Write files (None deletes one), commit, push; return the commit."""
        for file, text in files.items():
            if text is None:
                (self.work / file).unlink()
            else:
                write(self.work / file, text)
        # To push takes four programs: objects are written where a push would bring them.
        shared = push and not any((self.work / ".git/objects").glob("??"))
        if shared and (made := write_commit(self.work, self.bare / "objects")):
            branch = (self.work / ".git/HEAD").read_text().strip().removeprefix("ref: ")
            write(self.bare / branch, f"{made}\n")
            return made
        place = {"GIT_OBJECT_DIRECTORY": f"{self.bare / 'objects'}"} if shared else {}
        git("add", "--all", "--force", ".", cwd=self.work, **place)
        git("commit", "-q", "--allow-empty", "-m", "Change", cwd=self.work, **place)
        head = (self.work / ".git/HEAD").read_text().strip()
        branch = head.removeprefix("ref: ")
        is_detached = head == branch
        commit = head if is_detached else (self.work / ".git" / branch).read_text().strip()
        if shared and not is_detached:
            write(self.bare / branch, f"{commit}\n")
        elif push:
            git("push", "-q", "--force", "origin", "HEAD", cwd=self.work)
        return commit

    def reset(self, commit: str) -> None:
        """Take history back and force-push."""
        git("reset", "-q", "--hard", commit, cwd=self.work)
        git("push", "-q", "--force", "origin", "HEAD", cwd=self.work)


@cache
def _make_empty_repositories(branch: str) -> "TemporaryDirectory[str]":
    """Make, once in a process, what each `Upstream` begins with."""
    folder = TemporaryDirectory()
    init = ("init", "-q", "--template=", f"--initial-branch={branch}")
    git(*init, "--bare", "bare", cwd=Path(folder.name))
    git(*init, "work", cwd=Path(folder.name))
    return folder


def git(*arguments: str, cwd: Path, **variables: str) -> str:
    """Run the real Git, untouched by the developer's configuration."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env=environment | GIT_IDENTITY | variables,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def mounted(source: ContentSource | Path) -> Mounts:
    """Return a source alone at the top; a folder stands for `SKILLS_DIR`."""
    source = LocalFolder(source) if isinstance(source, Path) else source
    return Mounts((Mount(source=source),))


def sync(source: ContentSource) -> Checkout:
    """Bring the newest content of a source here, without checking it."""
    if isinstance(source, RemoteBranch):
        return source.sync(Freshness(time.time(), is_urgent=True), accept_any_commit)
    checkout = source.open()
    assert checkout is not None
    return checkout


def sync_all(mounts: Mounts) -> Content:
    """Bring the newest content of every source here, without checking it."""
    return mounts.sync(Freshness(time.time(), is_urgent=True), accept_any_commit)


def open_library(  # noqa: PLR0913 - each of them is something that bootstrap wires
    source: Mounts | ContentSource | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    spool: Spool | None = None,
    environment: Mapping[str, str] | None = None,
    load: bool = True,
    cache: Path | None = None,
    offered: Sequence[SandboxName] = CONFINING_TIERS,
    is_watching: bool = False,
) -> SkillLibrary:
    """Wire a library as bootstrap does; loaded, so that no background is needed.

    Args:
        source: One, or several that are mounted; see `mounted`.
        settings: The operator's, as `config.yaml` would hold them.
        spool: Where events go; they are counted only if `settings` says so.
        environment: Of the server; scripts get their share of it.
        load: False leaves the first snapshot to `library.refresher.run()`.
        cache: Where indexes are kept; nowhere, if there is none.
        offered: The tiers of the sandbox that scripts may get.
        is_watching: Whether an edit is served before the test asks for it.
    """
    mounts = source if isinstance(source, Mounts) else mounted(source)
    spool = spool or Spool(Path(os.environ["SKILLS_MCP_HOME"]) / "spool")
    tracker = Tracker(
        spool,
        lambda: library.config.analytics,
        Privacy(spool.directory.parent / "analytics.key", {"USER": "ada"}),
    )
    runs = Runs(
        tracker,
        ScriptRunner(),
        AuditFile(Path(os.environ["SKILLS_MCP_HOME"]) / "audit.jsonl"),
        ScriptEnvironment.of(os.environ if environment is None else environment, offered),
    )
    operators = Settings((Layer("test", settings or {}),))
    library = SkillLibrary(
        mounts=mounts,
        current=CurrentSnapshot(mounts, operators, cache),
        tracker=tracker,
        open_runs=lambda: runs,
    )
    library.refresher.is_watching = is_watching
    if load:
        library.sync()
    return library


def served_by(current: CurrentSnapshot) -> Snapshot:
    """Return the snapshot that is served now."""
    assert current.latest
    return current.latest


@asynccontextmanager
async def running(library: SkillLibrary) -> AsyncIterator[SkillLibrary]:
    """Run the background work of a library until the block ends."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(library.refresher.run)
            yield library
            tasks.cancel_scope.cancel()
    library.close()


def spooled(spool: Spool) -> list[dict[str, Any]]:
    """Return every event that waits to be sent."""
    spool.rotate()
    return [event for segment in spool.claim_segments() for event in segment.events]


def wait_for(condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Poll until the condition holds; fail if it never does."""
    for _ in range(round(seconds / _POLL_SECONDS)):
        if condition():
            return
        threading.Event().wait(_POLL_SECONDS)
    raise AssertionError(f"not within {seconds} seconds: {condition}")


async def until(condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Poll until the condition holds, without blocking the event loop."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - processes set no event
            await anyio.sleep(_POLL_SECONDS)


def group_members(group: int) -> list[int]:
    """Return the processes of a group that still run; a zombie does not."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    return [int(pid) for pid, pgid, state in rows if pgid == str(group) and state[0] != "Z"]


def is_running(pid: int) -> bool:
    """Whether the process is there and has not ended; a zombie has."""
    return _state_of(pid) not in {"", "Z"}


def is_waiting(pid: int) -> bool:
    """Whether the process waits for something that can be interrupted, such as its input."""
    return _state_of(pid) == "S"


def _state_of(pid: int) -> str:
    listing = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)],
        check=False,
        capture_output=True,
        text=True,
    )
    return listing.stdout.strip()[:1]


@contextmanager
def running_python(code: str, *arguments: object) -> Iterator["subprocess.Popen[bytes]"]:
    """Start another Python process; it is ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def count_thread_heaps(maps: str) -> int:
    """Return how many threads have a heap of their own, as /proc/PID/maps shows it.

    The GNU C library reserves 64 MiB for each, up to a multiple of that.
    """
    reserved = (line for line in maps.splitlines() if " ---p " in line)
    ends = (int(line.partition(" ")[0].partition("-")[2], 16) for line in reserved)
    return sum(end % 2**26 == 0 for end in ends)


def run_python(code: str, *arguments: object) -> str:
    """Run another Python process to its end and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return done.stdout.strip()


def measured_source(
    *, mount: str = "", commit: str | None, age_seconds: float | None, failed_syncs: int
) -> SourceState:
    return SourceState(
        mount=mount,
        name="",
        mode="git",
        commit=commit,
        synced_at=None,
        error=None,
        age_seconds=age_seconds,
        failed_syncs=failed_syncs,
    )
