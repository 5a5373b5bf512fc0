"""Files that skills hand out."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.errors import (
    ChangedFileError,
    FileError,
    FileTooLargeError,
    InvalidPathError,
    MissingFileError,
)
from skills_mcp.skills.assets import (
    _copy,
    copy_files,
    is_binary,
    mime_type,
    opened,
    opened_whole,
    read_file,
)
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.skills.reading import Lines, find_files, read_beginning, read_lines
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
def test_a_binary_extension_decides_whatever_the_file_holds(
    file: str, kind: str
) -> None:
    assert is_binary(file, b"plain text")
    assert mime_type(file) == kind


@pytest.mark.spec("7.2")
@pytest.mark.parametrize(
    "file",
    [
        *("a.ts", "a.tsx", "a.js", "a.sh", "a.yaml", "a.json", "a.template"),
        *("a.example", "a.md", "Makefile", ".png", "png", "a.svg.template"),
    ],
)
def test_every_other_extension_is_text(file: str) -> None:
    assert not is_binary(file, "plain text, também".encode())


@pytest.mark.parametrize("data", [b"\xff\xfe", b"wOF\x80", "é".encode("latin-1")])
def test_bytes_that_are_no_utf_8_are_never_served_as_text(data: bytes) -> None:
    assert is_binary("font.ttf", data)
    assert mime_type("font.ttf") == "application/octet-stream"


@pytest.mark.spec("7.4")
def test_a_file_is_read_byte_by_byte(skill: Skill) -> None:
    put(skill, "assets/x.txt", "línea\r\n")

    content = read_file(skill, "assets/x.txt", max_bytes=100)

    assert content.data == "línea\r\n".encode()
    assert not content.is_binary


@pytest.mark.spec("7.4")
def test_a_binary_file_is_read_with_its_type(skill: Skill) -> None:
    put(skill, "flow.svg", "<svg/>")

    content = read_file(skill, "flow.svg", max_bytes=100)

    assert content.data == b"<svg/>"
    assert content.is_binary
    assert content.mime_type == "image/svg+xml"


@pytest.mark.spec("7.4")
@pytest.mark.spec("12.3")
def test_a_file_may_be_as_large_as_the_limit(skill: Skill) -> None:
    put(skill, "x.txt", "x" * 100)

    assert len(read_file(skill, "x.txt", max_bytes=100).data) == 100


@pytest.mark.spec("7.4")
@pytest.mark.spec("12.3")
def test_a_larger_file_is_refused_with_both_sizes(skill: Skill) -> None:
    put(skill, "x.txt", "x" * 1101)

    with pytest.raises(FileTooLargeError) as caught:
        read_file(skill, "x.txt", max_bytes=1100)

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
        read_file(skill, "huge.bin", max_bytes=(1 << 33) - 1)


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
    assert message.startswith(f"ui/auth declares {file!r}, but its folder has no"), (
        reason
    )
    assert str(tmp_path) not in message


@pytest.mark.spec("4.5")
@pytest.mark.parametrize("operation", ["read", "open"])
def test_a_skill_without_a_folder_has_no_files(operation: str) -> None:
    with pytest.raises(MissingFileError):
        run(operation, make_skill("a"), "x.txt")


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("operation", ["read", "open"])
@pytest.mark.parametrize("file", ["../x", "/x", "a/../../x", "a\\x", "x\0", ""])
@pytest.mark.parametrize("has_folder", [True, False])
def test_a_path_out_of_the_folder_is_refused(
    skill: Skill,
    operation: str,
    file: str,
    has_folder: bool,  # noqa: FBT001
) -> None:
    put(skill, "../x", "outside")
    other = skill if has_folder else make_skill("a")

    with pytest.raises(InvalidPathError):
        run(operation, other, file)


@pytest.mark.skipif(sys.platform == "win32", reason="no such files")
def test_an_endless_file_is_not_read() -> None:
    device = make_skill("a", directory=Path("/dev"))

    with pytest.raises(MissingFileError):
        read_file(device, "zero", max_bytes=10)


def run(operation: str, skill: Skill, file: str) -> None:
    if operation == "read":
        read_file(skill, file, max_bytes=100)
    else:
        open_whole(skill, file)


def open_whole(skill: Skill, file: str) -> None:
    with opened_whole(skill, file):
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


def replace(file: Path) -> None:
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
    replace: ChangedFileError,
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
    copy_files(skill, target)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "read",
    [
        lambda skill, _: read_file(skill, "notes.txt", max_bytes=99),
        lambda skill, _: open_whole(skill, "notes.txt"),
        lambda skill, _: read_beginning(skill, "notes.txt", max_bytes=99),
        lambda skill, _: read_lines(
            skill, "notes.txt", Lines(1, 9), max_bytes=99, max_file_bytes=99
        ),
        lambda skill, _: list(
            find_files(skill, pattern="*.txt", contains="e", max_file_bytes=99)
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
        read_file(read_skill, "notes.txt", max_bytes=99)

    again = take(read_skill.directory.parent).index.require(read_skill.path)
    assert read_file(again, "notes.txt", max_bytes=99).data == b"first and more"


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
        read_file(skill, "new.txt", max_bytes=99)


def test_another_file_that_changed_costs_nothing(read_skill: Skill) -> None:
    assert read_skill.directory
    write(read_skill.directory / "other.txt", "later")

    assert read_file(read_skill, "notes.txt", max_bytes=99).data == b"first"


def test_an_open_file_is_closed_with_the_block(read_skill: Skill) -> None:
    with opened(read_skill, "notes.txt") as handle:
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
        with opened(read_skill, "notes.txt") as handle:
            handle.read(2)
            write(folder / "notes.txt", "anew!")

    with pytest.raises(ChangedFileError):
        read_slowly()


@pytest.mark.spec("12.1")
@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_the_folder_of_a_skill_may_not_become_a_link(
    read_skill: Skill, tmp_path: Path
) -> None:
    assert read_skill.directory
    # The very same files, so that only the way to them tells.
    read_skill.directory.rename(tmp_path / "elsewhere")
    read_skill.directory.symlink_to(tmp_path / "elsewhere", target_is_directory=True)

    with pytest.raises(ChangedFileError):
        read_file(read_skill, "notes.txt", max_bytes=99)


def test_a_link_on_the_way_to_the_content_is_the_operators_choice(
    read_skill: Skill, tmp_path: Path
) -> None:
    assert read_skill.directory
    (tmp_path / "current").symlink_to(read_skill.directory.parent)
    skill = take(tmp_path / "current").index.require(read_skill.path)

    assert read_file(skill, "notes.txt", max_bytes=99).data == b"first"


def test_a_file_that_grows_is_copied_no_further_than_it_was(tmp_path: Path) -> None:
    source = write(tmp_path / "source", "x" * 5000)

    with source.open("rb") as growing, (tmp_path / "copy").open("wb") as copy:
        _copy(growing, copy, 10)

    assert (tmp_path / "copy").stat().st_size == 10
