"""The webhook: what it answers, and when it has content fetched."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Router

from skills_mcp.config import Http
from skills_mcp.errors import ConfigError
from skills_mcp.http.admission import BodyBufferMiddleware
from skills_mcp.http.routes import WEBHOOK_PATH
from skills_mcp.http.webhook_endpoint import Webhook, WebhookSecrets, open_webhook
from skills_mcp.library import Push
from tests.http.forge import (
    GITHUB_MERGE,
    GITHUB_PUSH,
    GITLAB_PUSH,
    OTHER_SECRET,
    SECRET,
    encode,
    forgejo,
    github,
    gitlab,
)
from tests.http_server import HttpServer, served
from tests.support import (
    PROJECT,
    Upstream,
    open_library,
    skill_text,
    until,
    wait_for,
    write,
)

BODY = encode(GITHUB_PUSH)
URL = f"http://localhost{WEBHOOK_PATH}"
MAX_BYTES = 100_000


class Served:
    """A webhook, what it has caused, and a client."""

    def __init__(self, file: Path) -> None:
        self.webhook = Webhook(
            WebhookSecrets(file),
            self.refresh,
            self.decide,
            clock=lambda: self.now,
            pause_seconds=0,
        )
        app = BodyBufferMiddleware(
            Router(
                [self.webhook.route], redirect_slashes=False, default=PlainTextResponse("behind")
            ),
            http=Http(max_body_bytes=MAX_BYTES),
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app))
        self.pushes: list[Push] = []
        self.refreshes = 0
        self.fails = False
        self.may_move = True
        self.goes_on = anyio.Event()
        self.goes_on.set()

    now = 1_000_000.0

    async def refresh(self) -> None:
        self.refreshes += 1
        await self.goes_on.wait()
        if self.fails:
            raise RuntimeError("on purpose")

    def decide(self, push: Push) -> bool:
        self.pushes.append(push)
        return self.may_move

    async def send(
        self, body: bytes = BODY, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        given = github(body) if headers is None else headers
        return await self.client.post(URL, content=body, headers=given)

    async def push(self, number: int) -> httpx.Response:
        return await self.send(encode(GITHUB_PUSH | {"after": str(number)}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = write(tmp_path / "webhook", SECRET)
    file.chmod(0o600)
    return file


@asynccontextmanager
async def hooked(file: Path) -> AsyncIterator[Served]:
    """Run a webhook in front of an application that says so."""
    served = Served(file)
    async with served.client, anyio.create_task_group() as tasks:
        tasks.start_soon(served.webhook.run)
        yield served
        tasks.cancel_scope.cancel()


async def test_a_push_is_accepted_and_fetched(file: Path) -> None:
    async with hooked(file) as served:
        reply = await served.send()

        assert (reply.status_code, reply.json()) == (202, {"status": "accepted"})
        await until(lambda: served.refreshes == 1)


async def test_the_answer_does_not_wait_for_the_fetch(file: Path) -> None:
    async with hooked(file) as served:
        served.goes_on = anyio.Event()

        assert (await served.push(1)).status_code == 202
        await until(lambda: served.refreshes == 1)
        assert (await served.push(2)).status_code == 202


async def test_pushes_during_a_fetch_share_another_one(file: Path) -> None:
    async with hooked(file) as served:
        served.goes_on = anyio.Event()
        await served.push(0)
        await until(lambda: served.refreshes == 1)

        for number in range(1, 9):
            await served.push(number)
        assert served.refreshes == 1
        served.goes_on.set()

        await until(lambda: served.refreshes == 2)
        await served.push(9)  # shows that none was due
        await until(lambda: served.refreshes == 3)


async def test_a_fetch_that_fails_does_not_end_the_webhook(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with hooked(file) as served:
        served.fails = True
        await served.push(1)
        await until(lambda: "has failed" in caplog.text)
        served.fails = False

        await served.push(2)

        await until(lambda: served.refreshes == 2)


async def test_a_push_of_something_else_causes_no_fetch(file: Path) -> None:
    async with hooked(file) as served:
        served.may_move = False

        reply = await served.send()

        assert (reply.status_code, reply.json()) == (202, {"status": "accepted"})
        assert served.pushes[0].ref == "refs/heads/main"
        await _causes_nothing(served)


async def test_a_repeated_delivery_does_nothing(file: Path) -> None:
    async with hooked(file) as served:
        await served.send()
        await until(lambda: served.refreshes == 1)

        for forged in ({}, {"x-github-delivery": "another"}, {"x-github-event": "x"}):
            reply = await served.send(headers=github(BODY) | forged)
            assert (reply.status_code, reply.json()) == (202, {"status": "repeated"})

        await _causes_nothing(served)


async def test_a_delivery_of_another_kind_does_nothing(file: Path) -> None:
    async with hooked(file) as served:
        ping = await served.send(headers=github(BODY, event="ping"))
        star = await served.send(b"{}", github(b"{}", event="star"))

        assert (ping.status_code, ping.json()) == (200, {"status": "pong"})
        assert (star.status_code, star.json()) == (202, {"status": "ignored"})
        assert served.pushes == []
        await _causes_nothing(served)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-hub-signature": "sha1=0000"},
        {"x-hub-signature-256": "sha256=0000"},
        {"x-hub-signature-256": "é".encode().decode("latin-1")},
        {"x-gitlab-token": "wrong"},
        {"x-gitea-signature": ""},
        github(BODY, OTHER_SECRET),
        github(b"another body"),
    ],
)
async def test_a_forgery_is_refused(file: Path, headers: dict[str, str]) -> None:
    raw = [(name.encode(), each.encode("latin-1")) for name, each in headers.items()]
    async with hooked(file) as served:
        reply = await served.client.post(URL, content=BODY, headers=raw)

        assert reply.status_code == 403
        assert reply.json()["error"]["data"]["code"] == "DELIVERY_REFUSED"
        assert served.pushes == []
        await _causes_nothing(served)


async def test_a_body_that_is_too_large_is_refused(file: Path) -> None:
    body = b" " * (MAX_BYTES + 1)
    async with hooked(file) as served:
        reply = await served.send(body)

        assert reply.status_code == 413


def test_a_push_of_many_commits_is_accepted(file: Path) -> None:
    commits = [{"id": str(number), "message": "m" * 1_000} for number in range(6_000)]
    body = encode(GITHUB_PUSH | {"commits": commits})
    with served({"http": {"webhook_secret_file": str(file)}}) as server:
        pushed = hook(server, body, github(body))
        huge = b" " * (25 * 2**20 + 1)
        refused = hook(server, huge, github(huge))
        line = server.wait_for_log("its body is larger than")

    assert (pushed.status_code, refused.status_code) == (202, 413)
    assert "http.max_body_bytes" in line


async def test_too_many_deliveries_are_turned_away_and_nothing_is_lost(
    file: Path,
) -> None:
    async with hooked(file) as served:
        served.may_move = False
        for number in range(120):
            assert (await served.push(number)).status_code == 202
        await _causes_nothing(served)

        reply = await served.push(120)

        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        await until(lambda: served.refreshes == 1)
        served.now += 1
        assert (await served.push(121)).status_code == 202


async def test_forgeries_take_nothing_from_the_allowance(file: Path) -> None:
    async with hooked(file) as served:
        for number in range(200):
            body = encode({"number": number})
            assert (await served.send(body, github(BODY))).status_code == 403

        assert (await served.send()).status_code == 202


async def test_only_the_first_of_several_forgeries_is_logged(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with hooked(file) as served:
        for _ in range(3):
            await served.send(headers=github(BODY, OTHER_SECRET))
        assert caplog.text.count("was refused") == 1

        await served.send()
        await served.send(headers={})

        assert caplog.text.count("was refused") == 2


async def test_a_new_secret_is_good_at_once(file: Path) -> None:
    async with hooked(file) as served:
        headers = github(BODY, OTHER_SECRET)
        assert (await served.send(headers=headers)).status_code == 403

        write(file, f"{SECRET}\n{OTHER_SECRET}\n")

        assert (await served.send(headers=headers)).status_code == 202


async def test_only_post_and_only_this_path_are_its_own(file: Path) -> None:
    async with hooked(file) as served:
        assert (await served.client.get(URL)).status_code == 405
        assert (await served.client.post(f"{URL}/")).text == "behind"
        assert (await served.client.post("http://localhost/mcp")).text == "behind"


async def test_what_was_seen_is_forgotten_after_many_others(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_mcp.http.webhook_endpoint._MAX_SEEN", 3)
    async with hooked(file) as served:
        for number in (1, 2, 3, 4):
            await served.push(number)

        assert (await served.push(4)).json() == {"status": "repeated"}
        assert (await served.push(1)).json() == {"status": "accepted"}


def test_a_relative_path_of_the_secrets_is_refused(tmp_path: Path) -> None:
    library = open_library(tmp_path)

    with pytest.raises(ConfigError, match="relative path"):
        open_webhook(library, Http(webhook_secret_file="webhook"))  # noqa: S106


async def _causes_nothing(served: Served) -> None:
    """Give the webhook the chance to begin a fetch, and see that it does not."""
    before = served.refreshes
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert served.refreshes == before


# A real server, with a real repository


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    upstream = Upstream.create(tmp_path)
    upstream.commit({"first.md": skill_text(keywords=["first"])})
    return upstream


def hook(server: HttpServer, body: bytes, headers: dict[str, str]) -> httpx.Response:
    url = httpx.URL(server.url).copy_with(path=WEBHOOK_PATH)
    return httpx.post(url, content=body, headers=headers)


def settings(file: Path) -> dict[str, object]:
    return {
        "http": {"webhook_secret_file": str(file)},
        "refresh": {"enabled": False},
    }


def test_a_merge_is_served_after_the_delivery_of_each_forge(file: Path, upstream: Upstream) -> None:
    deliveries: tuple[tuple[Callable[[bytes], dict[str, str]], object], ...] = (
        (github, GITHUB_PUSH),
        (forgejo, GITHUB_MERGE),
        (gitlab, GITLAB_PUSH),
    )
    with served(settings(file), options=("--repo", upstream.url)) as server:
        server.wait_for_log("Serving 1 skill")

        for number, (sign, payload) in enumerate(deliveries, 2):
            skill = skill_text(keywords=[f"number-{number}"])
            upstream.commit({f"skill-{number}.md": skill})
            body = encode(payload)

            assert hook(server, body, sign(body)).json() == {"status": "accepted"}
            assert server.wait_for_log(f"Serving {number} skills")


def test_nothing_of_the_sources_is_told_and_no_secret_is_logged(
    file: Path, upstream: Upstream
) -> None:
    with served(settings(file), options=("--repo", upstream.url)) as server:
        server.wait_for_log("Serving 1 skill")
        upstream.bare.rename(upstream.bare.with_name("gone"))

        answers = [
            hook(server, BODY, github(BODY)),
            hook(server, BODY, github(BODY)),
            hook(server, BODY, {}),
            hook(server, b"{}", github(b"{}", event="ping")),
            hook(server, b"{}", gitlab(b"{}")),
            hook(server, b"{}", gitlab(b"{}", f"{SECRET}-wrong")),
        ]

        assert server.wait_for_log("Sync failed")
        assert [each.status_code for each in answers] == [*(202, 202, 403, 200, 202, 403)]
        told = "".join(each.text + str(each.headers) for each in answers)
        assert "upstream" not in told
        assert str(file) not in told
        assert SECRET not in server.log


def test_a_push_to_another_branch_is_not_fetched(file: Path, upstream: Upstream) -> None:
    with served(settings(file), options=("--repo", upstream.url)) as server:
        server.wait_for_log("Serving 1 skill")
        upstream.commit({"second.md": skill_text(keywords=["second"])})
        body = encode(GITHUB_PUSH | {"ref": "refs/heads/next"})

        elsewhere = github(BODY) | {"Host": "evil.example"}
        assert hook(server, BODY, elsewhere).status_code == 421
        assert hook(server, body, github(body)).status_code == 202

        assert server.wait_for_log("is of no source")
        assert hook(server, BODY, github(BODY)).status_code == 202
        assert server.wait_for_log("Serving 2 skills")
        assert server.log.count("Serving 1 skill") == 1  # and nothing in between
        assert server.log.count("Serving 2 skills") == 1


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="needs both")
def test_the_script_of_the_guide_is_a_delivery(file: Path, tmp_path: Path) -> None:
    guide = (PROJECT / "docs" / "how-to" / "webhook.md").read_text()
    script = guide.partition("title=hook.sh not-run\n")[2].partition("```")[0]
    write(tmp_path / "hook.sh", script)

    with served(settings(file)) as server:
        address = server.url.removesuffix("/mcp")
        done = subprocess.run(
            ["sh", str(tmp_path / "hook.sh")],
            env=os.environ | {"SECRET_FILE": str(file), "SERVER": address},
            capture_output=True,
            text=True,
            check=True,
        )

    assert done.stdout == '{"status":"accepted"}'


def test_without_a_secret_there_is_no_webhook() -> None:
    with served() as server:
        assert hook(server, BODY, github(BODY)).status_code == 404


def test_a_secret_that_is_too_short_is_told_at_the_start(file: Path) -> None:
    file.write_text("short")

    with served(settings(file)) as server:
        assert server.wait() != 0
        wait_for(lambda: "shorter than 16 characters" in server.log)
