"""The documentation is part of the program: what it shows, happens; no more, no less.

The word after the language of a fenced block says what a test does with it:

- `title=PATH`: the block is a file of the page's folder;
- `console`: lines with `$ ` are commands, the lines below are what they print;
- `json call [SERVER]`, then `json reply` or `json error`: a tool call and its answer;
- `text help [COMMAND]`: what `--help` prints;
- `yaml skill`: the head of a skill; any other `yaml` block holds settings;
- `python` without a title: run in a folder that holds `skills/`;
- `not-run`: shown only.
"""

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import yaml
from click.testing import CliRunner
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import skills_mcp
from skills_mcp import __version__, errors, snapshot
from skills_mcp.analytics.events import EventType
from skills_mcp.analytics.publisher import INTERVAL_SECONDS, Publisher
from skills_mcp.analytics.spool import Spool
from skills_mcp.bootstrap import DEFAULT_BRANCH
from skills_mcp.cli import program
from skills_mcp.config import (
    REMOTE_SECTIONS,
    Analytics,
    Config,
    Layer,
    Matching,
    Refresh,
    Settings,
)
from skills_mcp.config.trust import LOWER_ONLY
from skills_mcp.content import advice, branch
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.remote import Remote
from skills_mcp.errors import SkillsError
from skills_mcp.library import SkillLibrary
from skills_mcp.routing import stop_words
from skills_mcp.routing.decision import Ambiguous, Match, decide
from skills_mcp.routing.keywords import KeywordMatcher
from skills_mcp.routing.tokens import tokenize
from skills_mcp.safe_yaml import MAX_YAML_CHARACTERS
from skills_mcp.scripts.policy import ENVIRONMENT_ALLOWED
from skills_mcp.scripts.runner import TIMEOUT_EXIT_CODE
from skills_mcp.server import app, arguments
from skills_mcp.server.arguments import input_schema
from skills_mcp.server.tools import TOOLS
from skills_mcp.skills import assets, discovery, frontmatter
from skills_mcp.skills.discovery import load_skills
from skills_mcp.skills.frontmatter import derive_path, parse_skill
from skills_mcp.skills.index import derive_parent_path
from tests.clients import connected
from tests.support import (
    GIT_IDENTITY,
    PROJECT,
    SKILLS_CONTENT,
    Upstream,
    make_skill,
    open_library,
    spooled,
    write,
    write_skill,
)

DOCS = PROJECT / "docs"
REFERENCE = DOCS / "reference"
PAGES = (*sorted(DOCS.rglob("*.md")), *sorted(PROJECT.glob("*.md")))
SOURCES = sorted(Path(skills_mcp.__file__).parent.rglob("*.py"))

NOTHING = "\N{EN DASH}"
"""What an empty cell of a table holds."""

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=[str(page.relative_to(PROJECT)) for page in PAGES]
)


# Reading a page -------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    words: tuple[str, ...]
    text: str

    @property
    def title(self) -> str | None:
        titles = (word for word in self.words if word.startswith("title="))
        return next((title.removeprefix("title=") for title in titles), None)


_FENCED = re.compile(
    r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


def blocks(page: Path, *kind: str) -> list[Block]:
    """Return the fenced blocks of a page whose info string begins with `kind`."""
    found = _FENCED.finditer(page.read_text(encoding="utf-8"))
    infos = [(m["info"].split() or [""], m["text"]) for m in found]
    every = [Block(info[0], tuple(info[1:]), text) for info, text in infos]
    return [b for b in every if (b.language, *b.words)[: len(kind)] == kind]


def block(page: Path, *kind: str) -> str:
    """Return the text of the only block of a kind."""
    [found] = [b for b in blocks(page, *kind) if len(b.words) == len(kind) - 1]
    return found.text


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def section(page: Path, heading: str) -> str:
    """Return what stands below a heading, down to the next one of its level."""
    level, _, _ = heading.partition(" ")
    _, _, rest = f"\n{prose(page)}".partition(f"\n{heading}\n")
    assert rest, f"{page.name} has no heading {heading!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def tables(text: str) -> list[list[dict[str, str]]]:
    """Return the tables of a text, each a list of rows, by the names of columns."""
    found: list[list[dict[str, str]]] = []
    for lines in re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            for line in lines.splitlines()
        )
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of all tables of a text."""
    return [row for rows in tables(text) for row in rows]


def codes(text: str) -> list[str]:
    """Return what stands in backticks."""
    doubled = re.findall(r"``(.+?)``", text)
    return [code.strip() for code in doubled] or re.findall(r"`([^`]+)`", text)


def code(text: str) -> str:
    """Return the only word in backticks."""
    [only] = codes(text)
    return only


def templates(module: ModuleType) -> set[str]:
    """Return the texts in a module's code, with … for what is filled in."""
    texts: set[str] = set()
    parts: set[ast.AST] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            fixed = (getattr(part, "value", "…") for part in node.values)
            texts.add("".join(p if isinstance(p, str) else "…" for p in fixed))
        elif isinstance(node, ast.Constant) and node not in parts:
            texts.add(str(node.value))
    return texts


