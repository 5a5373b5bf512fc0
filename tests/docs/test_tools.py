"""What the reference says of the tools, and every call that it shows."""

import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from skills_mcp.config import VARIABLES, Commands, Config, Files, Search
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount
from skills_mcp.features.embeddings import skill_embeddings as fused
from skills_mcp.library import skill_library
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.routing import answer_explanation, keyword_matcher, ranked_matcher
from skills_mcp.server import replies, tools
from skills_mcp.server.app import select_tools
from skills_mcp.server.tools import input_schema
from skills_mcp.skills import skill_examples
from skills_mcp.skills import skill_files as assets
from tests.clients import TOOLS, connected
from tests.docs.pages import (
    NOTHING,
    REFERENCE,
    TOOLS_PAGE,
    TOOLS_PAGES,
    Block,
    blocks,
    code,
    codes,
    prose,
    section,
    table,
    templates,
)
from tests.packages import write_package
from tests.support import (
    PROJECT,
    SKILLS_CONTENT,
    Upstream,
    open_library,
    write,
    write_skill,
)

PACKAGES_CONTENT = PROJECT / "fixtures" / "packages-content"
EVERYTHING = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}


def test_every_tool_has_a_page_and_every_page_a_tool() -> None:
    named = {page.stem for page in TOOLS_PAGES if re.fullmatch(r"\w+_\w+", page.stem)}

    assert named == {spec.name for spec in TOOLS}


def test_the_first_page_leads_to_every_tool() -> None:
    linked = re.findall(r"\[(\w+_\w+)\]\(\1\.md\)", prose(TOOLS_PAGE))

    assert linked == [spec.name for spec in TOOLS]


def page_of(name: str) -> Path:
    return REFERENCE / f"tools/{name}.md"


SKILLHUB_PAGE = page_of("skillhub")


@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_every_argument_is_documented_as_it_is_advertised(spec: Any) -> None:
    schema = input_schema(spec.arguments)
    rows = [r for r in table(prose(page_of(spec.name))) if "Argument" in r]

    documented = {code(r["Argument"]): (r["Type"].split()[0], r["Required"] == "yes") for r in rows}

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
    rows = [r for r in table(prose(page_of("get_asset"))) if "`mime_type`" in r]

    assert {code(r["Extension"]): code(r["`mime_type`"]) for r in rows} == {
        extension: assets.binary_mime_type(f"x{extension}")
        for extension in assets.BINARY_EXTENSIONS
    }


def test_each_tool_set_has_the_documented_tools() -> None:
    rows = table(section(TOOLS_PAGE, "## Which tools there are"))
    names = {spec.name for spec in TOOLS}
    both = {code(row["`toolsets`"]): codes(row["Tools"]) for row in rows}
    both["[core, packages]"] = [*both["[core]"], *both["[core, packages]"]]

    assert both.keys() == {"[core]", "[core, packages]", "[packages]"}
    for toolsets, documented in both.items():
        chosen = {"toolsets": tuple(toolsets.strip("[]").split(", "))}
        config = Config.model_validate(chosen)
        assert documented == [spec.name for spec in select_tools(config)]
        with_commands = config.model_copy(update={"commands": Commands(enabled=True)})
        more = {spec.name for spec in select_tools(with_commands)} - set(documented)
        assert more == (
            {"run_skill_command", "run_skill_entry"} if "packages" in toolsets else set()
        )
        assert more <= names


@pytest.mark.parametrize(
    "words",
    [
        f"at most {skill_library.MAX_LISTED_FILES} files",
        f"1 to {tools._MAX_HITS}; without it `search.limit`",
        f"`search.limit`, which is {Search().limit}",
        f"1 to {tools._MAX_LINES:,}; without it {skill_library.DEFAULT_LINES} if",
        f"Its arguments, at most {tools._MAX_ARGS} |",
        f"at most `files.max_bytes`, which is {Files().max_bytes // 1024} KiB",
        f"How many, 1 to {skill_library.MAX_EXAMPLES}; without it 3, and what is",
        f"more than {skill_library.MAX_LISTED_FILES} files, of which the first",
        f"cut after {skill_examples._MAX_TITLE_CHARACTERS} characters",
        f"a list or words with commas, at most {skill_examples._MAX_TAGS}",
        "less than 6 KB, and the instructions less than 2 KB",
    ],
)
def test_limits_in_the_text_are_those_of_the_program(words: str) -> None:
    assert any(words in page.read_text(encoding="utf-8") for page in TOOLS_PAGES)


