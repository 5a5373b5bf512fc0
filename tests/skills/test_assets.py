"""Files that skills hand out."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.errors import (
    ChangedFileError,
    FileError,
    FileTooLargeError,
    InvalidArgumentsError,
    InvalidPathError,
    MissingFileError,
)
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.skills.skill_files import (
    FilePart,
    LineRange,
    _copy,
    binary_mime_type,
    copy_skill_files,
    find_skill_files,
    is_binary_file,
    open_fetched_file,
    read_head,
    read_line_range,
    read_skill_file,
)
from tests.skills.contents import take
from tests.support import make_skill, write


@pytest.fixture
def skill(tmp_path: Path) -> Skill:
    folder = tmp_path / "content" / "auth"
    folder.mkdir(parents=True)
    return make_skill("ui/auth", directory=folder, files={})


def put(skill: Skill, file: str, data: str | bytes) -> Path:
    """Write a file of the skill, as if that had been before the skill was read."""
    assert skill.directory
    assert isinstance(skill.files, dict)
    path = write(skill.directory / file, data)
    skill.files[file] = Stamp.of(path.stat())
    return path


@pytest.mark.spec("7.2")
@pytest.mark.parametrize(
    "file, kind",
    [
        ("a.png", "image/png"),
        ("a.jpg", "image/jpeg"),
        ("a.jpeg", "image/jpeg"),
        ("a.gif", "image/gif"),
        ("a.svg", "image/svg+xml"),
        ("a.ico", "application/octet-stream"),
        ("a.webp", "application/octet-stream"),
        ("a.pdf", "application/pdf"),
        ("a.zip", "application/zip"),
        ("a.woff", "font/woff"),
        ("a.woff2", "font/woff2"),
        ("assets/A.PNG", "image/png"),
        ("a.template.svg", "image/svg+xml"),
    ],
)
def test_a_binary_extension_decides_whatever_the_file_holds(file: str, kind: str) -> None:
    assert is_binary_file(file, b"plain text")
    assert binary_mime_type(file) == kind


@pytest.mark.spec("7.2")
@pytest.mark.parametrize(
    "file",
    [
        *("a.ts", "a.tsx", "a.js", "a.sh", "a.yaml", "a.json", "a.template"),
        *("a.example", "a.md", "Makefile", ".png", "png", "a.svg.template"),
    ],
)
def test_every_other_extension_is_text(file: str) -> None:
    assert not is_binary_file(file, "plain text, também".encode())


@pytest.mark.parametrize("data", [b"\xff\xfe", b"wOF\x80", "é".encode("latin-1")])
def test_bytes_that_are_no_utf_8_are_never_served_as_text(data: bytes) -> None:
    assert is_binary_file("font.ttf", data)
    assert binary_mime_type("font.ttf") == "application/octet-stream"


@pytest.mark.spec("7.4")
def test_a_file_is_read_byte_by_byte(skill: Skill) -> None:
    put(skill, "assets/x.txt", "línea\r\n")

    content = read_skill_file(skill, "assets/x.txt", max_bytes=100)

    assert content.data == "línea\r\n".encode()
    assert not content.is_binary


@pytest.mark.spec("7.4")
def test_a_binary_file_is_read_with_its_type(skill: Skill) -> None:
    put(skill, "flow.svg", "<svg/>")

    content = read_skill_file(skill, "flow.svg", max_bytes=100)

    assert content.data == b"<svg/>"
    assert content.is_binary
    assert content.mime_type == "image/svg+xml"


@pytest.mark.spec("7.4")
@pytest.mark.spec("12.3")
def test_a_file_may_be_as_large_as_the_limit(skill: Skill) -> None:
    put(skill, "x.txt", "x" * 100)

    assert len(read_skill_file(skill, "x.txt", max_bytes=100).data) == 100


@pytest.mark.spec("7.4")
@pytest.mark.spec("12.3")
def test_a_larger_file_is_refused_with_both_sizes(skill: Skill) -> None:
    put(skill, "x.txt", "x" * 1101)

    with pytest.raises(FileTooLargeError) as caught:
        read_skill_file(skill, "x.txt", max_bytes=1100)

    assert "1,101 bytes; the limit is 1,100" in str(caught.value)
    assert "assets.max_size_bytes" in str(caught.value)


@pytest.mark.spec("12.3")
def test_the_size_is_checked_before_anything_is_read(skill: Skill) -> None:
    # Eight gigabytes that exist only as a number: reading them would show.
    assert isinstance(skill.files, dict)
    with put(skill, "huge.bin", "").open("wb") as handle:
        handle.truncate(1 << 33)
        skill.files["huge.bin"] = Stamp.of(os.fstat(handle.fileno()))

    with pytest.raises(FileTooLargeError, match="8,589,934,592 bytes"):
        read_skill_file(skill, "huge.bin", max_bytes=(1 << 33) - 1)


@pytest.mark.spec("13")
@pytest.mark.parametrize("operation", ["read", "open"])
@pytest.mark.parametrize(
    "file, reason",
    [
        ("absent.txt", "declared, but not on the disk"),
        ("folder", "a folder"),
        ("link.txt", "a link"),
        ("out/secret.txt", "behind a link"),
    ],
)
def test_a_file_that_is_not_there_is_missing_and_its_place_is_not_told(
    skill: Skill, tmp_path: Path, operation: str, file: str, reason: str
) -> None:
    write(tmp_path / "secret.txt", "secret")
    put(skill, "folder/x.txt", "")
    assert skill.directory
    (skill.directory / "link.txt").symlink_to(tmp_path / "secret.txt")
    (skill.directory / "out").symlink_to(tmp_path, target_is_directory=True)

    with pytest.raises(MissingFileError) as caught:
        run(operation, skill, file)

    message = str(caught.value)
    assert message.startswith(f"ui/auth declares {file!r}, but its folder has no"), reason
    assert str(tmp_path) not in message


@pytest.mark.spec("4.5")
@pytest.mark.parametrize("operation", ["read", "open"])
def test_a_skill_without_a_folder_has_no_files(operation: str) -> None:
    with pytest.raises(MissingFileError):
        run(operation, make_skill("a"), "x.txt")


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("operation", ["read", "open"])
def test_a_path_out_of_the_folder_is_refused_even_without_a_folder(
    skill: Skill, operation: str
) -> None:
    put(skill, "../x", "outside")

    for other in (skill, make_skill("a")):
        with pytest.raises(InvalidPathError):
            run(operation, other, "../x")


@pytest.mark.skipif(sys.platform == "win32", reason="no such files")
def test_an_endless_file_is_not_read() -> None:
    device = make_skill("a", directory=Path("/dev"))

    with pytest.raises(MissingFileError):
        read_skill_file(device, "zero", max_bytes=10)


def run(operation: str, skill: Skill, file: str) -> None:
    if operation == "read":
        read_skill_file(skill, file, max_bytes=100)
    else:
        open_whole(skill, file)


def open_whole(skill: Skill, file: str) -> None:
    with open_fetched_file(skill, file):
        pass


# --- a snapshot never shows what came after it --------------------------------

FOLDER_OF = {"rules": "review", "package": "pdf"}
"""One skill of each format, with a file `notes.txt`."""


@pytest.fixture(params=FOLDER_OF)
def read_skill(request: pytest.FixtureRequest, tmp_path: Path) -> Skill:
    """A skill as a snapshot has it, in both formats."""
    content = tmp_path / "content"
    write(
        content / "review.md",
        "---\ndescription: D\nkeywords: [k]\nassets: [{file: notes.txt}]\n---\n",
    )
    write(content / "pdf/SKILL.md", "---\nname: pdf\ndescription: D\n---\n")
    path = FOLDER_OF[request.param]
    write(content / path / "notes.txt", "first")
    return take(content).index.require(path)


def edit(file: Path) -> None:
    file.write_text("later", encoding="utf-8")


def edit_behind_its_time(file: Path) -> None:
    """Do what archives do: other bytes, the same number of them, the same time."""
    before = file.stat()
    file.write_text("later", encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def put_another(file: Path) -> None:
    other = write(file.with_name("other"), "later")
    other.replace(file)


def lengthen(file: Path) -> None:
    with file.open("a", encoding="utf-8") as handle:
        handle.write(" and more")


def delete(file: Path) -> None:
    file.unlink()


def link(file: Path) -> None:
    other = file.rename(file.with_name("moved"))
    file.symlink_to(other)


def make_folder(file: Path) -> None:
    file.unlink()
    write(file / "notes.txt", "first")


def link_its_folder(file: Path) -> None:
    folder = file.parent
    other = shutil.copytree(folder, folder.with_name("elsewhere"))
    write(other / file.name, "later")
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(other, target_is_directory=True)


CHANGES: dict[Callable[[Path], None], type[FileError]] = {
    edit: ChangedFileError,
    put_another: ChangedFileError,
    lengthen: ChangedFileError,
    delete: ChangedFileError,
    link: ChangedFileError,
    make_folder: ChangedFileError,
    link_its_folder: ChangedFileError,
}
if sys.platform != "win32":  # which does not tell when a file was changed
    CHANGES[edit_behind_its_time] = ChangedFileError


def take_all(skill: Skill, target: Path) -> None:
    target.mkdir()
    copy_skill_files(skill, target)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "read",
    [
        lambda skill, _: read_skill_file(skill, "notes.txt", max_bytes=99),
        lambda skill, _: open_whole(skill, "notes.txt"),
        lambda skill, _: read_head(skill, "notes.txt", max_bytes=99),
        lambda skill, _: read_line_range(
            skill, "notes.txt", LineRange(1, 9), max_bytes=99, max_file_bytes=99
        ),
        lambda skill, _: list(
            find_skill_files(skill, pattern="*.txt", contains="e", max_file_bytes=99)
        ),
        take_all,
    ],
    ids=["read_file", "open_whole", "beginning", "lines", "find", "copy"],
)
def test_what_a_file_became_after_the_reading_is_never_shown(
    read_skill: Skill,
    tmp_path: Path,
    change: Callable[[Path], None],
    read: Callable[[Skill, Path], object],
) -> None:
    assert read_skill.directory
    file = read_skill.directory / "notes.txt"
    stamp = Stamp.of(file.stat())
    for _ in range(10_000):  # the clock of the file system is coarse
        change(file)
        if not file.is_file() or file.is_symlink() or Stamp.of(file.stat()) != stamp:
            break

    with pytest.raises(CHANGES[change]) as caught:
        read(read_skill, tmp_path / "copy")

    assert "later" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_changed_file_says_what_to_do_and_is_served_again_after_that(
    read_skill: Skill,
) -> None:
    assert read_skill.directory
    lengthen(read_skill.directory / "notes.txt")

    with pytest.raises(ChangedFileError, match="Call refresh_skills, then ask again"):
        read_skill_file(read_skill, "notes.txt", max_bytes=99)

    again = take(read_skill.directory.parent).index.require(read_skill.path)
    assert read_skill_file(again, "notes.txt", max_bytes=99).data == b"first and more"


def test_a_file_that_came_later_is_not_served_although_it_is_declared(
    tmp_path: Path,
) -> None:
    write(
        tmp_path / "review.md",
        "---\ndescription: D\nkeywords: [k]\nassets: [{file: new.txt}]\n---\n",
    )
    write(tmp_path / "review/old.txt")
    skill = take(tmp_path).index.require("review")
    write(tmp_path / "review/new.txt", "later")

    with pytest.raises(MissingFileError, match="call refresh_skills"):
        read_skill_file(skill, "new.txt", max_bytes=99)


def test_another_file_that_changed_costs_nothing(read_skill: Skill) -> None:
    assert read_skill.directory
    write(read_skill.directory / "other.txt", "later")

    assert read_skill_file(read_skill, "notes.txt", max_bytes=99).data == b"first"


def test_an_open_file_is_closed_with_the_block(read_skill: Skill) -> None:
    with open_fetched_file(read_skill, "notes.txt") as handle:
        pass

    assert handle.closed


def test_all_files_of_a_package_are_copied(tmp_path: Path) -> None:
    write(tmp_path / "content/pdf/SKILL.md", "---\ndescription: D\n---\n")
    write(tmp_path / "content/pdf/scripts/run.py", "print()")
    write(tmp_path / "content/pdf/inner/SKILL.md", "---\ndescription: D\n---\n")
    skill = take(tmp_path / "content").index.require("pdf")

    take_all(skill, tmp_path / "copy")

    copied = {
        path.relative_to(tmp_path / "copy").as_posix(): path.read_bytes()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    }
    assert copied == {
        "SKILL.md": b"---\ndescription: D\n---\n",
        "scripts/run.py": b"print()",
    }


# --- while somebody else is at work -------------------------------------------


def test_a_file_that_changes_while_it_is_read_is_not_served(read_skill: Skill) -> None:
    folder = read_skill.directory
    assert folder

    def read_slowly() -> None:
        with open_fetched_file(read_skill, "notes.txt") as handle:
            handle.read(2)
            write(folder / "notes.txt", "anew!")

    with pytest.raises(ChangedFileError):
        read_slowly()


@pytest.mark.spec("12.1")
@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_the_folder_of_a_skill_may_not_become_a_link(read_skill: Skill, tmp_path: Path) -> None:
    assert read_skill.directory
    # The very same files, so that only the way to them tells.
    read_skill.directory.rename(tmp_path / "elsewhere")
    read_skill.directory.symlink_to(tmp_path / "elsewhere", target_is_directory=True)

    with pytest.raises(ChangedFileError):
        read_skill_file(read_skill, "notes.txt", max_bytes=99)


def test_a_link_on_the_way_to_the_content_is_the_operators_choice(
    read_skill: Skill, tmp_path: Path
) -> None:
    assert read_skill.directory
    (tmp_path / "current").symlink_to(read_skill.directory.parent)
    skill = take(tmp_path / "current").index.require(read_skill.path)

    assert read_skill_file(skill, "notes.txt", max_bytes=99).data == b"first"


def test_a_file_that_grows_is_copied_no_further_than_it_was(tmp_path: Path) -> None:
    source = write(tmp_path / "source", "x" * 5000)

    with source.open("rb") as growing, (tmp_path / "copy").open("wb") as copy:
        _copy(growing, copy, 10)

    assert (tmp_path / "copy").stat().st_size == 10


def skill_with(folder: Path, files: dict[str, str | bytes]) -> Skill:
    stamps = {file: Stamp.of(write(folder / file, data).stat()) for file, data in files.items()}
    return make_skill("pdf", directory=folder, files=stamps)


def beginning(folder: Path, data: str | bytes, *, max_bytes: int = 100) -> FilePart:
    skill = skill_with(folder, {"x.txt": data})
    return read_head(skill, "x.txt", max_bytes=max_bytes)


def lines(
    folder: Path,
    data: str | bytes,
    wanted: LineRange,
    *,
    max_bytes: int = 100,
    file: str = "x.txt",
) -> FilePart:
    skill = skill_with(folder, {file: data})
    return read_line_range(skill, file, wanted, max_bytes=max_bytes, max_file_bytes=1000)


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

    part = read_head(skill, "logo.svg", max_bytes=100)

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
    part = lines(tmp_path, "one\ntwo\nthree\nfour", LineRange(start, count))

    assert part.content.data == text.encode()
    assert (part.start_line, part.end_line, part.total_lines) == (start, end, 4)
    assert part.truncated is (end < 4)
    assert part.size_bytes == 18


def test_line_ends_of_dos_are_line_ends(tmp_path: Path) -> None:
    part = lines(tmp_path, "one\r\ntwo\r\nthree\r\n", LineRange(2, 1))

    assert part.content.data == b"two\r\n"
    assert part.total_lines == 3


def test_what_only_looks_like_a_line_end_is_none(tmp_path: Path) -> None:
    part = lines(tmp_path, "a\N{LINE SEPARATOR}b\x0cc\x85d\rf\ne", LineRange(2, 1))

    assert part.content.data == b"e"
    assert part.total_lines == 2


def test_no_more_lines_are_returned_than_fit(tmp_path: Path) -> None:
    part = lines(tmp_path, "one\ntwo\nthree\nfour\n", LineRange(2, 9), max_bytes=9)

    assert part.content.data == b"two\n"
    assert (part.start_line, part.end_line) == (2, 2)
    assert part.truncated


@pytest.mark.parametrize("rest", ["", "\n", "\nnext"])
def test_a_line_that_does_not_fit_is_cut_and_that_is_said(tmp_path: Path, rest: str) -> None:
    part = lines(tmp_path, "first\n" + "é" * 20 + rest, LineRange(2, 9), max_bytes=9)

    assert part.content.data == ("é" * 4).encode()
    assert (part.start_line, part.end_line) == (2, 2)
    assert part.truncated


@pytest.mark.parametrize("start", [5, 6, 1000])
def test_a_file_has_no_lines_behind_its_end(tmp_path: Path, start: int) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        lines(tmp_path, "1\n2\n3\n4\n", LineRange(start, 1))

    assert str(caught.value) == f"start_line: 'x.txt' has 4 lines (got {start})"


def test_the_first_line_of_an_empty_file_is_empty(tmp_path: Path) -> None:
    part = lines(tmp_path, "", LineRange(1, 5))

    assert (part.content.data, part.total_lines, part.truncated) == (b"", 0, False)


def test_a_binary_file_has_no_lines(tmp_path: Path) -> None:
    for file, data in {"x.txt": b"\xff\n\xff\n", "x.svg": b"<svg/>\n"}.items():
        with pytest.raises(InvalidArgumentsError, match="is no text"):
            lines(tmp_path, data, LineRange(1, 1), file=file)


def test_lines_of_a_huge_file_are_not_counted(tmp_path: Path) -> None:
    with pytest.raises(FileTooLargeError, match="larger than 1,000 bytes"):
        lines(tmp_path, "x\n" * 501, LineRange(1, 1))

    assert lines(tmp_path, "x\n" * 500, LineRange(500, 1)).total_lines == 500


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
        part = lines(folder, text, LineRange(part.end_line + 1, 3), max_bytes=limit)
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
    return list(find_skill_files(skill, pattern=pattern, contains=contains, max_file_bytes=1000))


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
def test_files_are_found_by_a_pattern(tmp_path: Path, pattern: str, files: list[str]) -> None:
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

    by_text = find_skill_files(skill, pattern="*", contains="form", max_file_bytes=20)
    by_name = find_skill_files(skill, pattern="*", contains="", max_file_bytes=20)

    assert list(by_text) == ["b.txt"]
    assert list(by_name) == ["a.txt", "b.txt"]


def test_a_pattern_that_takes_long_elsewhere_takes_no_time_here(tmp_path: Path) -> None:
    skill = skill_with(tmp_path, {"a" * 200: ""})

    assert not list(find_skill_files(skill, pattern="*a" * 60 + "b", contains="", max_file_bytes=9))


def test_a_huge_file_is_read_no_further_than_asked(tmp_path: Path) -> None:
    skill = skill_with(tmp_path / "pdf", {"x.txt": ""})
    assert skill.directory
    with (skill.directory / "x.txt").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte that exists only as a number
        stamp = Stamp.of(os.fstat(file.fileno()))
    skill = replace(skill, files={"x.txt": stamp})

    part = read_head(skill, "x.txt", max_bytes=9)

    assert (len(part.content.data), part.size_bytes) == (9, 1 << 40)
    with pytest.raises(FileTooLargeError):
        read_line_range(skill, "x.txt", LineRange(1, 1), max_bytes=9, max_file_bytes=99)
    assert list(find_skill_files(skill, pattern="*.txt", contains="x", max_file_bytes=99)) == []


# --- what is no file of the skill ---------------------------------------------


@pytest.mark.parametrize("file", ["../x.txt", "/x.txt", "a/../../x", "x\\y", ""])
def test_no_part_of_a_file_out_of_the_folder_is_read(tmp_path: Path, file: str) -> None:
    skill = skill_with(tmp_path / "pdf", {"x.txt": "x"})
    write(tmp_path / "x.txt", "outside")

    with pytest.raises(InvalidPathError):
        read_head(skill, file, max_bytes=9)
    with pytest.raises(InvalidPathError):
        read_line_range(skill, file, LineRange(1, 1), max_bytes=9, max_file_bytes=9)


def test_a_file_that_the_skill_does_not_have_is_not_read(tmp_path: Path) -> None:
    skill = skill_with(tmp_path / "pdf", {"x.txt": "x"})
    write(tmp_path / "pdf/new.txt", "new")

    for file in ("absent.txt", "new.txt"):
        with pytest.raises(MissingFileError):
            read_head(skill, file, max_bytes=9)
