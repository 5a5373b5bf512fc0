"""The values that everything else speaks of."""

from dataclasses import FrozenInstanceError

import pytest

from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import Located, find_in_chain, find_script
from skills_mcp.skills.model import Argument, Asset, Problem, Script
from tests.support import make_skill

ASSET = Asset("x.sh", "as a text", "other")
SCRIPT = Script(
    "x.sh", "as a program", "server", (Argument("name", "", required=True),)
)


@pytest.mark.spec("7.5")
def test_a_file_that_is_asset_and_script_is_found_as_what_is_looked_for() -> None:
    skill = make_skill("a", assets=(ASSET,), scripts=(SCRIPT,))
    index = SkillIndex([skill])

    assert find_in_chain(index, skill, "x.sh") == Located(ASSET, skill, None)
    assert find_script(index, skill, "x.sh") == Located(SCRIPT, skill, None)


@pytest.mark.parametrize("file", ["X.sh", "./x.sh", "x", "", "dir/x.sh"])
def test_only_the_exact_name_is_found(file: str) -> None:
    skill = make_skill("a", assets=(ASSET,))

    assert find_in_chain(SkillIndex([skill]), skill, file) is None


def test_a_problem_reads_as_one_line() -> None:
    problem = Problem("ui/react.md", "has no keywords", "write a list")

    assert str(problem) == "ui/react.md: has no keywords (write a list)"
    assert problem.level == "error"


def test_a_skill_never_changes() -> None:
    skill = make_skill("a")

    with pytest.raises(FrozenInstanceError):
        skill.priority = 9  # type: ignore[misc]
