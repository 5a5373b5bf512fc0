"""Sign-in with a real identity provider: the SDK's client finds its way by itself."""

import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
)
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from soak.http.identity_provider import (
    ROBOT,
    SECRET,
    IdentityProvider,
    find_port,
    make_key,
    provided,
)
from soak.scenario import Figure, Scale, Scenario
from tests.clients import ERAS, ask
from tests.http_server import served
from tests.support import PATIENCE_SECONDS, wait_for

_ROTATED_SECONDS = 15  # after at most 10 seconds it is asked for
_OK, _UNAUTHORISED, _UNAVAILABLE = 200, 401, 503
_CALLBACK = "http://127.0.0.1:9/callback"


class _Storage:
    """Keeps what the client of the SDK wants to keep."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Browser:
    """Signs a user in and agrees to everything, as the provider's pages ask for."""

    def __init__(self) -> None:
        self._code = ("", "", "")

    async def open(self, url: str) -> None:
        """Go from page to page until the provider sends the browser back."""
        async with httpx2.AsyncClient() as client:
            page = await client.get(url)
            while not str(page.headers.get("location", "")).startswith(_CALLBACK):
                page = await self._go_on(client, page)
        said = parse_qs(urlsplit(page.headers["location"]).query)
        self._code = (said["code"][0], said["state"][0], said["iss"][0])

    async def _go_on(self, client: httpx2.AsyncClient, page: httpx2.Response) -> httpx2.Response:
        if page.is_redirect:
            return await client.get(page.url.join(page.headers["location"]))
        page.raise_for_status()
        [target] = re.findall(r'<form[^>]* action="([^"]+)"', page.text)
        [prompt] = re.findall(r'name="prompt" value="(\w+)"', page.text)
        form = {"prompt": prompt, "login": "ada", "password": "any"}
        return await client.post(page.url.join(target), data=form)

    async def come_back(self) -> AuthorizationCodeResult:
        """Return what the provider has sent back."""
        code, state, issuer = self._code
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)


def _as_program(url: str, provider: IdentityProvider) -> OAuthClientProvider:
    return ClientCredentialsOAuthProvider(url, _Storage(), ROBOT, SECRET, issuer=provider.url)


def _as_person(url: str, _: IdentityProvider) -> OAuthClientProvider:
    browser = _Browser()
    about = OAuthClientMetadata(
        redirect_uris=[AnyUrl(_CALLBACK)],
        token_endpoint_auth_method="none",  # noqa: S106 - it has no secret
        client_name="An agent",
    )
    return OAuthClientProvider(url, about, _Storage(), browser.open, browser.come_back)


@asynccontextmanager
async def _calling(url: str, era: str, **options: object) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(timeout=PATIENCE_SECONDS, **options) as http,  # type: ignore[arg-type]
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


