"""Snapshots to publish, and what can stand in the place of a file of theirs."""

import os
from pathlib import Path

from skills_mcp.content.commit_store import CommitStore, PublishedCommit
from skills_mcp.content.source import Checkout, Surveyed
from tests.support import write

ONE, TWO, THREE, FOUR = "1" * 40, "2" * 40, "3" * 40, "4" * 40


OTHER_PROCESS = """
import sys
from pathlib import Path
from skills_mcp.content.commit_store import CommitStore
store = CommitStore(Path(sys.argv[1]))
"""


COLLECT = f"""{OTHER_PROCESS}
with store.exclusive(timeout_seconds=20):
    store.delete_unreferenced()
"""


def publish(store: CommitStore, commit: str, *, at: float = 1.0) -> None:
    with store.exclusive(timeout_seconds=10):
        store.stage(commit, lambda folder: fill(folder, commit))
        store.publish(PublishedCommit(commit, at))


def fill(folder: Path, text: str) -> Surveyed:
    write(folder / "a.md", text)
    return {}


def collect(store: CommitStore) -> None:
    with store.exclusive(timeout_seconds=10):
        store.delete_unreferenced()


def opened(store: CommitStore) -> Checkout:
    checkout = store.open_current()
    assert checkout is not None
    return checkout


def found(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*")]


def snapshots(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "store/snap").iterdir() if p.is_dir())


def make_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    write(path / "inner/file", "in the way")


def make_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("nowhere")


def make_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
