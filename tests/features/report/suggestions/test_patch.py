"""Diffs that the real Git applies."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.report.skill_additions import compose_diff
from tests.support import git, write


def apply(folder: Path, patch: bytes) -> None:
    subprocess.run(["git", "apply", "-"], input=patch, cwd=folder, check=True)


@pytest.mark.parametrize(
    "file",
    [
        "a.md",
        "ui/a b.md",
        "übung/ключ.md",
        'a"b\\c.md',
        "a\tb.md",
        "--- a.md",
        "a\x7f.md",
    ],
)
def test_git_applies_it_whatever_the_file_is_called(tmp_path: Path, file: str) -> None:
    git("init", "-q", cwd=tmp_path)
    place = write(tmp_path / file, "one\ntwo\n")

    apply(tmp_path, compose_diff(file, b"one\ntwo\n", b"one\nmore\ntwo\n"))

    assert place.read_bytes() == b"one\nmore\ntwo\n"


@pytest.mark.parametrize(
    "old, new",
    [
        (b"a\nb", b"a\nx\nb"),
        (b"a", b"a\nb"),
        (b"a\n", b"a"),
        (b"a\r\nb\r\n", b"a\r\nx\r\nb\r\n"),
        ("a\u2028b\x0cc\nd\n".encode(), "a\u2028b\x0cc\nx\nd\n".encode()),
        (b"", b"a\n"),
        (b"\xff\n", b"\xff\nb\n"),
    ],
)
def test_git_makes_the_same_bytes(tmp_path: Path, old: bytes, new: bytes) -> None:
    git("init", "-q", cwd=tmp_path)
    place = write(tmp_path / "a.md", old)

    apply(tmp_path, compose_diff("a.md", old, new))

    assert place.read_bytes() == new


@given(st.text("a\n\r\u2028 ", max_size=12), st.integers(0, 12))
def test_only_a_change_has_a_diff(text: str, place: int) -> None:
    old = text.encode()
    new = old[:place] + b"+" + old[place:]

    assert compose_diff("a.md", old, old) == b""
    assert compose_diff("a.md", old, new).startswith(b"diff --git a/a.md b/a.md\n")
