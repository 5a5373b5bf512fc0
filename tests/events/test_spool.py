import errno
import fcntl
import io
import json
import os
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.events.spool import (
    MAX_BATCH_EVENTS,
    MAX_LINE_BYTES,
    Segment,
    Spool,
    read_event_lines,
)
from tests.support import running_python, spooled, write

APPEND = """
import sys
from pathlib import Path
from skills_mcp.events.spool import Spool
spool = Spool(Path(sys.argv[1]))
spool.append('{"from": "another process"}')
print("appended", flush=True)
sys.stdin.read()
"""
APPEND_TO_A_SMALL_DISK = """
import resource, sys
from pathlib import Path
from skills_mcp.events.spool import Spool
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
    return [event for segment in spool.claim_segments() for event in segment.events]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def test_an_event_is_on_disk_as_soon_as_it_is_appended(spool: Spool, folder: Path) -> None:
    spool.append('{"n": 1}')

    [file] = files(folder)
    assert file.read_text() == '{"n": 1}\n'


def test_a_folder_is_made_with_the_first_event_and_not_before(spool: Spool, folder: Path) -> None:
    before = folder.exists(), take(spool)
    spool.append("{}")

    assert before == (False, [])
    assert folder.is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_events_are_for_their_user_alone(spool: Spool, folder: Path) -> None:
    spool.append("{}")

    [file] = files(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


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


def test_events_after_a_rotation_go_to_a_new_segment(spool: Spool, folder: Path) -> None:
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

    assert len(files(folder)) == 3
    assert max(file.stat().st_size for file in files(folder)) <= 256 * 1024
    assert [event["n"] for event in spooled(spool)] == [0, 1, 2, 3, 4]


def test_a_segment_has_no_more_events_than_a_request(spool: Spool, folder: Path) -> None:
    begun = [spool.append("{}") for _ in range(MAX_BATCH_EVENTS + 1)]

    assert [number for number, is_new in enumerate(begun) if is_new] == [0, 500]
    assert len(files(folder)) == 2


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

    for segment in spool.claim_segments():
        if segment.events[0]["n"] != 1:
            spool.delete(segment)

    assert take(spool) == [{"n": 1}]


def test_removing_twice_does_nothing(spool: Spool) -> None:
    spool.append("{}")
    spool.rotate()

    for segment in spool.claim_segments():
        spool.delete(segment)
        spool.delete(segment)

    assert take(spool) == []


def test_a_segment_that_somebody_sends_is_not_taken_by_another(spool: Spool, folder: Path) -> None:
    spool.append('{"n": 1}')
    spool.rotate()
    sender = spool.claim_segments()
    held: Segment = next(sender)

    meanwhile = take(Spool(folder))
    sender.close()
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


def test_a_line_that_was_cut_off_by_a_crash_is_counted_and_skipped(
    spool: Spool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder / "1.jsonl", b'{"n": 1}\nnonsense\n{"n": ')

    [segment] = spool.claim_segments()

    assert segment.events == ({"n": 1},)
    assert segment.skipped == 2
    assert "1.jsonl: lines that are not events: 2" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")
def test_what_is_no_segment_is_left_alone_and_in_nobodys_way(
    spool: Spool, folder: Path, tmp_path: Path
) -> None:
    write(folder / "2.jsonl", '{"n": 2}\n')
    write(folder / "notes.txt", "nothing of ours")
    (folder / "0.jsonl").mkdir()
    os.mkfifo(folder / "1.jsonl")
    (folder / "3.jsonl").symlink_to(write(tmp_path / "theirs", '{"n": 3}\n'))
    (folder / "4.jsonl").touch()
    os.truncate(folder / "4.jsonl", 10 << 30)
    before = sorted(folder.iterdir())

    taken = take(spool)
    dropped = list(spool.drop_oldest(1 << 20))

    assert taken == [{"n": 2}]
    assert dropped == []
    assert sorted(folder.iterdir()) == before


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


def test_a_disk_without_locks_takes_no_event_and_keeps_no_empty_file(
    spool: Spool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK)

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        spool.append("{}")

    assert list(folder.iterdir()) == []


def test_an_event_that_nobody_would_read_again_is_refused(spool: Spool) -> None:
    longest = json.dumps("x" * (MAX_LINE_BYTES - 3))

    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        spool.append(json.dumps({"too": longest}))

    spool.append('{"fits": "%s"}' % ("x" * (MAX_LINE_BYTES - 13)))
    assert [set(event) for event in spooled(spool)] == [{"fits"}]


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
            for segment in sender.claim_segments():
                sent.extend(segment.events)
                sender.delete(segment)

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


def test_a_segment_that_is_deleted_before_it_is_locked_takes_no_event(
    spool: Spool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def delete_and_lock(handle: Any, flags: int) -> None:
        monkeypatch.undo()
        for path in files(folder):
            path.unlink()
        lock(handle, flags)

    monkeypatch.setattr(fcntl, "flock", delete_and_lock)

    spool.append('{"n": 1}')

    assert spooled(spool) == [{"n": 1}]


def test_the_limit_takes_no_empty_segment_from_its_writer(spool: Spool, folder: Path) -> None:
    empty = write(folder / "00000000000000000001-1-aaaaaaaa.jsonl", "")
    write(folder / "00000000000000000002-1-bbbbbbbb.jsonl", "{}\n")

    assert list(spool.drop_oldest(0)) == [1]

    assert files(folder) == [empty]


# --- what stays of a segment ---------------------------------------------------


def test_what_is_still_to_be_sent_keeps_its_place(spool: Spool, folder: Path) -> None:
    for number in range(3):
        spool.append(json.dumps({"n": number}))
    spool.rotate()
    spool.append('{"n": 3}')
    spool.rotate()

    segment = next(spool.claim_segments())
    spool.delete(segment, segment.lines[1:])

    assert [event["n"] for event in take(spool)] == [1, 2, 3]
    assert len(list(folder.iterdir())) == 2


def test_a_name_does_not_grow_with_every_division(spool: Spool, folder: Path) -> None:
    for number in range(20):
        spool.append(json.dumps({"n": number}))
    spool.rotate()

    for _ in range(15):
        segment = next(spool.claim_segments())
        spool.delete(segment, segment.lines[1:])

    [file] = files(folder)
    assert len(file.name) < 70
    assert [event["n"] for event in take(spool)] == [15, 16, 17, 18, 19]


def test_what_a_process_was_killed_over_is_cleared_away(spool: Spool, folder: Path) -> None:
    old, young = write(folder / "1-a.new", "{"), write(folder / "1-b.new", "{")
    os.utime(old, (0, 0))

    take(spool)

    assert (old.exists(), young.exists()) == (False, True)


# --- the bound -----------------------------------------------------------------

FILL = """
import json, sys
from contextlib import suppress
from pathlib import Path
from skills_mcp.events.spool import Spool
spool = Spool(Path(sys.argv[1]))
sys.stdin.readline()
largest = dropped = 0
for number in range(400):
    if spool.append(json.dumps({"n": number, "text": "x" * 300}), 400_000):
        dropped += sum(spool.drop_oldest(400_000))
    total = 0
    for path in Path(sys.argv[1]).glob("*.jsonl"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    largest = max(largest, total)
print(largest, dropped, flush=True)
sys.stdin.readline()
"""


def fill(spool: Spool, count: int, **more: object) -> None:
    for number in range(count):
        spool.append(json.dumps({"n": number, **more}))
        spool.rotate()


def test_nothing_is_dropped_while_there_is_room(spool: Spool) -> None:
    fill(spool, 5)

    assert list(spool.drop_oldest(1 << 20)) == []
    assert len(take(spool)) == 5


def test_the_oldest_go_first_and_are_counted(spool: Spool) -> None:
    fill(spool, 12, text="x" * 10_000)

    [count] = spool.drop_oldest(100_000)

    left = [event["n"] for event in take(spool)]
    assert left == list(range(count, 12))
    assert 0 < len(left) * 10_000 < 100_000


@pytest.mark.parametrize("data, told", [({"count": 41}, 41), (None, 1), ([], 1)])
def test_what_was_told_to_be_dropped_stays_counted(spool: Spool, data: object, told: int) -> None:
    spool.append(json.dumps({"type": "events_dropped", "data": data}))
    spool.rotate()
    fill(spool, 12, text="x" * 10_000)

    [count] = spool.drop_oldest(100_000)

    left = len(take(spool))
    assert count == told + 12 - left


def test_a_crash_before_it_was_told_does_not_lose_the_count(spool: Spool, folder: Path) -> None:
    fill(spool, 12, text="x" * 10_000)

    killed = spool.drop_oldest(100_000)
    first = next(iter(killed))
    killed.close()  # type: ignore[attr-defined] # it is a generator
    [second] = Spool(folder).drop_oldest(100_000)

    assert second == first
    assert first + len(take(spool)) == 12
    assert list(folder.glob("*.dropped")) == []


def test_a_segment_in_use_is_not_dropped(spool: Spool, folder: Path) -> None:
    spool.append(json.dumps({"n": 1, "text": "x" * 100_000}))

    assert list(Spool(folder).drop_oldest(65_536)) == []
    assert [event["n"] for event in spooled(spool)] == [1]


def test_the_bound_holds_while_many_windows_write(folder: Path) -> None:
    windows = [running_python(FILL, folder) for _ in range(4)]

    with windows[0] as a, windows[1] as b, windows[2] as c, windows[3] as d:
        for window in (a, b, c, d):
            assert window.stdin is not None
            window.stdin.write(b"go\n")
            window.stdin.flush()
        said = [window.stdout.readline() for window in (a, b, c, d) if window.stdout]

    largest = max(int(line.split()[0]) for line in said)
    dropped = sum(int(line.split()[1]) for line in said)
    assert largest <= 400_000
    assert dropped + len(take(Spool(folder))) == 4 * 400


def event_numbers(data: bytes) -> list[int | None]:
    lines = read_event_lines(io.BytesIO(data))
    return [line.event["n"] if line else None for line in lines]


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
        b"\0" * 100,
        b'{"n": "\xed\xa0\x80"}',
        b'{"n": ' + b"9" * 5000 + b"}",
        b"x" * (MAX_LINE_BYTES + 1),
        b"x" * (3 * MAX_LINE_BYTES),
    ],
    ids=range(14),
)
def test_a_line_that_is_no_event_is_told_and_hides_no_other(broken: bytes) -> None:
    assert event_numbers(b'{"n": 1}\n' + broken + b'\n{"n": 3}\n') == [1, None, 3]


@pytest.mark.parametrize("blank", [b"\n", b"  \r\n", b""])
def test_a_blank_line_is_nothing(blank: bytes) -> None:
    assert event_numbers(blank + b'{"n": 1}\n' + blank) == [1]


def test_an_event_is_kept_as_it_was_written() -> None:
    [line] = read_event_lines(io.BytesIO('{"n":1.0, "t": "日本"}\r\n'.encode()))

    assert line is not None
    assert line.raw == '{"n":1.0, "t": "日本"}'.encode()


def test_the_last_line_needs_no_end() -> None:
    assert event_numbers(b'{"n": 1}\n{"n": 2}') == [1, 2]


def test_events_that_wait_are_counted(tmp_path: Path) -> None:
    spool, other = Spool(tmp_path), Spool(tmp_path)
    assert spool.count_events() == 0

    for each in (spool, spool, other):
        each.append("{}")

    assert spool.count_events() == 3
    for each in (spool, other):
        each.rotate()
