"""How long it takes from files to answers: all, three of them, or none.

The content is a branch of a Git repository on this disk, as users have it.
"""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.content import Text, write_skills
from benchmarks.figures import SKILLS, Measured, Results
from benchmarks.timing import cpu_timed, in_new_process, timed
from skills_mcp.config import Settings
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    Content,
    ContentPart,
    Freshness,
    Mount,
    accept_any_commit,
)
from skills_mcp.snapshots.current import CurrentSnapshot
from skills_mcp.snapshots.skill_snapshot import Snapshot, take_snapshot

_GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}

_CHANGED = 3


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of skills, and what a server keeps of it."""

    work: Path
    home: Path

    @property
    def url(self) -> str:
        """Where servers fetch from."""
        return self.work.as_uri()

    def commit(self) -> None:
        """Commit what is in the folder."""
        for arguments in (("add", "--all"), ("commit", "-q", "-m", "Change")):
            subprocess.run(["git", *arguments], cwd=self.work, env=os.environ | _GIT, check=True)

    def change(self) -> None:
        """Commit another sentence in three of the skills."""
        every = sorted(self.work.rglob("*.md"))
        for file in every[:: len(every) // _CHANGED][:_CHANGED]:
            text = file.read_text(encoding="utf-8")
            file.write_text(f"{text}One rule more.\n", encoding="utf-8")
        self.commit()

    def open(self) -> RemoteBranch:
        """Return the source that a server would have."""
        return RemoteBranch(Remote(self.url, "main"), self.home / "cache")

    def current(self, source: RemoteBranch) -> CurrentSnapshot:
        """Return what a server would serve it from."""
        mounts = Mounts((Mount(source=source),))
        return CurrentSnapshot(mounts, Settings(), self.home / "cache" / "index")


def make_repository(folder: Path, text: Text, *, are_packages: bool) -> Repository:
    """Write 10,000 skills, commit them, and fetch them once."""
    repository = Repository(folder / "work", folder / "home")
    repository.work.mkdir(parents=True)
    start = ["git", "init", "-q", "--initial-branch=main"]
    subprocess.run(start, cwd=repository.work, env=os.environ | _GIT, check=True)
    write_skills(repository.work, text, SKILLS, are_packages=are_packages)
    repository.commit()
    _sync(repository.open())
    return repository


def measure_building(kind: str, repository: Repository, *, rounds: int) -> Results:
    """Build whole, rebuild after commits, keep it, and open what was kept."""
    builds = [in_new_process(_build, repository) for _ in range(rounds)]
    rebuilds, served = in_new_process(_rebuild, repository, rounds)
    opened = [in_new_process(_open, repository) for _ in range(rounds)]
    build = Measured.of(builds).median
    return {
        f"{kind}_build": Measured.of(SKILLS / seconds for seconds in builds),
        f"{kind}_rebuild": Measured.of(seconds * 1000 for seconds in rebuilds),
        f"{kind}_rebuild_ratio": Measured.of(build / each for each in rebuilds),
        f"{kind}_served": Measured.of(served),
        f"{kind}_open": Measured.of(seconds * 1000 for seconds in opened),
    }


def _build(repository: Repository) -> float:
    _import()
    content = _sync(repository.open())
    seconds, snapshot = timed(lambda: _take(content))
    if len(snapshot.index) != SKILLS:
        raise SystemExit(f"{len(snapshot.index)} skills instead of {SKILLS}")
    return seconds


def _rebuild(repository: Repository, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of a rebuild, and of CPU until it is served and kept."""
    source = repository.open()
    current = repository.current(source)
    before = _sync(source)
    current.load(before)
    snapshot = _take(before)
    rebuilds, served = [], []
    for _ in range(rounds):
        repository.change()
        content = _sync(source)
        seconds, snapshot = timed(lambda: _take(content, snapshot))  # noqa: B023 - at once
        rebuilds.append(seconds)
        served.append(cpu_timed(lambda: current.load(content)))  # noqa: B023 - at once
    return rebuilds, served


def _open(repository: Repository) -> float:
    """Return the seconds from a process that has imported all to one that answers."""
    _import()
    source = repository.open()
    checkout = source.open()
    if checkout is None:
        raise SystemExit("nothing was fetched")
    content = Content((ContentPart(Mount(source=source), checkout),))
    return timed(lambda: repository.current(source).load(content))[0]


def _take(content: Content, before: Snapshot | None = None) -> Snapshot:
    snapshot = take_snapshot(content, Settings(), before.state if before else None)
    snapshot.prepare()
    return snapshot


def _sync(source: RemoteBranch) -> Content:
    checkout = source.sync(Freshness(time.time(), is_urgent=True), accept_any_commit)
    return Content((ContentPart(Mount(source=source), checkout),))


def _import() -> None:
    """Load what the server loads while it has nothing else to do."""
    import skills_mcp.snapshots.indexes  # noqa: F401
