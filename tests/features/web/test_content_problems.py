"""Problems by source and level, and who is told of them."""

from pathlib import Path

import pytest

from skills_mcp.features.web.content_pages import filter_problems
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.model import Problem
from tests.support import open_library, skill_text, write

MOUNTED = [
    ("", "https://example.com/org.git (main)"),
    ("teams/web", "web"),
    ("teams", "t"),
]
PROBLEMS = [
    Problem("ui/login.md", "has no keywords", "Add one.", rule="keywords", line=3),
    Problem("teams/web/a.md", "is long", "Cut it.", "warning", rule="long"),
    Problem("teams/webshop.md", "is broken", "Repair it.", rule="yaml"),
    Problem("teams/web", "is not served", "Raise the limit", rule="limit"),
]


def test_a_problem_is_of_the_source_that_stands_deepest_around_it() -> None:
    found = filter_problems(PROBLEMS, MOUNTED, limit=10)

    assert [(each.mount, each.file) for each in found.listed] == [
        ("", "ui/login.md"),
        ("teams/web", "a.md"),
        ("teams", "webshop.md"),
        ("teams/web", "."),
    ]
    assert found.total == 4
    assert found.listed[0].source == "https://example.com/org.git (main)"


def test_problems_are_filtered_and_each_filter_says_what_the_other_leaves() -> None:
    found = filter_problems(PROBLEMS, MOUNTED, mount="teams/web", level="error", limit=10)

    assert [each.problem.rule for each in found.listed] == ["limit"]
    assert found.by_level == {"warning": 1, "error": 1}
    assert found.by_mount == {"": 1, "teams": 1, "teams/web": 1}


def test_the_number_is_that_of_all_although_few_are_shown() -> None:
    found = filter_problems(PROBLEMS, MOUNTED, limit=1)

    assert len(found.listed) == 1
    assert found.total == 4


@pytest.mark.parametrize(
    "access, number",
    [
        (EVERYTHING, 1),
        (Access(((("**",), ()),)), 1),
        (Access(((("ui/**",), ()), (("*",), ()))), 1),
        (Access(((("ui/**",), ()),)), 0),
        (Access(((("*",), ("secret/**",)),)), 0),
        (Access(()), 0),
        (EVERYTHING.narrow(("ui/**",), ()), 0),
    ],
)
def test_only_who_may_see_every_skill_is_told(access: Access, number: int, tmp_path: Path) -> None:
    write(tmp_path / "ui" / "good.md", skill_text())
    write(tmp_path / "secret" / "bad.md", "---\nkeywords: [\n---\n")
    library = open_library(tmp_path).view(access)

    assert len(library.list_problems()) == number
    assert library.access.is_unlimited is bool(number)
