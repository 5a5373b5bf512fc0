"""Patterns of paths: what fits, and that no pattern takes long or much memory."""

import random
import re
import tracemalloc
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skills_mcp.files.paths import compile_patterns, count_wildcards, matches_any

PARTS = [*"ab/!-^\\]", "*", "?", "**/", "[", "[ab]", "[!a]", "[a-b]", "[]a]", "[b-a]"]
PATTERNS = st.lists(st.sampled_from(PARTS), max_size=7).map("".join)
PATHS = st.text("ab/[]!-", max_size=7)

# A class with a slash behind two stars is cut by the expansion, and stars in front of
# folders become more of them.
UNREAD = re.compile(r"\[[^\]]*\*\*/|\*\*\*/")

# 32 patterns of 256 characters, as a request may try them.
HOSTILE = {
    "folders": ["**/" * 85 + chr(97 + n) for n in range(26)],
    "folders and letters": ["**/a" * 63 + str(n) for n in range(32)],
    "stars": [f"{'*a' * 126}{n}" for n in range(32)],
    "any": [f"*{chr(97 + n % 26)}{'?' * 250}{n}" for n in range(32)],
    "brackets": ["[" * 256] * 32,
    "classes": [f"{'[!x]' * 63}{n}" for n in range(32)],
}


def expand(pattern: str) -> Iterator[str]:
    """Iterate over patterns without `**/`, one of which fits if this one does."""
    head, found, tail = pattern.partition("**/")
    if not found:
        yield pattern
        return
    for between in ("", "*/"):
        yield from expand(f"{head}{between}{tail}")


@given(PATTERNS, PATHS)
def test_a_pattern_fits_what_fnmatch_fits_with_any_folders_or_none(pattern: str, path: str) -> None:
    assume(not UNREAD.search(pattern))

    assert matches_any(path, pattern) is any(fnmatchcase(path, e) for e in expand(pattern))


@given(st.lists(PATTERNS, max_size=12), st.lists(PATHS, max_size=4))
def test_patterns_together_fit_what_one_of_them_fits(patterns: list[str], paths: list[str]) -> None:
    together = compile_patterns(patterns)

    for path in paths:
        assert together(path) is any(matches_any(path, pattern) for pattern in patterns)


@pytest.mark.parametrize(
    "pattern, path, expected",
    [
        ("pdf", "pdf", True),
        ("pdf", "pdf/forms", False),
        ("pdf/*", "pdf/forms/deep", True),
        ("**/forms", "forms", True),
        ("**/forms", "pdf/forms", True),
        ("**/forms", "pdf/reforms", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("caf\u00e9*", "cafe\u0301/menu", True),
        ("PDF", "pdf", False),
    ],
)
def test_a_pattern_fits_a_path_as_a_whole(
    pattern: str,
    path: str,
    expected: bool,  # noqa: FBT001
) -> None:
    assert matches_any(path, pattern) is expected


def test_a_pattern_of_many_folders_ends_soon() -> None:
    assert not matches_any("a/" * 100, "**/" * 1000 + "b")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_patterns_take_no_more_memory_than_a_bounded_table(name: str) -> None:
    chance = random.Random(1)  # noqa: S311 - not for security
    tracemalloc.start()

    together = compile_patterns(HOSTILE[name])
    compiled, _ = tracemalloc.get_traced_memory()
    for _ in range(2000):
        together("".join(chance.choices("abcdefgh/x", k=60)))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert compiled < 500_000
    assert used < 2_000_000


def test_a_table_that_was_emptied_still_tells_what_fits() -> None:
    chance = random.Random(1)  # noqa: S311 - not for security
    patterns = [f"*{chr(97 + n)}{'?' * 9}{chr(97 + n)}*" for n in range(20)]
    together = compile_patterns(patterns)

    for _ in range(2000):
        path = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=40))
        found = any(path[n] == path[n + 10] <= "t" for n in range(30))
        assert together(path) is found


@pytest.mark.parametrize(
    "pattern, expected",
    [("ui/react", 0), ("ui/**", 1), ("**/ui-?/[ab]*", 4), ("[" * 9, 0), ("**/**/a", 1)],
)
def test_wildcards_are_counted_as_they_are_matched(pattern: str, expected: int) -> None:
    assert count_wildcards(pattern) == expected
