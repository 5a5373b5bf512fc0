"""What hosts and models read before any call, whatever the operator has chosen."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError
from mcp_types import Tool

from skills_mcp.config import Config
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.tools import instructions_for, tools_for
from skills_mcp.server.toolspec import ToolSpec
from tests.clients import TOOLS, connected
from tests.packages import write_pdf
from tests.support import SKILLS_CONTENT, open_library

CORE = [
    "get_skill",
    "list_skills",
    "get_asset",
    "run_script",
    "report_usage",
    "refresh_skills",
]
PACKAGES = [
    "search_skills",
    "load_skill",
    "read_skill_file",
    "find_skill_files",
    "load_skill_examples",
]
COMMAND = "run_skill_command"
COMMANDS = [COMMAND, "run_skill_entry"]

CHOICES = [
    pytest.param(
        {"toolsets": list(toolsets), "commands": {"enabled": enabled}},
        id=f"{'+'.join(toolsets)}{'+commands' * enabled}",
    )
    for toolsets, enabled in itertools.product(
        (["core"], ["packages"], ["core", "packages"]), (False, True)
    )
]
every_choice = pytest.mark.parametrize("settings", CHOICES)


async def listed(settings: dict[str, Any] | None, era: str) -> list[Tool]:
    async with connected(open_library(SKILLS_CONTENT, settings=settings), era) as c:
        return (await c.list_tools()).tools


def chosen(settings: dict[str, Any]) -> tuple[ToolSpec, ...]:
    return tools_for(parsed(settings))


def parsed(settings: dict[str, Any]) -> Config:
    return Config.model_validate(
        settings | {"toolsets": tuple(settings.get("toolsets", ("core",)))}
    )


# Which tools there are


@pytest.mark.spec("8")
async def test_there_are_six_tools_in_an_order_that_never_changes(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        first = await client.list_tools()
        second = await client.list_tools()

    assert [tool.name for tool in first.tools] == CORE
    assert first.tools == second.tools


@pytest.mark.parametrize(
    "settings, names",
    [
        ({"commands": {"enabled": True}}, CORE),
        ({"toolsets": ["core", "packages"]}, [*CORE, *PACKAGES]),
        ({"toolsets": ["packages", "core"]}, [*CORE, *PACKAGES]),
        (
            {"toolsets": ["core", "packages"], "commands": {"enabled": True}},
            [*CORE, *PACKAGES, *COMMANDS],
        ),
        ({"toolsets": ["packages"]}, [*PACKAGES, "refresh_skills"]),
        (
            {"toolsets": ["packages"], "commands": {"enabled": True}},
            [*PACKAGES, *COMMANDS, "refresh_skills"],
        ),
    ],
)
async def test_the_operator_chooses_the_tools(
    settings: dict[str, Any], names: list[str], era: str
) -> None:
    assert [tool.name for tool in await listed(settings, era)] == names


@pytest.mark.parametrize(
    "settings", [{}, {"toolsets": ["core", "packages"]}], ids=["core", "both"]
)
async def test_a_tool_that_was_not_chosen_does_not_exist(
    settings: dict[str, Any], era: str
) -> None:
    library = open_library(SKILLS_CONTENT, settings=settings)

    async with connected(library, era) as client:
        with pytest.raises(MCPError, match="Unknown tool: run_skill_command"):
            await client.call_tool(COMMAND, {"skill_name": "x", "command": "cat"})


async def test_no_content_can_add_a_tool(tmp_path: Path, era: str) -> None:
    write_pdf(tmp_path)
    more = "toolsets: [core, packages]\ncommands: {enabled: true}\n"
    (tmp_path / "config.yaml").write_text(more)

    async with connected(open_library(tmp_path), era) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == CORE


def test_every_tool_can_be_chosen() -> None:
    everything = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}

    assert chosen(everything) == TOOLS


# How much there is to read


@every_choice
def test_the_texts_are_short(settings: dict[str, Any]) -> None:
    specs = chosen(settings)
    descriptions = [spec.description for spec in specs]
    arguments = [
        field.description or ""
        for spec in specs
        for field in spec.arguments.model_fields.values()
    ]

    assert sum(len(text.encode()) for text in descriptions) <= 3 * 1024
    assert sum(len(text.encode()) for text in descriptions + arguments) <= 6 * 1024
    assert len(instructions_for(parsed(settings)).encode()) <= 2048


@every_choice
async def test_the_instructions_begin_with_what_to_call(
    settings: dict[str, Any], era: str
) -> None:
    library = open_library(SKILLS_CONTENT, settings=settings)
    first_tool = "get_skill" if "core" in settings["toolsets"] else "search_skills"

    async with connected(library, era) as client:
        instructions = client.instructions or ""

    assert instructions == instructions_for(parsed(settings))
    assert instructions.startswith(f"Call {first_tool} ")
    assert len(instructions.partition(": ")[0]) <= 240


@every_choice
def test_a_text_names_only_tools_that_there_are(settings: dict[str, Any]) -> None:
    specs = chosen(settings)
    known = "|".join(sorted((spec.name for spec in TOOLS), key=len, reverse=True))
    texts = [instructions_for(parsed(settings))]
    texts += [spec.description for spec in specs]
    texts += [
        field.description or ""
        for spec in specs
        for field in spec.arguments.model_fields.values()
    ]

    named = {name for text in texts for name in re.findall(rf"\b({known})\b", text)}

    assert named <= {spec.name for spec in specs}


def test_who_has_both_is_told_of_both() -> None:
    core, packages, both = (
        instructions_for(parsed({"toolsets": toolsets}))
        for toolsets in (["core"], ["packages"], ["core", "packages"])
    )

    assert both.startswith(core)
    assert "search_skills, then load_skill" in both
    assert "get_skill" not in packages


# What is said of each


@every_choice
async def test_every_tool_has_a_title_and_a_description_of_what_to_do(
    settings: dict[str, Any], era: str
) -> None:
    for tool in await listed(settings, era):
        assert tool.title
        assert tool.annotations is not None
        assert tool.annotations.title == tool.title
        assert len(tool.description or "") > 80


_EVERYTHING = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}


@pytest.mark.parametrize(
    "name, read_only_destructive_idempotent_open_world",
    [
        ("get_skill", (True, None, True, False)),
        ("list_skills", (True, None, True, False)),
        ("get_asset", (True, None, True, False)),
        ("run_script", (False, True, False, True)),
        ("report_usage", (False, False, False, True)),
        ("refresh_skills", (False, False, True, True)),
        ("search_skills", (True, None, True, False)),
        ("load_skill", (True, None, True, False)),
        ("read_skill_file", (True, None, True, False)),
        ("find_skill_files", (True, None, True, False)),
        ("load_skill_examples", (True, None, True, False)),
        ("run_skill_command", (False, True, False, True)),
        ("run_skill_entry", (False, True, False, True)),
    ],
)
async def test_hosts_are_told_how_careful_to_be(
    era: str,
    name: str,
    read_only_destructive_idempotent_open_world: tuple[bool | None, ...],
) -> None:
    tools = {tool.name: tool for tool in await listed(_EVERYTHING, era)}

    hints = tools[name].annotations
    assert hints is not None
    assert (
        hints.read_only_hint,
        hints.destructive_hint,
        hints.idempotent_hint,
        hints.open_world_hint,
    ) == read_only_destructive_idempotent_open_world


async def test_get_skill_alone_is_loaded_before_it_is_searched_for(era: str) -> None:
    metas = {tool.name: tool.meta or {} for tool in await listed(_EVERYTHING, era)}

    loaded = [name for name, meta in metas.items() if meta.get("anthropic/alwaysLoad")]
    assert loaded == ["get_skill"]
    assert "conventions" in metas["get_skill"]["anthropic/searchHint"]


async def test_tools_with_long_answers_lift_the_limit_of_hosts(era: str) -> None:
    metas = {tool.name: tool.meta or {} for tool in await listed(_EVERYTHING, era)}

    limits = {
        name: meta.get("anthropic/maxResultSizeChars") for name, meta in metas.items()
    }
    assert {name for name, limit in limits.items() if limit == 500_000} == {
        "get_skill",
        "list_skills",
        "get_asset",
        "search_skills",
        "load_skill",
        "read_skill_file",
        "load_skill_examples",
    }


async def test_schemas_are_strict_and_plain_enough_for_every_host(era: str) -> None:
    for tool in await listed(_EVERYTHING, era):
        schema = tool.input_schema
        text = json.dumps(schema)
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert not any(word in text for word in ("null", "anyOf", "$ref", "$defs"))
        assert all(field["description"] for field in schema["properties"].values())


async def test_no_tool_promises_structured_output(era: str) -> None:
    tools = await listed(_EVERYTHING, era)

    assert [tool.output_schema for tool in tools] == [None] * 13
