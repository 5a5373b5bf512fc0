"""Problems by source and level, and who is told of them."""

from pathlib import Path

import pytest

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount
from skills_mcp.features.web.browsing import FacetIndex
from skills_mcp.features.web.content_pages import filter_problems
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.model import Problem
from tests.support import open_library, skill_text, write

PROBLEMS = [
    Problem("ui/login.md", "has no keywords", "Add one.", rule="keywords", line=3),
    Problem("teams/web/a.md", "is long", "Cut it.", "warning", rule="long", mount="teams/web"),
    Problem("teams/webshop.md", "is broken", "Repair it.", rule="yaml", mount="teams"),
    Problem("teams/web", "is not served", "Raise the limit", rule="limit", mount="teams/web"),
]


def test_a_file_is_called_as_its_source_calls_it() -> None:
    found = filter_problems(PROBLEMS, limit=10)

    assert [(problem.mount, file) for problem, file in found.listed] == [
        ("", "ui/login.md"),
        ("teams/web", "a.md"),
        ("teams", "webshop.md"),
        ("teams/web", "."),
    ]
    assert found.total == 4


def test_problems_are_filtered_and_each_filter_says_what_the_other_leaves() -> None:
    found = filter_problems(PROBLEMS, mount="teams/web", level="error", limit=10)

    assert [problem.rule for problem, _ in found.listed] == ["limit"]
    assert found.by_level == {"warning": 1, "error": 1}
    assert found.by_mount == {"": 1, "teams": 1, "teams/web": 1}


def test_the_number_is_that_of_all_although_few_are_shown() -> None:
    found = filter_problems(PROBLEMS, limit=1)

    assert len(found.listed) == 1
    assert found.total == 4


def test_a_skill_has_no_problem_of_an_unserved_file_of_its_path(tmp_path: Path) -> None:
    write(tmp_path / "org" / "web" / "page.md", skill_text())
    write(tmp_path / "team" / "page.md", skill_text())
    folders = {"": tmp_path / "org", "web": tmp_path / "team"}
    mounts = Mounts([Mount(source=LocalFolder(folder), at=at) for at, folder in folders.items()])
    snapshot = open_library(mounts).view().snapshot

    assert [(each.file, each.mount) for each in snapshot.problems] == [("web/page.md", "web")]
    assert FacetIndex(snapshot).problems == [0]


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
