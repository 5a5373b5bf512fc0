import json
import os
import re
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.events import spool as outbox_module
from skills_mcp.events.spool import (
    EventArchive,
    EventLine,
    LocalEvents,
    Outbox,
    Segment,
    parse_event_line,
)
from skills_mcp.files.locks import acquire_lock
from tests.support import run_python, running_python, spooled, write

SETTLE_ON_A_SMALL_DISK = """
import logging, resource, sys
from pathlib import Path
from skills_mcp.events.spool import Outbox
outbox = Outbox(Path(sys.argv[1]))
segment = next(outbox.spool.claim_segments())
logging.disable()  # standard error may be a file, and a larger one
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
outbox.settle(segment, segment.lines[:1], [], keep_days=90)
"""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return tmp_path / "ours"


@pytest.fixture
def outbox(ours: Path) -> Outbox:
    outbox = Outbox(ours)
    for number in range(4):
        outbox.spool.append(json.dumps({"n": number}))
    outbox.spool.rotate()
    return outbox


def take(outbox: Outbox) -> Segment:
    [segment] = outbox.spool.claim_segments()
    return segment


def kept(ours: Path, folder: str) -> list[int]:
    texts = [path.read_text() for path in (ours / folder).glob("*.jsonl")]
    return [json.loads(line)["n"] for line in "".join(texts).splitlines()]


def waiting(outbox: Outbox) -> list[int]:
    return [event["n"] for event in spooled(outbox.spool)]


def test_every_event_goes_where_it_belongs(outbox: Outbox, ours: Path) -> None:
    segment = take(outbox)
    one, two, *_ = segment.lines

    outbox.settle(segment, [one], [two], keep_days=90)

    assert kept(ours, "archive") == [0]
    assert kept(ours, "dead-letters") == [1]
    assert waiting(outbox) == [2, 3]


def test_a_segment_that_nobody_answered_for_is_as_it_was(outbox: Outbox) -> None:
    segment = take(outbox)

    outbox.settle(segment, [], [], keep_days=90)

    assert segment.path.exists()
    assert waiting(outbox) == [0, 1, 2, 3]


def test_a_segment_without_events_is_cleared_away(outbox: Outbox, ours: Path) -> None:
    outbox.archive_all(90)
    write(ours / "spool" / "1.jsonl", "rubbish\n")

    outbox.settle(take(outbox), [], [], keep_days=90)

    assert list((ours / "spool").iterdir()) == []


def test_the_same_event_twice_is_settled_once_each(outbox: Outbox, ours: Path) -> None:
    outbox.archive_all(90)
    write(ours / "spool" / "1.jsonl", '{"n": 7}\n{"n": 7}\n')
    segment = take(outbox)

    outbox.settle(segment, segment.lines[:1], [], keep_days=90)

    assert waiting(outbox) == [7]


