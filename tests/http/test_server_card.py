"""How clients find the server, and how leniently it reads their headers."""

from collections.abc import Iterator, Mapping

import httpx
import jsonschema
import pytest
from starlette.routing import Router

from skills_mcp import __version__
from skills_mcp.config import Http
from skills_mcp.http.allowed_hosts import with_address_check
from skills_mcp.http.authentication import ProtectedResource
from skills_mcp.http.routes import CARD_PATHS, CATALOG_PATHS, card_routes
from tests.http_server import served

BASE = "https://skills.acme.com"

# The rules of the schema that the card names, in short.
CARD = {
    "required": ["$schema", "name", "version", "description"],
    "properties": {
        "$schema": {
            "const": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
        },
        "name": {"pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "minLength": 3},
        "description": {"maxLength": 100},
        "title": {"maxLength": 100},
    },
}


async def ask(path: str, base_url: str = BASE, **headers: str) -> httpx.Response:
    http = Http(base_url=base_url)
    app = with_address_check(Router(card_routes(ProtectedResource(http).url)), http)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
        return await client.get(path, headers=headers)


@pytest.mark.parametrize("path", CARD_PATHS)
async def test_the_card_says_where_the_server_is_and_what_it_speaks(path: str) -> None:
    reply = await ask(path)

    card = reply.json()
    jsonschema.validate(card, CARD)
    [remote] = card["remotes"]
    assert reply.headers["Content-Type"] == "application/mcp-server-card+json"
    assert (card["name"], card["version"]) == ("com.acme.skills/skills-mcp", __version__)
    assert (remote["type"], remote["url"]) == ("streamable-http", f"{BASE}/mcp")
    assert {"2025-11-25", "2026-07-28"} <= {*remote["supportedProtocolVersions"]}


@pytest.mark.parametrize("path", CATALOG_PATHS)
async def test_the_catalogue_leads_to_the_card(path: str) -> None:
    reply = await ask(path)

    assert reply.headers["Content-Type"] == "application/ai-catalog+json"
    assert reply.json()["entries"] == [
        {
            "identifier": "urn:air:skills.acme.com:mcp:skills-mcp",
            "type": "application/mcp-server-card+json",
            "url": f"{BASE}/mcp/server-card",
        }
    ]


async def test_a_client_that_has_it_gets_it_once() -> None:
    first = await ask("/mcp/server-card")
    again = await ask("/mcp/server-card", **{"If-None-Match": first.headers["ETag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["Cache-Control"] == "public, max-age=3600"


async def test_any_web_page_reads_it_unless_the_server_is_for_its_own_machine() -> None:
    page = {"Origin": "https://page.example"}

    public = await ask("/mcp/server-card", **page)
    own = await ask("/mcp/server-card", "http://localhost:8000", **page)

    assert public.headers["Access-Control-Allow-Origin"] in {"*", page["Origin"]}
    assert own.status_code == 403


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served() as server:
        yield server.url


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "Application/JSON", "Accept": "application/json, text/event-stream"},
        {"Content-Type": "application/json; charset=utf-8", "Accept": ""},
        {"Content-Type": "application/JSON ;charset=utf-8", "Accept": "*/*"},
    ],
)
def test_a_message_is_read_in_any_spelling_of_its_headers(
    url: str, headers: Mapping[str, str]
) -> None:
    parameters = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}

    with httpx.Client() as client:
        client.headers.pop("Accept")
        reply = client.post(url, json=message, headers={k: v for k, v in headers.items() if v})

    assert reply.status_code == 200
    assert '"serverInfo"' in reply.text


def test_the_card_needs_no_token_and_has_the_address_of_the_request(url: str) -> None:
    card = httpx.get(f"{url}/server-card").json()

    assert card["remotes"][0]["url"] == url
    assert card["name"] == "localhost/skills-mcp"
