import pytest

from skills_mcp.skills.patterns import clean, fits


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
    assert fits(path, pattern) is expected


def test_a_pattern_of_many_folders_ends_soon() -> None:
    assert not fits("a/" * 100, "**/" * 1000 + "b")


@pytest.mark.parametrize(
    "pattern", ["secret", "./secret", "/secret", "secret/", " secret/SKILL.md"]
)
def test_the_ways_to_write_a_skills_place_are_one(pattern: str) -> None:
    assert clean(pattern) == "secret"