def test_an_archive_that_cannot_be_written_costs_the_record_only(
    outbox: Outbox, ours: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(ours / "archive", "a file, no folder")
    segment = take(outbox)

    outbox.settle(segment, segment.lines, [], keep_days=90)

    assert waiting(outbox) == []
    assert "Events were not kept: 4" in caplog.text


def test_without_a_receiver_events_stay_until_they_can_be_kept(
    outbox: Outbox, ours: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = write(ours / "archive", "a file, no folder")
    outbox.archive_all(90)
    before = waiting(outbox)
    blocked.unlink()

    outbox.archive_all(90)

    assert before == [0, 1, 2, 3]
    assert kept(ours, "archive") == [0, 1, 2, 3]
    assert waiting(outbox) == []
    assert "Events stay in the spool" in caplog.text


def test_with_0_days_and_no_receiver_events_stay_where_the_bound_holds(
    outbox: Outbox, ours: Path
) -> None:
    outbox.archive_all(0)

    assert waiting(outbox) == [0, 1, 2, 3]
    assert not (ours / "archive").exists()


def test_what_is_too_old_is_forgotten_sent_or_refused(outbox: Outbox, ours: Path) -> None:
    for folder in ("archive", "dead-letters"):
        write(ours / folder / "2020-01-01-0000.jsonl", '{"n": 9}\n')

    outbox.prune(90)

    assert kept(ours, "archive") == kept(ours, "dead-letters") == []


def test_dead_letters_are_a_ring_of_a_mebibyte(outbox: Outbox, ours: Path) -> None:
    for number in range(40):
        large = json.dumps({"n": number, "text": "x" * 100_000})
        write(ours / "spool" / "1.jsonl", large)
        for segment in outbox.spool.claim_segments():
            outbox.settle(segment, [], segment.lines, keep_days=90)

    sizes = [path.stat().st_size for path in (ours / "dead-letters").iterdir()]
    numbers = sorted(kept(ours, "dead-letters"))
    assert 600_000 < sum(sizes) <= 1 << 20
    assert numbers == list(range(numbers[0], 40))


def test_the_record_has_what_was_settled(outbox: Outbox, ours: Path) -> None:
    segment = take(outbox)

    outbox.settle(segment, segment.lines[:2], segment.lines[2:3], keep_days=90)

    assert sorted(event["n"] for event in LocalEvents(ours).events()) == [0, 1, 2, 3]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_a_full_disk_keeps_what_is_still_to_be_sent(outbox: Outbox, ours: Path) -> None:
    run_python(SETTLE_ON_A_SMALL_DISK, ours)

    assert waiting(outbox) == [0, 1, 2, 3]


APPEND_TO_LEDGER = """
import sys
from pathlib import Path
from skills_mcp.events.spool import EventArchive
from skills_mcp.events.spool import parse_event_line
ledger = EventArchive(Path(sys.argv[1]), max_bytes=1 << 20, max_file_bytes=4096)
sys.stdin.readline()
for number in range(200):
    line = '{"n": %d, "window": "%s"}' % (number, sys.argv[2])
    ledger.append([parse_event_line(line.encode())])
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def a_ledger(archive: Path, max_bytes: int = 1 << 20) -> EventArchive:
    return EventArchive(archive, max_bytes=max_bytes, max_file_bytes=max_bytes // 4)


def a_line(number: int, size: int = 0) -> EventLine:
    line = parse_event_line(b'{"n": %d, "text": "%s"}' % (number, b"x" * size))
    assert line is not None
    return line


def text_of(archive: Path) -> str:
    return "".join(path.read_text() for path in sorted(archive.glob("*.jsonl")))


def ledger_numbers(archive: Path) -> list[int]:
    return [int(found) for found in re.findall(r'"n": (\d+)', text_of(archive))]


def test_what_is_kept_is_in_a_file_of_today(archive: Path) -> None:
    a_ledger(archive).append([a_line(1), a_line(2)])
    a_ledger(archive).append([a_line(3)])

    [file] = archive.iterdir()
    assert file.name == f"{datetime.now(UTC).date()}-0000.jsonl"
    assert ledger_numbers(archive) == [1, 2, 3]


def test_nothing_is_made_for_nothing(archive: Path) -> None:
    a_ledger(archive).append([])
    a_ledger(archive).prune(1)

    assert not archive.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_it_is_for_its_user_alone(archive: Path) -> None:
    a_ledger(archive).append([a_line(1)])

    [file] = archive.iterdir()
    assert stat.S_IMODE(archive.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_oldest_go_when_there_is_no_more_room(archive: Path) -> None:
    ledger = a_ledger(archive, max_bytes=40_000)

    for number in range(100):
        ledger.append([a_line(number, size=1000)])

    left = ledger_numbers(archive)
    assert left == list(range(left[0], 100))
    assert 20_000 < len(text_of(archive)) <= 40_000


def test_a_line_that_was_cut_off_costs_no_other(archive: Path) -> None:
    ledger = a_ledger(archive)
    ledger.append([a_line(1)])
    [file] = archive.iterdir()
    file.write_bytes(file.read_bytes() + b'{"n": 2, "te')

    ledger.append([a_line(3)])

    assert text_of(archive).splitlines()[1:] == ['{"n": 2, "te', '{"n": 3, "text": ""}']


def test_days_that_are_over_are_forgotten(archive: Path) -> None:
    today = datetime.now(UTC).date()
    for days in (0, 1, 6, 7, 8, 400):
        write(archive / f"{today - timedelta(days=days)}-0000.jsonl", "{}\n")
    write(archive / "notes.jsonl", "{}\n")

    a_ledger(archive).prune(7)

    left = {path.name[:10] for path in archive.iterdir()}
    kept = {str(today - timedelta(days=days)) for days in (0, 1, 6)}
    assert left == kept | {"notes.json"}


def test_with_0_days_nothing_is_left(archive: Path) -> None:
    ledger = a_ledger(archive)
    ledger.append([a_line(1)])

    ledger.prune(0)

    assert list(archive.iterdir()) == []


def test_windows_append_in_turn(archive: Path) -> None:
    with (
        running_python(APPEND_TO_LEDGER, archive, "one") as one,
        running_python(APPEND_TO_LEDGER, archive, "two") as two,
    ):
        for window in (one, two):
            assert window.stdin is not None
            window.stdin.write(b"go\n")
            window.stdin.flush()
        for window in (one, two):
            assert window.stdout is not None
            assert window.stdout.readline() == b"done\n"

    assert sorted(ledger_numbers(archive)) == sorted([*range(200), *range(200)])
    assert all(parse_event_line(line.encode()) for line in text_of(archive).splitlines())


def test_a_process_that_was_stopped_with_the_file_keeps_no_event_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "_LOCK_SECONDS", 0.05)
    a_ledger(tmp_path).append([a_line(1)])
    [first] = tmp_path.glob("*.jsonl")

    with acquire_lock(first):
        a_ledger(tmp_path).append([a_line(2)])
        a_ledger(tmp_path).append([a_line(3)])

    assert sorted(ledger_numbers(tmp_path)) == [1, 2, 3]
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_a_disk_that_does_not_take_it_is_told(tmp_path: Path) -> None:
    blocked = write(tmp_path / "blocked", "a file, no folder")

    with pytest.raises(OSError):  # noqa: PT011 - each system says it differently
        a_ledger(blocked).append([a_line(1)])


MOVE = """
import sys
from pathlib import Path
from skills_mcp.events.spool import Outbox
outbox = Outbox(Path(sys.argv[1]))
for number in range(300):
    outbox.spool.append('{"event_id": "%d", "n": %d}' % (number, number))
print("there", flush=True)
sys.stdin.readline()
for number in range(300, 600):
    outbox.spool.append('{"event_id": "%d", "n": %d}' % (number, number))
    outbox.archive_all(90)
print("done", flush=True)
sys.stdin.readline()
"""


def an_event(number: int, **more: Any) -> str:
    return json.dumps({"event_id": str(number), "n": number, **more}) + "\n"


def record_numbers(record: LocalEvents) -> list[int]:
    return [event["n"] for event in record.events()]


def test_a_home_without_events_has_none(ours: Path) -> None:
    record = LocalEvents(ours)

    assert list(record.events()) == []
    assert record.skipped == 0


def test_each_event_is_met_once_wherever_it_is(ours: Path) -> None:
    write(ours / "spool/1.jsonl", an_event(1) + an_event(2))
    write(ours / "archive/2026-11-01-0000.jsonl", an_event(2) + an_event(3))
    write(ours / "dead-letters/2026-11-01-0000.jsonl", an_event(4) + an_event(1))

    assert sorted(record_numbers(LocalEvents(ours))) == [1, 2, 3, 4]


def test_events_without_an_identifier_are_all_met(ours: Path) -> None:
    write(ours / "spool/1.jsonl", '{"n": 1}\n{"n": 1, "event_id": 7}\n{"n": 1}\n')

    assert record_numbers(LocalEvents(ours)) == [1, 1, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")
def test_what_cannot_be_read_is_counted(ours: Path) -> None:
    write(ours / "spool/1.jsonl", an_event(1) + "nonsense\n" + an_event(2) + '{"n":')
    os.mkfifo(ours / "spool/2.jsonl")
    (ours / "spool/3.jsonl").mkdir()
    write(ours / "archive/nonsense.jsonl", an_event(3))
    record = LocalEvents(ours)

    assert sorted(record_numbers(record)) == [1, 2, 3]
    assert record.skipped == 4


def test_nothing_is_missed_while_events_move_on(ours: Path) -> None:
    with running_python(MOVE, ours) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        other.stdin.write(b"go\n")
        other.stdin.flush()
        rounds = [record_numbers(LocalEvents(ours)) for _ in range(20)]
        assert other.stdout.readline() == b"done\n"

    assert all(set(range(300)) <= set(found) for found in rounds)
    assert all(len(found) == len(set(found)) for found in rounds)
    assert sorted(record_numbers(LocalEvents(ours))) == list(range(600))


def test_what_moves_on_between_two_events_is_met_where_it_went(ours: Path) -> None:
    write(ours / "archive/2026-11-01-0000.jsonl", an_event(1))
    waiting = [write(ours / f"spool/{n}.jsonl", an_event(n)) for n in (2, 3)]
    events = iter(LocalEvents(ours).events())

    first = next(events)["n"]
    for path in waiting:
        path.rename(ours / "archive" / f"2026-11-01-000{path.name}")

    assert sorted([first, *(event["n"] for event in events)]) == [1, 2, 3]


def test_to_read_changes_nothing(ours: Path) -> None:
    outbox = Outbox(ours)
    outbox.spool.append(an_event(1).strip())

    found = record_numbers(LocalEvents(ours))

    outbox.spool.append(an_event(2).strip())
    outbox.spool.rotate()
    assert found == [1]
    assert len(list((ours / "spool").iterdir())) == 1
