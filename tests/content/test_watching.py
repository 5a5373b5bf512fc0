"""Real folders on a real disk, watched with what the system has for it."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from skills_mcp.content.refresher import watch_folders
from tests.support import PATIENCE_SECONDS, until, write

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def watching(*folders: Path) -> AsyncIterator[list[None]]:
    """Watch folders, and collect what is told, from behind the first time."""
    told: list[None] = []

    async def collect() -> None:
        async for _ in watch_folders(lambda: folders):
            told.append(None)  # noqa: PERF401 - it is read meanwhile

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect)
        await until(lambda: told)
        told.clear()
        yield told
        tasks.cancel_scope.cancel()


async def test_an_edit_deep_below_is_told(tmp_path: Path) -> None:
    file = write(tmp_path / "a/b/c.md", "old")
    async with watching(tmp_path) as told:
        write(file, "new")
        await until(lambda: told)


async def test_a_file_that_an_editor_replaces_is_told(tmp_path: Path) -> None:
    file = write(tmp_path / "watched/a.md", "old")
    other = write(tmp_path / "elsewhere.md", "new")
    async with watching(tmp_path / "watched") as told:
        other.replace(file)
        await until(lambda: told)


async def test_a_folder_that_is_made_later_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    async with watching(folder) as told:
        write(folder / "a.md")
        await until(lambda: told)
        told.clear()
        write(folder / "b.md")
        await until(lambda: told)


async def test_a_folder_that_is_replaced_is_followed(tmp_path: Path) -> None:
    folder, other = tmp_path / "now", tmp_path / "next"
    write(folder / "a.md")
    write(other / "a.md")
    link = tmp_path / "link"
    link.symlink_to(folder)
    async with watching(link) as told:
        link.unlink()
        link.symlink_to(other)
        await until(lambda: told)
        told.clear()
        write(other / "a.md", "edited")
        await until(lambda: told)


async def test_a_folder_that_is_gone_is_told_and_its_return_too(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    write(folder / "a.md")
    async with watching(folder) as told:
        folder.rename(tmp_path / "away")
        await until(lambda: told)
        told.clear()
        (tmp_path / "away").rename(folder)
        await until(lambda: told)


async def test_what_programs_keep_for_themselves_is_not_told(tmp_path: Path) -> None:
    write(tmp_path / ".git/index")
    async with watching(tmp_path) as told:
        write(tmp_path / ".git/index", "new")
        write(tmp_path / "a.md~", "a backup")
        write(tmp_path / "b.md", "a skill")
        await until(lambda: told)

    assert len(told) == 1


_WITHOUT_DESCRIPTORS = """
import anyio, os, resource, sys
from pathlib import Path
import watchfiles
from skills_mcp.content.refresher import watch_folders

async def main():
    await anyio.to_thread.run_sync(int)
    most = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async for _ in watch_folders(lambda: [Path(sys.argv[1])]):
        print("told")

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_where_nothing_can_be_watched_the_log_says_so_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DESCRIPTORS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("Folders cannot be watched") == 1
    assert "fs.inotify.max_user_watches" in done.stderr
