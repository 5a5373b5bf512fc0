import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.analytics.outbox import Outbox
from skills_mcp.analytics.record import Record
from tests.support import running_python, write

MOVE = """
import sys
from pathlib import Path
from skills_mcp.analytics.outbox import Outbox
outbox = Outbox(Path(sys.argv[1]))
for number in range(300):
    outbox.spool.append('{"event_id": "%d", "n": %d}' % (number, number))
print("there", flush=True)
sys.stdin.readline()
for number in range(300, 600):
    outbox.spool.append('{"event_id": "%d", "n": %d}' % (number, number))
    outbox.keep_all(90)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return tmp_path / "ours"


def an_event(number: int, **more: Any) -> str:
    return json.dumps({"event_id": str(number), "n": number, **more}) + "\n"


def numbers(record: Record) -> list[int]:
    return [event["n"] for event in record.events()]


def test_a_home_without_events_has_none(ours: Path) -> None:
    record = Record(ours)

    assert list(record.events()) == []
    assert record.skipped == 0


def test_each_event_is_met_once_wherever_it_is(ours: Path) -> None:
    write(ours / "spool/1.jsonl", an_event(1) + an_event(2))
    write(ours / "archive/2026-11-01-0000.jsonl", an_event(2) + an_event(3))
    write(ours / "dead-letters/2026-11-01-0000.jsonl", an_event(4) + an_event(1))

    assert sorted(numbers(Record(ours))) == [1, 2, 3, 4]


def test_events_without_an_identifier_are_all_met(ours: Path) -> None:
    write(ours / "spool/1.jsonl", '{"n": 1}\n{"n": 1, "event_id": 7}\n{"n": 1}\n')

    assert numbers(Record(ours)) == [1, 1, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")
def test_what_cannot_be_read_is_counted(ours: Path) -> None:
    write(ours / "spool/1.jsonl", an_event(1) + "nonsense\n" + an_event(2) + '{"n":')
    os.mkfifo(ours / "spool/2.jsonl")
    (ours / "spool/3.jsonl").mkdir()
    write(ours / "archive/nonsense.jsonl", an_event(3))
    record = Record(ours)

    assert sorted(numbers(record)) == [1, 2, 3]
    assert record.skipped == 4


def test_nothing_is_missed_while_events_move_on(ours: Path) -> None:
    with running_python(MOVE, ours) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        other.stdin.write(b"go\n")
        other.stdin.flush()
        rounds = [numbers(Record(ours)) for _ in range(20)]
        assert other.stdout.readline() == b"done\n"

    assert all(set(range(300)) <= set(found) for found in rounds)
    assert all(len(found) == len(set(found)) for found in rounds)
    assert sorted(numbers(Record(ours))) == list(range(600))


def test_what_moves_on_between_two_events_is_met_where_it_went(ours: Path) -> None:
    write(ours / "archive/2026-11-01-0000.jsonl", an_event(1))
    waiting = [write(ours / f"spool/{n}.jsonl", an_event(n)) for n in (2, 3)]
    events = iter(Record(ours).events())

    first = next(events)["n"]
    for path in waiting:
        path.rename(ours / "archive" / f"2026-11-01-000{path.name}")

    assert sorted([first, *(event["n"] for event in events)]) == [1, 2, 3]


def test_to_read_changes_nothing(ours: Path) -> None:
    outbox = Outbox(ours)
    outbox.spool.append(an_event(1).strip())

    found = numbers(Record(ours))

    outbox.spool.append(an_event(2).strip())
    outbox.spool.rotate()
    assert found == [1]
    assert len(list((ours / "spool").iterdir())) == 1