# Tools ----------------------------------------------------------------------------

TOOLS_PAGE = REFERENCE / "tools.md"


def test_every_tool_has_a_section_and_every_section_a_tool() -> None:
    headings = re.findall(r"^## (\w+_\w+)$", prose(TOOLS_PAGE), re.MULTILINE)

    assert headings == [spec.name for spec in TOOLS]


@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_every_argument_is_documented_as_it_is_advertised(spec: Any) -> None:
    schema = input_schema(spec.arguments)
    rows = [r for r in table(section(TOOLS_PAGE, f"## {spec.name}")) if "Argument" in r]

    documented = {
        code(r["Argument"]): (r["Type"].split()[0], r["Required"] == "yes")
        for r in rows
    }

    assert documented == {
        name: (field["type"], name in schema["required"])
        for name, field in schema["properties"].items()
    }


def test_titles_and_hints_are_what_hosts_are_told() -> None:
    documented = table(section(TOOLS_PAGE, "## What hosts are told"))

    def said(hint: bool | None) -> str:  # noqa: FBT001 - a hint, as it is
        return NOTHING if hint is None else str(hint).lower()

    assert documented == [
        {
            "Tool": f"`{spec.name}`",
            "Title": spec.title,
            "`readOnlyHint`": said(spec.annotations.read_only_hint),
            "`destructiveHint`": said(spec.annotations.destructive_hint),
            "`idempotentHint`": said(spec.annotations.idempotent_hint),
            "`openWorldHint`": said(spec.annotations.open_world_hint),
        }
        for spec in TOOLS
    ]


def test_every_key_for_a_host_is_documented() -> None:
    documented = re.findall(r"`(anthropic/\w+)`", prose(TOOLS_PAGE))

    assert set(documented) == {key for spec in TOOLS for key in spec.meta}


def test_mime_types_are_those_of_the_program() -> None:
    rows = [r for r in table(prose(TOOLS_PAGE)) if "`mime_type`" in r]

    assert {code(r["Extension"]): code(r["`mime_type`"]) for r in rows} == {
        extension: assets.mime_type(f"x{extension}")
        for extension in assets.BINARY_EXTENSIONS
    }


@dataclass(frozen=True)
class Example:
    """A call in the reference, and the blocks that show its answer."""

    server: str
    call: dict[str, Any]
    answer: list[Block]


def examples(page: Path) -> list[Example]:
    found: list[Example] = []
    for each in blocks(page):
        if each.words[:1] == ("call",):
            server = each.words[1] if len(each.words) > 1 else "local"
            found.append(Example(server, json.loads(each.text), []))
        elif each.words in {("reply",), ("error",)}:
            found[-1].answer.append(each)
    return found


