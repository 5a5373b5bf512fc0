"""Arrays in a folder: whole or not at all."""

import os
from pathlib import Path

import numpy as np
import pytest

from skills_mcp.files.arrays import open_text, read_arrays, write_arrays
from tests.support import write

LARGE = np.arange(10_000, dtype=np.uint32)
EMPTY = np.zeros((0, 3), np.int64)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "home")


def test_what_was_written_is_read_and_cannot_be_changed(tmp_path: Path) -> None:
    folder = tmp_path / "index" / "1"

    write_arrays(folder, {"large": LARGE, "empty": EMPTY}, {"of": ["a"]})
    about, arrays = read_arrays(folder)

    assert about == {"of": ["a"]}
    assert arrays["large"].tolist() == LARGE.tolist()
    assert arrays["empty"].shape == (0, 3)
    with pytest.raises(ValueError, match="read-only"):
        arrays["large"][0] = 1


def test_a_folder_that_somebody_else_made_stays(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    write_arrays(folder, {"a": LARGE}, {"by": "them"})

    with pytest.raises(OSError, match=r"(?i)empty|exist"):
        write_arrays(folder, {"a": EMPTY}, {"by": "us"})

    assert read_arrays(folder)[0] == {"by": "them"}
    assert names(tmp_path) == ["1"]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    objects = np.array([object()])

    with pytest.raises(ValueError, match="allow_pickle"):
        write_arrays(tmp_path / "1", {"large": LARGE, "bad": objects}, {})

    assert names(tmp_path) == []


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\x93NUMPY\x01\x00v\x00(((("])
def test_a_file_of_another_format_is_an_error_and_no_array(start: bytes, tmp_path: Path) -> None:
    write_arrays(tmp_path / "1", {"large": LARGE}, {})
    file = tmp_path / "1" / "large.npy"
    file.write_bytes(start + file.read_bytes()[len(start) :])

    with pytest.raises(ValueError):  # noqa: PT011 - NumPy words it in many ways
        read_arrays(tmp_path / "1")


@pytest.mark.parametrize("kept_bytes", [0, 1, 100, 20_000])
def test_a_damaged_file_is_an_error_and_no_array(kept_bytes: int, tmp_path: Path) -> None:
    write_arrays(tmp_path / "1", {"large": LARGE}, {})
    file = tmp_path / "1" / "large.npy"
    file.write_bytes(file.read_bytes()[:kept_bytes])

    with pytest.raises(ValueError):  # noqa: PT011 - NumPy words it in many ways
        read_arrays(tmp_path / "1")


def test_a_file_that_is_cut_off_later_harms_nothing(tmp_path: Path) -> None:
    write_arrays(tmp_path / "1", {"large": LARGE}, {})
    _, arrays = read_arrays(tmp_path / "1")

    os.truncate(tmp_path / "1" / "large.npy", 0)

    # A mapped file would end this process with SIGBUS.
    assert arrays["large"].tolist() == LARGE.tolist()


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '"', '{"a": 1}'])
@pytest.mark.parametrize("name", ["about.json", "checksums.json"])
def test_a_damaged_description_is_an_error(name: str, text: str, tmp_path: Path) -> None:
    write_arrays(tmp_path / "1", {"large": LARGE}, {})
    (tmp_path / "1" / name).write_text(text)

    with pytest.raises(ValueError):  # noqa: PT011 - the parsers word it in many ways
        read_arrays(tmp_path / "1")


def test_a_file_too_many_is_an_error(tmp_path: Path) -> None:
    write_arrays(tmp_path / "1", {"large": LARGE}, {})
    np.save(tmp_path / "1" / "more.npy", LARGE)

    with pytest.raises(ValueError, match=r"more\.npy"):
        read_arrays(tmp_path / "1")


def test_there_is_nothing_in_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="checksums"):
        read_arrays(write(tmp_path / "1" / "text.bin").parent)


def test_a_text_is_read_in_parts_and_outlives_its_name(tmp_path: Path) -> None:
    write_arrays(tmp_path / "1", {}, {}, {"text": b"0123456789"})

    text = open_text(tmp_path / "1", "text")

    assert len(text) == 10
    assert (text[2:5], text[:], text[8:99], text[5:5]) == (
        b"234",
        b"0123456789",
        b"89",
        b"",
    )
    write_arrays(tmp_path / "2", {}, {}, {"text": text})
    assert open_text(tmp_path / "2", "text")[:] == text[:]


def test_a_text_is_read_in_parts_where_nothing_reads_at_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pread", raising=False)
    write_arrays(tmp_path / "1", {}, {}, {"text": b"0123456789"})

    text = open_text(tmp_path / "1", "text")

    assert (text[2:5], text[0:1]) == (b"234", b"0")


def test_a_text_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="text"):
        open_text(tmp_path, "text")