def test_every_kind_of_evidence_is_documented_and_no_other() -> None:
    rows = table(section(page_of("get_skill"), "## An explanation"))
    documented = {name for r in rows if "`where`" in r for name in codes(r["`where`"])}
    modules = (keyword_matcher, ranked_matcher, answer_explanation, fused)
    source = "".join(map(inspect.getsource, modules))
    named = re.findall(r'where(?:=|, shown = |, matched = |: str = )"(\w+)"', source)

    assert documented == {*named, *ranked_matcher._FIELD_NAMES}


# The comparison with SkillHub


SKILLHUB = ("search_skills", "load_skill", "read_skill_file", "run_skill_command")


def test_every_argument_of_the_four_tools_is_compared() -> None:
    rows = table(section(SKILLHUB_PAGE, "## Arguments"))
    here = [(code(row["Tool"]), code(row["Here"])) for row in rows]

    assert here == [
        (spec.name, argument)
        for name in SKILLHUB
        for spec in TOOLS
        if spec.name == name
        for argument in spec.arguments.model_fields
    ]
    assert [row for row in rows if row["SkillHub"] not in {NOTHING, row["Here"]}] == []


def test_every_argument_that_skillhub_does_not_have_is_optional() -> None:
    rows = table(section(SKILLHUB_PAGE, "## Arguments"))
    added = [(code(r["Tool"]), code(r["Here"])) for r in rows if r["SkillHub"] == NOTHING]
    fields = {spec.name: spec.arguments.model_fields for spec in TOOLS}

    assert [each for each in added if fields[each[0]][each[1]].is_required()] == []


def test_every_field_of_a_reply_is_compared() -> None:
    rows = table(section(SKILLHUB_PAGE, "## Results"))
    said = templates(tools) | templates(replies)
    for tool in SKILLHUB:
        mine = [row for row in rows if code(row["Tool"]) == tool]
        documented = {name for row in mine for name in codes(row["Here"])}
        shown = {
            name
            for example in examples(page_of(tool))
            if example.call["name"] == tool and "reply" in example.answer[0].words
            for block in example.answer
            if block.language == "json"
            for name in json.loads(block.text)
        }

        tops = {re.split(r"\[|\.", name)[0] for name in documented}
        assert shown <= tops | {"instructions"}
        assert {re.split(r"[.\[\]]+", name)[-1] for name in documented} <= said
        assert [r for r in mine if r["SkillHub"] not in {NOTHING, r["Here"]}] == []


def test_the_variables_of_skillhub_set_the_keys_that_the_page_names() -> None:
    rows = table(section(SKILLHUB_PAGE, "## Limits and variables"))
    keys = {code(row["Variable"]): code(row["Key here"]) for row in rows}
    ours = {
        *("ANALYTICS_ENDPOINT", "ANALYTICS_TOKEN_FILE", "ANALYTICS_GROUP"),
        "REFRESH_INTERVAL_MINUTES",
    }

    of_skillhub = [v for v in VARIABLES if not v.name.startswith("SKILLS_MCP_")]
    assert keys == {v.name: v.key for v in of_skillhub if v.name not in ours}
    for row in rows:
        group, name = code(row["Key here"]).split(".")
        value = getattr(getattr(Config(), group), name)
        shown = ",".join(value) if isinstance(value, tuple) else str(value)
        assert row["Default here"].strip("`") == (shown or NOTHING)


# The calls


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


def packages_server(folder: Path, **settings: Any) -> SkillLibrary:
    """Return the sample packages with every tool, in a home without uv."""
    content = folder / "ada" / "packages"
    if not content.exists():
        shutil.copytree(PACKAGES_CONTENT, content)
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to(sys.executable)
    path = {"PATH": str(folder / "bin")}
    return open_library(content, settings=EVERYTHING | settings, environment=path)


def slow_server(folder: Path) -> SkillLibrary:
    script = {"file": "scripts/long-running.sh", "execution": "server"}
    write_skill(folder / "slow", "_root.md", scripts=[script])
    endless = "echo half-way\nsleep 60\n"
    write(folder / "slow" / "_root" / "scripts" / "long-running.sh", endless)
    hasty = {"scripts": {"timeout_seconds": 1}}
    return open_library(folder / "slow", settings=hasty)


def git_server(folder: Path) -> SkillLibrary:
    upstream = Upstream.create(folder)
    shutil.copytree(SKILLS_CONTENT, upstream.work, dirs_exist_ok=True)
    upstream.commit({})
    remote = Remote.parse(upstream.url, "main")
    return open_library(RemoteBranch(remote, folder / "cache"), load=False)


