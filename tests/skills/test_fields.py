from typing import Any

import pytest

from skills_mcp.skills.fields import examples_of
from skills_mcp.skills.frontmatter import parse_skill
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.package import parse_package
from skills_mcp.skills.problems import ProblemList
from tests.packages import package_text
from tests.support import skill_text


def read(value: Any) -> tuple[tuple[str, ...], list[str]]:
    report = ProblemList("x.md")
    return examples_of(value, report), [problem.rule for problem in report.problems]


@pytest.mark.parametrize(
    "value, examples",
    [
        (["add login", "sign  in\n"], ("add login", "sign in")),
        ([{"query": "add login"}, {"prompt": "sign in"}], ("add login", "sign in")),
        (["twice", {"query": "twice"}], ("twice",)),
        ("one\n\n  two  \n", ("one", "two")),
        ([], ()),
        ("", ()),
        (None, ()),
    ],
)
def test_examples_are_tasks_in_a_list_or_on_lines(
    value: Any, examples: tuple[str, ...]
) -> None:
    assert read(value) == (examples, [])


@pytest.mark.parametrize(
    "value", [["good", ""], ["good", {"q": "x"}], ["good", ["nested"]], ["good", {}]]
)
def test_an_example_without_a_text_is_reported_and_the_others_are_kept(
    value: Any,
) -> None:
    assert read(value) == (("good",), ["examples-entry"])


def test_examples_that_are_no_list_are_reported() -> None:
    assert read({"query": "x"}) == ((), ["examples-type"])


def read_package(**fields: Any) -> Skill:
    text = package_text(**fields)
    skill, problems = parse_package(
        text, file="pdf/SKILL.md", path=SkillPath("pdf"), files={}
    )
    assert problems == ()
    assert skill is not None
    return skill


def test_both_formats_have_examples() -> None:
    rule, problems = parse_skill(
        skill_text(examples=["add login"]), file="x.md", directory=None
    )

    assert problems == ()
    assert rule is not None
    assert rule.examples == ("add login",)
    assert read_package(examples=["fill it in"]).examples == ("fill it in",)
    assert read_package(metadata={"examples": "a\nb"}).examples == ("a", "b")
    assert read_package().examples == ()
