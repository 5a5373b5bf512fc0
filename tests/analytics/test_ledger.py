import re
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skills_mcp.analytics.ledger import Ledger
from skills_mcp.analytics.lines import Line, parse_line
from tests.support import running_python, write

APPEND = """
import sys
from pathlib import Path
from skills_mcp.analytics.ledger import Ledger
from skills_mcp.analytics.lines import parse_line
ledger = Ledger(Path(sys.argv[1]), max_bytes=1 << 20, max_file_bytes=4096)
sys.stdin.readline()
for number in range(200):
    line = '{"n": %d, "window": "%s"}' % (number, sys.argv[2])
    ledger.append([parse_line(line.encode())])
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def a_ledger(folder: Path, max_bytes: int = 1 << 20) -> Ledger:
    return Ledger(folder, max_bytes=max_bytes, max_file_bytes=max_bytes // 4)


def a_line(number: int, size: int = 0) -> Line:
    line = parse_line(b'{"n": %d, "text": "%s"}' % (number, b"x" * size))
    assert line is not None
    return line


def text(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob("*.jsonl")))


def numbers(folder: Path) -> list[int]:
    return [int(found) for found in re.findall(r'"n": (\d+)', text(folder))]


def test_what_is_kept_is_in_a_file_of_today(folder: Path) -> None:
    a_ledger(folder).append([a_line(1), a_line(2)])
    a_ledger(folder).append([a_line(3)])

    [file] = folder.iterdir()
    assert file.name == f"{datetime.now(UTC).date()}-0000.jsonl"
    assert numbers(folder) == [1, 2, 3]


def test_nothing_is_made_for_nothing(folder: Path) -> None:
    a_ledger(folder).append([])
    a_ledger(folder).prune(1)

    assert not folder.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_it_is_for_its_user_alone(folder: Path) -> None:
    a_ledger(folder).append([a_line(1)])

    [file] = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_oldest_go_when_there_is_no_more_room(folder: Path) -> None:
    ledger = a_ledger(folder, max_bytes=40_000)

    for number in range(100):
        ledger.append([a_line(number, size=1000)])

    left = numbers(folder)
    assert left == list(range(left[0], 100))
    assert 20_000 < len(text(folder)) <= 40_000


def test_a_line_that_was_cut_off_costs_no_other(folder: Path) -> None:
    ledger = a_ledger(folder)
    ledger.append([a_line(1)])
    [file] = folder.iterdir()
    file.write_bytes(file.read_bytes() + b'{"n": 2, "te')

    ledger.append([a_line(3)])

    assert text(folder).splitlines()[1:] == ['{"n": 2, "te', '{"n": 3, "text": ""}']


def test_days_that_are_over_are_forgotten(folder: Path) -> None:
    today = datetime.now(UTC).date()
    for days in (0, 1, 6, 7, 8, 400):
        write(folder / f"{today - timedelta(days=days)}-0000.jsonl", "{}\n")
    write(folder / "notes.jsonl", "{}\n")

    a_ledger(folder).prune(7)

    left = {path.name[:10] for path in folder.iterdir()}
    kept = {str(today - timedelta(days=days)) for days in (0, 1, 6)}
    assert left == kept | {"notes.json"}


def test_with_0_days_nothing_is_left(folder: Path) -> None:
    ledger = a_ledger(folder)
    ledger.append([a_line(1)])

    ledger.prune(0)

    assert list(folder.iterdir()) == []


def test_windows_append_in_turn(folder: Path) -> None:
    with (
        running_python(APPEND, folder, "one") as one,
        running_python(APPEND, folder, "two") as two,
    ):
        for window in (one, two):
            assert window.stdin is not None
            window.stdin.write(b"go\n")
            window.stdin.flush()
        for window in (one, two):
            assert window.stdout is not None
            assert window.stdout.readline() == b"done\n"

    assert sorted(numbers(folder)) == sorted([*range(200), *range(200)])
    assert all(parse_line(line.encode()) for line in text(folder).splitlines())


def test_a_disk_that_does_not_take_it_is_told(tmp_path: Path) -> None:
    blocked = write(tmp_path / "blocked", "a file, no folder")

    with pytest.raises(OSError):  # noqa: PT011 - each system says it differently
        a_ledger(blocked).append([a_line(1)])
