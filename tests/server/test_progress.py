from functools import partial
from pathlib import Path
from typing import Any

import anyio

from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.progress import reported
from tests.clients import Lifeline, Reports, SlowSource, connected
from tests.support import (
    PATIENCE_SECONDS,
    SKILLS_CONTENT,
    open_library,
    until,
    write,
    write_skill,
)


async def test_a_script_that_takes_long_reports_that_it_is_at_work(
    tmp_path: Path, era: str, lifeline: Lifeline
) -> None:
    declared = {"file": "scripts/long.sh", "execution": "server"}
    write_skill(tmp_path / "content", "login.md", scripts=[declared])
    write(tmp_path / "content/login/scripts/long.sh", lifeline.script())
    library = open_library(tmp_path / "content")
    reports = Reports()
    arguments = {"skill_path": "login", "file": "scripts/long.sh", "args": {}}

    async with connected(library, era) as client, anyio.create_task_group() as tasks:
        call = partial(client.call_tool, progress_callback=reports)
        tasks.start_soon(call, "run_script", arguments)
        await until(lambda: len(reports.messages) == 2)
        tasks.cancel_scope.cancel()

    assert reports.messages[0] == "Run a skill's script: 0 s"
    assert reports.seconds[1] > reports.seconds[0]


async def test_a_refresh_reports_that_it_is_at_work(era: str) -> None:
    source = SlowSource(SKILLS_CONTENT)
    library = open_library(source, load=False)
    reports = Reports(then=source.arrived.set)

    async with connected(library, era) as client:
        with anyio.fail_after(PATIENCE_SECONDS):
            await client.call_tool("refresh_skills", {}, progress_callback=reports)

    assert reports.messages[0] == "Fetch the newest skills: 0 s"


class Session:
    """A client that is told of progress, and what it was told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    async def report_progress(self, _: float, *, message: str) -> None:
        self.messages.append(message)


async def test_what_a_sync_is_at_is_a_part_of_the_report() -> None:
    session: Any = Session()

    async with reported(session, "Fetch", lambda: "Receiving objects 45 %"):
        await until(lambda: session.messages)

    assert session.messages == ["Fetch: Receiving objects 45 %, 0 s"]


class Receiving(SlowSource):
    """A sync that says what it is at."""

    doing = "Receiving objects 45 %"


async def test_a_refresh_and_who_waits_for_content_say_what_the_sync_is_at(
    era: str,
) -> None:
    source = Receiving(SKILLS_CONTENT)
    library = open_library(source, load=False)
    refreshing = Reports()
    waiting = Reports(then=source.arrived.set)
    call = {"refresh_skills": {}, "get_skill": {"context": "react login"}}

    async with connected(library, era) as client, anyio.create_task_group() as tasks:
        for (tool, given), reports in zip(
            call.items(), (refreshing, waiting), strict=True
        ):
            ask = partial(client.call_tool, progress_callback=reports)
            tasks.start_soon(ask, tool, given)

    assert refreshing.messages[0] == (
        "Fetch the newest skills: Receiving objects 45 %, 0 s"
    )
    assert waiting.messages[0] == (
        "Waiting for the first sync: Receiving objects 45 %, 0 s"
    )


async def test_an_instant_answer_reports_nothing(
    library: SkillLibrary, era: str
) -> None:
    reports = Reports()

    async with connected(library, era) as client:
        await client.call_tool("list_skills", {}, progress_callback=reports)

    assert reports.messages == []
