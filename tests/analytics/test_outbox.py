import json
import sys
from pathlib import Path

import pytest

from skills_mcp.analytics.outbox import Outbox
from skills_mcp.analytics.record import Record
from skills_mcp.analytics.spool import Segment
from tests.support import run_python, spooled, write

SETTLE_ON_A_SMALL_DISK = """
import logging, resource, sys
from pathlib import Path
from skills_mcp.analytics.outbox import Outbox
outbox = Outbox(Path(sys.argv[1]))
segment = next(outbox.spool.take())
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
    [segment] = outbox.spool.take()
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
    outbox.keep_all(90)
    write(ours / "spool" / "1.jsonl", "rubbish\n")

    outbox.settle(take(outbox), [], [], keep_days=90)

    assert list((ours / "spool").iterdir()) == []


def test_the_same_event_twice_is_settled_once_each(outbox: Outbox, ours: Path) -> None:
    outbox.keep_all(90)
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
    outbox.keep_all(90)
    before = waiting(outbox)
    blocked.unlink()

    outbox.keep_all(90)

    assert before == [0, 1, 2, 3]
    assert kept(ours, "archive") == [0, 1, 2, 3]
    assert waiting(outbox) == []
    assert "Events stay in the spool" in caplog.text


def test_with_0_days_and_no_receiver_events_stay_where_the_bound_holds(
    outbox: Outbox, ours: Path
) -> None:
    outbox.keep_all(0)

    assert waiting(outbox) == [0, 1, 2, 3]
    assert not (ours / "archive").exists()


def test_what_is_too_old_is_forgotten_sent_or_refused(
    outbox: Outbox, ours: Path
) -> None:
    for folder in ("archive", "dead-letters"):
        write(ours / folder / "2020-01-01-0000.jsonl", '{"n": 9}\n')

    outbox.prune(90)

    assert kept(ours, "archive") == kept(ours, "dead-letters") == []


def test_dead_letters_are_a_ring_of_a_mebibyte(outbox: Outbox, ours: Path) -> None:
    for number in range(40):
        large = json.dumps({"n": number, "text": "x" * 100_000})
        write(ours / "spool" / "1.jsonl", large)
        for segment in outbox.spool.take():
            outbox.settle(segment, [], segment.lines, keep_days=90)

    sizes = [path.stat().st_size for path in (ours / "dead-letters").iterdir()]
    numbers = sorted(kept(ours, "dead-letters"))
    assert 600_000 < sum(sizes) <= 1 << 20
    assert numbers == list(range(numbers[0], 40))


def test_the_record_has_what_was_settled(outbox: Outbox, ours: Path) -> None:
    segment = take(outbox)

    outbox.settle(segment, segment.lines[:2], segment.lines[2:3], keep_days=90)

    assert sorted(event["n"] for event in Record(ours).events()) == [0, 1, 2, 3]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_a_full_disk_keeps_what_is_still_to_be_sent(outbox: Outbox, ours: Path) -> None:
    run_python(SETTLE_ON_A_SMALL_DISK, ours)

    assert waiting(outbox) == [0, 1, 2, 3]
