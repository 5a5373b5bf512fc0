"""Parts of a skill's files: the beginning, some lines, or those that fit."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.errors import (
    FileTooLargeError,
    InvalidArgumentsError,
    InvalidPathError,
    MissingFileError,
)
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.skills.reading import (
    FilePart,
    Lines,
    find_files,
    read_beginning,
    read_lines,
)
from tests.support import make_skill, write


def skill_with(folder: Path, files: dict[str, str | bytes]) -> Skill:
    stamps = {
        file: Stamp.of(write(folder / file, data).stat())
        for file, data in files.items()
    }
    return make_skill("pdf", directory=folder, files=stamps)


def beginning(folder: Path, data: str | bytes, *, max_bytes: int = 100) -> FilePart:
    skill = skill_with(folder, {"x.txt": data})
    return read_beginning(skill, "x.txt", max_bytes=max_bytes)


def lines(
    folder: Path,
    data: str | bytes,
    wanted: Lines,
    *,
    max_bytes: int = 100,
    file: str = "x.txt",
) -> FilePart:
    skill = skill_with(folder, {file: data})
    return read_lines(skill, file, wanted, max_bytes=max_bytes, max_file_bytes=1000)


# --- the beginning ------------------------------------------------------------


def test_a_small_file_is_read_whole(tmp_path: Path) -> None:
    part = beginning(tmp_path, "one\ntwo\n")

    assert part.content.data == b"one\ntwo\n"
    assert not part.content.is_binary
    assert not part.truncated
    assert part.size_bytes == 8
    assert (part.start_line, part.end_line, part.total_lines) == (1, 2, None)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_large_file_is_cut_behind_a_line(tmp_path: Path, ends: str) -> None:
    part = beginning(tmp_path, f"one{ends}two{ends}three{ends}", max_bytes=12)

    assert part.content.data == f"one{ends}two{ends}".encode()
    assert part.truncated
    assert part.size_bytes == 11 + 3 * len(ends)
    assert (part.start_line, part.end_line) == (1, 2)


def test_a_file_that_fits_exactly_is_not_cut(tmp_path: Path) -> None:
    part = beginning(tmp_path, "one\ntwo", max_bytes=7)

    assert part.content.data == b"one\ntwo"
    assert not part.truncated
    assert part.end_line == 2


@pytest.mark.parametrize("max_bytes", range(1, 12))
def test_a_long_line_is_cut_behind_a_character(tmp_path: Path, max_bytes: int) -> None:
    part = beginning(tmp_path, "é認😀ab", max_bytes=max_bytes)

    whole = [b"", "é".encode(), "é認".encode(), "é認😀".encode(), "é認😀a".encode()]
    fitting = [text for text in [*whole, "é認😀ab".encode()] if len(text) <= max_bytes]
    assert part.content.data == fitting[-1]
    assert part.truncated is (max_bytes < 11)
    assert not part.content.is_binary


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    part = beginning(tmp_path, "")

    assert part.content.data == b""
    assert (part.truncated, part.size_bytes, part.end_line) == (False, 0, 0)


@pytest.mark.parametrize("data", [b"\x89PNG\xff" + b"x" * 100, b"\xff" * 101])
def test_a_binary_file_is_cut_anywhere(tmp_path: Path, data: bytes) -> None:
    part = beginning(tmp_path, data)

    assert part.content.data == data[:100]
    assert part.content.is_binary
    assert part.truncated
    assert part.size_bytes == len(data)
    assert (part.start_line, part.end_line) == (None, None)


def test_the_extension_says_what_a_binary_file_is(tmp_path: Path) -> None:
    skill = skill_with(tmp_path, {"logo.svg": "<svg/>"})

    part = read_beginning(skill, "logo.svg", max_bytes=100)

    assert part.content.is_binary
    assert part.content.mime_type == "image/svg+xml"


# --- some lines ---------------------------------------------------------------


@pytest.mark.parametrize(
    "start, count, text, end",
    [
        (1, 1, "one\n", 1),
        (2, 2, "two\nthree\n", 3),
        (3, 99, "three\nfour", 4),
        (4, 1, "four", 4),
        (1, 99, "one\ntwo\nthree\nfour", 4),
    ],
)
def test_lines_are_counted_from_one(
    tmp_path: Path, start: int, count: int, text: str, end: int
) -> None:
    part = lines(tmp_path, "one\ntwo\nthree\nfour", Lines(start, count))

    assert part.content.data == text.encode()
    assert (part.start_line, part.end_line, part.total_lines) == (start, end, 4)
    assert part.truncated is (end < 4)
    assert part.size_bytes == 18


def test_line_ends_of_dos_are_line_ends(tmp_path: Path) -> None:
    part = lines(tmp_path, "one\r\ntwo\r\nthree\r\n", Lines(2, 1))

    assert part.content.data == b"two\r\n"
    assert part.total_lines == 3


def test_what_only_looks_like_a_line_end_is_none(tmp_path: Path) -> None:
    part = lines(tmp_path, "a\N{LINE SEPARATOR}b\x0cc\x85d\rf\ne", Lines(2, 1))

    assert part.content.data == b"e"
    assert part.total_lines == 2


def test_no_more_lines_are_returned_than_fit(tmp_path: Path) -> None:
    part = lines(tmp_path, "one\ntwo\nthree\nfour\n", Lines(2, 9), max_bytes=9)

    assert part.content.data == b"two\n"
    assert (part.start_line, part.end_line) == (2, 2)
    assert part.truncated


@pytest.mark.parametrize("rest", ["", "\n", "\nnext"])
def test_a_line_that_does_not_fit_is_cut_and_that_is_said(
    tmp_path: Path, rest: str
) -> None:
    part = lines(tmp_path, "first\n" + "é" * 20 + rest, Lines(2, 9), max_bytes=9)

    assert part.content.data == ("é" * 4).encode()
    assert (part.start_line, part.end_line) == (2, 2)
    assert part.truncated


@pytest.mark.parametrize("start", [5, 6, 1000])
def test_a_file_has_no_lines_behind_its_end(tmp_path: Path, start: int) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        lines(tmp_path, "1\n2\n3\n4\n", Lines(start, 1))

    assert str(caught.value) == f"start_line: 'x.txt' has 4 lines (got {start})"


def test_the_first_line_of_an_empty_file_is_empty(tmp_path: Path) -> None:
    part = lines(tmp_path, "", Lines(1, 5))

    assert (part.content.data, part.total_lines, part.truncated) == (b"", 0, False)


def test_a_binary_file_has_no_lines(tmp_path: Path) -> None:
    for file, data in {"x.txt": b"\xff\n\xff\n", "x.svg": b"<svg/>\n"}.items():
        with pytest.raises(InvalidArgumentsError, match="is no text"):
            lines(tmp_path, data, Lines(1, 1), file=file)


def test_lines_of_a_huge_file_are_not_counted(tmp_path: Path) -> None:
    with pytest.raises(FileTooLargeError, match="larger than 1,000 bytes"):
        lines(tmp_path, "x\n" * 501, Lines(1, 1))

    assert lines(tmp_path, "x\n" * 500, Lines(500, 1)).total_lines == 500


@given(
    st.text(st.sampled_from("aé認\n\r"), max_size=60),
    st.integers(min_value=4, max_value=20),
)
def test_all_parts_together_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, max_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("files")
    longest = max(len(line) + 1 for line in text.encode().split(b"\n"))
    limit = max(max_bytes, longest)

    first = beginning(folder, text, max_bytes=limit)
    data, part = first.content.data, first
    while part.truncated:
        assert part.end_line is not None
        part = lines(folder, text, Lines(part.end_line + 1, 3), max_bytes=limit)
        assert part.content.data
        data += part.content.data

    assert data == text.encode()


# --- finding ------------------------------------------------------------------

FILES: dict[str, str | bytes] = {
    "SKILL.md": "Use the form",
    "forms.md": "FORM 認証",
    "logo.svg": "<form/>",
    "references/api.md": "nothing",
    "references/deep/er.md": "a form",
    "scripts/run.py": "form()",
    "scripts/[x].py": "form()",
    "font.ttf": b"form\xff",
}


def found(folder: Path, pattern: str = "**/*", contains: str = "") -> list[str]:
    skill = skill_with(folder, FILES)
    return list(
        find_files(skill, pattern=pattern, contains=contains, max_file_bytes=1000)
    )


@pytest.mark.parametrize(
    "pattern, files",
    [
        ("**/*", list(FILES)),
        ("*", list(FILES)),
        ("*.py", ["scripts/run.py", "scripts/[x].py"]),
        ("**/*.py", ["scripts/run.py", "scripts/[x].py"]),
        ("references/**/*.md", ["references/api.md", "references/deep/er.md"]),
        ("references/*", ["references/api.md", "references/deep/er.md"]),
        ("forms.md", ["forms.md"]),
        ("forms", []),
        ("FORMS.md", []),
        ("scripts/r?n.py", ["scripts/run.py"]),
        ("scripts/[[]x].py", ["scripts/[x].py"]),
        ("../*", []),
        ("/etc/*", []),
        ("[", []),
        ("", []),
    ],
)
def test_files_are_found_by_a_pattern(
    tmp_path: Path, pattern: str, files: list[str]
) -> None:
    assert found(tmp_path, pattern) == files


@pytest.mark.parametrize(
    "pattern, contains, files",
    [
        (
            "**/*",
            "form",
            [
                *("SKILL.md", "forms.md", "references/deep/er.md"),
                *("scripts/run.py", "scripts/[x].py"),
            ],
        ),
        ("*.md", "FoRm", ["SKILL.md", "forms.md", "references/deep/er.md"]),
        ("**/*", "認証", ["forms.md"]),
        ("**/*", "absent", []),
        ("*.svg", "form", []),
    ],
)
def test_texts_are_found_by_what_they_contain(
    tmp_path: Path, pattern: str, contains: str, files: list[str]
) -> None:
    assert found(tmp_path, pattern, contains) == files


def test_a_file_that_is_too_large_contains_nothing(tmp_path: Path) -> None:
    skill = skill_with(tmp_path, {"a.txt": "form" + "x" * 20, "b.txt": "form"})

    by_text = find_files(skill, pattern="*", contains="form", max_file_bytes=20)
    by_name = find_files(skill, pattern="*", contains="", max_file_bytes=20)

    assert list(by_text) == ["b.txt"]
    assert list(by_name) == ["a.txt", "b.txt"]


def test_a_pattern_that_takes_long_elsewhere_takes_no_time_here(tmp_path: Path) -> None:
    skill = skill_with(tmp_path, {"a" * 200: ""})

    assert not list(
        find_files(skill, pattern="*a" * 60 + "b", contains="", max_file_bytes=9)
    )


def test_a_huge_file_is_read_no_further_than_asked(tmp_path: Path) -> None:
    skill = skill_with(tmp_path / "pdf", {"x.txt": ""})
    assert skill.directory
    with (skill.directory / "x.txt").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte that exists only as a number
        stamp = Stamp.of(os.fstat(file.fileno()))
    skill = replace(skill, files={"x.txt": stamp})

    part = read_beginning(skill, "x.txt", max_bytes=9)

    assert (len(part.content.data), part.size_bytes) == (9, 1 << 40)
    with pytest.raises(FileTooLargeError):
        read_lines(skill, "x.txt", Lines(1, 1), max_bytes=9, max_file_bytes=99)
    assert (
        list(find_files(skill, pattern="*.txt", contains="x", max_file_bytes=99)) == []
    )


# --- what is no file of the skill ---------------------------------------------


@pytest.mark.parametrize("file", ["../x.txt", "/x.txt", "a/../../x", "x\\y", ""])
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, file: str) -> None:
    skill = skill_with(tmp_path / "pdf", {"x.txt": "x"})
    write(tmp_path / "x.txt", "outside")

    with pytest.raises(InvalidPathError):
        read_beginning(skill, file, max_bytes=9)
    with pytest.raises(InvalidPathError):
        read_lines(skill, file, Lines(1, 1), max_bytes=9, max_file_bytes=9)


def test_a_file_that_the_skill_does_not_have_is_not_read(tmp_path: Path) -> None:
    skill = skill_with(tmp_path / "pdf", {"x.txt": "x"})
    write(tmp_path / "pdf/new.txt", "new")

    for file in ("absent.txt", "new.txt"):
        with pytest.raises(MissingFileError):
            read_beginning(skill, file, max_bytes=9)
