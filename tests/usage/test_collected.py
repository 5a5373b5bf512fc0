import json
import os
from pathlib import Path

import pytest

from skills_mcp.usage import collected
from skills_mcp.usage.collected import UNREADABLE, CollectedError, load_collected
from tests.support import write

ONE, TWO = {"type": "no_match"}, {"type": "refresh"}


def test_a_line_is_an_event_or_all_of_a_request(tmp_path: Path) -> None:
    lines = [json.dumps(ONE), "", json.dumps({"events": [TWO, 7]})]
    file = write(tmp_path / "events.log", "\n".join(lines))

    assert list(load_collected([file])) == [ONE, TWO, 7]


def test_what_is_no_json_is_counted_and_hides_nothing(tmp_path: Path) -> None:
    deep = "[" * 100_000
    lines = ["{", json.dumps(ONE), deep, "\0", '{"a": "\\ud800"}']
    file = write(tmp_path / "events.jsonl", "\n".join(lines).encode() + b"\n\xff\xfe\n")

    loaded = list(load_collected([file]))

    assert loaded == [
        *(UNREADABLE, ONE, UNREADABLE, UNREADABLE),
        *({"a": "\ud800"}, UNREADABLE),
    ]


def test_a_line_without_an_end_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collected, "_MOST_LINE_BYTES", 64)
    text = "x" * 1000 + "\n" + json.dumps(ONE) + "\n" + "y" * 200
    file = write(tmp_path / "events.jsonl", text)

    assert list(load_collected([file])) == [UNREADABLE, ONE, UNREADABLE]


def test_a_folder_stands_for_all_files_below_it(tmp_path: Path) -> None:
    write(tmp_path / "2026" / "b.jsonl", json.dumps(TWO))
    write(tmp_path / "a.jsonl", json.dumps(ONE))
    write(tmp_path / "notes.txt", "not an event")

    assert list(load_collected([tmp_path])) == [TWO, ONE]


def test_a_folder_without_events_says_what_it_should_have(tmp_path: Path) -> None:
    with pytest.raises(CollectedError, match=r"no file in it ends in \.jsonl"):
        list(load_collected([tmp_path]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_folder_with_a_pipe_in_it_is_read_without_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    write(tmp_path / "a.jsonl", json.dumps(ONE))

    assert list(load_collected([tmp_path])) == [ONE]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectedError, match=r"gone\.jsonl: No such file"):
        list(load_collected([tmp_path / "gone.jsonl"]))
