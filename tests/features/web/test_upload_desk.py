"""An upload ends by its deadline, with its client, and with the server."""

import asyncio
import re
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import anyio
import httpx
import pytest

from skills_mcp.errors import UploadStoppedError
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.features.authoring.package_archive import UploadAttempt, unpacked_package
from skills_mcp.features.authoring.uploads import open_uploads
from skills_mcp.features.web import upload_page as upload_desk
from skills_mcp.features.web.site import create_site
from skills_mcp.features.web.upload_page import UploadQueue
from skills_mcp.library import SkillLibrary
from tests.features.authoring.intake.archives import GOOD, write_zip
from tests.features.web.uploading import ADA, INSTALL, called_by, open_site, send
from tests.http_server import served
from tests.packages import package_text, write_package
from tests.support import PATIENCE_SECONDS, open_library, until


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    write_package(tmp_path / "content/skills", "old")
    return open_library(tmp_path / "content", settings={"upload": {"mode": "folder"}})


@pytest.fixture
def desk(library: SkillLibrary) -> UploadQueue:
    uploads = open_uploads(library)
    assert uploads
    return UploadQueue(uploads)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, which has to be empty at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def work_for_ever(attempt: UploadAttempt) -> None:
    """Go on for as long as the attempt lets it."""
    while True:
        attempt.check()


def finish_when_stopped(attempt: UploadAttempt) -> str:
    """Come to an end only after the attempt was stopped, too late to undo it."""
    while attempt.left_seconds:
        time.sleep(0)
    return "in place"


def test_an_upload_that_takes_too_long_leaves_nothing(
    library: SkillLibrary,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload_desk, "UploadAttempt", partial(UploadAttempt, 0.0))
    before = sorted((tmp_path / "content").rglob("*"))

    reply = send(library, write_zip(tmp_path / "pdf.zip"))

    assert reply.status_code == 503
    told = reply.json()["error"]
    assert told["code"] == "UPLOAD_STOPPED"
    assert "pack fewer and smaller files" in told["message"]
    assert sorted((tmp_path / "content").rglob("*")) == before
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize("steps", [1, 10, 35])
def test_the_deadline_is_looked_at_before_each_file(
    tmp_path: Path, temporary: Path, steps: int
) -> None:
    files = {**GOOD, **{f"references/{n}.md": "# Text\n" for n in range(20)}}
    archive = write_zip(tmp_path / "a.zip", files)
    looks = iter(range(10_000))
    attempt = UploadAttempt(steps + 0.5, lambda: next(looks))

    with pytest.raises(UploadStoppedError), unpacked_package(archive, attempt):
        pass

    assert [*temporary.iterdir()] == []
    assert next(looks) <= 2 * (steps + 3)


async def test_work_ends_with_its_client(desk: UploadQueue) -> None:
    with anyio.fail_after(PATIENCE_SECONDS), pytest.raises(UploadStoppedError):
        await desk.run(work_for_ever, anyio.lowlevel.checkpoint)

    assert await desk.run(lambda _: "free again") == "free again"


@pytest.mark.parametrize(
    "work, expected",
    [(work_for_ever, UploadStoppedError), (finish_when_stopped, "in place")],
)
async def test_work_ends_with_the_server_and_what_is_in_place_counts(
    desk: UploadQueue, work: Callable[[UploadAttempt], str], expected: object
) -> None:
    begun = anyio.Event()

    def begin(attempt: UploadAttempt) -> str:
        anyio.from_thread.run_sync(begun.set)
        return work(attempt)

    task = asyncio.ensure_future(desk.run(begin))
    await begun.wait()
    task.cancel("the server ends")  # as uvicorn does after its last seconds
    [result] = await asyncio.wait_for(
        asyncio.gather(task, return_exceptions=True), PATIENCE_SECONDS
    )

    assert result == expected or type(result) is expected


