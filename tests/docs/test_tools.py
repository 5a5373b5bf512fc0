"""What the reference says of the tools, and every call that it shows."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.remote import Remote
from skills_mcp.library import SkillLibrary
from skills_mcp.server.arguments import input_schema
from skills_mcp.server.tools import TOOLS
from skills_mcp.skills import assets
from tests.clients import connected
from tests.docs.pages import (
    NOTHING,
    REFERENCE,
    TOOLS_PAGE,
    Block,
    blocks,
    code,
    prose,
    section,
    table,
)
from tests.support import SKILLS_CONTENT, Upstream, open_library, write, write_skill


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
