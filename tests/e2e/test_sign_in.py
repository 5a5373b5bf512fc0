"""Callers with tokens of a provider, and the client of the SDK, in both eras."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.clients import ERAS, MODERN, ask
from tests.http_server import HttpServer, served
from tests.issuer import AUDIENCE, Issuer, running_issuer
from tests.support import PATIENCE_SECONDS

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
HIDDEN = "ui/react"


@pytest.fixture(params=ERAS, ids=list(ERAS.values()))
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def server(issuer: Issuer) -> Iterator[HttpServer]:
    sign_in = {"issuer": issuer.url, "audience": AUDIENCE}
    grants = [
        {"allow": ["*"], "deny": [f"{HIDDEN}/**"]},
        {"when": {"groups": ["react"]}, "allow": [f"{HIDDEN}/**"]},
    ]
    analytics = {"enabled": True, "identity": "user"}
    settings = {"http": {"auth": sign_in}, "access": grants, "analytics": analytics}
    with served(settings) as running:
        yield running


@asynccontextmanager
async def calling(
    server: HttpServer, token: str, era: str, **headers: str
) -> AsyncIterator[Client]:
    """Connect with a token."""
    signed = {"Authorization": f"Bearer {token}", **headers}
    async with (
        httpx2.AsyncClient(headers=signed, timeout=PATIENCE_SECONDS) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=era) as it,
    ):
        yield it


async def test_a_client_of_each_era_comes_in_with_a_token(
    server: HttpServer, issuer: Issuer, era: str
) -> None:
    async with calling(server, issuer.token(groups=["react"]), era) as client:
        reply = await ask(client, "get_skill", context="react auth")
        tools = {tool.name for tool in (await client.list_tools()).tools}

    assert reply["skill_path"] == "ui/react/auth"
    assert {"get_skill", "refresh_skills", "report_usage"} <= tools


async def test_an_event_names_the_agent_behind_a_request(
    server: HttpServer, issuer: Issuer, era: str
) -> None:
    agent = f"reviewer-{era}"
    async with calling(server, issuer.token(act={"sub": agent}), era) as client:
        await ask(client, "get_skill", context="write the release notes of a version")

    events = "".join(file.read_text() for file in server.home.rglob("*.jsonl"))
    assert f'"agent": "agent-{agent}"' in events


async def test_no_client_of_either_era_comes_in_without_one(server: HttpServer, era: str) -> None:
    with pytest.raises(Exception) as refused:  # noqa: PT011 - the SDK's own, in groups
        async with calling(server, "e30.e30.e30", era):
            pass

    assert "not signed with a permitted algorithm" in _texts(refused.value)


def _texts(error: BaseException) -> str:
    inner = getattr(error, "exceptions", ())
    return " ".join([str(error), *map(_texts, inner)])


async def test_a_caller_sees_the_tools_that_the_token_permits(
    server: HttpServer, issuer: Issuer, era: str
) -> None:
    token = issuer.token(scope="skills:read")

    async with calling(server, token, era) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        listed = await ask(client, "list_skills")

    assert tools == {"get_skill", "list_skills", "get_asset"}
    assert "error" not in listed


async def test_a_client_cannot_call_a_tool_beyond_its_token(
    server: HttpServer, issuer: Issuer, era: str
) -> None:
    async with calling(server, issuer.token(scope="skills:read"), era) as client:
        with pytest.raises(MCPError):
            await client.call_tool("refresh_skills", {})


def test_a_tool_beyond_the_token_is_a_challenge(server: HttpServer, issuer: Issuer) -> None:
    token = issuer.token(scope="skills:read")

    reply = httpx.post(
        server.url,
        headers={**HEADERS, "Authorization": f"Bearer {token}"},
        json=_call("refresh_skills"),
    )
    assert reply.status_code == 403
    assert 'error="insufficient_scope"' in reply.headers["WWW-Authenticate"]


async def test_a_caller_sees_the_skills_that_the_claims_give(
    server: HttpServer, issuer: Issuer, era: str
) -> None:
    async with calling(server, issuer.token(groups=["react"]), era) as client:
        seen = await ask(client, "list_skills")
    async with calling(server, issuer.token(), era) as client:
        hidden = await ask(client, "list_skills")
    narrowed = {"X-Skills-Scope": f"{HIDDEN}/**"}
    async with calling(server, issuer.token(groups=["react"]), era, **narrowed) as client:
        narrow = await ask(client, "list_skills")

    assert "react" in json.dumps(seen)
    assert "react" not in json.dumps(hidden)
    assert "react" in json.dumps(narrow)
    assert len(json.dumps(narrow)) < len(json.dumps(seen))


async def test_a_header_widens_nothing(server: HttpServer, issuer: Issuer, era: str) -> None:
    wide = {"X-Skills-Scope": f"*,{HIDDEN}/**"}
    async with calling(server, issuer.token(), era, **wide) as client:
        listed = await ask(client, "list_skills")

    assert "react" not in json.dumps(listed)


def _call(tool: str) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {}},
    }


def _open_session(server: HttpServer, headers: dict[str, str]) -> str:
    opened = httpx.post(
        server.url,
        headers=headers,
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": ERAS["legacy"],
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
    )
    assert opened.is_success
    return opened.headers["Mcp-Session-Id"]


def test_a_session_is_of_the_caller_who_opened_it(server: HttpServer, issuer: Issuer) -> None:
    own = {**HEADERS, "Authorization": f"Bearer {issuer.token()}"}
    session = {"Mcp-Session-Id": _open_session(server, own)}
    renewed = issuer.token(jti="another", scope="skills:read")
    ping = {"jsonrpc": "2.0", "id": 3, "method": "ping"}

    for token in (issuer.token(sub="eve"), issuer.token(client_id="other")):
        taken = {**HEADERS, **session, "Authorization": f"Bearer {token}"}
        assert httpx.post(server.url, headers=taken, json=ping).status_code == 404
        assert httpx.get(server.url, headers=taken).status_code == 404
        assert httpx.delete(server.url, headers=taken).status_code == 404
    without = httpx.post(server.url, headers={**HEADERS, **session}, json=ping)
    again = {**HEADERS, **session, "Authorization": f"Bearer {renewed}"}

    assert without.status_code == 401
    assert httpx.post(server.url, headers=again, json=ping).is_success


@pytest.mark.parametrize("version", ERAS.values())
def test_no_batch_hides_a_call(server: HttpServer, issuer: Issuer, version: str) -> None:
    signed = {
        **HEADERS,
        "Authorization": f"Bearer {issuer.token(scope='skills:read')}",
        "Mcp-Protocol-Version": version,
    }
    if version == ERAS["legacy"]:
        signed["Mcp-Session-Id"] = _open_session(server, signed)

    batch = httpx.post(server.url, headers=signed, json=[_call("refresh_skills")])

    assert batch.status_code == 400


def test_a_header_that_names_another_tool_is_refused(server: HttpServer, issuer: Issuer) -> None:
    signed = {
        **HEADERS,
        "Authorization": f"Bearer {issuer.token(scope='skills:read')}",
        "Mcp-Protocol-Version": ERAS["auto"],
        "Mcp-Method": "tools/call",
        "Mcp-Name": "refresh_skills",
    }
    body = _call("list_skills")
    body["params"]["_meta"] = MODERN

    reply = httpx.post(server.url, headers=signed, json=body)

    assert reply.status_code == 400


def test_the_description_needs_no_token(server: HttpServer, issuer: Issuer) -> None:
    url = httpx.URL(server.url)

    for path in ("", "/mcp"):
        well_known = f"/.well-known/oauth-protected-resource{path}"
        described = httpx.get(url.copy_with(path=well_known)).json()
        assert described["resource"] == server.url
        assert described["authorization_servers"] == [issuer.url]


def test_nothing_else_is_open(server: HttpServer) -> None:
    url = httpx.URL(server.url)

    for path in ("/", "/mcp/", "/healthz", "/metrics", "/.well-known/other", "//mcp"):
        assert httpx.get(url.copy_with(path=path)).status_code == 401


def test_no_token_gets_into_the_log(server: HttpServer, issuer: Issuer) -> None:
    token = issuer.token(seconds=-300)
    httpx.get(server.url, headers={"Authorization": f"Bearer {token}"})

    assert server.wait_for_log("Refused a token: The token has expired")
    assert token not in server.log
    assert token.rpartition(".")[2] not in server.log
