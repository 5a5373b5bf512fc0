"""Signs are found once for the same bytes, also by another process."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from skills_mcp.features.powers import file_signs
from skills_mcp.features.powers.file_signs import recall_signs
from skills_mcp.features.powers.power import Sign
from skills_mcp.files.user_folders import find_user_folders

FOUND = (Sign("network", "example.net", 3, "host"), Sign("binary", "bytes", None))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLS_MCP_HOME", str(tmp_path))
    return tmp_path / "cache" / "powers" / "signs.sqlite"


def restart() -> None:
    file_signs._open_rows(find_user_folders(os.environ)[1]).close()
    file_signs._open_rows.cache_clear()  # as another process


@pytest.mark.usefixtures("file")
def test_another_process_finds_nothing_again() -> None:
    assert recall_signs(b"key", lambda: FOUND) == FOUND
    restart()

    assert recall_signs(b"key", lambda: pytest.fail("found again")) == FOUND
    assert recall_signs(b"other", lambda: ()) == ()


def test_what_is_damaged_is_found_again(file: Path) -> None:
    recall_signs(b"key", lambda: FOUND)
    with closing(sqlite3.connect(file)) as rows, rows:
        rows.execute("UPDATE signs SET value = value || x'20'")
    assert recall_signs(b"key", lambda: FOUND[:1]) == FOUND[:1]
    restart()

    file.write_bytes(b"no database" * 100)
    assert recall_signs(b"key", lambda: FOUND[1:]) == FOUND[1:]


def test_without_a_folder_to_write_to_the_process_keeps_them(file: Path) -> None:
    file.parent.parent.write_text("no folder")

    assert recall_signs(b"key", lambda: FOUND) == FOUND
    assert recall_signs(b"key", lambda: pytest.fail("found again")) == FOUND


def test_threads_open_the_file_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []
    both = Barrier(2)

    def connect(*words: Any, **options: Any) -> sqlite3.Connection:
        with suppress(BrokenBarrierError):
            both.wait(0.1)  # for a thread that is opening, too
        opened.append(connect_once(*words, **options))
        return opened[-1]

    connect_once = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(recall_signs, find=lambda: FOUND), [b"one", b"other"]))

    assert len(opened) == 1
    assert file.exists()