def several_server(folder: Path) -> SkillLibrary:
    """Return a folder at the top, and another one that is away."""
    write_skill(folder / "ada" / "rules", "_root.md")
    mounts = (
        Mount(source=LocalFolder(folder / "ada" / "rules")),
        Mount(source=LocalFolder(folder / "ada" / "notes"), at="mine"),
    )
    return open_library(Mounts(mounts), load=False)


def twice_server(folder: Path) -> SkillLibrary:
    for team in ("teams/app", "teams/web"):
        write_package(folder / "twice", f"{team}/release-notes", body=f"For {team}.")
    return open_library(folder / "twice", settings=EVERYTHING)


def examples_server(folder: Path) -> SkillLibrary:
    """Return a package with two files as examples, and a task."""
    gift = "---\ntitle: A gift to Norway\ntags: [gift]\n---\nTick `gift` in box 4.\n"
    sale = "# A sale to Japan\n\nTick `sale`, and name the buyer.\n"
    files = {"examples/gift.md": gift, "examples/sale.md": sale}
    tasks = ["declare a parcel for Norway"]
    write_package(folder / "examples", "customs", files, examples=tasks)
    return open_library(folder / "examples", settings=EVERYTHING)


_AS_MARKDOWN = {"responses": {"format": "markdown"}}
_NO_CLAIMS = {"deny": ["*/expense-claim"]}

SERVERS: dict[str, Callable[[Path], SkillLibrary]] = {
    "local": lambda _: open_library(SKILLS_CONTENT),
    "markdown": lambda _: open_library(SKILLS_CONTENT, settings=_AS_MARKDOWN),
    "slow": slow_server,
    "git": git_server,
    "several": several_server,
    "missing": lambda folder: open_library(folder / "ada" / "skills", load=False),
    "packages": packages_server,
    "packages-markdown": lambda folder: packages_server(folder, **_AS_MARKDOWN),
    "hidden": lambda folder: packages_server(folder, visibility=_NO_CLAIMS),
    "twice": twice_server,
    "examples": examples_server,
}
"""The libraries that the calls in the reference talk to."""


async def answers(page: Path, folder: Path) -> list[tuple[Example, CallToolResult]]:
    """Make the calls of a page, in order; each server is started once."""
    wanted = examples(page)
    given: dict[int, CallToolResult] = {}
    digests: dict[str, str] = {}  # by those that the page shows
    for server in dict.fromkeys(example.server for example in wanted):
        async with connected(SERVERS[server](folder), "auto") as client:
            for number, example in enumerate(wanted):
                if example.server == server:
                    arguments = {
                        key: digests.get(value, value) if key == "known_digest" else value
                        for key, value in example.call["arguments"].items()
                    }
                    given[number] = await client.call_tool(example.call["name"], arguments)
                    digests |= shown_digest(example, given[number])
    return [(example, given[number]) for number, example in enumerate(wanted)]


def shown_digest(example: Example, result: CallToolResult) -> dict[str, str]:
    """Return which digest of the page stands for which of the program."""
    [shown, *_], [block, *_] = example.answer, result.content
    assert isinstance(block, TextContent)
    digest = json.loads(shown.text).get("digest")
    return {digest: json.loads(block.text).get("digest", "")} if digest else {}


_PASSING = frozenset(
    {"duration_ms", "commit_hash", "commit", "last_sync", "age_seconds", "digest"}
    | {"sandbox", "confined"}
)
"""Values that differ from run to run, from machine to machine, or with some words."""


def fits(shown: Any, real: Any) -> bool:
    """Whether a value is what a page shows; `…` stands for the rest of a text."""
    if isinstance(shown, dict) and isinstance(real, dict):
        # What words are worth depends on the ranking, which becomes better.
        ranked = {"score"} if shown.get("reason") == "token_overlap" else set()
        return shown.keys() == real.keys() and all(
            key in _PASSING | ranked or fits(shown[key], real[key]) for key in shown
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
@pytest.mark.parametrize(
    "page", [*TOOLS_PAGES, REFERENCE / "errors.md"], ids=lambda page: page.stem
)
async def test_every_reply_is_what_the_server_answers(page: Path, tmp_path: Path) -> None:
    answered = await answers(page, tmp_path)

    for example, result in answered:
        assert len(example.answer) == len(result.content)
        assert result.is_error is ("error" in example.answer[0].words)
        for shown, given in zip(example.answer, result.content, strict=True):
            assert isinstance(given, TextContent)
            real = given.text.replace(str(tmp_path), "/home")
            is_json = shown.language == "json"
            expected = json.loads(shown.text) if is_json else shown.text.rstrip()
            assert fits(expected, json.loads(real) if is_json else real), real
