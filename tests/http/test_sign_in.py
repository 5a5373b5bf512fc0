"""The sign-in in front of an application that says who has come in."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from starlette.responses import JSONResponse
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Config, Grant, Http
from skills_mcp.errors import ConfigError
from skills_mcp.features.web.site import find_page_scopes
from skills_mcp.http import provider_metadata
from skills_mcp.http.admission import BodyBufferMiddleware
from skills_mcp.http.authentication import check_sign_in, require_sign_in
from skills_mcp.http.routes import WELL_KNOWN
from skills_mcp.skills.access import (
    FEEDBACK,
    PRINCIPAL_KEY,
    READ,
    REFRESH,
    SCOPES,
    Principal,
)
from tests.http.listening import listening
from tests.issuer import Issuer, running_issuer
from tests.support import until, wait_for

BASE = "https://skills.example.com"
METADATA = f"{BASE}{WELL_KNOWN}/mcp"

EVERY_SCOPE = "skills:read skills:feedback skills:refresh"


async def say_who(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the caller and the body that came in."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    caller: Principal = scope[PRINCIPAL_KEY]
    token = get_access_token()
    answer = {
        "subject": caller.subject,
        "issuer": caller.issuer,
        "scopes": sorted(caller.scopes),
        "grants": caller.access.grants,
        "narrowed": caller.access.scope,
        "body": len(body),
        "token": token and token.model_dump(),
    }
    await JSONResponse(answer)(scope, receive, send)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


def settings(issuer: str, **auth: Any) -> Http:
    """Return settings with sign-in, as the operator writes them."""
    http = {name: auth.pop(name) for name in tuple(auth) if name in Http.model_fields}
    section = {"base_url": BASE, "auth": {"issuer": issuer, **auth}, **http}
    return Http.model_validate_json(json.dumps(section))


def put_behind_sign_in(config: Config) -> ASGIApp:
    """Return the application behind the sign-in and the buffer of bodies."""
    guard = require_sign_in(say_who, config, find_page_scopes)
    buffered = BodyBufferMiddleware(guard, http=config.http)
    return Router(default=buffered, lifespan=guard.lifespan_context)


@contextmanager
def guarded(
    issuer: str, grants: list[Grant] | None = None, **changed: Any
) -> Iterator[httpx.Client]:
    """Return a client of an application behind the sign-in."""
    config = Config(http=settings(issuer, **changed), access=tuple(grants or ()))
    with listening(put_behind_sign_in(config)) as url, httpx.Client(base_url=url) as client:
        yield client


@pytest.fixture(scope="module")
def client(issuer: Issuer) -> Iterator[httpx.Client]:
    with guarded(issuer.url) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def fields(answer: httpx.Response) -> Mapping[str, str]:
    """Return what a challenge says."""
    scheme, _, rest = answer.headers["WWW-Authenticate"].partition(" ")
    assert scheme == "Bearer"
    pairs = (each.partition("=") for each in rest.split(", "))
    return {name: value.strip('"') for name, _, value in pairs}


def call(tool: str) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {}},
    }


def test_a_caller_with_a_token_comes_in(client: httpx.Client, issuer: Issuer) -> None:
    caller = client.post("/mcp", headers=bearer(issuer.token()), content=b"{}").json()

    assert caller["subject"] == "ada"
    assert caller["issuer"] == issuer.url
    assert caller["scopes"] == sorted(EVERY_SCOPE.split())
    assert caller["grants"] is None
    assert caller["body"] == 2


def test_the_application_learns_whose_session_it_is_but_no_token(
    client: httpx.Client, issuer: Issuer
) -> None:
    known = client.get("/mcp", headers=bearer(issuer.token())).json()["token"]

    assert known["client_id"] == "agent"
    assert known["subject"] == "ada"
    assert known["claims"] == {"iss": issuer.url}
    assert known["token"] == ""


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}]
)
def test_without_a_token_a_caller_is_told_where_to_get_one(
    client: httpx.Client, headers: Mapping[str, str]
) -> None:
    answer = client.post("/mcp", headers=headers, json=call("get_skill"))

    assert answer.status_code == 401
    assert fields(answer) == {
        "realm": "skills-mcp",
        "scope": EVERY_SCOPE,
        "resource_metadata": METADATA,
    }
    assert answer.json()["error"]["data"]["code"] == "SIGN_IN_NEEDED"
    assert METADATA in answer.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD", "PUT"])
def test_no_method_comes_in_without_a_token(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/mcp").status_code == 401


def test_a_refused_token_is_refused_with_the_reason(client: httpx.Client, issuer: Issuer) -> None:
    answer = client.get("/mcp", headers=bearer(issuer.token(seconds=-61)))

    assert answer.status_code == 401
    challenge = fields(answer)
    assert challenge["error"] == "invalid_token"
    assert challenge["error_description"] == "The token has expired"
    assert challenge["resource_metadata"] == METADATA
    assert answer.json()["error"]["data"]["code"] == "INVALID_TOKEN"


def test_a_token_is_in_one_header_only(client: httpx.Client, issuer: Issuer) -> None:
    token = issuer.token()
    twice = [("Authorization", f"Bearer {token}")] * 2

    for answer in (
        client.get("/mcp", params={"access_token": token}),
        client.get(f"/mcp?access%5Ftoken={token}"),
        client.get("/mcp?access_token=", headers=bearer(token)),
        client.get("/mcp", headers=twice),
    ):
        assert answer.status_code == 400
        assert fields(answer)["error"] == "invalid_request"
        assert token not in answer.text
    assert client.get("/mcp?scope=access_token", headers=bearer(token)).is_success


def test_a_provider_that_is_away_is_no_reason_to_sign_in_again() -> None:
    with running_issuer() as issuer:
        token = issuer.token()

    with guarded(issuer.url) as client:
        answer = client.get("/mcp", headers=bearer(token))

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "10"
    assert "WWW-Authenticate" not in answer.headers
    assert answer.json()["error"]["data"]["code"] == "SIGN_IN_UNAVAILABLE"


def test_the_log_tells_at_the_start_that_a_provider_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_issuer() as issuer:
        url = issuer.url

    with guarded(url):
        wait_for(lambda: "No keys to check tokens with" in caplog.text)


def test_keys_are_loaded_before_anyone_comes(issuer: Issuer) -> None:
    before = issuer.asked_for_keys()

    with guarded(issuer.url):
        wait_for(lambda: issuer.asked_for_keys() == before + 1)


def test_a_provider_that_hangs_holds_up_neither_the_start_nor_the_end() -> None:
    with running_issuer() as issuer:
        issuer.released.clear()
        with guarded(issuer.url) as client:
            wait_for(lambda: issuer.requests)
            assert client.get(WELL_KNOWN).is_success


def test_a_provider_that_has_gone_keeps_nobody_out_who_is_known() -> None:
    with running_issuer() as issuer, guarded(issuer.url) as client:
        token = issuer.token()
        assert client.get("/mcp", headers=bearer(token)).is_success
        issuer.shutdown()
        issuer.server_close()

        assert client.get("/mcp", headers=bearer(token)).is_success
        other = issuer.token(sub="bob")
        assert client.get("/mcp", headers=bearer(other)).is_success


def test_a_caller_comes_in_with_a_key_that_was_replaced_under_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provider_metadata, "PAUSE_SECONDS", 0.0)
    with running_issuer() as issuer, guarded(issuer.url) as client:
        assert client.get("/mcp", headers=bearer(issuer.token())).is_success
        issuer.keys.clear()
        issuer.publish("first", number=1)

        renewed = client.get("/mcp", headers=bearer(issuer.token(number=1)))
        withdrawn = client.get("/mcp", headers=bearer(issuer.token()))

    assert renewed.is_success
    assert withdrawn.status_code == 401


async def test_callers_who_wait_for_the_provider_take_no_thread_from_others() -> None:
    with running_issuer() as issuer:
        app = put_behind_sign_in(Config(http=settings(issuer.url)))
        signed = bearer(issuer.token())
        issuer.released.clear()
        transport = httpx.ASGITransport(app)
        async with (
            httpx.AsyncClient(transport=transport, base_url=BASE) as client,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(8):
                tasks.start_soon(partial(client.get, "/mcp", headers=signed))
            await until(lambda: issuer.requests)
            taken = anyio.to_thread.current_default_thread_limiter().borrowed_tokens
            issuer.released.set()

    assert taken == 0
    assert issuer.asked_for_keys() == 1


async def test_made_up_tokens_do_not_fill_the_server_while_a_provider_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statuses: list[int] = []
    with running_issuer() as issuer:
        app = put_behind_sign_in(Config(http=settings(issuer.url)))
        made_up = bearer(issuer.token(kid="made-up"))
        transport = httpx.ASGITransport(app)
        async with (
            httpx.AsyncClient(transport=transport, base_url=BASE) as client,
            anyio.create_task_group() as tasks,
        ):

            async def ask() -> None:
                answer = await client.get("/mcp", headers=made_up)
                statuses.append(answer.status_code)

            known = bearer(issuer.token())
            assert (await client.get("/mcp", headers=known)).is_success
            monkeypatch.setattr(provider_metadata, "PAUSE_SECONDS", 0)
            issuer.released.clear()
            for _ in range(40):
                tasks.start_soon(ask)
            await until(lambda: len(statuses) == 40 - 16)
            assert set(statuses) == {503}
            assert (await client.get("/mcp", headers=known)).is_success
            issuer.released.set()

    assert statuses.count(401) == 16


def test_every_request_needs_the_scope_to_read(client: httpx.Client, issuer: Issuer) -> None:
    token = issuer.token(scope="openid skills:refresh")

    for answer in (
        client.get("/mcp", headers=bearer(token)),
        client.post("/mcp", headers=bearer(token), json=call("refresh_skills")),
    ):
        assert answer.status_code == 403
        assert fields(answer) == {
            "realm": "skills-mcp",
            "scope": "skills:read skills:refresh",
            "resource_metadata": METADATA,
            "error": "insufficient_scope",
            "error_description": "The request needs the scope skills:read",
        }


@pytest.mark.parametrize("path", ["/report", "/api/report"])
def test_the_report_needs_a_scope_besides_that_to_read(
    client: httpx.Client, issuer: Issuer, path: str
) -> None:
    reader, reporter = (issuer.token(scope=scope) for scope in ("skills:read", "skills:report"))
    both = issuer.token(scope="skills:read skills:report")

    answers = [client.get(path, headers=bearer(each)) for each in (reader, reporter)]

    assert [each.status_code for each in answers] == [403, 403]
    assert {fields(each)["scope"] for each in answers} == {"skills:read skills:report"}
    assert client.get(path, headers=bearer(both)).is_success


@pytest.mark.parametrize(
    "tool, held, needed",
    [
        ("refresh_skills", "skills:read skills:feedback", REFRESH),
        ("report_usage", "skills:read skills:refresh", FEEDBACK),
    ],
)
def test_a_tool_needs_its_own_scope(
    client: httpx.Client, issuer: Issuer, tool: str, held: str, needed: str
) -> None:
    token = issuer.token(scope=held)

    refused = client.post("/mcp", headers=bearer(token), json=call(tool))
    permitted = client.post("/mcp", headers=bearer(token), json=call("get_skill"))

    assert refused.status_code == 403
    assert needed in fields(refused)["error_description"]
    assert set(fields(refused)["scope"].split()) == {*held.split(), needed}
    assert permitted.is_success


def test_a_header_does_not_say_which_tool_it_is(client: httpx.Client, issuer: Issuer) -> None:
    reads = bearer(issuer.token(scope=READ))
    lies = {**reads, "Mcp-Method": "tools/call", "Mcp-Name": "get_skill"}

    answer = client.post("/mcp", headers=lies, json=call("refresh_skills"))

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b'{"method": "tools/call"}', b"\xff\xfe"),
        b'{"method": "tools/call", "params": []}',
        b'{"method": "tools/call", "params": {"name": 7}}',
        b"[" * 20_000,
    ],
)
def test_what_calls_no_tool_is_left_to_the_application(
    client: httpx.Client, issuer: Issuer, body: bytes
) -> None:
    reads = bearer(issuer.token(scope=READ))

    answer = client.post("/mcp", headers=reads, content=body)

    assert answer.json()["body"] == len(body)


@pytest.mark.parametrize("size", [0, 100_000, 3_000_000])
def test_a_body_in_parts_arrives_as_a_whole(
    client: httpx.Client, issuer: Issuer, size: int
) -> None:
    reads = bearer(issuer.token(scope=READ))
    parts = (b"x" * 10_000 for _ in range(size // 10_000))

    assert client.post("/mcp", headers=reads, content=parts).json()["body"] == size


@pytest.mark.parametrize("where", ["header", "address"])
def test_a_request_narrows_what_it_is_about(
    client: httpx.Client, issuer: Issuer, where: str
) -> None:
    signed, narrow = bearer(issuer.token()), "ui/**, docs/*"
    asked = (
        client.get("/mcp", headers={**signed, "X-Skills-Scope": narrow})
        if where == "header"
        else client.get("/mcp", headers=signed, params={"scope": narrow})
    )

    assert asked.json()["narrowed"] == ["ui/**", "docs/*"]


@pytest.mark.parametrize(
    "headers, query",
    [
        ({"X-Skills-Scope": "a"}, {"scope": "b"}),
        ({"X-Skills-Scope": ",".join(map(str, range(33)))}, {}),
        ({"X-Skills-Scope": "x" * 257}, {}),
        ({"X-Skills-Scope": ",".join(f"{n}{'x' * 200}" for n in range(21))}, {}),
        ({"X-Skills-Scope": ",".join(f"{n}*a*b*" for n in range(22))}, {}),
        ({}, {"scope": "**/a" * 64 + "/*"}),
        ({}, {"scope": ["a", "b"]}),
    ],
)
def test_a_scope_that_cannot_be_meant_is_refused(
    client: httpx.Client,
    issuer: Issuer,
    headers: dict[str, str],
    query: dict[str, Any],
) -> None:
    signed = {**bearer(issuer.token()), **headers}

    answer = client.get("/mcp", headers=signed, params=query)

    assert answer.status_code == 400
    assert answer.json()["error"]["data"]["code"] == "INVALID_ARGUMENTS"
    assert client.get("/mcp", headers=headers, params=query).status_code == 401


def test_a_caller_sees_what_the_grants_say_of_the_claims(issuer: Issuer) -> None:
    grants = [
        Grant(allow=("*",), deny=("payments/**",)),
        Grant(when={"groups": ("payments",)}, allow=("payments/**",)),
    ]
    with guarded(issuer.url, grants) as client:
        ada = client.get("/mcp", headers=bearer(issuer.token(groups=["payments"])))
        bob = client.get("/mcp", headers=bearer(issuer.token(groups=["ui"])))

    assert ada.json()["grants"] == [[["*"], ["payments/**"]], [["payments/**"], []]]
    assert bob.json()["grants"] == [[["*"], ["payments/**"]]]


def test_scopes_have_the_names_that_the_provider_gives_them(issuer: Issuer) -> None:
    prefix = "api://skills/"
    asked = ["openid", "skills:read"]
    with guarded(
        issuer.url, scope_prefix=prefix, requested_scopes=asked, scope_claims=["roles"]
    ) as client:
        described = client.get(WELL_KNOWN).json()
        bare = client.get("/mcp", headers=bearer(issuer.token(roles=["skills:read"])))
        whole = client.get("/mcp", headers=bearer(issuer.token(roles=[prefix + READ])))
        neither = client.get("/mcp", headers=bearer(issuer.token(roles=["other"])))

    assert described["scopes_supported"] == ["openid", "api://skills/skills:read"]
    assert bare.is_success
    assert whole.is_success
    assert neither.status_code == 403
    assert fields(neither)["scope"] == "api://skills/skills:read openid"


def test_default_scopes_are_for_tokens_without_any(issuer: Issuer) -> None:
    with guarded(issuer.url, default_scopes=[READ]) as client:
        without = client.get("/mcp", headers=bearer(issuer.token(without=("scope",))))
        empty = client.get("/mcp", headers=bearer(issuer.token(scope="")))

    assert without.json()["scopes"] == [READ]
    assert empty.status_code == 403


def test_the_audience_is_the_address_unless_another_is_named(issuer: Issuer) -> None:
    with guarded(issuer.url, audience="api://skills") as client:
        own = client.get("/mcp", headers=bearer(issuer.token(aud="api://skills")))
        address = client.get("/mcp", headers=bearer(issuer.token()))

    assert own.is_success
    assert address.status_code == 401
    assert "api://skills" in fields(address)["error_description"]


@pytest.mark.parametrize("sub", ["", " ", "a\nb", "\ud800", "a" * 256])
def test_a_caller_has_a_name(client: httpx.Client, issuer: Issuer, sub: str) -> None:
    answer = client.get("/mcp", headers=bearer(issuer.token(sub=sub)))

    assert answer.status_code == 401
    assert "The sub of the token is no name" in fields(answer)["error_description"]


@pytest.mark.parametrize("client_id", ["", None, 7, {"a": 1}, "\ud800"])
def test_what_is_no_name_names_no_client(
    client: httpx.Client, issuer: Issuer, client_id: object
) -> None:
    token = issuer.token(client_id=client_id, azp="agents")

    answer = client.get("/mcp", headers=bearer(token)).json()

    assert answer["token"]["client_id"] == "agents"


def test_no_part_of_a_challenge_ends_its_quotes(issuer: Issuer) -> None:
    with guarded(issuer.url, audience='a"b\\c é') as client:
        answer = client.get("/mcp", headers=bearer(issuer.token()))

    assert answer.headers["WWW-Authenticate"].count('"') == 10
    assert "a?b?c ?" in answer.headers["WWW-Authenticate"]


def test_without_sign_in_every_caller_is_a_stranger() -> None:
    grants = [Grant(allow=("ui/**",)), Grant(when={"groups": ("x",)}, allow=("*",))]
    with (
        listening(put_behind_sign_in(Config(access=tuple(grants)))) as url,
        httpx.Client(base_url=url) as client,
    ):
        caller = client.get("/mcp", headers={"X-Skills-Scope": "ui/a"}).json()
        wrong = client.get("/mcp?scope=a&scope=b")
        metadata = client.get(WELL_KNOWN).json()

    assert caller["subject"] == ""
    assert caller["scopes"] == sorted(SCOPES)
    assert caller["grants"] == [[["ui/**"], []]]
    assert caller["narrowed"] == ["ui/a"]
    assert caller["token"] is None
    assert wrong.status_code == 400
    assert "resource" not in metadata


@pytest.mark.parametrize(
    "section, asked",
    [
        ({"host": "0.0.0.0"}, "http.anonymous"),  # noqa: S104 - refused
        ({"host": "10.0.0.7"}, "http.auth.issuer"),
        ({"host": "skills.internal"}, "http.auth.issuer"),
        ({"auth": {"audience": "x"}}, "http.auth.issuer"),
        ({"auth": {"issuer": "https://id.example.com"}}, "http.base_url"),
        (
            {
                "host": "10.0.0.7",
                "auth": {"issuer": "https://id.example.com", "audience": "x"},
            },
            "http.base_url",
        ),
        (
            {
                "allow_anonymous": True,
                "base_url": BASE,
                "auth": {"issuer": "https://id.example.com"},
            },
            "leave one of them out",
        ),
    ],
)
def test_it_does_not_start_if_callers_could_come_in_by_mistake(
    section: dict[str, Any], asked: str
) -> None:
    with pytest.raises(ConfigError, match=asked):
        check_sign_in(Config(http=Http.model_validate_json(json.dumps(section))))


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"host": "localhost"},
        {"host": "::1"},
        {"host": "10.0.0.7", "allow_anonymous": True},
        {
            "host": "10.0.0.7",
            "base_url": BASE,
            "auth": {"issuer": "https://id.example.com"},
        },
        {"auth": {"issuer": "https://id.example.com", "audience": "x"}},
    ],
)
def test_it_starts_with_sign_in_or_for_this_machine(section: dict[str, Any]) -> None:
    check_sign_in(Config(http=Http.model_validate_json(json.dumps(section))))
