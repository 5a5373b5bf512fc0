"""A real server over HTTP, and the client of the SDK, in both protocol eras."""

import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from mcp.client.client import Client
from mcp_types import (
    ResourceListChangedNotification,
    ToolListChangedNotification,
)

from tests.clients import ERAS, Reports, ask
from tests.http_server import HttpServer, served
from tests.support import PATIENCE_SECONDS, until, write_skill

RUNNING_TOOLS = {"run_script", "run_skill_command", "run_skill_entry"}

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture(params=ERAS, ids=list(ERAS.values()))
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    settings = {"toolsets": ["core", "packages"], "commands": {"enabled": True}}
    with served(settings) as running:
        yield running


async def test_a_client_of_each_era_gets_the_skill_for_its_task(
    server: HttpServer, era: str
) -> None:
    async with Client(server.url, mode=era) as client:
        reply = await ask(client, "get_skill", context="add auth to a react component")
        tools = {tool.name for tool in (await client.list_tools()).tools}
        listed = (await client.list_resources()).resources
        read = await client.read_resource(listed[0].uri)

    assert reply["skill_path"] == "ui/react/auth"
    assert {"get_skill", "search_skills"} <= tools
    assert tools.isdisjoint(RUNNING_TOOLS)
    assert len(listed) == 16
    assert read.contents


@pytest.mark.parametrize("tool", sorted(RUNNING_TOOLS))
async def test_nothing_can_be_run(server: HttpServer, era: str, tool: str) -> None:
    async with Client(server.url, mode=era) as client:
        with pytest.raises(Exception, match=f"Unknown tool: {tool}"):
            await client.call_tool(tool, {})


async def test_progress_arrives_while_a_call_waits(server: HttpServer, era: str) -> None:
    reports = Reports()

    async with Client(server.url, mode=era) as client:
        await client.call_tool("refresh_skills", {}, progress_callback=reports)

    # On a busy machine a step, such as reading skills, has begun before the first one.
    assert str(reports.messages[0]).startswith("Fetch the newest skills: ")


async def test_a_session_of_the_older_era_ends_when_its_client_deletes_it(
    server: HttpServer,
) -> None:
    async with httpx.AsyncClient(headers=HEADERS, trust_env=False) as client:
        opened = await client.post(server.url, json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        alive = await client.post(server.url, json=ping, headers=session)
        deleted = await client.delete(server.url, headers=session)
        gone = await client.post(server.url, json=ping, headers=session)

    assert (alive.status_code, deleted.status_code, gone.status_code) == (200, 200, 404)


async def test_no_event_has_a_separator_at_which_clients_split_it(tmp_path: Path) -> None:
    body = "One\u2028two\u2029three\x85four."
    write_skill(tmp_path, "odd.md", body=body)
    arguments = {"context": "odd", "skill_path": "odd"}
    params = {"name": "get_skill", "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}

    with served(content=tmp_path) as server:
        async with httpx.AsyncClient(headers=HEADERS, trust_env=False) as client:
            opened = await client.post(server.url, json=INITIALIZE)
            session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
            reply = await client.post(server.url, json=call, headers=session)

    [line] = [line for line in reply.text.splitlines() if line.startswith("data: {")]
    content = json.loads(line.removeprefix("data: "))["result"]["content"]
    assert body in json.loads(content[0]["text"])["content"]


@asynccontextmanager
async def listening(url: str, era: str) -> AsyncIterator[list[str]]:
    """Connect a client that writes down which notices it gets."""
    heard: list[str] = []

    async def hear(message: object) -> None:
        if isinstance(message, ResourceListChangedNotification | ToolListChangedNotification):
            heard.append(message.method)

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(url, mode=era, message_handler=hear))
        if era == "auto":
            await stack.enter_async_context(
                client.listen(tools_list_changed=True, resources_list_changed=True)
            )
        await ask(client, "list_skills")
        yield heard


async def test_each_client_is_told_once_that_the_skills_have_changed(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "one.md")
    with served(content=tmp_path) as server:
        server.wait_for_log("Serving 1 skills")  # which is news to who came before
        async with (
            listening(server.url, "auto") as modern,
            listening(server.url, "legacy") as legacy,
            Client(server.url) as client,
        ):
            write_skill(tmp_path, "two.md")
            reply = await ask(client, "refresh_skills")
            await until(lambda: len(modern) == len(legacy) == 2)
            await ask(client, "refresh_skills")

    assert reply["added"] == ["two"]
    assert modern == legacy
    assert len(modern) == 2


async def test_without_sessions_each_request_stands_alone(era: str) -> None:
    with served({"http": {"stateless": True}}) as server:
        async with httpx.AsyncClient(headers=HEADERS, trust_env=False) as client:
            opened = await client.post(server.url, json=INITIALIZE)
        async with Client(server.url, mode=era) as session:
            reply = await ask(session, "get_skill", context="react auth")

    assert "Mcp-Session-Id" not in opened.headers
    assert reply["skill_path"] == "ui/react/auth"


async def test_a_signal_ends_the_server_although_clients_listen(era: str) -> None:
    with served({"http": {"shutdown_seconds": 60}}) as server:
        async with listening(server.url, era):
            server.process.send_signal(signal.SIGTERM)
            code = await anyio.to_thread.run_sync(server.wait)

    assert code == 0
    assert "Traceback" not in server.log


async def test_a_call_that_was_accepted_is_answered_after_the_signal(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "one.md", body="word " * 20_000)
    with served(content=tmp_path) as server:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "get_skill", "arguments": {"context": "w" * 190_000}},
        }
        async with httpx.AsyncClient(headers=HEADERS, trust_env=False) as client:
            opened = await client.post(server.url, json=INITIALIZE)
            session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
            request = client.build_request("POST", server.url, json=call, headers=session)
            answer = await client.send(request, stream=True)
            server.process.send_signal(signal.SIGTERM)
            with anyio.fail_after(PATIENCE_SECONDS):
                text = (await answer.aread()).decode()
            await answer.aclose()

    [line] = [line for line in text.splitlines() if line.startswith("data: {")]
    assert json.loads(line.removeprefix("data: "))["id"] == 1


@pytest.mark.parametrize("pages", [True, False])
def test_a_client_at_a_wrong_path_is_told_the_right_one(*, pages: bool) -> None:
    web = {"web": {"enabled": pages}}
    with served(web) as running, httpx.Client(headers=HEADERS, trust_env=False) as client:
        root = running.url.removesuffix("/mcp")
        served_at = [client.post(f"{root}/mcp{end}", json=INITIALIZE) for end in ("", "/")]
        wrong = [
            client.post(f"{root}{path}", json=INITIALIZE)
            for path in ("/", "/sse", "//mcp", "/MCP", "/mcp//", "/hooks/other")
        ]
        wrong.append(client.get(f"{root}/sse", headers={"Accept": "text/event-stream"}))

    assert {reply.status_code for reply in served_at} == {200}
    assert {reply.status_code for reply in wrong} == {404}
    for reply in wrong:
        message = reply.json()["error"]["message"]
        assert repr(reply.url.raw_path.decode()) in message
        assert message.endswith("/mcp.")
