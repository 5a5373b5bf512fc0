import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
from jsonschema import Draft202012Validator
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, RequestParams, TextContent, Tool

from skills_mcp import __version__
from skills_mcp.config import Config
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.app import (
    compose_server_instructions,
    create_server,
    progress_reports,
    select_tools,
)
from skills_mcp.server.tools import ToolSpec
from tests.clients import (
    ERAS,
    TOOLS,
    Lifeline,
    Reports,
    SlowSource,
    ask,
    ask_extension,
    connected,
)
from tests.packages import write_pdf
from tests.support import (
    PATIENCE_SECONDS,
    SKILLS_CONTENT,
    open_library,
    until,
    write,
    write_skill,
)


@pytest.mark.spec("2.1")
async def test_a_client_of_each_era_gets_its_own_protocol_revision(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        assert client.protocol_version == ERAS[era]


async def test_the_server_says_its_name_and_version(library: SkillLibrary, era: str) -> None:
    async with connected(library, era) as client:
        info = client.server_info

    assert info is not None
    assert (info.name, info.version) == ("skills-mcp", __version__)


async def test_the_instructions_are_short_and_begin_with_what_to_call(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        instructions = client.instructions or ""

    first_sentence = instructions.partition(". ")[0]
    assert len(instructions.encode()) <= 2048
    assert len(first_sentence) <= 240
    assert first_sentence.startswith("Call get_skill ")


async def test_what_there_is_is_advertised_and_nothing_else(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        capabilities = client.server_capabilities

    assert capabilities.tools is not None
    assert capabilities.prompts is not None
    assert capabilities.prompts.list_changed is False
    assert capabilities.completions is not None
    assert capabilities.logging is None
    assert capabilities.resources is not None


async def test_a_client_may_keep_the_list_of_tools_for_a_day(
    library: SkillLibrary,
) -> None:
    async with connected(library, "auto") as client:
        listing = await client.list_tools()

    assert listing.ttl_ms == 86_400_000
    assert listing.cache_scope == "public"


@pytest.mark.spec("8")
async def test_an_unknown_tool_is_a_protocol_error_that_names_the_known_ones(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        with pytest.raises(MCPError, match=r"get_skil.*get_skill, list_skills") as raised:
            await client.call_tool("get_skil", {})

    assert raised.value.error.code == -32602


class AnyCallParams(RequestParams):
    """`tools/call` as a careless client might send it."""

    name: str
    arguments: Any


class AnyCall(Request[AnyCallParams, Literal["tools/call"]]):
    method: Literal["tools/call"] = "tools/call"


@pytest.mark.parametrize("arguments", [["x"], "x", 3, True, "{}", []])
async def test_arguments_that_are_no_object_are_explained_to_the_model(
    library: SkillLibrary, era: str, arguments: object
) -> None:
    params = AnyCallParams(name="list_skills", arguments=arguments)

    async with connected(library, era) as client:
        with anyio.fail_after(PATIENCE_SECONDS):
            result = await client.session.send_request(AnyCall(params=params), CallToolResult)

    assert result.is_error
    error = _json(result)["error"]
    assert error["code"] == "INVALID_ARGUMENTS"
    assert "the arguments must be an object" in error["message"]
    assert "It takes: path (optional)" in error["message"]


async def test_a_call_without_arguments_is_a_call_with_none(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        result = await client.call_tool("list_skills")

    assert not result.is_error


@pytest.mark.spec("3.1")
async def test_a_call_before_the_first_sync_waits_for_it_and_says_so(era: str) -> None:
    source = SlowSource(SKILLS_CONTENT)
    library = open_library(source, load=False)
    reports = Reports(then=source.arrived.set)

    async with connected(library, era) as client:
        with anyio.fail_after(PATIENCE_SECONDS):
            result = await client.call_tool(
                "get_skill", {"context": "react login"}, progress_callback=reports
            )

    assert _json(result)["skill_path"] == "ui/react/auth"
    assert reports.messages[0] == "Waiting for the first sync: 0 s"


async def test_tools_are_listed_while_the_first_sync_is_running() -> None:
    source = SlowSource(SKILLS_CONTENT)

    async with connected(open_library(source, load=False)) as client:
        listing = await client.list_tools()
        await anyio.to_thread.run_sync(source.wait_until_asked)
        arrived = source.arrived.is_set()

    assert len(listing.tools) == 6
    assert not arrived


async def test_nothing_is_read_before_the_first_request() -> None:
    source = SlowSource(SKILLS_CONTENT)
    library = open_library(source, load=False)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert source.syncs == 0


async def test_wrong_arguments_do_not_wait_for_the_content() -> None:
    source = SlowSource(SKILLS_CONTENT)

    async with connected(open_library(source, load=False)) as client:
        reply = await ask(client, "get_skill", contxt="react")
        arrived = source.arrived.is_set()

    assert reply["error"]["code"] == "INVALID_ARGUMENTS"
    assert not arrived


async def test_content_that_is_here_is_served_without_any_background(library: SkillLibrary) -> None:
    async with Client(create_server(library)) as client:
        reply = await ask(client, "get_skill", context="react login")

    assert reply["skill_path"] == "ui/react/auth"


async def test_without_content_every_reading_tool_says_why_and_what_to_do(tmp_path: Path) -> None:
    everything = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}
    library = open_library(tmp_path / "nowhere", settings=everything, load=False)

    async with connected(library) as client:
        replies = [
            await ask(client, "get_skill", context="react"),
            await ask(client, "list_skills"),
            await ask(client, "get_asset", skill_path="a", file="b"),
            await ask(client, "run_script", skill_path="a", file="b", args={}),
            await ask(client, "search_skills", query="a"),
            await ask(client, "load_skill", skill_name="a"),
            await ask(client, "read_skill_file", skill_name="a", file_path="b"),
            await ask(client, "find_skill_files", skill_name="a"),
            await ask(client, "load_skill_examples", skill_name="a", query="b"),
            await ask(client, "run_skill_command", skill_name="a", command="cat"),
        ]

    for reply in replies:
        assert reply["error"]["code"] == "CONTENT_UNAVAILABLE"
        assert "nowhere" in reply["error"]["message"]
        assert "call refresh_skills" in reply["error"]["message"]


async def test_content_that_comes_late_is_served_after_a_refresh(tmp_path: Path) -> None:
    library = open_library(tmp_path / "content", load=False)

    async with connected(library) as client:
        before = await ask(client, "get_skill", context="react")
        write_skill(tmp_path / "content", "late.md", keywords=["react"])
        refreshed = await ask(client, "refresh_skills")
        after = await ask(client, "get_skill", context="react")

    assert before["error"]["code"] == "CONTENT_UNAVAILABLE"
    assert refreshed["success"] is True
    assert after["skill_path"] == "late"


@pytest.mark.spec("3.2")
async def test_fifty_calls_at_once_are_all_answered_each_with_its_own(
    library: SkillLibrary, era: str
) -> None:
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("get_skill", {"context": "react login"}),
        ("list_skills", {"path": "api"}),
        ("get_asset", {"skill_path": "ui/_index", "file": "assets/none.txt"}),
        ("report_usage", {"skill_path": "ui/react/auth", "useful": True}),
        ("get_skill", {"context": "zebra"}),
    ] * 10
    results: dict[int, dict[str, Any]] = {}

    async with connected(library, era) as client:

        async def call(number: int) -> None:
            tool, arguments = calls[number]
            results[number] = await ask(client, tool, **arguments)

        async with anyio.create_task_group() as tasks:
            for number in range(len(calls)):
                tasks.start_soon(call, number)

    expected = ["skill_path", "tree", "error", "recorded", "no_match"] * 10
    assert [next(iter(results[n])) for n in range(50)] == expected


@pytest.mark.spec("2.1")
async def test_both_eras_answer_with_the_same_words(library: SkillLibrary) -> None:
    answers = []
    for era in ERAS:
        async with connected(library, era) as client:
            answers.append(await ask(client, "get_skill", context="react login"))

    assert answers[0] == answers[1]


def _json(result: CallToolResult) -> dict[str, Any]:
    [block] = result.content
    assert isinstance(block, TextContent)
    reply: dict[str, Any] = json.loads(block.text)
    return reply


# Progress


async def test_a_script_that_takes_long_reports_that_it_is_at_work(
    tmp_path: Path, era: str, lifeline: Lifeline
) -> None:
    declared = {"file": "scripts/long.sh", "execution": "server"}
    write_skill(tmp_path / "content", "login.md", scripts=[declared])
    write(tmp_path / "content/login/scripts/long.sh", lifeline.script())
    library = open_library(tmp_path / "content")
    reports = Reports()
    arguments = {"skill_path": "login", "file": "scripts/long.sh", "args": {}}

    async with connected(library, era) as client, anyio.create_task_group() as tasks:
        call = partial(client.call_tool, progress_callback=reports)
        tasks.start_soon(call, "run_script", arguments)
        await until(lambda: len(reports.messages) == 2)
        tasks.cancel_scope.cancel()

    assert reports.messages[0] == "Run a skill's script: 0 s"
    assert reports.seconds[1] > reports.seconds[0]


async def test_a_refresh_reports_that_it_is_at_work() -> None:
    source = SlowSource(SKILLS_CONTENT)
    library = open_library(source, load=False)
    reports = Reports(then=source.arrived.set)

    async with connected(library) as client:
        with anyio.fail_after(PATIENCE_SECONDS):
            await client.call_tool("refresh_skills", {}, progress_callback=reports)

    assert reports.messages[0] == "Fetch the newest skills: 0 s"


class Session:
    """A client that is told of progress, and what it was told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    async def report_progress(self, _: float, *, message: str) -> None:
        self.messages.append(message)


async def test_what_a_sync_is_at_is_a_part_of_the_report() -> None:
    session: Any = Session()

    async with progress_reports(session, "Fetch", lambda: "Receiving objects 45 %"):
        await until(lambda: session.messages)

    assert session.messages == ["Fetch: Receiving objects 45 %, 0 s"]


class Receiving(SlowSource):
    """A sync that says what it is at."""

    doing = "Receiving objects 45 %"


async def test_a_refresh_and_who_waits_for_content_say_what_the_sync_is_at() -> None:
    source = Receiving(SKILLS_CONTENT)
    library = open_library(source, load=False)
    refreshing = Reports()
    waiting = Reports(then=source.arrived.set)
    call = {"refresh_skills": {}, "get_skill": {"context": "react login"}}

    async with connected(library) as client, anyio.create_task_group() as tasks:
        for (tool, given), reports in zip(call.items(), (refreshing, waiting), strict=True):
            ask = partial(client.call_tool, progress_callback=reports)
            tasks.start_soon(ask, tool, given)

    assert refreshing.messages[0] == ("Fetch the newest skills: Receiving objects 45 %, 0 s")
    assert waiting.messages[0] == ("Waiting for the first sync: Receiving objects 45 %, 0 s")


async def test_an_instant_answer_reports_nothing(library: SkillLibrary) -> None:
    reports = Reports()

    async with connected(library) as client:
        await client.call_tool("list_skills", {}, progress_callback=reports)

    assert reports.messages == []


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


async def listed(settings: dict[str, Any] | None) -> list[Tool]:
    async with connected(open_library(SKILLS_CONTENT, settings=settings)) as c:
        return (await c.list_tools()).tools


def chosen(settings: dict[str, Any]) -> tuple[ToolSpec, ...]:
    return select_tools(parsed(settings))


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
async def test_the_operator_chooses_the_tools(settings: dict[str, Any], names: list[str]) -> None:
    assert [tool.name for tool in await listed(settings)] == names


WRONG_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_skill", {"context": "login", "skill_path": "react/auth"}),
    ("get_skill", {"context": "login", "within": "nowhere"}),
    ("get_asset", {"skill_path": "ui/react/auth", "file": "none.md"}),
    ("run_script", {"skill_path": "ui/react/auth", "file": "none.sh", "args": {}}),
    ("load_skill", {"skill_name": "react/auth"}),
    ("read_skill_file", {"skill_name": "ui/react/auth", "file_path": "none.md"}),
    ("run_skill_entry", {"skill_name": "ui/react/auth"}),
    ("run_skill_command", {"skill_name": "ui/react/auth", "command": "rm"}),
)


NOWHERE = {"uri": "skill://no/such/SKILL.md"}


@every_choice
async def test_no_text_names_a_tool_that_is_not_offered(
    settings: dict[str, Any],
) -> None:
    library = open_library(SKILLS_CONTENT, settings=settings)
    everything = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}
    names = {spec.name for spec in chosen(everything)}
    offered = {spec.name for spec in chosen(settings)}

    async with connected(library, "auto") as client:
        told = [str(client.instructions)]
        told += [str(tool.description) for tool in (await client.list_tools()).tools]
        for tool, asked in WRONG_CALLS:
            if tool in offered:
                reply = await ask(client, tool, **asked)
                told.append(reply["error"]["message"])
        for method in ("skills/get", "resources/directory/read"):
            with pytest.raises(MCPError) as missing:
                await ask_extension(client, method, **NOWHERE)
            told.append(missing.value.error.message)
        with pytest.raises(MCPError) as unread:
            await client.read_resource(NOWHERE["uri"])
        told.append(unread.value.error.message)
        prompt = await client.get_prompt("skill", {"task": "bake a cake"})
        told.append(prompt.model_dump_json())

    named = {word for text in told for word in re.findall(r"\w+", text)}
    assert not (named & names) - offered


@pytest.mark.parametrize("settings", [{}, {"toolsets": ["core", "packages"]}], ids=["core", "both"])
async def test_a_tool_that_was_not_chosen_does_not_exist(
    settings: dict[str, Any], era: str
) -> None:
    library = open_library(SKILLS_CONTENT, settings=settings)

    async with connected(library, era) as client:
        with pytest.raises(MCPError, match="Unknown tool: run_skill_command"):
            await client.call_tool(COMMAND, {"skill_name": "x", "command": "cat"})


async def test_no_content_can_add_a_tool(tmp_path: Path) -> None:
    write_pdf(tmp_path)
    more = "toolsets: [core, packages]\ncommands: {enabled: true}\n"
    (tmp_path / "config.yaml").write_text(more)

    async with connected(open_library(tmp_path)) as client:
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
        field.description or "" for spec in specs for field in spec.arguments.model_fields.values()
    ]

    assert sum(len(text.encode()) for text in descriptions) <= 3 * 1024
    assert sum(len(text.encode()) for text in descriptions + arguments) <= 6 * 1024
    assert len(compose_server_instructions(parsed(settings)).encode()) <= 2048


@every_choice
async def test_the_instructions_begin_with_what_to_call(settings: dict[str, Any]) -> None:
    library = open_library(SKILLS_CONTENT, settings=settings)
    first_tool = "get_skill" if "core" in settings["toolsets"] else "search_skills"

    async with connected(library) as client:
        instructions = client.instructions or ""

    text = compose_server_instructions(parsed(settings))
    assert instructions.startswith(text)
    assert instructions.removeprefix(text).strip().startswith("This text and the tools have about")
    assert instructions.startswith(f"Call {first_tool} ")
    assert len(instructions.partition(": ")[0]) <= 240


@every_choice
def test_a_text_names_only_tools_that_there_are(settings: dict[str, Any]) -> None:
    specs = chosen(settings)
    known = "|".join(sorted((spec.name for spec in TOOLS), key=len, reverse=True))
    texts = [compose_server_instructions(parsed(settings))]
    texts += [spec.description for spec in specs]
    texts += [
        field.description or "" for spec in specs for field in spec.arguments.model_fields.values()
    ]

    named = {name for text in texts for name in re.findall(rf"\b({known})\b", text)}

    assert named <= {spec.name for spec in specs}


def test_who_has_both_is_told_of_both() -> None:
    core, packages, both = (
        compose_server_instructions(parsed({"toolsets": toolsets}))
        for toolsets in (["core"], ["packages"], ["core", "packages"])
    )

    assert both.startswith(core)
    assert "search_skills, then load_skill" in both
    assert "get_skill" not in packages


# What is said of each


@every_choice
async def test_every_tool_has_a_title_and_a_description_of_what_to_do(
    settings: dict[str, Any],
) -> None:
    for tool in await listed(settings):
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
    name: str, read_only_destructive_idempotent_open_world: tuple[bool | None, ...]
) -> None:
    tools = {tool.name: tool for tool in await listed(_EVERYTHING)}

    hints = tools[name].annotations
    assert hints is not None
    assert (
        hints.read_only_hint,
        hints.destructive_hint,
        hints.idempotent_hint,
        hints.open_world_hint,
    ) == read_only_destructive_idempotent_open_world


async def test_get_skill_alone_is_loaded_before_it_is_searched_for() -> None:
    metas = {tool.name: tool.meta or {} for tool in await listed(_EVERYTHING)}

    loaded = [name for name, meta in metas.items() if meta.get("anthropic/alwaysLoad")]
    assert loaded == ["get_skill"]
    assert "conventions" in metas["get_skill"]["anthropic/searchHint"]


async def test_tools_with_long_answers_lift_the_limit_of_hosts() -> None:
    metas = {tool.name: tool.meta or {} for tool in await listed(_EVERYTHING)}

    limits = {name: meta.get("anthropic/maxResultSizeChars") for name, meta in metas.items()}
    assert {name for name, limit in limits.items() if limit == 500_000} == {
        "get_skill",
        "list_skills",
        "get_asset",
        "search_skills",
        "load_skill",
        "read_skill_file",
        "load_skill_examples",
    }


async def test_schemas_are_strict_and_plain_enough_for_every_host() -> None:
    for tool in await listed(_EVERYTHING):
        schema = tool.input_schema
        text = json.dumps(schema)
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert not any(word in text for word in ("null", "anyOf", "$ref", "$defs"))
        assert all(field["description"] for field in schema["properties"].values())


async def test_arguments_of_a_script_are_texts_by_any_name() -> None:
    [script] = [tool for tool in await listed(_EVERYTHING) if tool.name == "run_script"]

    arguments = script.input_schema["properties"]["args"]
    assert arguments["additionalProperties"] == {"type": "string"}
    assert Draft202012Validator(arguments).is_valid({"any name": "text"})
    assert not Draft202012Validator(arguments).is_valid({"count": 5})


# Hosts drop additionalProperties, which it has not.
_GEMINI_FIELDS = {
    *("type", "format", "title", "description", "nullable", "enum", "pattern", "example"),
    *("items", "minItems", "maxItems", "properties", "required", "anyOf", "default"),
    *("minLength", "maxLength", "minimum", "maximum", "additionalProperties"),
}


def _walk_schema(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in (*schema.get("properties", {}).values(), schema.get("items", {})):
        yield from _walk_schema(inner) if inner else ()


async def test_gemini_takes_each_schema() -> None:
    """The rules of `FunctionDeclaration` and `Schema` (ai.google.dev/api/caching).

    A name has at most 64 letters of ASCII, digits, `_`, `.`, `:` and `-`, and begins with
    a letter or `_`; one of a parameter has no mark but `_`. A schema is a subset of
    OpenAPI 3.0: an object has properties, an array has items, and only a text has an enum.
    """
    for tool in await listed(_EVERYTHING):
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", tool.name)
        assert tool.description
        # Without any parameter, hosts leave the whole schema out.
        for schema in _walk_schema(tool.input_schema) if tool.input_schema["properties"] else ():
            properties = schema.get("properties", {})

            assert set(schema) <= _GEMINI_FIELDS
            assert bool(properties) == (schema["type"] == "object")
            assert set(schema.get("required", ())) <= set(properties)
            assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name) for name in properties)
            assert ("items" in schema) == (schema["type"] == "array")
            assert schema["type"] == "string" or "enum" not in schema


async def test_function_calling_of_openai_and_claude_takes_each_schema() -> None:
    """The rules of function calling that is not strict, and of `tools` of Claude.

    OpenAI (platform.openai.com/docs/api-reference/chat/create, `tools`): a name of at most
    64 letters, digits, `_` and `-`, a description of at most 1,024 characters, and an
    object without `oneOf`, `anyOf`, `allOf`, `enum` and `not` at its top; an array has
    items. Claude (docs.claude.com, "Define tools"): the same name, and an object;
    its API refuses names of parameters but of letters, digits, `_`, `.` and `-`.
    """
    for tool in await listed(_EVERYTHING):
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name)
        assert len(tool.description or "") <= 1024
        assert not {"oneOf", "anyOf", "allOf", "enum", "not"} & set(tool.input_schema)
        for schema in _walk_schema(tool.input_schema):
            assert ("properties" in schema) == (schema["type"] == "object")
            assert ("items" in schema) == (schema["type"] == "array")
            names = schema.get("properties", {})
            assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in names)


async def test_no_tool_promises_structured_output() -> None:
    tools = await listed(_EVERYTHING)

    assert [tool.output_schema for tool in tools] == [None] * 13


# Core skills


def test_instructions_name_as_many_core_skills_as_have_room() -> None:
    few, many = ("ui/a", "b"), [f"area-{n}/skill" for n in range(400)]

    for settings in (
        {},
        {"toolsets": ["core", "packages"]},
        {"toolsets": ["packages"]},
    ):
        config = parsed(settings)
        text = compose_server_instructions(config, many)

        assert compose_server_instructions(config, few).endswith(": ui/a, b.\n")
        assert len(text.encode()) <= 2048
        assert "area-0/skill, area-1/skill, " in text
        named = text.count("/skill, ") + 1
        assert text.endswith(f" and {400 - named} more.\n")


async def test_core_skills_are_named_at_once_where_they_are_known(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/forms.md", alwaysApply=True)
    write_skill(tmp_path, "ui/draft.md", alwaysApply=True, status="draft")
    write_skill(tmp_path, "api.md")

    async with connected(open_library(tmp_path)) as client:
        instructions = client.instructions or ""
        listed = await ask(client, "list_skills")
        routed = await ask(client, "get_skill", context="example")

    assert "get_skill and its skill_path: ui/forms.\n" in instructions
    assert listed["session_start"]["tokens"] > len(instructions) // 4
    assert listed["core_skills"] == ["ui/forms"]
    assert "core_skills" not in routed


async def test_the_first_answer_names_them_where_the_instructions_could_not(
    tmp_path: Path, era: str
) -> None:
    write_skill(tmp_path, "ui/forms.md", alwaysApply=True)

    async with connected(open_library(tmp_path, load=False), era) as client:
        instructions = client.instructions or ""
        first = await ask(client, "get_skill", context="example")
        second = await ask(client, "get_skill", context="example")

    assert "Core skills" not in instructions
    assert first["core_skills"] == ["ui/forms"]
    assert "core_skills" not in second


async def test_a_first_answer_that_is_an_error_leaves_them_to_the_next(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/forms.md", alwaysApply=True)

    async with connected(open_library(tmp_path, load=False)) as client:
        first = await ask(client, "get_skill", context="example", skill_path="nowhere")
        second = await ask(client, "get_skill", context="example")

    assert first.keys() == {"error"}
    assert second["core_skills"] == ["ui/forms"]


async def test_later_sessions_are_told_what_was_not_known_at_first(
    tmp_path: Path, era: str
) -> None:
    write_skill(tmp_path, "ui/forms.md", alwaysApply=True)
    library = open_library(tmp_path, load=False)
    server = create_server(library)
    async with Client(server, mode=era) as client:
        before = client.instructions or ""

    library.sync()
    async with Client(server, mode=era) as client:
        after = client.instructions or ""

    assert before.startswith("Call get_skill")
    assert "Core skills" not in before
    assert "ui/forms" in after


def test_a_server_that_is_shared_has_no_tool_that_runs_anything() -> None:
    config = parsed({"toolsets": ["core", "packages"], "commands": {"enabled": True}})

    alone = {spec.name for spec in select_tools(config)}
    shared = {spec.name for spec in select_tools(config, is_shared=True)}

    assert alone - shared == {"run_script", "run_skill_command", "run_skill_entry"}


def test_the_instructions_of_a_shared_server_name_no_tool_that_it_lacks() -> None:
    config = parsed({"toolsets": ["core", "packages"], "commands": {"enabled": True}})

    text = compose_server_instructions(config, is_shared=True)

    assert "run_" not in text
    assert "run them in your own shell" in text
    assert len(text.encode()) <= 2048


async def test_the_scripts_of_a_shared_server_are_for_the_agents_own_shell(
    library: SkillLibrary,
) -> None:
    async with Client(create_server(library)) as client:
        alone = await ask(client, "get_skill", context="x", skill_path="ui/react/auth")
    async with Client(create_server(library, is_shared=True)) as client:
        shared = await ask(client, "get_skill", context="x", skill_path="ui/react/auth")

    assert "server" in {script["execution"] for script in alone["scripts"]}
    assert {script["execution"] for script in shared["scripts"]} == {"claude"}


async def test_a_shared_server_names_no_folder_of_its_own_disk(tmp_path: Path) -> None:
    write_pdf(tmp_path)
    library = open_library(tmp_path, settings={"toolsets": ["core", "packages"]})
    async with Client(create_server(library, is_shared=True)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        loaded = await ask(client, "load_skill", skill_name="pdf")
        again = await ask(client, "load_skill", skill_name="pdf", known_digest=loaded["digest"])
        listed = await ask(client, "list_skills")

    assert loaded["path"] is None
    assert again["path"] is None
    assert str(tmp_path) not in json.dumps([loaded, again, listed])
    assert listed["sources"][0]["name"] == tmp_path.name
    assert '"path"' not in (tools["load_skill"].description or "")


def test_no_tool_wants_an_argument_in_a_header() -> None:
    config = Config().model_copy(update={"toolsets": ("core", "packages")})

    schemas = [json.dumps(s.advertise().input_schema) for s in select_tools(config)]

    assert schemas
    assert [each for each in schemas if "x-mcp-header" in each] == []
