"""Clients of both eras learn that there are other skills than before."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import (
    ResourceListChangedNotification,
    ToolListChangedNotification,
)

from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.app import ListChangeNotifier, create_server
from skills_mcp.skills.access import EVERYTHING
from tests.clients import ERAS, ServerProcess, SlowSource, ask
from tests.support import (
    SKILLS_CONTENT,
    open_library,
    until,
    wait_for,
    write_skill,
)

RESOURCES = "notifications/resources/list_changed"
TOOLS = "notifications/tools/list_changed"
BOTH = [RESOURCES, TOOLS]


@asynccontextmanager
async def listening(library: SkillLibrary, era: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """Serve a library to a client that writes down what it is told of."""
    heard: list[str] = []

    async def hear(message: object) -> None:
        if isinstance(message, ResourceListChangedNotification | ToolListChangedNotification):
            heard.append(message.method)

    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        tasks.start_soon(library.refresher.run)
        stack.callback(tasks.cancel_scope.cancel)
        stack.callback(library.close)
        client = await stack.enter_async_context(
            Client(create_server(library), mode=era, message_handler=hear)
        )
        if era == "auto":
            await stack.enter_async_context(
                client.listen(tools_list_changed=True, resources_list_changed=True)
            )
        yield client, heard


@pytest.fixture
def content(tmp_path: Path) -> Path:
    write_skill(tmp_path / "content", "one.md", body="One.")
    return tmp_path / "content"


async def test_every_era_says_that_it_tells_of_changes(library: SkillLibrary, era: str) -> None:
    async with listening(library, era) as (client, _):
        capabilities = client.server_capabilities

    assert capabilities.tools is not None
    assert capabilities.tools.list_changed is True
    assert capabilities.resources is not None
    assert capabilities.resources.list_changed is True
    assert not capabilities.resources.subscribe


async def test_a_skill_that_comes_or_goes_is_told(content: Path, era: str) -> None:
    async with listening(open_library(content), era) as (client, heard):
        await ask(client, "refresh_skills")
        quiet = list(heard)
        write_skill(content, "two.md")
        await ask(client, "refresh_skills")
        await until(lambda: len(heard) == 2)
        (content / "two.md").unlink()
        await ask(client, "refresh_skills")
        await until(lambda: len(heard) == 4)

    assert quiet == []
    assert heard == BOTH * 2


async def test_a_description_is_part_of_the_list_and_a_text_is_not(content: Path, era: str) -> None:
    async with listening(open_library(content), era) as (client, heard):
        write_skill(content, "one.md", body="Something else entirely.")
        reply = await ask(client, "refresh_skills")
        await anyio.wait_all_tasks_blocked()
        quiet = list(heard)
        write_skill(content, "one.md", description="Another one")
        await ask(client, "refresh_skills")
        await until(lambda: len(heard) == 2)

    assert reply["changed"] == ["one"]
    assert quiet == []
    assert heard == BOTH


async def test_who_listed_before_there_was_content_learns_that_there_is(
    era: str,
) -> None:
    source = SlowSource(SKILLS_CONTENT)

    async with listening(open_library(source, load=False), era) as (client, heard):
        before = (await client.list_resources()).resources
        source.arrived.set()
        await until(lambda: len(heard) == 2)
        after = (await client.list_resources()).resources

    assert before == []
    assert len(after) == 16
    assert heard == BOTH


async def test_a_client_that_did_not_ask_is_told_nothing_in_2026(content: Path) -> None:
    heard: list[object] = []

    async def hear(message: object) -> None:
        heard.append(message)

    library = open_library(content)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        async with Client(create_server(library), message_handler=hear) as client:
            write_skill(content, "two.md")
            await ask(client, "refresh_skills")
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert heard == []


async def test_a_client_that_has_gone_stops_no_refresh_and_no_other_client(
    content: Path, era: str
) -> None:
    library = open_library(content)
    server = create_server(library)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        async with Client(server, mode=era):
            pass
        write_skill(content, "two.md")
        await library.refresh()
        async with Client(server, mode=era) as client:
            write_skill(content, "three.md")
            reply = await ask(client, "refresh_skills")
        tasks.cancel_scope.cancel()

    assert reply["added"] == ["three"]


class BrokenSession:
    """A connection that fails when it is written to."""

    client_params = None

    async def send_notification(self, _: object) -> None:
        raise OSError("gone")


async def test_a_session_that_fails_is_told_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notices = ListChangeNotifier(find_listing=repr)
    broken: Any = BrokenSession()
    audience = await notices._find(EVERYTHING)
    audience.sessions.append(broken)

    async with notices.run_notifier(create_server(open_library(SKILLS_CONTENT))):
        notices.announce()
        await until(lambda: not notices._audiences)

    assert "A client cannot be notified of new skills" in caplog.text


async def test_a_session_that_has_ended_is_forgotten(content: Path) -> None:
    server = create_server(open_library(content))
    notices = server._notices

    async with Client(server, mode="legacy"):
        await until(lambda: bool(notices._audiences))

    assert not notices._audiences


async def test_a_stream_that_has_ended_is_forgotten(content: Path) -> None:
    server = create_server(open_library(content))
    notices = server._notices

    async with Client(server) as client:
        async with client.listen(tools_list_changed=True):
            held = len(notices._audiences)
        await until(lambda: not notices._audiences)

    assert held == 1


async def test_the_streams_end_with_the_server(content: Path) -> None:
    server = create_server(open_library(content))

    async with (
        Client(server) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        server.end_streams()
        told = [event async for event in events]

    assert told == []


def test_an_announcement_to_a_loop_that_has_ended_is_heard_by_nobody() -> None:
    notices = ListChangeNotifier(find_listing=repr)
    server = create_server(open_library(SKILLS_CONTENT))

    async def listen() -> None:
        async with notices.run_notifier(server):
            wakers.extend(notices._wake_callbacks)

    wakers: list[Any] = []
    anyio.run(listen)
    notices._wake_callbacks.extend(wakers)

    notices.announce()

    with pytest.raises(RuntimeError):
        wakers[0]()


# Over a real pipe


@pytest.fixture
def server(content: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    environment = {"SKILLS_DIR": str(content)}
    process = ServerProcess(environment=environment, log=tmp_path / "log")
    yield process
    process.close()


def told(server: ServerProcess) -> list[str]:
    """Return the notices that have arrived, in their order."""
    methods = (json.loads(line).get("method") for line in tuple(server.lines))
    return [method for method in methods if method in BOTH]


def test_a_client_of_june_2025_is_told_over_stdio(server: ServerProcess, content: Path) -> None:
    server.request(
        "initialize",
        protocolVersion=ERAS["legacy"],
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
        _meta={},
    )
    server.notify("notifications/initialized")
    refresh = {"name": "refresh_skills", "arguments": {}, "_meta": {}}
    server.request("tools/call", **refresh)
    before = len(told(server))

    write_skill(content, "two.md")
    server.request("tools/call", **refresh)

    wait_for(lambda: told(server)[before:][-2:] == BOTH)


def test_a_client_that_shakes_hands_twice_is_told_once(
    server: ServerProcess, content: Path
) -> None:
    server.request(
        "initialize",
        protocolVersion=ERAS["legacy"],
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
        _meta={},
    )
    server.notify("notifications/initialized")
    server.notify("notifications/initialized")
    refresh = {"name": "refresh_skills", "arguments": {}, "_meta": {}}
    server.request("tools/call", **refresh)
    server.request("tools/list", _meta={})
    before = len(told(server))  # none, if the content was there before the handshake

    write_skill(content, "two.md")
    server.request("tools/call", **refresh)
    wait_for(lambda: len(told(server)) >= before + len(BOTH))
    server.request("tools/list", _meta={})

    assert told(server)[before:] == BOTH


def test_a_client_of_2026_is_told_over_stdio(server: ServerProcess, content: Path) -> None:
    wanted = {"resourcesListChanged": True}
    number = server.send("subscriptions/listen", notifications=wanted)
    acknowledged = server.receive()
    server.call("refresh_skills")
    before = len(told(server))

    write_skill(content, "two.md")
    server.call("refresh_skills")

    wait_for(lambda: told(server)[before:][-1:] == [RESOURCES])
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    stamps = [
        json.loads(line)["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
        for line in server.lines
        if RESOURCES in line
    ]
    assert set(stamps) == {number}
    assert TOOLS not in told(server)


async def test_an_edit_in_a_folder_is_served_and_told_without_a_call(
    content: Path, era: str
) -> None:
    library = open_library(content, is_watching=True)
    async with listening(library, era) as (client, heard):
        await ask(client, "refresh_skills")  # the background work has begun
        write_skill(content, "one.md", description="Another one", body="Edited.")
        await until(lambda: len(heard) == 2)
        reply = await ask(client, "get_skill", context="x", skill_path="one")

    assert heard == BOTH
    assert "Edited." in reply["content"]


async def test_a_broken_edit_is_left_out_until_it_is_repaired(content: Path) -> None:
    library = open_library(content, is_watching=True)
    async with listening(library, "auto") as (client, heard):
        await ask(client, "refresh_skills")
        (content / "one.md").write_text("no frontmatter")
        await until(lambda: len(heard) == 2)
        write_skill(content, "one.md", body="Repaired.")
        await until(lambda: len(heard) == 4)
        reply = await ask(client, "get_skill", context="x", skill_path="one")

    assert "Repaired." in reply["content"]
