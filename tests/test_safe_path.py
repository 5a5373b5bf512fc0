"""Paths from strangers: what is refused before the disk, and what the disk refuses."""

import os
import sys
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skills_mcp.errors import InvalidPathError, MissingFileError
from skills_mcp.safe_path import open_inside, parse_relative
from tests.support import write

HOSTILE = st.lists(
    st.sampled_from([*"ab./\\:~-_ $", "..", "\0", "\n", "é", "\ud800", "\u202e"]),
    max_size=12,
).map("".join)

needs_posix = pytest.mark.skipif(
    sys.platform == "win32", reason="named pipes and descriptors of folders"
)


@pytest.mark.parametrize(
    "text, parts",
    [
        ("flow.svg", ("flow.svg",)),
        ("assets/flow.svg", ("assets", "flow.svg")),
        ("assets/Écran d'accueil.png", ("assets", "Écran d'accueil.png")),
        ("assets/..hidden/x...y", ("assets", "..hidden", "x...y")),
        ("assets/.gitignore", ("assets", ".gitignore")),
        (".github/workflows/ci.yml", (".github", "workflows", "ci.yml")),
        ("scripts/console.sh", ("scripts", "console.sh")),
        ("認証/テンプレート.md", ("認証", "テンプレート.md")),
    ],
)
def test_an_ordinary_relative_path_is_split_into_its_parts(
    text: str, parts: tuple[str, ...]
) -> None:
    assert parse_relative(text) == parts


@pytest.mark.spec("12.1")
@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "empty"),
        (".", "the folder itself"),
        ("..", "the folder above"),
        ("../secret", "traversal"),
        ("assets/../../secret", "traversal further in"),
        ("assets/..", "traversal at the end"),
        ("/etc/passwd", "absolute"),
        ("//server/share", "a network share"),
        ("assets//x", "an empty part"),
        ("assets/", "a folder"),
        ("assets/./x", "a part that says nothing"),
        ("..\\secret", "a separator on Windows"),
        ("C:/secret", "a drive"),
        ("C:secret", "relative to a drive"),
        ("x.txt:stream", "an alternate data stream"),
        ("a*", "a pattern"),
        ("a?", "a pattern"),
        ('a"b', "forbidden on Windows"),
        ("a<b", "forbidden on Windows"),
        ("a>b", "forbidden on Windows"),
        ("a|b", "forbidden on Windows"),
        ("con", "a device on Windows"),
        ("assets/NUL.txt", "a device with an extension"),
        ("aux .txt", "a device with a space before the extension"),
        ("com1", "a serial port"),
        ("LPT9.log", "a printer port"),
        ("com\N{SUPERSCRIPT ONE}.txt", "a serial port, in superscript"),
        ("conin$", "a console"),
        ("x.", "Windows drops a dot at the end"),
        ("x ", "Windows drops a space at the end"),
        (" x", "a space nobody sees"),
        ("a\0b", "the end of a string in C"),
        ("a\nb", "a second line in a log"),
        ("a\x1b[2Jb", "a command to the terminal"),
        ("a\x7fb", "delete"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe", "reads backwards"),
        ("a\N{ZERO WIDTH SPACE}b", "invisible"),
        ("a\N{LINE SEPARATOR}b", "a second line"),
        ("a\ud800b", "a lone surrogate"),
        (".git/config", "the repository's own files"),
        ("assets/.GIT/config", "the same, where case does not count"),
        ("git~1/config", "the same, as Windows abbreviates it"),
        ("a" * 256, "longer than any file system allows"),
        ("é" * 128, "256 bytes in 128 characters"),
        ("a/" * 600 + "a", "a path of 1,201 characters"),
    ],
)
def test_a_path_that_could_be_misread_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidPathError) as caught:
        parse_relative(text)

    message = str(caught.value)
    assert "relative" in message, reason
    assert message.isascii(), "the message repeats nothing of the path"