def sign_in(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Sign programs and people in, while keys rotate and the provider goes."""
    port = find_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with provided(folder, url) as provider:
        first, second = make_key("first"), make_key("second")
        provider.start(first)
        auth = {"issuer": provider.url}
        base_url = url.removesuffix("/mcp")
        with served({"http": {"port": port, "base_url": base_url, "auth": auth}}) as it:
            it.wait_for_log(url)
            yield from _discover(url, provider)
            yield from _call(url, provider, scale)
            yield from _rotate(url, provider, second, first)
            yield from _go_without(url, provider, scale)


def _discover(url: str, provider: IdentityProvider) -> Iterator[Figure]:
    """Let the SDK's client find everything from the first 401 on."""
    for who, sign in (("program", _as_program), ("person", _as_person)):
        done = sum(anyio.run(_ask, url, era, sign(url, provider)) for era in ERAS)
        yield Figure.every(53, f"a {who} signs in by itself", done, len(ERAS))
    stepped = sum(anyio.run(_step_up, url, era, provider) for era in ERAS)
    what = "a tool beyond the token: a new token, and called"
    yield Figure.every(53, what, stepped, len(ERAS))


async def _ask(url: str, era: str, auth: OAuthClientProvider) -> bool:
    async with _calling(url, era, auth=auth) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        reply = await ask(client, "get_skill", context="react auth")
    return reply["skill_path"] == "ui/react/auth" and "refresh_skills" in tools


async def _step_up(url: str, era: str, provider: IdentityProvider) -> bool:
    """Call a tool for which the first token has no scope."""
    auth = _as_program(url, provider)
    token = OAuthToken(access_token=provider.issue(), scope="skills:read")
    await auth.context.storage.set_tokens(token)
    async with _calling(url, era, auth=auth) as client:
        before = {tool.name for tool in (await client.list_tools()).tools}
        reply = await ask(client, "refresh_skills")
    now = await auth.context.storage.get_tokens()
    held = set((now.scope or "").split()) if now else set()
    is_kept = held == {"skills:read", "skills:refresh"}
    return "refresh_skills" not in before and "error" not in reply and is_kept


def _call(url: str, provider: IdentityProvider, scale: Scale) -> Iterator[Figure]:
    """Call with valid tokens, and with tokens that were changed."""
    count = scale.count(full=500, quick=20)
    tokens = [provider.issue() for _ in range(min(count, 20))]
    answers = [_status(url, tokens[n % len(tokens)]) for n in range(count)]
    yield Figure.every(53, "valid tokens: accepted", answers.count(_OK), count)
    changed = tokens[: scale.count(full=20, quick=2)]
    forged = [each for token in changed for each in _forge(token)]
    came_in = sum(_status(url, each) != _UNAUTHORISED for each in forged)
    yield Figure.none(53, "changed tokens: accepted", came_in, len(forged))


def _forge(token: str) -> Iterator[str]:
    """Iterate over a token with one letter changed here and there."""
    for place in range(0, len(token), max(1, len(token) // 25)):
        letter = "A" if token[place] != "A" else "B"
        yield token[:place] + letter + token[place + 1 :]
    yield token.rpartition(".")[0] + "."


_http = httpx2.Client(timeout=PATIENCE_SECONDS)


def _status(url: str, token: str) -> int:
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": ERAS["auto"],
        "Mcp-Method": "server/discover",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": _META}
    return _http.post(url, headers=headers, json=body).status_code


_META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": ERAS["auto"],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


def _rotate(url: str, provider: IdentityProvider, *keys: dict[str, object]) -> Iterator[Figure]:
    """Let a new key sign, whose name the server has never heard of."""
    old = provider.issue()
    provider.start(*keys)
    new, started = provider.issue(), time.monotonic()
    wait_for(lambda: _status(url, new) == _OK)
    seconds = round(time.monotonic() - started, 1)
    what = "seconds until a new key is known"
    yield Figure.at_most(53, what, seconds, _ROTATED_SECONDS)
    accepted = _status(url, old) == _OK
    yield Figure.every(53, "tokens of the key before: accepted", accepted, 1)


def _go_without(url: str, provider: IdentityProvider, scale: Scale) -> Iterator[Figure]:
    """Kill the provider: known users stay in, and no user is told to sign in again."""
    count = scale.count(full=200, quick=20)
    tokens = [provider.issue() for _ in range(5)]
    provider.start(make_key("third"))
    unknown = provider.issue()
    provider.kill()
    answers = [_status(url, tokens[n % len(tokens)]) for n in range(count)]
    what = "provider away, known keys: accepted"
    yield Figure.every(53, what, answers.count(_OK), count)
    wait_for(lambda: _status(url, unknown) == _UNAVAILABLE)
    refused = [_status(url, unknown) for _ in range(count)]
    what = "provider away, unknown key: 503, not 401"
    yield Figure.every(53, what, refused.count(_UNAVAILABLE), count)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("sign-in", sign_in),)
