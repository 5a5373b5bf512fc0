"""Several servers over HTTP, and the proxies that we ship the configuration of."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp.client.client import Client

from soak.http.replicas import Caller, Replica, haproxy, nginx, replicas
from soak.scenario import Unavailable
from tests.clients import Reports, ask
from tests.e2e.test_http import HEADERS, INITIALIZE, listening
from tests.support import SKILLS_CONTENT, Upstream, skill_text, until, write_skill

PROXIES = {"haproxy": haproxy, "nginx": nginx}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@contextmanager
def behind(
    folder: Path,
    proxy: str,
    *,
    count: int,
    content: Path = SKILLS_CONTENT,
    **http: Any,
) -> Iterator[tuple[list[Replica], str]]:
    """Start replicas and a proxy; yield them with the address of MCP at the proxy."""
    options = ("--skills-dir", str(content))
    settings = {"http": http}
    work = folder / "work"
    work.mkdir()
    try:
        with (
            replicas(work, count, is_shared=True, settings=settings, options=options) as each,
            PROXIES[proxy](work, each) as port,
        ):
            yield each, f"http://127.0.0.1:{port}/mcp"
    except Unavailable as reason:
        pytest.skip(str(reason))


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that speaks MCP by hand, each request on a new connection."""
    headers = {**HEADERS, "Connection": "close"}
    async with httpx.AsyncClient(
        headers=headers, trust_env=False, base_url=url, timeout=30
    ) as client:
        yield client


@pytest.mark.parametrize("proxy", PROXIES)
async def test_notices_and_progress_pass_the_proxy_at_once(tmp_path: Path, proxy: str) -> None:
    content = tmp_path / "content"
    write_skill(content, "one.md")
    with behind(tmp_path, proxy, count=1, content=content) as (_, url):
        async with (
            listening(url, "auto") as modern,
            listening(url, "legacy") as legacy,
            Client(url) as client,
        ):
            write_skill(content, "two.md")
            reports = Reports()
            await client.call_tool("refresh_skills", {}, progress_callback=reports)

            await until(lambda: len(modern) == len(legacy) == 2)
            assert reports.messages


@pytest.mark.parametrize("proxy", PROXIES)
async def test_what_a_client_says_about_its_address_is_thrown_away(
    tmp_path: Path, proxy: str
) -> None:
    with behind(tmp_path, proxy, count=1, trust_proxy_headers=True, anonymous=["skills:read"]) as (
        each,
        url,
    ):
        forged = {"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
        direct = f"http://127.0.0.1:{each[0].port}/mcp"
        async with client_of(url) as client:
            believed = await client.post(direct, json=INITIALIZE, headers=forged)
            replaced = await client.post(url, json=INITIALIZE, headers=forged)

    assert (believed.status_code, replaced.status_code) == (421, 200)


async def test_haproxy_keeps_a_session_where_alone_it_is_known(tmp_path: Path) -> None:
    with behind(tmp_path, "haproxy", count=2) as (each, url):
        async with client_of(url) as client:
            sessions = []
            for _ in range(4):
                opened = await client.post(url, json=INITIALIZE)
                sessions.append({"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]})
            asked = [
                (await client.post(url, json=PING, headers=session)).status_code
                for session in sessions
                for _ in range(3)
            ]
            held = [
                [(await client.post(_mcp(one), json=PING, headers=session)) for session in sessions]
                for one in each
            ]
            await anyio.to_thread.run_sync(each[0].stop)
            lost = [
                (await client.post(url, json=PING, headers=session)).status_code
                for session in sessions
            ]
            again = await client.post(url, json=INITIALIZE)

    assert asked == [200] * 12
    found = [{reply.status_code for reply in replies} for replies in held]
    assert found == [{200, 404}, {200, 404}]  # each replica has some of them
    assert sorted(set(lost)) == [200, 404]
    assert again.status_code == 200


async def test_without_sessions_any_replica_answers(tmp_path: Path) -> None:
    with behind(tmp_path, "haproxy", count=2, stateless=True) as (each, url):
        async with (
            Client(url, mode="auto") as newer,
            Client(url, mode="legacy") as older,
        ):
            for _ in range(2):
                await ask(newer, "list_skills")
                await ask(older, "list_skills")
            await anyio.to_thread.run_sync(each[0].stop)

            for client in (newer, older):
                reports = Reports()
                reply = await ask(client, "get_skill", context="react auth")
                await client.call_tool("refresh_skills", {}, progress_callback=reports)
                assert reply["skill_path"] == "ui/react/auth"
                assert reports.messages


async def test_without_sessions_only_newer_clients_get_notices(tmp_path: Path) -> None:
    content = tmp_path / "content"
    write_skill(content, "one.md")
    settings = {"http": {"stateless": True}}
    options = ("--skills-dir", str(content))
    with replicas(tmp_path, 1, is_shared=True, settings=settings, options=options) as each:
        async with (
            listening(_mcp(each[0]), "auto") as newer,
            listening(_mcp(each[0]), "legacy") as older,
            Client(_mcp(each[0])) as client,
        ):
            write_skill(content, "two.md")
            await ask(client, "refresh_skills")
            await until(lambda: len(newer) == 2)

    assert older == []


def test_the_second_replica_uses_the_index_of_the_first(tmp_path: Path) -> None:
    upstream = Upstream.create(tmp_path)
    upstream.commit({"first.md": skill_text(keywords=["first"])})
    options = ("--repo", upstream.url)
    first, second = (Replica(number, tmp_path / "home", tmp_path, {}, options) for number in (1, 2))
    try:
        first.start()
        second.start()
        caller = Caller(second.port)
        reply = caller.ask("first")
        caller.close()
    finally:
        first.kill()
        second.kill()

    assert reply["skill_path"] == "first"
    assert "Keeping the index in" in first.log.read_text()
    assert "Using the index in" in second.log.read_text()
    assert "Keeping the index in" not in second.log.read_text()


def _mcp(replica: Replica) -> str:
    return f"http://127.0.0.1:{replica.port}/mcp"