def content_server(kind: str, folder: Path) -> SkillLibrary:
    """Return the library that a call in the reference talks to."""
    match kind:
        case "local":
            return open_library(SKILLS_CONTENT)
        case "markdown":
            as_markdown = {"responses": {"format": "markdown"}}
            return open_library(SKILLS_CONTENT, settings=as_markdown)
        case "slow":
            script = {"file": "scripts/long-running.sh", "execution": "server"}
            write_skill(folder / "slow", "_root.md", scripts=[script])
            endless = "echo half-way\nsleep 60\n"
            write(folder / "slow" / "_root" / "scripts" / "long-running.sh", endless)
            hasty = {"scripts": {"timeout_seconds": 1}}
            return open_library(folder / "slow", settings=hasty)
        case "git":
            upstream = Upstream.create(folder)
            shutil.copytree(SKILLS_CONTENT, upstream.work, dirs_exist_ok=True)
            upstream.commit({})
            remote = Remote.parse(upstream.url, "main")
            return open_library(RemoteBranch(remote, folder / "cache"), load=False)
        case "missing":
            return open_library(folder / "ada" / "skills", load=False)
        case _:
            raise AssertionError(f"no such server: {kind}")


async def answers(page: Path, folder: Path) -> list[tuple[Example, CallToolResult]]:
    """Make the calls of a page, in order; each server is started once."""
    wanted = examples(page)
    given: dict[int, CallToolResult] = {}
    for server in dict.fromkeys(example.server for example in wanted):
        async with connected(content_server(server, folder), "auto") as client:
            for number, example in enumerate(wanted):
                if example.server == server:
                    given[number] = await client.call_tool(
                        example.call["name"], example.call["arguments"]
                    )
    return [(example, given[number]) for number, example in enumerate(wanted)]


_PASSING = frozenset({"duration_ms", "commit_hash", "last_sync"})
"""Values that differ from run to run."""


