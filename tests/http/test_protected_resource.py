import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router

from skills_mcp.config import Http
from skills_mcp.http.access_tokens import ALGORITHMS
from skills_mcp.http.allowed_hosts import with_address_check
from skills_mcp.http.authentication import ProtectedResource
from skills_mcp.http.routes import WELL_KNOWN
from tests.http.listening import listening

ISSUER = "https://id.example.com/realms/one"
BASE = "https://skills.example.com"


@contextmanager
def described(**section: Any) -> Iterator[httpx.Client]:
    """Return a client of a resource with these settings."""
    given = {"auth": {"issuer": ISSUER}, "allowed_hosts": ["127.0.0.1"], **section}
    http = Http.model_validate_json(json.dumps(given))
    resource = ProtectedResource(http)
    routes = [Route(path, resource) for path in resource.paths()]
    app = Router(routes, default=PlainTextResponse("MCP"))
    guards = with_address_check(app, http)
    with listening(Router(default=guards)) as url, httpx.Client(base_url=url) as client:
        yield client


@pytest.mark.parametrize("path", [WELL_KNOWN, f"{WELL_KNOWN}/mcp"])
def test_clients_find_the_description_at_both_places(path: str) -> None:
    with described(base_url=f"{BASE}/") as client:
        answer = client.get(path)

    assert answer.json() == {
        "resource": f"{BASE}/mcp",
        "authorization_servers": [ISSUER],
        "scopes_supported": ["skills:read", "skills:feedback", "skills:refresh"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Skills of this organisation",
        "dpop_signing_alg_values_supported": list(ALGORITHMS),
        "dpop_bound_access_tokens_required": False,
    }
    assert answer.headers["Content-Type"] == "application/json"
    ProtectedResourceMetadata.model_validate_json(answer.content)


def test_a_description_is_where_the_standard_looks_for_it() -> None:
    with described(base_url=f"{BASE}/team") as client:
        expected = build_resource_metadata_url(AnyHttpUrl(f"{BASE}/team/mcp"))
        path = str(expected).removeprefix(BASE)

        assert client.get(path).json()["resource"] == f"{BASE}/team/mcp"
        assert client.get(f"{WELL_KNOWN}/mcp").json()["resource"] == f"{BASE}/team/mcp"


def test_everything_else_goes_to_the_application() -> None:
    with described(base_url=BASE) as client:
        assert client.get("/mcp").text == "MCP"
        assert client.get(f"{WELL_KNOWN}/other").text == "MCP"
        assert client.head(WELL_KNOWN).is_success
        assert client.post(WELL_KNOWN).status_code == 405


def test_only_pages_of_allowed_origins_may_read_it() -> None:
    with described(base_url=BASE, allowed_origins=["https://app.example.com"]) as client:
        allowed = client.get(WELL_KNOWN, headers={"Origin": "https://app.example.com"})
        other = client.get(WELL_KNOWN, headers={"Origin": "https://evil.example.com"})

    assert allowed.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
    assert other.status_code == 403
    assert "Access-Control-Allow-Origin" not in other.headers


FORWARDED = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "skills.example.com",
    "X-Forwarded-For": "10.0.0.1",
}


def test_a_base_url_wins_over_what_proxies_say() -> None:
    headers = {**FORWARDED, "X-Forwarded-Host": "127.0.0.1"}
    with described(base_url=BASE, trust_proxy_headers=True) as client:
        answer = client.get(WELL_KNOWN, headers=headers)

    assert answer.json()["resource"] == f"{BASE}/mcp"


def test_without_a_base_url_the_address_of_the_request_counts() -> None:
    with described() as client:
        answer = client.get(WELL_KNOWN, headers=FORWARDED)
        url = str(client.base_url).rstrip("/")

    assert answer.json()["resource"] == f"{url}/mcp"


@pytest.mark.parametrize(
    "headers, resource",
    [
        (FORWARDED, "https://skills.example.com/mcp"),
        (
            {**FORWARDED, "X-Forwarded-Proto": "https, http"},
            "https://skills.example.com/mcp",
        ),
        (
            {**FORWARDED, "X-Forwarded-Proto": "javascript"},
            "http://skills.example.com/mcp",
        ),
    ],
)
def test_a_trusted_proxy_says_what_the_client_called(
    headers: dict[str, str], resource: str
) -> None:
    with described(
        trust_proxy_headers=True, allowed_hosts=["127.0.0.1", "skills.example.com"]
    ) as client:
        answer = client.get(WELL_KNOWN, headers=headers)

    assert answer.json()["resource"] == resource


def test_a_trusted_proxy_names_no_host_that_is_not_allowed() -> None:
    with described(trust_proxy_headers=True) as client:
        answer = client.get(
            WELL_KNOWN, headers={**FORWARDED, "X-Forwarded-Host": "evil.example.com"}
        )

    assert answer.status_code == 421
