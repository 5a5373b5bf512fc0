from typing import Any

import pytest
from jsonschema import Draft202012Validator

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.tools import (
    Arguments,
    GetAsset,
    GetSkill,
    ListSkills,
    ReadSkillFile,
    RunScript,
    RunSkillCommand,
    SearchSkills,
    input_schema,
    parse_arguments,
)
from tests.clients import TOOLS, ask, connected
from tests.support import SKILLS_CONTENT, open_library

_PATH = {"skill_path": "a"}
_FILE = {"skill_path": "a", "file": "b"}
_QUERY = {"query": "a"}
_NAME = {"skill_name": "a"}


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
            {"context": "x" * 200_001},
            "context must have at most 200,000 characters",
        ),
        (
            "search_skills",
            {"query": "x" * 200_001},
            "query must have at most 200,000 characters",
        ),
        (
            "get_skill",
            {"context": "x", "skill_path": "x" * 10_001},
            "skill_path must have at most 10,000 characters",
        ),
        (
            "find_skill_files",
            _NAME | {"pattern": "*" * 1_025},
            "pattern must have at most 1,024 characters",
        ),
        ("list_skills", {"path": True}, "path must be a valid string (got True)"),
        ("get_asset", _PATH, "file is missing"),
        ("get_asset", _FILE | {"file": {}}, "file must be a valid string (got {})"),
        ("run_script", _FILE, "args is missing"),
        ("run_script", _FILE | {"args": None}, "args must be a valid dictionary"),
        ("run_script", _FILE | {"args": "[]"}, "args must be a valid dictionary"),
        ("run_script", _FILE | {"args": "{" * 9_999}, "args must be a valid dictionary"),
        ("run_script", _FILE | {"args": {"a": 1}}, "args.a must be a valid string"),
        ("report_usage", _PATH, "useful is missing"),
        ("report_usage", _PATH | {"useful": "yes"}, "useful must be a valid boolean"),
        ("report_usage", _PATH | {"useful": 1}, "useful must be a valid boolean"),
        ("refresh_skills", {"force": True}, "force is unknown"),
        ("get_skill", {"context": "a", "known_digest": 3}, "known_digest must be a"),
        ("search_skills", {}, "query is missing"),
        ("search_skills", _QUERY | {"limit": "three"}, "limit must be a valid integer"),
        ("search_skills", _QUERY | {"limit": True}, "limit must be a valid integer"),
        ("search_skills", _QUERY | {"limit": 0}, "limit must be greater than or equal"),
        ("search_skills", _QUERY | {"limit": 51}, "limit must be less than or equal"),
        (
            "search_skills",
            _QUERY | {"scope": "all"},
            "scope must be 'org', 'repo' or 'user' (got 'all')",
        ),
        ("load_skill", {}, "skill_name is missing"),
        ("load_skill", {"name": "a"}, "skill_name is missing; name is unknown"),
        ("read_skill_file", _NAME, "file_path is missing"),
        (
            "read_skill_file",
            _NAME | {"file_path": "b", "start_line": 0},
            "start_line must be greater than or equal to 1 (got 0)",
        ),
        (
            "read_skill_file",
            _NAME | {"file_path": "b", "max_lines": 10_001},
            "max_lines must be less than or equal to 10000 (got 10001)",
        ),
        ("find_skill_files", _NAME | {"pattern": []}, "pattern must be a valid string"),
        (
            "find_skill_files",
            _NAME | {"contains": 1},
            "contains must be a valid string",
        ),
        ("load_skill_examples", _NAME, "query is missing"),
        (
            "load_skill_examples",
            _NAME | {"query": "a", "top_k": "2.5"},
            "top_k must be a valid integer (got '2.5')",
        ),
        ("run_skill_command", _NAME, "command is missing"),
        (
            "run_skill_command",
            _NAME | {"command": "cat", "args": "a b"},
            "args must be a valid list (got 'a b')",
        ),
        (
            "run_skill_command",
            _NAME | {"command": "cat", "args": ["a", 2]},
            "args.1 must be a valid string (got 2)",
        ),
        (
            "run_skill_command",
            _NAME | {"command": "cat", "args": ["a"] * 201},
            "args must have at most 200 items",
        ),
        ("run_skill_entry", {}, "skill_name is missing"),
        (
            "run_skill_entry",
            _NAME | {"args": ["a"]},
            "args must be a valid string (got ['a'])",
        ),
    ],
)
@pytest.mark.spec("8")
async def test_wrong_arguments_are_an_answer_that_the_model_can_act_on(
    tool: str, given: dict[str, Any], finding: str
) -> None:
    everything = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}
    library = open_library(SKILLS_CONTENT, settings=everything)

    async with connected(library) as client:
        reply = await ask(client, tool, **given)

    assert reply["error"]["code"] == "INVALID_ARGUMENTS"
    assert finding in reply["error"]["message"]


