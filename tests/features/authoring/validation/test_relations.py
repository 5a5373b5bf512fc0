from pathlib import Path

import pytest

from skills_mcp.skills.model import Problem
from tests.features.authoring.validation.findings import problems
from tests.packages import write_package
from tests.support import write_skill


def found_in(folder: Path, *rules: str) -> list[Problem]:
    return [problem for problem in problems(folder) if problem.rule in rules]


@pytest.mark.parametrize(
    "relation, hint",
    [
        ({"requires": ["ui/one", "ui/elsewhere"]}, "a path or a name"),
        ({"related": ["onne"]}, "did you mean one?"),
        ({"related": "one, elsewhere/x"}, "a path or a name"),
    ],
)
def test_a_relation_to_a_skill_that_does_not_exist_is_found(
    tmp_path: Path, relation: dict[str, object], hint: str
) -> None:
    write_skill(tmp_path, "skills/ui/one.md")
    write_package(tmp_path, "skills/tool", metadata=relation)

    [found] = found_in(tmp_path / "skills", "relation-unknown", "requires")

    assert hint in found.hint
    assert found.level == ("error" if "requires" in relation else "warning")


def test_a_name_of_several_skills_is_answered_with_their_paths(tmp_path: Path) -> None:
    write_package(tmp_path, "skills/ui/login")
    write_package(tmp_path, "skills/api/login", description="Call the API with a token.")
    write_package(tmp_path, "skills/tool", metadata={"requires": ["login", "ui/login"]})

    [found] = found_in(tmp_path / "skills", "requires")

    assert "api/login" in found.hint
    assert "ui/login" in found.hint


@pytest.mark.parametrize(
    "relation",
    [
        {"requires": ["TOOL"]},
        {"requires": ["git", "python3"]},
        {"requires": {"bins": ["ui/x"]}},
        {"owner": "team-web"},
    ],
)
def test_skills_that_exist_and_lists_of_programs_are_no_finding(
    tmp_path: Path, relation: dict[str, object]
) -> None:
    write_package(tmp_path, "skills/tool")
    write_skill(tmp_path, "skills/ui/one.md", **relation)

    assert found_in(tmp_path / "skills", "relation-unknown", "requires", "owner-type") == []


def test_an_owner_that_is_no_text_is_found(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/one.md", owner=["team-web", "team-ui"])

    [found] = found_in(tmp_path / "skills", "owner-type")

    assert found.hint == "name one team or person: owner: team-web"


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"requires": ["circle"]}, "which requires it in turn"),
        ({"requires": ["draft"]}, "which is a draft"),
        ({"replaced_by": "circle"}, "end with a draft, or never"),
        ({"replaced_by": "draft"}, "end with a draft, or never"),
        ({"replaced_by": "absent"}, "which is no skill here"),
    ],
)
def test_a_relation_that_cannot_be_served_is_an_error(
    tmp_path: Path, fields: dict[str, object], reason: str
) -> None:
    write_skill(tmp_path, "skills/one.md", **fields)
    write_skill(tmp_path, "skills/draft.md", status="draft")
    write_skill(tmp_path, "skills/circle.md", requires=["one"], replaced_by="one")

    found = [
        problem
        for problem in found_in(tmp_path / "skills", "requires", "replaced-by")
        if problem.file.endswith("one.md")
    ]

    assert [problem.level for problem in found][:1] == ["error"]
    assert any(reason in problem.reason for problem in found)


def test_a_life_cycle_that_is_not_understood_is_found(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/one.md", status="wip", review_by="soon")

    found = found_in(tmp_path / "skills", "status", "review-by")

    assert sorted(problem.rule for problem in found) == ["review-by", "status"]


def test_a_draft_is_validated_like_other_skills(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/one.md", status="draft", body="See [it](absent.md).")

    assert [found.rule for found in problems(tmp_path / "skills")] == ["link-broken"]
