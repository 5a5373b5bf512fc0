from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.server.http import admission
from skills_mcp.server.http.admission import Admission

LISTEN = {
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "subscriptions/listen",
}


class Busy:
    """An application that answers when it is told to, and counts what it was given."""

    def __init__(self) -> None:
        self.may_answer = anyio.Event()
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.bodies.append(await Request(scope, receive).body())
        await self.may_answer.wait()
        await PlainTextResponse("done")(scope, receive, send)


@pytest.fixture
def app() -> Busy:
    return Busy()


def limits(**changed: object) -> Http:
    """Return small limits, with some changed."""
    small = {"max_concurrent_requests": 2, "max_waiting_requests": 1, "max_streams": 2}
    return Http().model_copy(update={**small, **changed})


def client_of(app: Busy, http: Http) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Admission(app, http=http))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


class Crowd:
    """Clients that ask at once, and what each of them is answered."""

    def __init__(self, client: httpx.AsyncClient, tasks: anyio.abc.TaskGroup) -> None:
        self._client = client
        self._tasks = tasks
        self.replies: list[httpx.Response] = []

    async def ask(self, times: int, **request: object) -> None:
        """Send requests, and let each come as far as it gets."""
        for _ in range(times):
            self._tasks.start_soon(self._ask, request)
        await anyio.wait_all_tasks_blocked()

    async def _ask(self, request: dict[str, object]) -> None:
        given = {"method": "POST", "url": "/mcp", **request}
        sent = self._client.build_request(**given)  # type: ignore[arg-type]
        self.replies.append(await self._client.send(sent))

    @property
    def statuses(self) -> list[int]:
        return sorted(reply.status_code for reply in self.replies)


async def test_one_request_too_many_is_told_when_to_come_again(app: Busy) -> None:
    async with client_of(app, limits()) as client, anyio.create_task_group() as tasks:
        crowd = Crowd(client, tasks)

        await crowd.ask(4)

        [refused] = crowd.replies
        assert refused.status_code == 503
        assert 1 <= int(refused.headers["Retry-After"]) <= 5
        error = refused.json()["error"]
        assert error["data"]["code"] == "SERVER_BUSY"
        assert f"Try again in {refused.headers['Retry-After']} s" in error["message"]
        app.may_answer.set()


async def test_every_admitted_request_is_answered(app: Busy) -> None:
    async with client_of(app, limits()) as client:
        async with anyio.create_task_group() as tasks:
            crowd = Crowd(client, tasks)
            await crowd.ask(10)
            app.may_answer.set()

        assert crowd.statuses == [200] * 3 + [503] * 7
        assert len(app.bodies) == 3


async def test_there_is_room_again_after_an_answer(app: Busy) -> None:
    app.may_answer.set()
    async with client_of(app, limits()) as client:
        for _ in range(10):
            assert (await client.post("/mcp")).status_code == 200


async def test_a_request_does_not_wait_for_ever(
    app: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_MAX_WAIT_SECONDS", 0.01)
    async with client_of(app, limits()) as client, anyio.create_task_group() as tasks:
        await Crowd(client, tasks).ask(2)

        assert (await client.post("/mcp")).status_code == 503
        app.may_answer.set()


async def test_streams_that_wait_keep_no_call_from_being_answered(app: Busy) -> None:
    async with client_of(app, limits()) as client:
        async with anyio.create_task_group() as tasks:
            streams, calls = Crowd(client, tasks), Crowd(client, tasks)
            await streams.ask(1, method="GET")
            await streams.ask(1, headers=LISTEN)
            await calls.ask(3)
            assert calls.replies == []
            await streams.ask(1, headers=LISTEN)
            assert streams.statuses == [503]
            app.may_answer.set()

        assert calls.statuses == [200] * 3


async def test_only_the_newer_version_opens_streams_with_a_header(app: Busy) -> None:
    older = {**LISTEN, "MCP-Protocol-Version": "2025-11-25"}
    async with client_of(app, limits()) as client, anyio.create_task_group() as tasks:
        crowd = Crowd(client, tasks)

        await crowd.ask(4, headers=older)

        assert crowd.statuses == [503]
        app.may_answer.set()


async def test_a_body_arrives_whole(app: Busy) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one ", b"two ", b"three"):
            yield part

    app.may_answer.set()
    async with client_of(app, limits()) as client:
        await client.post("/mcp", content=parts())

    assert app.bodies == [b"one two three"]


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_body_that_is_too_large_is_refused(
    app: Busy, *, is_declared: bool
) -> None:
    def parts() -> Iterator[bytes]:
        yield from [b"x" * 60, b"x" * 60]

    async def parts_without_a_size() -> AsyncIterator[bytes]:
        for part in parts():
            yield part

    content = b"".join(parts()) if is_declared else parts_without_a_size()
    async with client_of(app, limits(max_body_bytes=100)) as client:
        refused = await client.post("/mcp", content=content)

    assert refused.status_code == 413
    assert refused.json()["error"]["data"]["code"] == "REQUEST_TOO_LARGE"
    assert "larger than 100 bytes" in refused.json()["error"]["message"]
    assert app.bodies == []


async def test_a_body_that_opens_a_stream_is_short(app: Busy) -> None:
    async with client_of(app, limits()) as client:
        refused = await client.post("/mcp", headers=LISTEN, content=b"x" * 70_000)

    assert refused.status_code == 413


async def test_a_body_that_comes_too_slowly_is_refused(app: Busy) -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    async with client_of(app, limits(request_timeout_seconds=0.01)) as client:
        refused = await client.post("/mcp", content=never())

    assert refused.status_code == 408
    assert refused.headers["Connection"] == "close"
    assert refused.json()["error"]["data"]["code"] == "REQUEST_TOO_SLOW"


async def test_clients_that_send_slowly_keep_no_call_from_being_answered(
    app: Busy,
) -> None:
    rest = anyio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await rest.wait()

    app.may_answer.set()
    async with client_of(app, limits()) as client, anyio.create_task_group() as tasks:
        for _ in range(5):
            await Crowd(client, tasks).ask(1, content=slow())

        assert (await client.post("/mcp")).status_code == 200
        rest.set()


async def test_all_bodies_together_are_bounded(app: Busy) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * 100
        await app.may_answer.wait()

    http = limits(max_body_bytes=100)
    async with client_of(app, http) as client, anyio.create_task_group() as tasks:
        for _ in range(2):
            await Crowd(client, tasks).ask(1, content=slow())

        assert (await client.post("/mcp", content=b"x")).status_code == 503
        app.may_answer.set()
    async with client_of(app, http) as client:
        assert (await client.post("/mcp", content=b"x")).status_code == 200


async def test_a_client_that_leaves_while_it_sends_is_no_error(app: Busy) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    await Admission(app, http=limits())(scope, receive, send)

    assert sent == []
    assert app.bodies == []


async def test_the_answer_still_learns_that_its_client_has_left() -> None:
    seen: list[str] = []

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        seen.extend([(await receive())["type"], (await receive())["type"]])

    messages: list[Message] = [
        {"type": "http.request", "body": b"{}", "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(_: Message) -> None:
        raise AssertionError

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    await Admission(app, http=limits())(scope, receive, send)

    assert seen == ["http.request", "http.disconnect"]
