"""Paths from strangers: what is refused before the disk, and what one name is."""

import os
from pathlib import Path, PureWindowsPath
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import (
    are_plain_components,
    find_composed_name,
    find_marked_folder,
    is_path_component,
    is_plain_path,
    parse_relative,
)

HOSTILE = st.lists(
    st.sampled_from([*"ab./\\:~-_ $", "..", "\0", "\n", "é", "\ud800", "\u202e"]),
    max_size=12,
).map("".join)


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
        ("scripts/com_.md", ("scripts", "com_.md")),
        ("scripts/com10.md", ("scripts", "com10.md")),
        ("assets/auxiliary.c", ("assets", "auxiliary.c")),
        ("assets/.gitattributes", ("assets", ".gitattributes")),
        ("notes/draft~", ("notes", "draft~")),
        ("notes/~draft.md", ("notes", "~draft.md")),
        ("notes/a-long-name~1.md", ("notes", "a-long-name~1.md")),
        ("notes/caf\N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT}", None),
        ("notes/\N{GRINNING FACE}", None),
        ("/".join(["a"] * 33), None),
        ("認証/テンプレート.md", ("認証", "テンプレート.md")),
    ],
)
def test_an_ordinary_relative_path_is_split_into_its_parts(
    text: str, parts: tuple[str, ...] | None
) -> None:
    assert parse_relative(text) == (parts or tuple(text.split("/")))


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
        ("SKILLS~1", "another file, as Windows abbreviates it"),
        ("assets/PROGRA~1.TXT", "the same, with an extension"),
        ("~/.ssh/id_rsa", "somebody's home, for a shell"),
        ("~root", "somebody's home, too"),
        ("aux", "a device"),
        ("clock$", "a clock on Windows"),
        ("a\N{COMBINING GRAPHEME JOINER}b", "invisible, and no mark of format"),
        ("a\N{VARIATION SELECTOR-16}", "invisible, and says how to show the letter"),
        ("a\N{HANGUL FILLER}b", "invisible, and a letter"),
        ("a\N{HALFWIDTH HANGUL FILLER}b", "invisible, and a letter"),
        ("a\N{HANGUL JUNGSEONG FILLER}b", "invisible, and a letter"),
        ("a\N{KHMER VOWEL INHERENT AQ}b", "invisible, and a mark"),
        ("a\N{MONGOLIAN FREE VARIATION SELECTOR ONE}b", "invisible, and a mark"),
        ("a\N{BRAILLE PATTERN BLANK}b", "invisible, and a symbol"),
        ("a\N{VARIATION SELECTOR-17}b", "invisible, far up"),
        ("a\ue000b", "whatever a font makes of it"),
        ("a\u0378b", "nothing yet"),
        ("/".join(["a"] * 34), "deeper than anything"),
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


@pytest.mark.spec("12.1")
def test_a_name_is_found_however_its_accents_are_encoded() -> None:
    composed, decomposed = "caf\xe9.txt", "cafe\u0301.txt"

    assert find_composed_name(["a", composed], decomposed) == composed
    assert find_composed_name(["a", decomposed], composed) == decomposed
    assert find_composed_name(["a", decomposed], decomposed) == decomposed
    assert find_composed_name(["cafe.txt", "Caf\xe9.txt"], composed) is None


def test_of_two_names_that_look_the_same_neither_is_guessed() -> None:
    twins = ["caf\xe9.txt", "cafe\u0301.txt"]

    assert [find_composed_name(twins, twin) for twin in twins] == [None, None]


def test_a_name_that_is_listed_twice_is_one_name() -> None:
    assert find_composed_name(["a", "a"], "a") == "a"


SPELLINGS = st.text(st.sampled_from("aeEkK\xe9\u0301\u0327\u212a\u00c5\u212b"), max_size=4)


@given(st.lists(SPELLINGS, max_size=6), SPELLINGS)
def test_the_only_name_of_its_spelling_is_found(names: list[str], wanted: str) -> None:
    key = normalize("NFC", wanted)
    same = {name for name in names if normalize("NFC", name) == key}

    found = find_composed_name(names, wanted)

    assert found == (same.pop() if len(same) == 1 else None)
    for encoding in ("NFC", "NFD"):
        assert find_composed_name(names, normalize(encoding, wanted)) == found


@given(
    st.lists(
        st.sampled_from([*"abcgit./~-_1", "con", "COM", "lpt", "aux", "nul", "skill"]),
        max_size=12,
    ).map("".join)
)
def test_what_is_plain_at_once_is_safe(name: str) -> None:
    if are_plain_components([name, "x"]):
        assert is_path_component(name)
        assert len(name.encode()) <= 255
    if is_plain_path(name):
        assert all(map(is_path_component, name.split("/")))


@given(HOSTILE)
@example("a/b")
@example("../../x")
@example("/etc")
@example("a\0b")
def test_a_component_is_one_name_in_its_folder(name: str) -> None:
    if is_path_component(name):
        assert parse_relative(name) == (name,)
        assert PureWindowsPath("C:/folder", name).parent == PureWindowsPath("C:/folder")
    if are_plain_components([name]):
        assert is_path_component(name)


def test_a_broken_link_marks_no_folder_as_in_git(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / ".git").symlink_to("absent")

    assert find_marked_folder(inner, ".git") == tmp_path
