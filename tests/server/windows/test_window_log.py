import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skills_mcp.server.windows.window_log import MAX_FILE_BYTES, ServerLog, WindowLog


@contextmanager
def opened_pipe() -> Iterator[tuple[int, WindowLog]]:
    """A pipe that does not block its reader, and the log that writes to it."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    log = WindowLog(writing)
    yield reading, log
    log.close()
    os.close(reading)


@pytest.fixture
def log(tmp_path: Path) -> ServerLog:
    return ServerLog(tmp_path / "home" / "server.log")


def test_a_line_of_a_window_is_in_its_own_log_and_in_the_file(
    log: ServerLog, tmp_path: Path
) -> None:
    with opened_pipe() as (first, one), opened_pipe() as (second, two), log.attached(one):
        with log.attached(two):
            log.write("of two\n")

        assert os.read(second, 100) == b"of two\n"
        with pytest.raises(BlockingIOError):
            os.read(first, 100)

    assert (tmp_path / "home/server.log").read_text() == "of two\n"


def test_a_new_window_reads_what_the_background_has_written(log: ServerLog) -> None:
    log.write("broken.md has no frontmatter\n")

    with opened_pipe() as (reading, window), log.attached(window):
        assert os.read(reading, 100) == b"broken.md has no frontmatter\n"


def test_a_window_that_does_not_read_its_log_stops_nobody(log: ServerLog, tmp_path: Path) -> None:
    line = "x" * 1000 + "\n"

    with opened_pipe() as (_, window), log.attached(window):
        for _ in range(200):  # more than a pipe holds
            log.write(line)

    assert (tmp_path / "home/server.log").read_text() == line * 200


def test_a_closed_log_writes_to_nothing_that_has_its_descriptor_now() -> None:
    with opened_pipe() as (_, window):
        window.close()
        reading, writing = os.pipe()

        window.write("lost\n")

        os.close(writing)
        assert os.read(reading, 100) == b""
        os.close(reading)


def test_two_files_of_the_log_are_kept(log: ServerLog, tmp_path: Path) -> None:
    line = "x" * (MAX_FILE_BYTES // 4) + "\n"

    for _ in range(15):
        log.write(line)

    kept = {path.name: path.stat().st_size for path in (tmp_path / "home").iterdir()}
    assert set(kept) == {"server.log", "server.log.1"}
    assert max(kept.values()) <= MAX_FILE_BYTES + len(line)


def test_a_file_that_was_deleted_is_written_again(log: ServerLog, tmp_path: Path) -> None:
    log.write("before\n")
    (tmp_path / "home/server.log").unlink()

    log.write("after\n")

    assert (tmp_path / "home/server.log").read_text() == "after\n"