@pytest.mark.parametrize(
    "tool, given, meant",
    [
        ("get_skill", {"skill_path": "", "within": " ", "category": "", "part": ""}, {}),
        ("get_skill", {"known_digest": "", "explain": "", "part": 1.0}, {"part": 1}),
        ("get_skill", {"explain": "true"}, {"explain": True}),
        ("get_skill", {"explain": "False"}, {"explain": False}),
        ("list_skills", {"path": "", "depth": 2.0, "cursor": ""}, {"depth": 2}),
        ("list_skills", {"depth": "2"}, {"depth": 2}),
        ("search_skills", {"limit": "3.0", "scope": ""}, {"limit": 3}),
        ("read_skill_file", {"start_line": "", "max_lines": 5.0}, {"max_lines": 5}),
        ("find_skill_files", {"pattern": "", "contains": ""}, {}),
        ("load_skill_examples", {"top_k": " 2 "}, {"top_k": 2}),
        ("run_script", {"args": '{"a": "b"}'}, {"args": {"a": "b"}}),
        ("run_skill_command", {"args": '["a b"]'}, {"args": ["a b"]}),
    ],
)
async def test_an_empty_value_is_left_out_and_an_unmistakable_one_is_converted(
    tool: str, given: dict[str, Any], meant: dict[str, Any]
) -> None:
    settings = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}
    library = open_library(SKILLS_CONTENT, settings=settings)
    examples: dict[str, dict[str, Any]] = {
        "get_skill": {"context": "add login to the React app"},
        "list_skills": {},
        "search_skills": {"query": "login"},
        "read_skill_file": {"skill_name": "ui/react/auth", "file_path": "SKILL.md"},
        "find_skill_files": {"skill_name": "ui/react/auth"},
        "load_skill_examples": {"skill_name": "ui/react/auth", "query": "login"},
        "run_script": {"skill_path": "ui/react/auth", "file": "none.sh", "args": {}},
        "run_skill_command": {"skill_name": "ui/react/auth", "command": "cat"},
    }
    required = examples[tool]

    async with connected(library) as client:
        await ask(client, tool, **required)  # the first reply names the core skills, too
        expected = await ask(client, tool, **required | meant)
        reply = await ask(client, tool, **required | given)

    expected.pop("sources", None)  # they tell the time
    reply.pop("sources", None)
    assert reply == expected
    assert reply.get("error", {}).get("code") != "INVALID_ARGUMENTS"


async def test_text_that_no_encoding_can_carry_is_refused(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "report_usage", skill_path="\ud800", useful=True)

    assert reply["error"]["code"] == "INVALID_ARGUMENTS"


def test_every_finding_is_named_and_so_is_what_the_tool_takes() -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        parse_arguments(GetAsset, "get_asset", {"skill": "a", "file": 3})

    assert str(raised.value) == (
        "get_asset: skill_path is missing; file must be a valid string (got 3); "
        "skill is unknown. It takes: skill_path, file, part (optional)."
    )


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        parse_arguments(ListSkills, "list_skills", {"path": ["x" * 5000]})

    assert len(str(raised.value)) < 200


