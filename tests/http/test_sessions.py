"""Sessions of several callers, at the endpoint of the SDK behind the sign-in."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import httpx
import pytest
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from skills_mcp.config import Config, Http
from skills_mcp.http.admission import BodyBufferMiddleware, SessionLimitMiddleware
from skills_mcp.http.authentication import require_sign_in
from skills_mcp.server.callers import CLIENT_KEY
from tests.http.listening import listening
from tests.issuer import AUDIENCE, Issuer, running_issuer
from tests.support import until

CAPACITY = 3
NO_CHECK = TransportSecuritySettings(enable_dns_rebinding_protection=False)

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


class Caller:
    """A caller with a token, and what the endpoint answers."""

    def __init__(self, client: httpx.Client, token: str) -> None:
        self._client = client
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
        }

    def open(self) -> httpx.Response:
        return self._client.post("/mcp", headers=self._headers, json=INITIALIZE)

    def open_several(self, number: int) -> list[str]:
        return [self.open().headers["Mcp-Session-Id"] for _ in range(number)]

    def uses(self, session_id: str) -> bool:
        headers = {**self._headers, "Mcp-Session-Id": session_id}
        reply = self._client.post("/mcp", headers=headers, json=PING)
        assert reply.status_code in {200, 404}
        return reply.status_code == 200

    @contextmanager
    def listening(self, session_id: str) -> Iterator[None]:
        headers = {**self._headers, "Mcp-Session-Id": session_id}
        with self._client.stream("GET", "/mcp", headers=headers) as reply:
            assert reply.status_code == 200
            yield

    def end(self, session_id: str) -> None:
        headers = {**self._headers, "Mcp-Session-Id": session_id}
        assert self._client.delete("/mcp", headers=headers).status_code == 200


@contextmanager
def callers(issuer: Issuer, *names: str) -> Iterator[list[Caller]]:
    """Serve with room for a few sessions; one client for each caller."""
    endpoint = Server("test").streamable_http_app(
        max_sessions=CAPACITY, transport_security=NO_CHECK
    )
    app = SessionLimitMiddleware(endpoint, CAPACITY)
    auth = {"issuer": issuer.url, "audience": AUDIENCE}
    config = Config(http=Http.model_validate({"auth": auth}))
    buffered = BodyBufferMiddleware(require_sign_in(app, config), http=config.http)
    served = Router(default=buffered, lifespan=endpoint.router.lifespan_context)
    with (
        listening(served) as url,
        httpx.Client(base_url=url) as client,
    ):
        yield [Caller(client, issuer.token(sub=name)) for name in names]


def test_a_caller_with_all_sessions_gives_one_up_for_another(issuer: Issuer) -> None:
    with callers(issuer, "greedy", "ada") as (greedy, ada):
        its = greedy.open_several(CAPACITY)

        [hers] = ada.open_several(1)

        assert ada.uses(hers)
        assert [greedy.uses(each) for each in its] == [False, True, True]


def test_sessions_that_were_used_last_are_kept(issuer: Issuer) -> None:
    with callers(issuer, "greedy", "ada") as (greedy, ada):
        first, second, third = greedy.open_several(CAPACITY)
        for each in (second, third, first):
            assert greedy.uses(each)

        ada.open_several(1)

        assert [greedy.uses(each) for each in (first, second, third)] == [*(True, False, True)]


def test_the_greediest_keeps_no_other_caller_out(issuer: Issuer) -> None:
    with callers(issuer, "greedy", "ada", "bob") as (greedy, ada, bob):
        [hers], [his] = ada.open_several(1), bob.open_several(1)

        its = greedy.open_several(20)

        assert ada.uses(hers)
        assert bob.uses(his)
        assert [greedy.uses(each) for each in its] == [False] * 19 + [True]


def test_an_open_stream_keeps_its_session(issuer: Issuer) -> None:
    with callers(issuer, "greedy", "ada") as (greedy, ada):
        its = greedy.open_several(CAPACITY)
        with greedy.listening(its[0]):
            ada.open_several(1)

            assert [greedy.uses(each) for each in its] == [True, False, True]


def test_without_an_idle_session_a_caller_is_told_when_to_come_again(
    issuer: Issuer,
) -> None:
    with callers(issuer, "greedy", "ada") as (greedy, ada):
        first, second, third = greedy.open_several(CAPACITY)
        with (
            greedy.listening(first),
            greedy.listening(second),
            greedy.listening(third),
        ):
            refused = ada.open()

    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert refused.json()["error"]["data"]["code"] == "TOO_MANY_SESSIONS"


def test_an_ended_session_makes_room(issuer: Issuer) -> None:
    with callers(issuer, "ada", "bob") as (ada, bob):
        first, second, third = ada.open_several(CAPACITY)
        ada.end(second)

        bob.open_several(1)

        assert ada.uses(first)
        assert ada.uses(third)


def test_the_session_of_another_caller_does_not_exist(issuer: Issuer) -> None:
    with callers(issuer, "ada", "greedy") as (ada, greedy):
        [hers] = ada.open_several(1)

        assert not greedy.uses(hers)
        assert ada.uses(hers)


def test_a_refused_request_takes_no_session(issuer: Issuer) -> None:
    with callers(issuer, "ada") as (ada,):
        its = ada.open_several(CAPACITY)
        for _ in range(5):
            refused = ada._client.post("/mcp", headers=ada._headers, json=PING)
            assert refused.status_code == 400

        assert sum(map(ada.uses, its)) == CAPACITY - 1


async def test_a_session_is_idle_when_its_answer_is_sent() -> None:
    is_over, statuses = anyio.Event(), list[int]()

    async def answer_slowly(scope: Scope, _: Receive, send: Send) -> None:
        headers = [(b"mcp-session-id", b"x")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        if scope["method"] == "POST":
            await is_over.wait()

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    limited = SessionLimitMiddleware(answer_slowly, 1)
    scope: Scope = {"type": "http", "method": "POST", "headers": [], CLIENT_KEY: "ada"}
    async with anyio.create_task_group() as group:
        group.start_soon(limited, scope, receive, send)
        await until(lambda: statuses)
        group.start_soon(limited, scope, receive, send)
        await until(lambda: len(statuses) > 1)
        is_over.set()

    assert statuses == [200, 200]
