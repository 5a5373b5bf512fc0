from typing import Any

import pytest
from jsonschema import Draft202012Validator

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library import SkillLibrary
from skills_mcp.server.arguments import (
    GetAsset,
    GetSkill,
    ListSkills,
    RunScript,
    input_schema,
    parse,
)
from skills_mcp.server.tools import TOOLS
from tests.clients import ask, connected

_PATH = {"skill_path": "a"}
_FILE = {"skill_path": "a", "file": "b"}


@pytest.mark.parametrize(
    "tool, given, finding",
    [
        ("get_skill", {}, "context is missing"),
        ("get_skill", {"context": 3}, "context must be a valid string (got 3)"),
        ("get_skill", {"context": None}, "context must be a valid string (got None)"),
        ("get_skill", {"context": ["a"]}, "context must be a valid string (got ['a'])"),
        ("get_skill", {"context": "a", "limit": 3}, "limit is unknown"),
        (
            "get_skill",
            {"context": "x" * 10_001},
            "context must have at most 10,000 characters",
        ),
        ("list_skills", {"path": True}, "path must be a valid string (got True)"),
        ("get_asset", _PATH, "file is missing"),
        ("get_asset", _FILE | {"file": {}}, "file must be a valid string (got {})"),
        ("run_script", _FILE, "args is missing"),
        ("run_script", _FILE | {"args": None}, "args must be a valid dictionary"),
        ("run_script", _FILE | {"args": "{}"}, "args must be a valid dictionary"),
        ("run_script", _FILE | {"args": {"a": 1}}, "args.a must be a valid string"),
        ("report_usage", _PATH, "useful is missing"),
        ("report_usage", _PATH | {"useful": "yes"}, "useful must be a valid boolean"),
        ("report_usage", _PATH | {"useful": 1}, "useful must be a valid boolean"),
        ("refresh_skills", {"force": True}, "force is unknown"),
    ],
)
@pytest.mark.spec("8")
async def test_wrong_arguments_are_an_answer_that_the_model_can_act_on(
    library: SkillLibrary, era: str, tool: str, given: dict[str, Any], finding: str
) -> None:
    async with connected(library, era) as client:
        reply = await ask(client, tool, **given)

    assert reply["error"]["code"] == "INVALID_ARGUMENTS"
    assert finding in reply["error"]["message"]


async def test_text_that_no_encoding_can_carry_is_refused(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        reply = await ask(client, "report_usage", skill_path="\ud800", useful=True)

    assert reply["error"]["code"] == "INVALID_ARGUMENTS"


def test_every_finding_is_named_and_so_is_what_the_tool_takes() -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        parse(GetAsset, "get_asset", {"skill": "a", "file": 3})

    assert str(raised.value) == (
        "get_asset: skill_path is missing; file must be a valid string (got 3); "
        "skill is unknown. It takes: skill_path, file."
    )


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        parse(ListSkills, "list_skills", {"path": ["x" * 5000]})

    assert len(str(raised.value)) < 200


def test_what_is_optional_is_marked() -> None:
    with pytest.raises(
        InvalidArgumentsError, match=r"context, skill_path \(optional\)"
    ):
        parse(GetSkill, "get_skill", {})


def test_the_longest_text_is_taken() -> None:
    arguments = parse(GetSkill, "get_skill", {"context": "x" * 10_000})

    assert len(arguments.context) == 10_000


@pytest.mark.parametrize(
    "given",
    [
        {"skill_path": "a", "file": "b", "args": {}},
        {"skill_path": "a", "file": "b", "args": {"a": "1"}, "cwd": "/"},
        {"skill_path": "a", "file": "b"},
        {"skill_path": "a", "file": "b", "args": {"a": 1}},
        {"skill_path": "a", "file": "b", "args": {}, "more": 1},
        {"skill_path": 1, "file": "b", "args": {}},
    ],
)
def test_the_schema_allows_exactly_what_is_accepted(given: dict[str, Any]) -> None:
    allowed = Draft202012Validator(input_schema(RunScript)).is_valid(given)

    try:
        parse(RunScript, "run_script", given)
        accepted = True
    except InvalidArgumentsError:
        accepted = False

    assert accepted is allowed


@pytest.mark.parametrize(
    "tool, required",
    [
        ("get_skill", ["context"]),
        ("list_skills", []),
        ("get_asset", ["skill_path", "file"]),
        ("run_script", ["skill_path", "file", "args"]),
        ("report_usage", ["skill_path", "useful"]),
        ("refresh_skills", []),
    ],
)
@pytest.mark.spec("8")
def test_what_is_required_is_what_the_specification_says(
    tool: str, required: list[str]
) -> None:
    [spec] = [spec for spec in TOOLS if spec.name == tool]

    schema = input_schema(spec.arguments)

    assert schema["required"] == required
