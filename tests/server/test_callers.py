"""Each caller sees what the grants give, and hears of nothing else."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.app import create_server
from skills_mcp.skills.access import (
    FEEDBACK,
    OPERATOR,
    PRINCIPAL_KEY,
    READ,
    REFRESH,
    Access,
    Principal,
)
from skills_mcp.skills.model import to_standard_name
from tests.clients import ask, ask_extension, list_published
from tests.support import Upstream, open_library, until, write, write_skill

REFUND = f"skill://{to_standard_name('payments/refund')}/SKILL.md"

UI = Access(grants=((("ui/**", "ui"), ()),))


@asynccontextmanager
async def called_by(
    principal: Principal,
    library: SkillLibrary,
    era: str = "auto",
    *,
    headers: Sequence[tuple[bytes, bytes]] = (),
    **options: Any,
) -> AsyncIterator[Client]:
    """Connect a client whose every message comes from one caller."""
    server = create_server(library, is_shared=True)

    async def sign(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        scope = {"type": "http", "headers": [*headers], PRINCIPAL_KEY: principal}
        ctx.request = Request(scope)
        return await call_next(ctx)

    server.middleware.insert(0, sign)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        async with Client(server, mode=era, **options) as client:
            yield client
        library.close()
        tasks.cancel_scope.cancel()


@pytest.fixture
def content(tmp_path: Path) -> Path:
    folder = tmp_path / "content"
    write_skill(folder, "ui/forms.md", keywords=["form"], alwaysApply=True)
    write_skill(folder, "payments/refund.md", keywords=["refund"], alwaysApply=True)
    return folder


async def test_a_caller_sees_only_what_is_given(content: Path) -> None:
    caller = replace(OPERATOR, access=UI)

    async with called_by(caller, open_library(content), "auto") as client:
        missed = await ask(client, "get_skill", context="refund")
        listed = await ask(client, "list_skills")
        resources = (await client.list_resources()).resources
        opening = client.instructions or ""
        with pytest.raises(Exception, match="There is no skill"):
            await client.read_resource("skill://payments/refund/SKILL.md")
        with pytest.raises(Exception, match="There is no skill"):
            await client.read_resource(REFUND)
        with pytest.raises(Exception, match="No skill is served"):
            await ask_extension(client, "skills/get", uri=REFUND)
        published = await list_published(client)

    assert missed["no_match"]
    assert [each.title for each in resources] == ["ui/forms"]
    assert [each["uri"] for each in published] == [resources[0].uri]
    assert "ui/forms" in opening
    assert "payments" not in json.dumps([missed, listed, opening])


async def test_a_tool_beyond_the_scopes_of_a_caller_does_not_exist(content: Path, era: str) -> None:
    reader = Principal("ada", "https://login.example", frozenset({READ}), Access())

    async with called_by(reader, open_library(content), era) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        with pytest.raises(Exception, match=r"Unknown tool: refresh_skills\. There are"):
            await client.call_tool("refresh_skills", {})

    assert tools == {"get_skill", "list_skills", "get_asset"}


async def test_no_text_names_a_tool_beyond_the_scopes_of_a_caller(content: Path, era: str) -> None:
    reader = Principal("ada", "https://login.example", frozenset({READ}), Access())
    write_skill(content, "box/SKILL.md", name="box")
    notes = write(content / "box" / "notes.txt", "one")

    library = open_library(content)
    async with called_by(reader, library, era) as client:
        await library.refresh()  # the first one may still be reading
        await ask(client, "list_skills")
        notes.write_text("two, after the skills were read")
        with pytest.raises(MCPError, match="Wait for the next sync") as changed:
            await client.read_resource("skill://box/notes.txt")
        instructions = str(client.instructions)

    told = f"{instructions} {changed.value.error.message}"
    assert "get_skill" in told
    assert not {"refresh_skills", "report_usage"} & set(re.findall(r"\w+", told))
    assert "\n\n\n" not in instructions


async def test_a_list_that_depends_on_the_caller_is_kept_for_that_caller_alone(
    content: Path,
) -> None:
    scopes = frozenset({READ, REFRESH, FEEDBACK})
    caller = Principal("ada", "https://login.example", scopes, UI)

    async with called_by(caller, open_library(content), "auto") as client:
        tools = await client.list_tools()
        resources = await client.list_resources()

    assert tools.cache_scope == "private"
    assert resources.cache_scope == "private"


async def test_a_caller_hears_only_of_a_change_that_can_be_seen(content: Path, era: str) -> None:
    heard: list[object] = []

    async def hear(message: object) -> None:
        heard.append(message)

    caller, library = replace(OPERATOR, access=UI), open_library(content)
    async with (
        called_by(caller, library, era, message_handler=hear) as client,
        listening(client, era),
    ):
        for number, path in enumerate(("payments/tax.md", "ui/menus.md", "ui/tabs.md")):
            write_skill(content, path)
            await library.refresh()
            await until(lambda: len(heard) >= 2 * number)  # noqa: B023 - asked at once
        await anyio.wait_all_tasks_blocked()

    assert len(heard) == 4


@asynccontextmanager
async def listening(client: Client, era: str) -> AsyncIterator[None]:
    if era == "legacy":
        yield
        return
    async with client.listen(tools_list_changed=True, resources_list_changed=True):
        yield


async def test_a_caller_states_the_packages_of_its_project(tmp_path: Path) -> None:
    applies_to = [{"package": "npm:react", "versions": ">=18,<19"}]
    write_skill(tmp_path, "hooks.md", keywords=["hooks"], applies_to=applies_to)
    library, found = open_library(tmp_path), []

    for stated in (b"react@19.1", b"react@18.3, next@14", b"the newest"):
        headers = [(b"x-skills-project", stated)]
        async with called_by(OPERATOR, library, headers=headers) as client:
            found.append(await ask(client, "get_skill", context="hooks"))

    wrong, fitting, refused = found
    assert wrong["applies"] == "Written for react >=18,<19; this project has 19.1."
    assert wrong["content"].startswith(wrong["applies"])
    assert "applies" not in fitting
    assert refused["error"]["code"] == "INVALID_ARGUMENTS"


async def test_the_reason_for_no_content_names_nothing_to_a_caller_with_grants(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/payments/secret.md": "---\nkeywords: [\n---\n"})
    source = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    library = open_library(source, load=False)

    caller = replace(OPERATOR, access=UI, subject="ada", issuer="https://login.example")
    async with called_by(caller, library) as client:
        found = [await ask(client, tool) for tool in ("list_skills", "refresh_skills")]

    for reply in found:
        assert reply["error"]["code"] == "CONTENT_UNAVAILABLE"
        assert "secret" not in json.dumps(reply)
        assert upstream.url not in json.dumps(reply)