@pytest.mark.spec("12.1")
@given(HOSTILE | st.text(max_size=40))
@example("a/../b")
@example("con.txt")
def test_a_parsed_path_never_escapes(text: str) -> None:
    try:
        parts = parse_relative(text)
    except InvalidPathError:
        return

    folder = os.path.join(os.sep, "skills", "auth")  # noqa: PTH118 - as text
    joined = os.path.normpath(os.path.join(folder, *parts))  # noqa: PTH118
    assert joined.startswith(folder + os.sep)
    assert "/".join(parts) == text
    windows = PureWindowsPath("C:\\skills", *parts)
    assert windows.parts == ("C:\\", "skills", *parts)


def test_a_file_inside_is_opened(tmp_path: Path) -> None:
    write(tmp_path / "assets" / "x.txt", "inside")

    with open_inside(tmp_path, ("assets", "x.txt")) as handle:
        assert handle.read() == b"inside"


@pytest.mark.spec("12.1")
@pytest.mark.parametrize(
    "parts, reason",
    [
        (("absent.txt",), "there is no such file"),
        (("assets",), "a folder"),
        (("link.txt",), "a link to a file outside"),
        (("inner-link.txt",), "a link to a file inside, too: it may change"),
        (("folder-link", "secret.txt"), "a link to a folder outside"),
        (("assets", "x.txt", "y"), "a file is no folder"),
        (("..", "secret.txt"), "the folder above, if nobody parsed the path"),
        (("assets", "../../secret.txt"), "two steps in one part"),
        (("a\0b",), "no file can have this name"),
        (("\ud800",), "no file can have this name"),
        ((), "no name at all"),
    ],
)
def test_what_is_no_file_inside_is_missing(
    tmp_path: Path, parts: tuple[str, ...], reason: str
) -> None:
    folder = tmp_path / "skill"
    write(tmp_path / "secret.txt", "secret")
    write(folder / "assets" / "x.txt", "inside")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "inner-link.txt").symlink_to(folder / "assets" / "x.txt")
    (folder / "folder-link").symlink_to(tmp_path, target_is_directory=True)

    with pytest.raises(MissingFileError) as caught:
        open_inside(folder, parts)

    assert str(tmp_path) not in str(caught.value), reason


@needs_posix
@pytest.mark.spec("12.1")
def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(MissingFileError, match="not a regular file"):
        open_inside(tmp_path, ("pipe",))


@needs_posix
def test_a_refused_folder_leaves_no_open_descriptor(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()

    for _ in range(20):
        with pytest.raises(MissingFileError):
            open_inside(tmp_path, ("assets",))

    assert _open_descriptors_of(tmp_path / "assets") == 0


def _open_descriptors_of(folder: Path) -> int:
    """Count this process's descriptors of a folder, by its identity."""
    wanted = folder.stat()
    count = 0
    for number in range(256):
        try:
            found = os.fstat(number)
        except OSError:
            continue
        count += (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
    return count


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder full of ways out, beside a secret."""
    top = tmp_path_factory.mktemp("maze")
    inside = top / "inside"
    write(top / "secret", "secret")
    write(top / "a", "secret")
    write(inside / "a", "public")
    write(inside / "b" / "a", "public")
    (inside / "..a").symlink_to(top / "secret")
    (inside / "b" / "up").symlink_to(top, target_is_directory=True)
    (inside / "up").symlink_to("..", target_is_directory=True)
    return inside


NAMES = st.sampled_from(
    ["a", "b", "up", "..", ".", "", "..a", "secret", "../a", "/etc/passwd", "a/.."]
)


@pytest.mark.spec("12.1")
@settings(deadline=None, max_examples=300)
@given(parts=st.lists(NAMES | st.text(max_size=4), max_size=5).map(tuple))
def test_nothing_outside_is_ever_read(maze: Path, parts: tuple[str, ...]) -> None:
    try:
        with open_inside(maze, parts) as handle:
            content = handle.read()
    except MissingFileError:
        return

    assert content == b"public"
