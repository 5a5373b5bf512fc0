import json
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.analytics.spool import Segment, Spool
from tests.support import running_python, spooled, write

APPEND = """
import sys
from pathlib import Path
from skills_mcp.analytics.spool import Spool
spool = Spool(Path(sys.argv[1]))
spool.append('{"from": "another process"}')
print("appended", flush=True)
sys.stdin.read()
"""
APPEND_TO_A_SMALL_DISK = """
import resource, sys
from pathlib import Path
from skills_mcp.analytics.spool import Spool
spool = Spool(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
refused = 0
for number in range(9):
    try:
        spool.append('{"number": %d, "text": "%s"}' % (number, "x" * 300))
    except OSError:
        refused += 1
print(refused, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def take(spool: Spool) -> list[dict[str, Any]]:
    return [event for segment in spool.take() for event in segment.events]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def test_an_event_is_on_disk_as_soon_as_it_is_appended(
    spool: Spool, folder: Path
) -> None:
    spool.append('{"n": 1}')

    [file] = files(folder)
    assert file.read_text() == '{"n": 1}\n'


def test_a_folder_is_made_with_the_first_event_and_not_before(
    spool: Spool, folder: Path
) -> None:
    before = folder.exists(), take(spool)
    spool.append("{}")

    assert before == (False, [])
    assert folder.is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_events_are_for_their_user_alone(spool: Spool, folder: Path) -> None:
    spool.append("{}")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.spec("10.4")
def test_each_event_is_a_line_of_one_segment(spool: Spool, folder: Path) -> None:
    for number in range(3):
        spool.append(json.dumps({"n": number}))

    [file] = files(folder)
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [
        0,
        1,
        2,
    ]


def test_the_segment_in_use_is_not_taken_until_it_is_finished(spool: Spool) -> None:
    spool.append('{"n": 1}')

    in_use = take(spool)
    spool.rotate()

    assert in_use == []
    assert take(spool) == [{"n": 1}]


def test_events_after_a_rotation_go_to_a_new_segment(
    spool: Spool, folder: Path
) -> None:
    spool.append('{"n": 1}')
    spool.rotate()
    spool.append('{"n": 2}')

    assert len(files(folder)) == 2
    assert take(spool) == [{"n": 1}]


def test_finishing_when_nothing_was_begun_does_nothing(spool: Spool) -> None:
    spool.rotate()

    assert take(spool) == []


def test_a_long_day_is_split_into_segments(spool: Spool, folder: Path) -> None:
    for number in range(5):
        spool.append(json.dumps({"n": number, "text": "x" * 100_000}))

    assert len(files(folder)) == 2
    assert [event["n"] for event in spooled(spool)] == [0, 1, 2, 3, 4]


def test_segments_are_taken_oldest_first(spool: Spool) -> None:
    for number in range(5):
        spool.append(json.dumps({"n": number}))
        spool.rotate()

    assert [event["n"] for event in take(spool)] == [0, 1, 2, 3, 4]


def test_a_segment_that_was_removed_is_gone_and_one_that_was_not_stays(
    spool: Spool,
) -> None:
    for number in range(3):
        spool.append(json.dumps({"n": number}))
        spool.rotate()

    for segment in spool.take():
        if segment.events[0]["n"] != 1:
            spool.remove(segment)

    assert take(spool) == [{"n": 1}]


def test_removing_twice_does_nothing(spool: Spool) -> None:
    spool.append("{}")
    spool.rotate()

    for segment in spool.take():
        spool.remove(segment)
        spool.remove(segment)

    assert take(spool) == []


def test_a_segment_that_somebody_sends_is_not_taken_by_another(
    spool: Spool, folder: Path
) -> None:
    spool.append('{"n": 1}')
    spool.rotate()
    sender = spool.take()
    held: Segment = next(sender)

    meanwhile = take(Spool(folder))
    sender.close()  # type: ignore[attr-defined] # it is a generator
    afterwards = take(Spool(folder))

    assert held.events == ({"n": 1},)
    assert meanwhile == []
    assert afterwards == [{"n": 1}]


def test_the_segment_of_a_living_process_is_not_touched_and_that_of_a_dead_one_is(
    spool: Spool, folder: Path
) -> None:
    with running_python(APPEND, folder) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"appended\n"
        while_it_lives = spooled(spool)
        other.kill()
        other.wait()

    assert while_it_lives == []
    assert spooled(spool) == [{"from": "another process"}]


def test_each_process_has_a_segment_of_its_own(spool: Spool, folder: Path) -> None:
    spool.append("{}")

    with running_python(APPEND, folder) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"appended\n"

    assert len(files(folder)) == 2


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        b'{"n": 2',
        b"\xff\xfe",
        b"null",
        b"[1]",
        b'"text"',
        b'{"n": NaN}',
        b'{"n": -Infinity}',
        b"[" * 100_000,
        b"",
        b"\0" * 100,
    ],
    ids=range(11),
)
def test_a_broken_line_does_not_block_the_others(
    broken: bytes, spool: Spool, folder: Path
) -> None:
    write(folder / "1.jsonl", b'{"n": 1}\n' + broken + b'\n{"n": 3}\n')

    assert take(spool) == [{"n": 1}, {"n": 3}]


def test_a_line_that_was_cut_off_by_a_crash_is_skipped(
    spool: Spool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder / "1.jsonl", b'{"n": 1}\n{"n": ')

    assert take(spool) == [{"n": 1}]
    assert "1.jsonl:2" in caplog.text


def test_text_that_has_no_bytes_is_written_all_the_same(spool: Spool) -> None:
    spool.append('{"context": "half \ud800 pair"}')

    assert spooled(spool) == [{"context": "half ? pair"}]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_a_full_disk_costs_the_event_and_none_before_or_after_it(
    spool: Spool, folder: Path
) -> None:
    with running_python(APPEND_TO_A_SMALL_DISK, folder) as other:
        assert other.stdout is not None
        refused = int(other.stdout.readline())

    numbers = [event["number"] for event in spooled(spool)]
    assert refused == 2
    assert numbers == [0, 1, 2, 4, 5, 6, 8]


def test_threads_that_append_while_another_rotates_lose_nothing(spool: Spool) -> None:
    def append(number: int) -> None:
        spool.append(json.dumps({"n": number}))
        if number % 3 == 0:
            spool.rotate()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(append, range(2000)))

    assert sorted(event["n"] for event in spooled(spool)) == list(range(2000))


def test_a_sender_that_clears_away_empty_segments_takes_none_from_a_writer(
    spool: Spool, folder: Path
) -> None:
    sent: list[dict[str, Any]] = []
    stop = threading.Event()

    def send() -> None:
        sender = Spool(folder)
        while not stop.is_set():
            for segment in sender.take():
                sent.extend(segment.events)
                sender.remove(segment)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        for number in range(1500):
            spool.append(json.dumps({"n": number}))
            spool.rotate()
    finally:
        stop.set()
        thread.join()

    rest = spooled(spool)
    assert sorted(event["n"] for event in [*sent, *rest]) == list(range(1500))