def fits(shown: Any, real: Any) -> bool:
    """Whether a value is what a page shows; `…` stands for the rest of a text."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return shown.keys() == real.keys() and all(
            key in _PASSING or fits(shown[key], real[key]) for key in shown
        )
    if isinstance(shown, list) and isinstance(real, list):
        return len(shown) == len(real) and all(map(fits, shown, real))
    if isinstance(shown, str) and shown.endswith("…"):
        return str(real).startswith(shown.removesuffix("…").rstrip())
    return bool(shown == real)


@pytest.mark.spec("8.1")
@pytest.mark.spec("8.2")
@pytest.mark.spec("8.3")
@pytest.mark.spec("8.4")
@pytest.mark.spec("8.5")
@pytest.mark.spec("8.6")
@pytest.mark.parametrize("name", ["tools", "errors"])
async def test_every_reply_is_what_the_server_answers(
    name: str, tmp_path: Path
) -> None:
    answered = await answers(REFERENCE / f"{name}.md", tmp_path)

    for example, result in answered:
        assert len(example.answer) == len(result.content)
        assert result.is_error is ("error" in example.answer[0].words)
        for shown, given in zip(example.answer, result.content, strict=True):
            assert isinstance(given, TextContent)
            real = given.text.replace(str(tmp_path), "/home")
            is_json = shown.language == "json"
            expected = json.loads(shown.text) if is_json else shown.text.rstrip()
            assert fits(expected, json.loads(real) if is_json else real), real


# Errors ---------------------------------------------------------------------------


def error_classes() -> Iterator[type[SkillsError]]:
    waiting = [SkillsError]
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        if each.__module__.startswith("skills_mcp."):  # not one that a test made up
            yield each


def test_every_error_code_is_documented_and_no_other() -> None:
    # A class that only gives an existing code another cause is no new code.
    raised = {each.code for each in error_classes()} - {SkillsError.code}
    documented = table(section(REFERENCE / "errors.md", "## Codes"))

    assert {code(row["Code"]) for row in documented} == raised
    assert all(all(row.values()) for row in documented)


def test_whose_turn_it_is_agrees_with_the_tree_of_errors() -> None:
    drawn = re.findall(r"Error +([A-Z_]+) +([a-z]+)", errors.__doc__ or "")
    documented = table(section(REFERENCE / "errors.md", "## Codes"))

    assert [
        (code(row["Code"]), row["Whose turn"].split()[0]) for row in documented
    ] == drawn


def test_every_tool_names_only_errors_that_exist_and_every_error_has_a_tool() -> None:
    raised = {each.code for each in error_classes()} - {SkillsError.code}
    named = {word for word in codes(prose(TOOLS_PAGE)) if word.isupper()}

    assert named == raised - {"CONFIG_INVALID"}


@every_page
def test_names_in_capitals_are_codes_or_variables_that_exist(page: Path) -> None:
    variables = table(section(CONFIGURATION, "## Environment variables"))
    known = {each.code for each in error_classes()}
    known |= {code(row["Variable"]) for row in variables}
    known |= {*ENVIRONMENT_ALLOWED, "SSH_AUTH_SOCK", "REMOTE_SECTIONS"}
    used = [
        word for word in codes(prose(page)) if re.fullmatch(r"[A-Z]+_[A-Z_]+", word)
    ]

    assert [
        word
        for word in used
        if word not in known and not word.startswith(("SKILL_ARG_", "GIT_"))
    ] == []


# Configuration --------------------------------------------------------------------

CONFIGURATION = REFERENCE / "configuration.md"

_TYPES: dict[object, str] = {
    float: "number, 0 to 1",
    int: "whole number, 1 or more",
    bool: "true or false",
    str: "text",
    tuple: "list of texts",
    dict: "map of texts",
}


def settings() -> Iterator[tuple[str, FieldInfo]]:
    for name, field in Config.model_fields.items():
        if isinstance(field.default, BaseModel):
            for key, inner in type(field.default).model_fields.items():
                yield f"{name}.{key}", inner
        else:
            yield name, field


def described_type(field: FieldInfo) -> str:
    origin = typing.get_origin(field.annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(field.annotation))
    return _TYPES[origin or field.annotation]


def who_may_set(key: str) -> str:
    section_name, _, name = key.partition(".")
    if not name:
        return "never"
    if (section_name, name) in LOWER_ONLY:
        return "may lower it"
    return "may set it" if section_name in REMOTE_SECTIONS else "if trusted"


@pytest.mark.spec("11.2")
def test_every_setting_is_documented_with_its_type_default_and_meaning() -> None:
    documented = table(section(CONFIGURATION, "### Keys"))

    assert [
        {**row, "Default": yaml.safe_load(code(row["Default"]))} for row in documented
    ] == [
        {
            "Key": f"`{key}`",
            "Type": described_type(field),
            "Default": list(value) if isinstance(value, tuple) else value,
            "Remote content": who_may_set(key),
            "Meaning": field.description,
        }
        for key, field in settings()
        for value in [field.default]
    ]


_VARIABLE_IN_CODE = re.compile(
    r'(?:environ(?:ment)?\.(?:get|pop)\(\s*|envvar=)"([A-Z_]+)"'
)


@pytest.mark.spec("11.1")
def test_every_environment_variable_is_documented_and_no_other() -> None:
    used = {
        name
        for source in SOURCES
        for name in _VARIABLE_IN_CODE.findall(source.read_text(encoding="utf-8"))
    }
    documented = table(section(CONFIGURATION, "## Environment variables"))

    assert {code(row["Variable"]) for row in documented} == used


def test_scripts_see_the_variables_and_runners_that_are_documented() -> None:
    page = DOCS / "how-to" / "run-scripts.md"
    [line] = [line for line in prose(page).splitlines() if "also sees" in line]
    rows = table(section(page, "## Choose the runner"))

    assert codes(line) == list(ENVIRONMENT_ALLOWED)
    assert {code(r["Extension"]): code(r["Command"]) for r in rows} == (
        Config().scripts.runners
    )


# The command line -----------------------------------------------------------------

CLI = REFERENCE / "cli.md"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(
        program,
        arguments,
        prog_name="skills-mcp",
        env={"COLUMNS": "80"},
        terminal_width=80,
    )


def test_every_command_is_documented_with_its_help() -> None:
    shown = {
        " ".join(each.words[1:]): each.text for each in blocks(CLI, "text", "help")
    }

    assert shown == {
        command: run(*command.split(), "--help").output
        for command in ("", *program.commands)
    }


def test_every_option_is_documented_with_its_variable_and_no_other() -> None:
    commands = [program, *program.commands.values()]
    options = [p for command in commands for p in command.params] + [
        program.get_help_option(program.make_context("skills-mcp", ["tree"]))
    ]
    rows = table(section(CLI, "## Options"))

    assert {
        (tuple(sorted(codes(row["Option"]))), *codes(row["Variable"])) for row in rows
    } == {
        (tuple(sorted(option.opts)), *([option.envvar] if option.envvar else []))
        for option in options
        if option
    }


def test_exit_codes_are_those_of_the_table(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    ended = {
        0: run("--version"),
        2: run("no-such-command"),
        3: run("tree"),
        4: run("tree", "--skills-dir", missing, "--log-level", "error"),
    }
    documented = {int(row["Code"]) for row in table(section(CLI, "## Exit codes"))}

    assert {code: result.exit_code for code, result in ended.items()} == {
        code: code for code in ended
    }
    assert documented == {1, *ended}


def test_the_message_without_settings_is_the_real_one() -> None:
    shown = block(DOCS / "how-to" / "connect-your-agent.md", "text", "message")

    assert run("serve").stderr == shown


@pytest.mark.parametrize(
    "page, words",
    [
        ("reference/tools.md", f"longer than {arguments._MAX_TEXT:,} characters"),
        ("reference/tools.md", f"at most {app._FIRST_CONTENT_SECONDS:.0f} seconds"),
        ("reference/tools.md", f"The exit code is {TIMEOUT_EXIT_CODE} either way"),
        ("reference/skill-format.md", f"{discovery.MAX_SKILL_BYTES:,} bytes, UTF-8"),
        ("reference/skill-format.md", f"{MAX_YAML_CHARACTERS:,} characters"),
        ("reference/skill-format.md", f"more than {discovery._MAX_DEPTH} levels"),
        ("reference/skill-format.md", f"-1000 to {frontmatter._MAX_PRIORITY} |"),
        ("reference/configuration.md", f"`SKILLS_BRANCH` | `{DEFAULT_BRANCH}` |"),
        ("reference/cli.md", f"at most {snapshot._LOGGED_PROBLEMS} per sync"),
        ("reference/events.md", f"sends every {INTERVAL_SECONDS:.0f} seconds"),
        ("explanation/sync.md", f"at most {branch._FETCH_TIMEOUT_SECONDS:.0f} seconds"),
        ("explanation/sync.md", f"Every {Refresh().interval_minutes} minutes"),
        ("tutorial.md", f"fetches every {Refresh().interval_minutes} minutes"),
    ],
)
def test_numbers_in_the_text_are_those_of_the_program(page: str, words: str) -> None:
    assert words in (DOCS / page).read_text(encoding="utf-8")


# Skills and events ----------------------------------------------------------------

FORMAT = REFERENCE / "skill-format.md"


@pytest.mark.spec("4.2")
def test_every_problem_of_a_file_is_documented_and_no_other() -> None:
    reasons = {
        text
        for module in (discovery, frontmatter)
        for text in templates(module)
        if re.match(r"(?:has|is|declares|cannot) ", text) and "\n" not in text
    }
    rows = table(section(FORMAT, "## Problems"))

    assert {code(row["What is wrong"]) for row in rows} == reasons


def test_every_field_of_a_skill_is_documented_and_no_other() -> None:
    source = inspect.getsource(frontmatter)
    read = re.findall(r'(?:fields\.get\(|_(?:text|flag)\(\w+, )"(\w+)"', source)
    listed = re.findall(r'_(?:entries|mappings)\(\w+, "(\w+)"(?:, "(\w+)")?', source)
    rows = table(section(FORMAT, "## Fields"))

    documented = {re.split(r"[\[\].]+", code(row["Field"]))[-1] for row in rows}

    assert documented == {*read, *(n for pair in listed for n in pair if n)} | {"file"}


@pytest.mark.spec("4.3")
@pytest.mark.spec("4.4")
def test_paths_and_parents_are_derived_as_documented() -> None:
    for row in table(section(FORMAT, "## Paths")):
        path = derive_path(code(row["File"]))
        parent = derive_parent_path(path)

        assert path == code(row["Path"])
        assert (f"`{parent}`" if parent else NOTHING) == row["Parent"]


def test_every_head_of_a_skill_is_valid(tmp_path: Path) -> None:
    heads = [
        f"---\n{each.text}---\n"
        for page in PAGES
        for each in blocks(page, "yaml", "skill")
    ]
    whole = [
        each.text
        for page in PAGES
        for each in blocks(page, "markdown")
        if each.text.startswith("---")
        # The tutorial breaks a file on purpose.
        and each.title != "skills/ui/react/forms.md"
    ]

    problems = [
        parse_skill(text, file="x.md", directory=tmp_path)[1] for text in heads + whole
    ]

    assert problems == [()] * len(problems)


@pytest.mark.spec("10.1")
@pytest.mark.spec("10.2")
async def test_every_event_has_exactly_the_documented_fields(spool: Spool) -> None:
    library = open_library(
        SKILLS_CONTENT, settings={"analytics": {"enabled": True}}, spool=spool
    )
    script = {
        "file": "scripts/validate-auth-config.py",
        "args": {"client_id": "web", "redirect_uri": "https://x.example/auth/callback"},
    }
    auth = {"skill_path": "ui/react/auth"}
    async with connected(library, "auto") as client:
        await client.call_tool("get_skill", {"context": "bake a cake"})
        await client.call_tool("get_skill", {"context": "require authentication"})
        await client.call_tool("get_skill", {"context": "a login in React"})
        file = "assets/auth-flow.svg"
        await client.call_tool("get_asset", {**auth, "file": file})
        await client.call_tool("run_script", {**auth, **script})
        await client.call_tool("report_usage", {**auth, "useful": True})
        await client.call_tool("refresh_skills", {})
    page = REFERENCE / "events.md"
    events = spooled(spool)

    assert [event["type"] for event in events] == list(typing.get_args(EventType))
    assert re.findall(r"^### (\w+)$", prose(page), re.MULTILINE) == list(
        typing.get_args(EventType)
    )
    outer = [code(row["Field"]) for row in table(section(page, "## Every event"))]
    for event in events:
        rows = table(section(page, f"### {event['type']}"))
        assert list(event) == outer
        assert list(event["data"]) == [code(row["Field"]) for row in rows]
    [served] = [event for event in events if event["type"] == "skill_served"]
    [shown] = json.loads(block(page, "json", "event"))["events"]
    assert list(shown) == list(served)
    assert list(shown["data"]) == list(served["data"])


@pytest.mark.spec("10.3")
async def test_the_receiver_of_the_page_takes_what_the_publisher_sends(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [page] = blocks(DOCS / "how-to" / "analytics.md", "python", "title=receiver.py")
    names: dict[str, Any] = {"__name__": "receiver"}
    exec(page.text, names)  # noqa: S102 - our own page
    names["Receiver"].log_message = lambda *_: None
    monkeypatch.chdir(tmp_path)
    received = tmp_path / "events.jsonl"
    spool.append('{"type": "no_match"}')
    with HTTPServer(("127.0.0.1", 0), names["Receiver"]) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        rules = Analytics(
            enabled=True, endpoint=f"http://127.0.0.1:{receiver.server_port}/"
        )

        sent = await Publisher(spool, lambda: rules).publish()
        receiver.shutdown()

    assert sent == 1
    assert received.read_text(encoding="utf-8") == '{"type": "no_match"}\n'


# Routing --------------------------------------------------------------------------

ROUTING = DOCS / "explanation" / "routing.md"


@pytest.mark.spec("5.1")
def test_words_are_those_of_the_table() -> None:
    for row in table(section(ROUTING, "## From text to words")):
        assert list(tokenize(row["Text"])) == codes(row["Words"])


@pytest.mark.spec("5.1")
@pytest.mark.parametrize("language", ["english", "french"])
def test_the_stop_words_are_those_of_the_program(language: str) -> None:
    shown = block(ROUTING, "text", language).split()

    assert shown == sorted(getattr(stop_words, language.upper()))


@pytest.mark.spec("5.2")
def test_words_and_keywords_match_as_in_the_table() -> None:
    for row in table(section(ROUTING, "## From words to matches")):
        matcher = KeywordMatcher([make_skill("x", keywords=[code(row["Keyword"])])])

        found = bool(matcher.score(code(row["Word"])))

        assert found is (row["Match"] == "yes"), row


@pytest.mark.spec("5.2")
@pytest.mark.spec("5.3")
def test_the_worked_example_has_the_real_numbers() -> None:
    example = section(ROUTING, "## A worked example")
    clear, close = re.findall(r"[Tt]he task is \*(.+?)\*", example)
    ranked, listed = tables(example)
    index = load_skills(SKILLS_CONTENT / "skills").index
    matcher = KeywordMatcher(index)
    by_rank = sorted(matcher.score(clear), key=lambda c: (-c.score, c.skill.path))
    match = decide(matcher.score(clear), Matching())
    ambiguous = decide(matcher.score(close), Matching())
    assert isinstance(ambiguous, Ambiguous)
    top = ambiguous.candidates

    assert ranked == [
        {
            "Skill": f"`{c.skill.path}`",
            "Keywords that match": " ".join(f"`{word}`" for word in c.matched_keywords),
            "Of": str(len(c.skill.keywords)),
            "Priority": str(c.skill.priority),
            "Score": f"{float(c.score):.3f}".rstrip("0"),
        }
        for c in by_rank
    ]
    assert list(tokenize(clear)) == codes(example.splitlines()[2])
    assert isinstance(match, Match)
    assert f"`{match.candidate.skill.path}` with a score of 0.4" in example
    gaps = [first.score - second.score for first, second in (by_rank[:2], top[:2])]
    assert re.findall(r"differ by ([\d.]+\d)", example) == [
        str(float(gap)) for gap in gaps
    ]
    assert [(code(r["Candidate"]), float(r["Score"])) for r in listed] == [
        (c.skill.path, float(c.score)) for c in top
    ]


def test_the_thresholds_of_the_page_are_the_defaults() -> None:
    rules = Matching()
    shown = dict(re.findall(r"`matching\.(\w+)` \(([\d.]+)\)", prose(ROUTING)))

    assert shown == {name: str(getattr(rules, name)) for name in Matching.model_fields}


# Pages as a whole -----------------------------------------------------------------

_MARK = "-- next step --"


def steps(console: Block) -> list[tuple[str, str]]:
    """Split a console block into commands and what they print."""
    parts = re.split(r"^\$ (.*)\n", console.text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def shell_script(page: Path) -> str:
    """Return a page as one shell script, so that folders and variables last."""
    lines = ["exec 2>&1"]
    for each in blocks(page):
        if each.title:
            lines.append(f"mkdir -p {Path(each.title).parent.as_posix()}")
            lines.append(f"cat > {each.title} <<'END OF FILE'\n{each.text}END OF FILE")
        elif each.language == "console":
            for command, _ in steps(each):
                lines += [command, f"echo '{_MARK}'"]
    return "\n".join(lines)


def run_page(page: Path, folder: Path) -> list[str]:
    """Run a page in an empty folder and return what each command printed."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", shell_script(page)],
        cwd=folder,
        env={**os.environ, **GIT_IDENTITY, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.replace(str(folder), "/home/ada").split(f"{_MARK}\n")[:-1]


def normalised(text: str) -> str:
    """Blank out what differs from run to run: commits and times."""
    text = re.sub(r"\b[0-9a-f]{40}\b", "COMMIT", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    page = DOCS / "tutorial.md"
    shown = [step for each in blocks(page, "console") for step in steps(each)]

    printed = run_page(page, folder)

    for (command, expected), real in zip(shown, printed, strict=True):
        assert normalised(real) == normalised(expected), command


def test_python_of_the_pages_runs(tmp_path: Path) -> None:
    shutil.copytree(SKILLS_CONTENT / "skills", tmp_path / "skills")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    programs = [
        each.text
        for page in PAGES
        for each in blocks(page, "python")
        if not each.title and "not-run" not in each.words
    ]

    for text in programs:
        subprocess.run(
            [sys.executable, "-c", text],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            check=True,
        )

    assert programs


@every_page
def test_snippets_parse(page: Path) -> None:
    for each in blocks(page):
        match each.language:
            case "json" if "not-run" not in each.words:
                json.loads(each.text)
            case "toml":
                tomllib.loads(each.text)
            case "yaml" if "skill" not in each.words:
                Settings((Layer(page.name, yaml.safe_load(each.text)),)).resolve()


@every_page
def test_snippets_for_hosts_name_our_program_and_variables_that_exist(
    page: Path,
) -> None:
    known = {
        code(row["Variable"])
        for row in table(section(CONFIGURATION, "## Environment variables"))
    }
    forwarded = known | {"SSH_AUTH_SOCK"}
    parsed = [json.loads(each.text) for each in blocks(page, "json")]
    parsed += [tomllib.loads(each.text) for each in blocks(page, "toml")]

    for snippet in parsed:
        for key in ("mcpServers", "servers", "mcp_servers"):
            for server in snippet.get(key, {}).values():
                assert [server["command"], *server.get("args", [])] in (
                    ["skills-mcp"],
                    ["uvx", "skills-mcp-server"],
                )
                assert set(server.get("env", {})) <= known
                assert set(server.get("env_vars", [])) <= forwarded


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page

        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_every_page_can_be_reached_from_the_index() -> None:
    index = DOCS / "index.md"
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", prose(index))

    assert {index, *(DOCS / link for link in linked)} == set(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_every_page_says_what_to_read_next(page: Path) -> None:
    *_, last = re.findall(r"^## (.+)$", prose(page), re.MULTILINE)

    assert last in {"What to read next", "Where to go next"}


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_every_sentence_has_a_line_of_its_own(page: Path) -> None:
    lines = [line for line in prose(page).splitlines() if not line.startswith("|")]

    assert [line for line in lines if re.search(r"(?<!\d)[.?!] [A-Z]", line)] == []


def test_the_tree_of_modules_is_that_of_the_source() -> None:
    folders: dict[int, str] = {}
    shown = set()
    lines = block(DOCS / "explanation" / "architecture.md", "text", "modules")
    for line in lines.splitlines()[1:]:
        rails, name = re.match(r"([│├└─ ]+)(\S+)", line).groups()  # type: ignore[union-attr]
        depth = len(rails) // 4
        folders[depth] = name
        if name.endswith(".py"):
            shown.add("".join(folders[d] for d in range(1, depth + 1)))

    root = Path(skills_mcp.__file__).parent
    assert shown == {source.relative_to(root).as_posix() for source in SOURCES}


def test_the_walk_of_a_request_names_functions_that_exist() -> None:
    walk = section(
        DOCS / "explanation" / "architecture.md", "## The walk of one request"
    )
    code_base = "\n".join(source.read_text(encoding="utf-8") for source in SOURCES)
    names = [name.rpartition(".")[2] for name in codes(walk)]

    assert [n for n in names if not re.search(rf"(?:def|class) {n}\b", code_base)] == [
        "get_skill"  # the tool
    ]


def test_advice_about_a_repository_is_what_the_program_says() -> None:
    said = templates(advice)
    page = DOCS / "how-to" / "private-repository.md"
    rows = table(section(page, "## When access is refused"))

    for row in rows:
        assert [t for t in said if t.startswith(row["The message says"])], row
    assert len(rows) == len(advice._ADVICE)


@every_page
def test_make_targets_that_are_named_exist(page: Path) -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)

    assert [name for name in named if f"\n{name}:" not in makefile] == []


def test_the_newest_change_is_the_version() -> None:
    changes = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\] - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)

    assert newest
    assert newest[1] == __version__


def test_the_guide_for_agents_is_short() -> None:
    lines = (PROJECT / "AGENTS.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 80


def test_ci_runs_what_developers_run() -> None:
    file = PROJECT / ".github" / "workflows" / "ci.yml"
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    classifiers = tomllib.loads(
        (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]["classifiers"]
    versions = [c.rpartition(" ")[2] for c in classifiers if ":: 3." in c]
    check = workflow["jobs"]["check"]

    assert workflow["permissions"] == {}
    assert check["strategy"]["matrix"]["python"] == versions
    assert check["steps"][-1]["run"].startswith("make check")