@pytest.mark.parametrize("steps", range(6))
async def test_a_request_that_is_cancelled_when_its_work_is_done_is_told_so(
    desk: UploadQueue, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    work_in_thread = upload_desk._UploadTask._work_in_thread

    async def work_and_be_cancelled(running: upload_desk._UploadTask[str]) -> None:
        await work_in_thread(running)
        cancel_later(steps)

    def cancel_later(steps: int) -> None:
        if steps:
            asyncio.get_running_loop().call_soon(cancel_later, steps - 1)
        else:
            task.cancel()

    monkeypatch.setattr(upload_desk._UploadTask, "_work_in_thread", work_and_be_cancelled)
    task = asyncio.ensure_future(desk.run(lambda _: "in place"))

    assert await asyncio.wait_for(task, PATIENCE_SECONDS) == "in place"


async def test_work_ends_with_the_scope_that_it_runs_in(desk: UploadQueue) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:

            def begin(attempt: UploadAttempt) -> None:
                anyio.from_thread.run_sync(tasks.cancel_scope.cancel)
                work_for_ever(attempt)

            async def run() -> None:
                with suppress(UploadStoppedError):
                    await desk.run(begin)

            tasks.start_soon(run)

        assert await desk.run(lambda _: "free again") == "free again"


async def test_a_skill_in_its_folder_is_added_although_the_server_ends(
    library: SkillLibrary, tmp_path: Path
) -> None:
    archive = write_zip(tmp_path / "pdf.zip")
    transport = httpx.ASGITransport(open_site(library))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        files = {"file": (archive.name, archive.read_bytes())}
        # Nothing refreshes the library, so the answer waits for it.
        task = asyncio.ensure_future(client.post(INSTALL, files=files))
        await until((tmp_path / "content/skills/pdf/SKILL.md").is_file)
        task.cancel()
        reply = await asyncio.wait_for(task, PATIENCE_SECONDS)

    assert reply.status_code == 201
    assert reply.json()["isActive"] is False


async def test_a_signal_leaves_no_folder_behind(tmp_path: Path) -> None:
    write_package(tmp_path / "content", "old")
    marks = Random(1).choices(["[", "](", "![", "*", "_", "`", "<", "\n", "a"], k=8_000)  # noqa: S311
    files = {f"references/{n}.md": "".join(marks) for n in range(1_500)}
    text = {"SKILL.md": package_text(name="slow")}
    archive = write_zip(tmp_path / "slow.zip", {**text, **files})
    temporary = tmp_path / "of-the-server"
    temporary.mkdir()
    settings = {
        "upload": {"mode": "folder"},
        "http": {"shutdown_seconds": 1, "max_body_bytes": 2**24},
    }

    with served(
        settings, content=tmp_path / "content", environment={"TMPDIR": str(temporary)}
    ) as server:
        server.wait_for_log(" skills at ")
        url = f"{server.url.removesuffix('/mcp')}{INSTALL}"
        sent = {"file": (archive.name, archive.read_bytes())}
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client:
            task = asyncio.ensure_future(client.post(url, files=sent))
            await until(
                lambda: task.done() or [*temporary.glob("skills-mcp-add-*/package/slow/SKILL.md")]
            )
            assert not task.done(), task.result().text
            server.process.send_signal(signal.SIGTERM)
            [reply] = await asyncio.gather(task, return_exceptions=True)
        assert server.wait() == 0

    assert [*temporary.iterdir()] == []
    assert not (tmp_path / "content/slow").exists()
    if isinstance(reply, httpx.Response):
        assert reply.status_code == 503
    else:
        assert isinstance(reply, httpx.TransportError)


async def test_with_a_database_any_replica_finds_what_another_one_has_shown(
    library: SkillLibrary, tmp_path: Path
) -> None:
    archive = write_zip(tmp_path / "pdf.zip")
    uploads = open_uploads(library)
    assert uploads
    one, other = (open_event_store("", tmp_path) for _ in range(2))
    site = called_by(create_site(library, one, uploads=uploads), ADA)
    transport = httpx.ASGITransport(site)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        form = {"file": (archive.name, archive.read_bytes())}
        shown = (await client.post("/add", files=form)).text
    [token] = re.findall(r'name="archive" value="([^"]+)"', shown)

    found = await UploadQueue(uploads, other).find(token, f"{ADA.issuer}\n{ADA.subject}")
    alone = await UploadQueue(uploads).find(token, f"{ADA.issuer}\n{ADA.subject}")
    for store in (one, other):
        store.close()

    assert found
    assert (found.suffix, found.data) == (".zip", archive.read_bytes())
    assert alone is None
