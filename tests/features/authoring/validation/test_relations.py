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

    [found] = found_in(tmp_path / "skills", "relation-unknown")

    assert hint in found.hint


@pytest.mark.parametrize(
    "relation",
    [
        {"requires": ["ui/one", "TOOL"]},
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

    assert found_in(tmp_path / "skills", "relation-unknown", "owner-type") == []


def test_an_owner_that_is_no_text_is_found(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/one.md", owner=["team-web", "team-ui"])

    [found] = found_in(tmp_path / "skills", "owner-type")

    assert found.hint == "name one team or person: owner: team-web"
