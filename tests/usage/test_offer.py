from pathlib import Path

from skills_mcp.usage import derive_offer
from tests.support import SKILLS_CONTENT, open_library, write_skill
from tests.usage.happenings import missed, reckon, served, torn


def test_the_skills_of_the_content_are_what_could_have_been_served() -> None:
    offer = derive_offer(open_library(SKILLS_CONTENT).snapshot)

    report = reckon([served("ui/react/auth"), served("ui/react/_index")], offer)

    assert report.unserved is not None
    paths = [each.skill for each in report.unserved]
    assert "api/pagination" in paths
    assert "ui/react/auth" not in paths
    assert not [path for path in paths if path.rpartition("/")[2].startswith("_")]
    assert {use.is_offered for use in report.skills} == {True}


def test_a_task_gets_today_what_get_skill_would_give_it() -> None:
    offer = derive_offer(open_library(SKILLS_CONTENT).snapshot)
    tasks = ["bake a cake", "write a database migration", "fix the auth"]

    report = reckon(
        [*map(missed, tasks), torn("fix the auth", "api/auth", "ui/react/auth")], offer
    )

    assert {gap.task: gap.today for gap in report.gaps} == {
        "bake a cake": (),
        "write a database migration": ("data/postgres/migrations",),
        "fix the auth": ("api/auth", "ui/react/auth"),
    }
    assert [pair.is_still for pair in report.rivalries] == [True]


def test_what_a_skill_says_of_itself_is_fit_to_show(tmp_path: Path) -> None:
    hostile = "Red \x1b[31m\u202e text"
    write_skill(tmp_path, "a.md", description=hostile, keywords=["one", "two"])

    [skill] = derive_offer(open_library(tmp_path).snapshot).skills

    assert (skill.path, skill.keywords) == ("a", ("one", "two"))
    assert "\x1b" not in skill.description
    assert "\u202e" not in skill.description
