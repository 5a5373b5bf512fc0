import asyncio
from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http import admission
from skills_mcp.http.admission import AdmissionControl, BodyBufferMiddleware
from skills_mcp.http.error_responses import error_response
from skills_mcp.http.routes import opens_stream
from skills_mcp.server.callers import CLIENT_KEY

LISTEN = {
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "subscriptions/listen",
}


class Busy:
    """An application that answers when it is told to, and counts what it was given.

    It opens a stream at once, and ends it when it is told to.
    """

    def __init__(self) -> None:
        self.may_answer = anyio.Event()
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.bodies.append(await request.body())
        if opens_stream(scope):
            await StreamingResponse(self._stream())(scope, receive, send)
            return
        await self.may_answer.wait()
        await PlainTextResponse("done")(scope, receive, send)

    async def _stream(self) -> AsyncIterator[str]:
        await self.may_answer.wait()
        yield "done"


@pytest.fixture
def app() -> Busy:
    return Busy()


def limits(**changed: object) -> Http:
    """Return small limits, with some changed."""
    small = {"max_concurrent_requests": 2, "max_waiting_requests": 1, "max_streams": 2}
    return Http().model_copy(update={**small, **changed})


def client_of(app: Busy, http: Http) -> httpx.AsyncClient:
    return at(admitting(app, http), "192.0.2.1")


def at(app: ASGIApp, address: str) -> httpx.AsyncClient:
    """Return a client with an address."""
    transport = httpx.ASGITransport(app, client=(address, 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def admitting(app: ASGIApp, http: Http) -> ASGIApp:
    return BodyBufferMiddleware(AdmissionControl(http, anyio.Event()).wrap(app), http=http)


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


async def test_a_request_does_not_wait_for_ever(app: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_a_body_that_is_too_large_is_refused(app: Busy, *, is_declared: bool) -> None:
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


async def test_who_is_refused_in_a_browser_gets_a_page(app: Busy) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    async def never() -> AsyncIterator[bytes]:
        yield b"a=b"
        await anyio.sleep_forever()

    async with client_of(app, limits(request_timeout_seconds=0.01)) as client:
        slow = await client.post("/add", content=never(), headers=browser)
    async with client_of(app, limits()) as client, anyio.create_task_group() as tasks:
        crowd = Crowd(client, tasks)
        await crowd.ask(4, url="/add", headers=browser)
        [busy] = crowd.replies
        app.may_answer.set()

    for page, status, title in ((slow, 408, "Request Timeout"), (busy, 503, "Service Unavailable")):
        assert page.status_code == status
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert f"<h1>{title}</h1>" in page.text
    assert "Send it again." in slow.text
    assert f"Try again in {busy.headers['Retry-After']} s" in busy.text


async def test_a_message_in_a_page_is_no_markup() -> None:
    async with at(error_response(400, "X", "<script>"), "127.0.0.1") as client:
        page = await client.get("/", headers={"Accept": "text/html"})

    assert "<p>&lt;script&gt;</p>" in page.text


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
    await admitting(app, limits())(scope, receive, send)

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
    await admitting(app, limits())(scope, receive, send)

    assert seen == ["http.request", "http.disconnect"]


GREEDY, OTHER = "192.0.2.1", "192.0.2.2"


async def test_one_client_leaves_places_for_the_calls_of_others(app: Busy) -> None:
    both = admitting(app, limits(max_concurrent_requests=12, max_waiting_requests=99))
    async with (
        at(both, GREEDY) as greedy,
        at(both, OTHER) as other,
        anyio.create_task_group() as tasks,
    ):
        await Crowd(greedy, tasks).ask(50, content=b"greedy")
        assert len(app.bodies) < 12

        await Crowd(other, tasks).ask(1, content=b"other")

        assert app.bodies[-1] == b"other"
        app.may_answer.set()


async def test_clients_whose_calls_wait_take_turns(app: Busy) -> None:
    both = admitting(app, limits(max_concurrent_requests=1, max_waiting_requests=99))
    async with (
        at(both, GREEDY) as greedy,
        at(both, OTHER) as other,
        anyio.create_task_group() as tasks,
    ):
        await Crowd(greedy, tasks).ask(6, content=b"greedy")
        await Crowd(other, tasks).ask(2, content=b"other")
        app.may_answer.set()

    assert app.bodies.index(b"other") <= 2
    assert app.bodies[::-1].index(b"other") >= 3


async def test_the_longest_queue_is_cut_for_the_call_of_another_client(
    app: Busy,
) -> None:
    both = admitting(app, limits(max_concurrent_requests=1, max_waiting_requests=3))
    async with (
        at(both, GREEDY) as greedy,
        at(both, OTHER) as other,
        anyio.create_task_group() as tasks,
    ):
        its, hers = Crowd(greedy, tasks), Crowd(other, tasks)
        await its.ask(4)
        assert its.statuses == []

        await hers.ask(1)

        assert its.statuses == [503]
        app.may_answer.set()

    assert hers.statuses == [200]
    assert its.statuses == [200, 200, 200, 503]


async def test_a_call_whose_client_has_gone_never_runs(app: Busy) -> None:
    gone = asyncio.Event()  # as that of uvicorn

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def leave(admission: AdmissionControl) -> None:
        messages: list[Message] = [{"type": "http.request", "body": b"gone"}]

        async def channel() -> Message:
            return messages.pop() if messages else await receive()

        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [], CLIENT_KEY: ""}
        await admission.wrap(app)(scope, channel, discard)

    http = limits(max_concurrent_requests=1)
    admission = AdmissionControl(http, anyio.Event())
    async with (
        anyio.create_task_group() as tasks,
        at(BodyBufferMiddleware(admission.wrap(app), http=http), GREEDY) as client,
    ):
        await Crowd(client, tasks).ask(1, content=b"runs")
        tasks.start_soon(leave, admission)
        await anyio.wait_all_tasks_blocked()

        gone.set()
        await anyio.wait_all_tasks_blocked()
        app.may_answer.set()

    assert app.bodies == [b"runs"]


async def discard(_: Message) -> None:
    pass


async def test_the_client_with_the_most_streams_gives_one_up(app: Busy) -> None:
    both = admitting(app, limits())
    async with (
        at(both, GREEDY) as greedy,
        at(both, OTHER) as other,
        anyio.create_task_group() as tasks,
    ):
        its, hers = Crowd(greedy, tasks), Crowd(other, tasks)
        await its.ask(2, method="GET")

        await hers.ask(1, method="GET")

        [ended] = its.replies
        assert ended.status_code == 200
        assert ended.content == b""
        assert hers.replies == []
        app.may_answer.set()

    assert [reply.content for reply in hers.replies] == [b"done"]


async def test_one_client_has_a_part_of_the_memory_for_bodies(app: Busy) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * 100
        await app.may_answer.wait()

    both = admitting(app, limits(max_concurrent_requests=8, max_body_bytes=100))
    async with (
        at(both, GREEDY) as greedy,
        at(both, OTHER) as other,
        anyio.create_task_group() as tasks,
    ):
        its = Crowd(greedy, tasks)
        for _ in range(8):
            await its.ask(1, content=slow())
        assert its.statuses == [503] * 6

        hers = Crowd(other, tasks)
        await hers.ask(1, content=slow())

        assert hers.replies == []
        app.may_answer.set()


@pytest.mark.parametrize("status", [429, 503, 507])
async def test_a_refusal_that_may_pass_always_says_when(status: int) -> None:
    app = admitting(PlainTextResponse("later", status), limits())
    async with at(app, GREEDY) as client:
        reply = await client.get("/")

    assert int(reply.headers["Retry-After"]) > 0