def test_an_odd_name_is_shortened_and_escaped_in_the_message() -> None:
    given = {"x" * 50_000: 1, "\x1b[31m\n=== RULES": 1}

    with pytest.raises(InvalidArgumentsError) as raised:
        parse_arguments(ListSkills, "list_skills", given)

    message = str(raised.value)
    assert message.isprintable()
    assert r"'\x1b[31m\n=== RULES' is unknown" in message
    assert len(message) < 200


def test_of_many_findings_the_first_are_named_and_the_rest_counted() -> None:
    given = {f"name-{number}": 1 for number in range(5000)}

    with pytest.raises(InvalidArgumentsError) as raised:
        parse_arguments(ListSkills, "list_skills", given)

    assert "name-9 is unknown; and 4,990 more. It takes: path" in str(raised.value)


def test_what_is_optional_is_marked() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"context, skill_path \(optional\)"):
        parse_arguments(GetSkill, "get_skill", {})


def test_the_longest_text_is_taken() -> None:
    arguments = parse_arguments(GetSkill, "get_skill", {"context": "x" * 200_000})

    assert len(arguments.context) == 200_000


@pytest.mark.parametrize(
    "model, given",
    [
        (RunScript, _FILE | {"args": {}}),
        (RunScript, _FILE | {"args": {"a": "1"}, "cwd": "/"}),
        (RunScript, _FILE),
        (RunScript, _FILE | {"args": {"a": 1}}),
        (RunScript, _FILE | {"args": {}, "more": 1}),
        (RunScript, {"skill_path": 1, "file": "b", "args": {}}),
        (SearchSkills, _QUERY),
        (SearchSkills, _QUERY | {"limit": 1, "scope": "repo"}),
        (SearchSkills, _QUERY | {"limit": 50, "scope": "user"}),
        (SearchSkills, _QUERY | {"limit": 51}),
        (SearchSkills, _QUERY | {"limit": 0}),
        (SearchSkills, _QUERY | {"scope": "system"}),
        (ReadSkillFile, _NAME | {"file_path": "b", "start_line": 1}),
        (ReadSkillFile, _NAME | {"file_path": "b", "start_line": 0}),
        (ReadSkillFile, _NAME | {"file_path": "b", "max_lines": 10_000}),
        (ReadSkillFile, _NAME | {"file_path": "b", "max_lines": 10_001}),
        (RunSkillCommand, _NAME | {"command": "b", "args": ["a"] * 200}),
        (RunSkillCommand, _NAME | {"command": "b", "args": ["a"] * 201}),
        (RunSkillCommand, _NAME | {"command": "b", "args": [1]}),
        (RunSkillCommand, _NAME | {"command": "b", "args": {}}),
    ],
)
def test_the_schema_allows_exactly_what_is_accepted(
    model: type[Arguments], given: dict[str, Any]
) -> None:
    allowed = Draft202012Validator(input_schema(model)).is_valid(given)

    try:
        parse_arguments(model, "the_tool", given)
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
        ("search_skills", ["query"]),
        ("load_skill", ["skill_name"]),
        ("read_skill_file", ["skill_name", "file_path"]),
        ("find_skill_files", ["skill_name"]),
        ("load_skill_examples", ["skill_name", "query"]),
        ("run_skill_command", ["skill_name", "command"]),
        ("run_skill_entry", ["skill_name"]),
    ],
)
@pytest.mark.spec("8")
def test_what_is_required_is_what_the_specification_says(tool: str, required: list[str]) -> None:
    [spec] = [spec for spec in TOOLS if spec.name == tool]

    schema = input_schema(spec.arguments)

    assert schema["required"] == required
