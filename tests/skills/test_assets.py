"""Files that skills hand out."""

import sys
from pathlib import Path

import pytest

from skills_mcp.errors import FileTooLargeError, InvalidPathError, MissingFileError
from skills_mcp.skills.assets import is_binary, locate, mime_type, read_file
from skills_mcp.skills.model import Skill
from tests.support import make_skill, write


@pytest.fixture
def skill(tmp_path: Path) -> Skill:
    folder = tmp_path / "content" / "auth"
    folder.mkdir(parents=True)
    return make_skill("ui/auth", directory=folder)


def put(skill: Skill, file: str, data: str | bytes) -> Path:
    assert skill.directory
    return write(skill.directory / file, data)


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
    with put(skill, "huge.bin", "").open("wb") as handle:
        handle.truncate(1 << 33)

    with pytest.raises(FileTooLargeError, match="8,589,934,592 bytes"):
        read_file(skill, "huge.bin", max_bytes=(1 << 33) - 1)


@pytest.mark.spec("13")
@pytest.mark.parametrize("operation", ["read", "locate"])
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
@pytest.mark.parametrize("operation", ["read", "locate"])
def test_a_skill_without_a_folder_has_no_files(operation: str) -> None:
    with pytest.raises(MissingFileError):
        run(operation, make_skill("a"), "x.txt")


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("operation", ["read", "locate"])
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


def test_a_file_that_is_there_has_an_absolute_path(skill: Skill) -> None:
    path = put(skill, "scripts/run.sh", "")

    found = locate(skill, "scripts/run.sh")

    assert found == path
    assert found.is_absolute()


@pytest.mark.skipif(sys.platform == "win32", reason="no such files")
def test_an_endless_file_is_not_read() -> None:
    device = make_skill("a", directory=Path("/dev"))

    with pytest.raises(MissingFileError):
        read_file(device, "zero", max_bytes=10)


def run(operation: str, skill: Skill, file: str) -> None:
    if operation == "read":
        read_file(skill, file, max_bytes=100)
    else:
        locate(skill, file)
