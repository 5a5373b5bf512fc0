"""The Python API, as a program of somebody else uses it."""

import asyncio
import gc
import math
import os
import re
import sys
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

import anyio
import pytest

import skills_mcp
from skills_mcp import Ambiguous, Match, NoMatch, SkillChanges, SyncSkills
from tests.clients import HangingRemote, Lifeline
from tests.support import Upstream, run_python, skill_text, wait_for, write_skill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a small tree with rules, two skills and a secret one."""
    root = tmp_path / "skills"
    write_skill(root, "_root.md", keywords=["everything"], body="Global rules.")
    write_skill(root, "ui/_index.md", keywords=["interface"], body="UI rules.")
    write_skill(
        root,
        "ui/react.md",
        keywords=["react", "auth"],
        body="React rules.",
        scripts=[
            {
                "file": "greet.sh",
                "description": "Greets",
                "execution": "server",
                "args": [{"name": "name", "description": "Whom", "required": True}],
            },
        ],
    )
    (root / "ui/react").mkdir()
    (root / "ui/react/greet.sh").write_text('echo "hello $SKILL_ARG_NAME"\n')
    write_skill(root, "api/auth.md", keywords=["api", "auth"], body="API rules.")
    return root


@pytest.fixture
def skills(folder: Path) -> Iterator[SyncSkills]:
    with skills_mcp.open_sync(directory=folder) as opened:
        yield opened


async def test_a_task_gets_its_skill_with_all_rules_above_it(folder: Path) -> None:
    async with skills_mcp.open(directory=folder) as skills:
        answer = await skills.route("add react to the page")

    match answer:
        case Match():
            assert answer.skill.path == "ui/react"
            places = [answer.content.index(f"{n} rules") for n in ("Global", "UI")]
            assert places == sorted(places)
        case Ambiguous() | NoMatch():
            pytest.fail(str(answer))


def test_a_program_without_async_gets_the_same(folder: Path) -> None:
    async def ask() -> object:
        async with skills_mcp.open(directory=folder) as skills:
            return await skills.route("react")

    with skills_mcp.open_sync(directory=folder) as skills:
        assert skills.route("react") == asyncio.run(ask())
        assert skills.to_sync() is skills


async def test_every_call_of_the_twins_answers_alike(skills: SyncSkills) -> None:
    twin = skills.to_async()

    assert await twin.route("auth") == skills.route("auth")
    assert await twin.search("react") == skills.search("react")
    assert await twin.load("ui/react") == skills.load("ui/react")
    assert await twin.read("ui/react", "greet.sh") == skills.read("ui/react", "greet.sh")
    assert await twin.find_files("ui/react") == skills.find_files("ui/react")
    assert await twin.open_folder("ui/react") == skills.open_folder("ui/react")
    examples = await twin.load_examples("ui/react", "react")
    assert examples == skills.load_examples("ui/react", "react")
    assert await twin.list() == skills.list()
    assert await twin.tree() == skills.tree()
    catalog = await twin.compose_catalog()
    assert catalog.text == skills.compose_catalog().text
    assert [s.commit for s in await twin.states()] == [None]
    assert twin.revision == skills.revision
    await twin.report("ui/react", useful=True)
    skills.report("ui/react", useful=False, comment="too long")


def test_a_choice_is_made_after_an_ambiguous_answer(skills: SyncSkills) -> None:
    answer = skills.route("auth")

    assert isinstance(answer, Ambiguous)
    assert {c.skill.path for c in answer.candidates} == {"ui/react", "api/auth"}
    picked = skills.route("auth", skill_path="api/auth")
    assert isinstance(picked, Match)
    known = skills.route("auth", skill_path="api/auth", known_digest=picked.digest)
    assert isinstance(known, Match)
    assert known.is_known
    assert isinstance(skills.route("auth", within="ui"), Match)
    assert isinstance(skills.route("knitting"), NoMatch)


def test_a_part_of_a_file_is_read(skills: SyncSkills) -> None:
    read = skills.read("ui/react", "greet.sh", start_line=1, max_lines=1)

    assert read.part.content.data == b'echo "hello $SKILL_ARG_NAME"\n'
    assert (read.part.start_line, read.part.end_line) == (1, 1)


def test_an_error_says_what_to_do(skills: SyncSkills) -> None:
    with pytest.raises(skills_mcp.SkillNotFoundError, match="ui/react") as caught:
        skills.load("ui/reakt")

    assert caught.value.code == "SKILL_NOT_FOUND"


async def test_a_refresh_starts_what_it_needs_and_tells_what_changed(
    folder: Path,
) -> None:
    async with skills_mcp.open(directory=folder) as skills:
        before = skills.revision
        write_skill(folder, "ui/vue.md", keywords=["vue"], body="Vue rules.")

        refreshed = await skills.refresh()

        assert refreshed.error is None
        assert refreshed.changes.added == ("ui/vue",)
        assert skills.revision != before
        assert (await skills.load("ui/vue")).instructions.endswith("Vue rules.")


def test_a_merge_is_served_after_a_refresh_and_announced(upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    told: list[SkillChanges] = []

    with skills_mcp.open_sync(repo=upstream.url) as skills:
        stop = skills.watch(told.append)
        merged = upstream.commit({"skills/two.md": skill_text(keywords=["two"])})
        refreshed = skills.refresh()
        wait_for(lambda: bool(told))
        stop()
        upstream.commit({"skills/three.md": skill_text(keywords=["three"])})
        skills.refresh()

        assert refreshed.commit == merged
        assert [changes.added for changes in told] == [("two",)]
        assert {skill.path for skill in skills.list()} == {"one", "two", "three"}


async def test_changes_can_be_waited_for(folder: Path) -> None:
    async with skills_mcp.open(directory=folder) as skills:
        seen: list[SkillChanges] = []

        async def collect() -> None:
            async for changes in skills.changes():
                seen.append(changes)
                break

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            await anyio.lowlevel.checkpoint()
            (folder / "api/auth.md").unlink()
            await skills.refresh()

    assert [changes.removed for changes in seen] == [("api/auth",)]


async def test_changes_end_when_the_skills_are_closed(folder: Path) -> None:
    seen: list[SkillChanges] = []
    async with skills_mcp.open(directory=folder) as skills:

        async def collect() -> None:
            seen.extend([changes async for changes in skills.changes()])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            await anyio.lowlevel.checkpoint()
            (folder / "api/auth.md").unlink()
            await skills.refresh()
            await skills.close()

    assert [changes.removed for changes in seen] == [("api/auth",)]


def test_a_callback_may_refresh(folder: Path, skills: SyncSkills) -> None:
    told: list[SkillChanges] = []

    def refresh_once(changes: SkillChanges) -> None:
        told.append(changes)
        if len(told) == 1:
            write_skill(folder, "second.md", keywords=["second"])
            assert skills.refresh().error is None

    skills.watch(refresh_once)
    write_skill(folder, "first.md", keywords=["first"])

    skills.refresh()

    wait_for(lambda: len(told) == 2)
    assert [changes.added for changes in told] == [("first",), ("second",)]


def test_a_callback_that_fails_is_called_again(folder: Path, skills: SyncSkills) -> None:
    told: list[SkillChanges] = []

    def fail(changes: SkillChanges) -> None:
        told.append(changes)
        raise ValueError("not now")

    skills.watch(fail)
    for name in ("first", "second"):
        write_skill(folder, f"{name}.md", keywords=[name])
        skills.refresh()

    wait_for(lambda: len(told) >= 2)


def test_a_failed_refresh_is_a_value_and_the_content_stays(upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})

    with skills_mcp.open_sync(repo=upstream.url) as skills:
        upstream.bare.rename(upstream.bare.with_name("moved"))
        refreshed = skills.refresh()

        assert isinstance(refreshed.error, skills_mcp.SyncError)
        assert [skill.path for skill in skills.list()] == ["one"]


def test_what_an_earlier_process_fetched_is_served_without_the_remote(
    upstream: Upstream,
) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    with skills_mcp.open_sync(repo=upstream.url):
        pass
    upstream.bare.rename(upstream.bare.with_name("moved"))

    with skills_mcp.open_sync(repo=upstream.url) as skills:
        assert [skill.path for skill in skills.list()] == ["one"]


def test_narrowed_skills_are_all_there_is(skills: SyncSkills) -> None:
    narrow = skills.narrow("ui/**")

    assert [skill.path for skill in narrow.list()] == ["ui/_index", "ui/react"]
    assert isinstance(narrow.route("api auth"), Match)
    with pytest.raises(skills_mcp.SkillNotFoundError):
        narrow.load("api/auth")
    assert "Global" not in narrow.load("ui/react").instructions
    assert narrow.revision != skills.revision


def test_narrowing_again_never_shows_more(skills: SyncSkills) -> None:
    twice = skills.narrow("ui/**").narrow("api/**", "ui/react")
    without = skills.narrow(deny=["ui/**"]).narrow()

    assert [skill.path for skill in twice.list()] == ["ui/react"]
    assert [skill.path for skill in without.list()] == ["_root", "api/auth"]


def test_narrowed_skills_hear_of_their_own_changes_only(folder: Path, skills: SyncSkills) -> None:
    told: list[SkillChanges] = []
    narrow = skills.narrow("ui/**")
    narrow.watch(told.append)
    before = narrow.revision

    (folder / "api/auth.md").unlink()
    skills.refresh()
    assert narrow.revision == before
    write_skill(folder, "ui/vue.md", keywords=["vue"])
    skills.refresh()
    wait_for(lambda: bool(told))

    assert [changes.added for changes in told] == [("ui/vue",)]


def test_closed_skills_say_how_to_open_new_ones(folder: Path) -> None:
    skills = skills_mcp.open_sync(folder)
    skills.close()

    for call in (
        skills.list,
        skills.refresh,
        lambda: skills.route("react"),
        lambda: skills.watch(print),
    ):
        with pytest.raises(skills_mcp.ContentUnavailableError, match=r"new ones with skills_mcp"):
            call()


@pytest.mark.parametrize(
    "call", ["list", "refresh", "route", "watch", "narrow", "revision", "to_async"]
)
def test_the_first_call_opens_skills_that_are_assigned(call: str, folder: Path) -> None:
    skills = skills_mcp.open_sync(folder)
    first: dict[str, Callable[[], Any]] = {
        "list": skills.list,
        "refresh": skills.refresh,
        "route": lambda: skills.route("react"),
        "watch": lambda: skills.watch(print),
        "narrow": lambda: skills.narrow("ui/**").list(),
        "revision": lambda: skills.revision,
        "to_async": lambda: anyio.run(skills.to_async().list),
    }

    first[call]()

    with skills:
        assert skills.list()


async def test_the_first_awaited_call_opens_skills_that_are_assigned(folder: Path) -> None:
    for first in ("refresh", "list"):
        skills = skills_mcp.open(folder)
        with pytest.raises(skills_mcp.ContentUnavailableError, match="await open"):
            _ = skills.revision

        await getattr(skills, first)()

        assert skills.revision
        await skills.close()


def test_it_runs_on_trio(folder: Path) -> None:
    async def ask() -> list[str]:
        async with skills_mcp.open(directory=folder) as skills:
            assert (await skills.refresh()).error is None
            return [skill.path for skill in await skills.list()]

    assert "ui/react" in anyio.run(ask, backend="trio")


@pytest.mark.parametrize(
    "ask",
    [lambda skills: skills.open().list(), lambda skills: skills.list()],
    ids=["open", "the first call"],
)
def test_who_opens_at_the_same_time_waits_for_the_same_content(
    ask: Callable[[SyncSkills], Sequence[skills_mcp.Skill]], folder: Path
) -> None:
    for _ in range(5):
        skills = skills_mcp.open_sync(directory=folder)
        with ThreadPoolExecutor(4) as threads:
            found = threads.map(ask, [skills] * 4)
            assert {len(each) for each in found} == {4}
        skills.close()


def test_who_opens_at_the_same_time_hears_why_it_failed(tmp_path: Path) -> None:
    skills = skills_mcp.open_sync(directory=tmp_path / "missing")

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(skills.list) for _ in range(4)]

    assert {type(each.exception()) for each in asked} == {skills_mcp.SyncError}


def test_closing_narrowed_skills_closes_nothing_for_others(skills: SyncSkills) -> None:
    with skills.narrow("ui/**") as narrow:
        assert narrow.list()

    assert skills.list()
    assert narrow.list()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_is_told_to_open_its_own(folder: Path) -> None:
    said = run_python(
        "import os, sys, skills_mcp\n"
        "with skills_mcp.open_sync(directory=sys.argv[1]) as skills:\n"
        "    if os.fork() == 0:\n"
        "        try:\n"
        "            skills.list()\n"
        "        except skills_mcp.ContentUnavailableError as error:\n"
        "            print(error, flush=True)\n"
        "        skills.close()\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "    print(len(skills.list()))",
        folder,
    )

    assert "opened in another process. Open new ones" in said
    assert said.endswith("4")


def test_failed_openings_leave_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "skills_mcp")  # a record keeps the error
    kept = []
    for _ in range(3):
        skills = skills_mcp.open_sync(directory=tmp_path / "missing")
        with pytest.raises(skills_mcp.SyncError):
            skills.open()
        kept.append(weakref.ref(skills._session))
        del skills

    def are_gone() -> bool:
        gc.collect()
        return not any(session() for session in kept)

    wait_for(are_gone, seconds=2)  # a thread of the event loop may still be ending


def test_a_sync_that_was_cut_off_is_no_failure_of_the_repository(home: Path) -> None:
    remote = HangingRemote()
    try:
        skills = skills_mcp.open_sync(repo=remote.url, wait_seconds=0.2)
        with pytest.raises(skills_mcp.ContentUnavailableError):
            skills.open()
    finally:
        remote.close()

    states = [file.read_text() for file in home.rglob("state.json")]
    assert not [state for state in states if "ending" in state]


WRONG: dict[str, Callable[[Any], object]] = {
    "context": lambda skills: skills.route(None),
    "query": lambda skills: skills.search(7),
    "limit": lambda skills: skills.search("react", limit=0),
    "scope": lambda skills: skills.search("react", scope="everywhere"),
    "within": lambda skills: skills.route("react", within=["ui"]),
    "name": lambda skills: skills.load(b"ui/react"),
    "start_line": lambda skills: skills.read("ui/react", "greet.sh", start_line=0),
    "max_lines": lambda skills: skills.read("ui/react", "greet.sh", max_lines=-1),
    "contains": lambda skills: skills.find_files("ui/react", contains=1),
    "style": lambda skills: skills.compose_catalog("xml"),
    "max_entries": lambda skills: skills.compose_catalog(max_entries=0),
    "args['name']": lambda skills: skills.run_script("u", "f", {"name": 1}),
    "args": lambda skills: skills.run_command("ui/react", "ls", "-l"),
    "args: must be a list": lambda skills: skills.run_command("ui/react", "ls", iter("l")),
    "args: must be a mapping": lambda skills: skills.run_script("u", "f", ["a"]),
    "args[0]": lambda skills: skills.run_command("ui/react", "ls", [1]),
    "pattern 7": lambda skills: skills.narrow(7),
    "narrow": lambda skills: skills.narrow(deny=""),
    "directory": lambda _: skills_mcp.open_sync(cast("Any", 5)),
    "repo": lambda _: skills_mcp.open_sync(repo=cast("Any", Path("skills.git"))),
    "branch": lambda _: skills_mcp.open_sync(repo="x.git", branch=cast("Any", 5)),
    "config": lambda _: skills_mcp.open_sync(config=cast("Any", ["config.yaml"])),
    "skill_path": lambda skills: skills.route("react", skill_path=0),
    "known_digest": lambda skills: skills.load("ui/react", known_digest=b""),
    "path": lambda skills: skills.tree(0),
    "cwd": lambda skills: skills.run_script("u", "f", cwd=False),
    "comment": lambda skills: skills.report("ui/react", useful=True, comment=0),
    "ref": lambda _: skills_mcp.open_sync(repo="x.git", ref=cast("Any", 0)),
    "environment": lambda _: skills_mcp.open_sync(environment=cast("Any", ["X"])),
    "environment['X']": lambda _: skills_mcp.open_sync(environment=cast("Any", {"X": 5})),
    "environment, key 5": lambda _: skills_mcp.open_sync(environment=cast("Any", {5: "X"})),
    "token": lambda _: skills_mcp.open_sync(repo="x.git", token=cast("Any", 5)),
    "token: must be a text, not a value of": lambda _: skills_mcp.open_sync(
        repo="x.git", token=cast("Any", b"a-secret")
    ),
    "wait_seconds: must be a number from": lambda _: skills_mcp.open_sync(wait_seconds=math.nan),
    "deny": lambda skills: skills.narrow(deny=None),
    "top_k": lambda skills: skills.load_examples("ui/react", "a form", top_k="3"),
    "useful": lambda skills: skills.report("ui/react", useful="no"),
    "callback": lambda skills: skills.watch(None),
    "wait_seconds": lambda _: skills_mcp.open_sync(wait_seconds=cast("Any", "55")),
}


@pytest.mark.parametrize("named", WRONG)
def test_a_wrong_value_is_named(named: str, skills: SyncSkills) -> None:
    pattern = f"^{re.escape(named)}[: ]"
    with pytest.raises(skills_mcp.InvalidArgumentsError, match=pattern):
        WRONG[named](skills)


def test_one_pattern_may_be_denied_without_a_list(skills: SyncSkills) -> None:
    assert skills.narrow(deny="ui/**").list() == skills.narrow(deny=["ui/**"]).list()


async def test_problems_of_the_files_are_told(folder: Path) -> None:
    (folder / "broken.md").write_text("---\nkeywords: [\n---\nText")

    async with skills_mcp.open(directory=folder) as skills:
        (problem,) = await skills.problems()
        assert skills.to_sync().problems() == (problem,)
        assert skills.narrow("ui/**").to_sync().problems() == ()

    assert problem.file == "broken.md"


def test_open_skills_say_what_they_are(folder: Path) -> None:
    skills = skills_mcp.open_sync(directory=folder)

    assert repr(skills) == f"<SyncSkills of {folder}>"
    assert repr(skills.to_async()) == f"<Skills of {folder}>"


def test_opening_and_closing_again_does_nothing(folder: Path) -> None:
    skills = skills_mcp.open_sync(directory=folder)

    assert skills.open() is skills.open()
    skills.close()
    skills.close()


def test_threads_and_event_loops_share_open_skills(folder: Path, skills: SyncSkills) -> None:
    def route(number: int) -> str:
        if number % 10 == 0:
            write_skill(folder, "more.md", keywords=[f"more{number}"])
            assert skills.refresh().error is None
        if number % 2:
            answer = asyncio.run(skills.to_async().route("react"))
        else:
            answer = skills.route("react")
        assert isinstance(answer, Match)
        return answer.skill.path

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(route, range(64))) == {"ui/react"}


async def test_a_script_that_is_declared_runs(folder: Path) -> None:
    async with skills_mcp.open(directory=folder) as skills:
        ran = await skills.run_script("ui/react", "greet.sh", {"name": "Ada"})
        with pytest.raises(skills_mcp.ScriptRefusedError, match="name"):
            await skills.run_script("ui/react", "greet.sh")

    assert ran.result.stdout == "hello Ada\n"
    assert ran.result.exit_code == 0


async def test_a_command_and_an_entry_need_the_operator(folder: Path) -> None:
    async with skills_mcp.open(directory=folder) as skills:
        with pytest.raises(skills_mcp.ScriptRefusedError, match=r"commands\.enabled"):
            await skills.run_command("ui/react", "ls")
    allowed = {"commands": {"enabled": True, "allowed": ["ls"]}}
    async with skills_mcp.open(directory=folder, config=allowed) as skills:
        ran = await skills.run_command("ui/react", "ls")
        with pytest.raises(skills_mcp.SkillsError, match="entry"):
            await skills.run_entry("ui/react")

    assert "greet.sh" in ran.result.stdout


async def test_a_run_ends_with_the_caller_that_is_cancelled(folder: Path, tmp_path: Path) -> None:
    rules = {
        "commands": {"enabled": True, "allowed": ["sh"]},
        "scripts": {"sandbox": "off"},
    }
    lifeline = Lifeline(tmp_path / "lifeline")
    async with skills_mcp.open(directory=folder, config=rules) as skills:
        async with anyio.create_task_group() as tasks:
            arguments = ("ui/react", "sh", ("-c", lifeline.script()))
            tasks.start_soon(skills.run_command, *arguments)
            await anyio.to_thread.run_sync(lifeline.wait_for_start)
            tasks.cancel_scope.cancel()

        await anyio.to_thread.run_sync(lifeline.wait_for_end)
    lifeline.close()


def test_the_first_content_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    missing = skills_mcp.open_sync(directory=tmp_path / "missing")

    with pytest.raises(skills_mcp.SyncError, match=r"missing cannot be read"):
        missing.open()


def test_opening_waits_no_longer_than_it_was_told() -> None:
    remote = HangingRemote()
    try:
        skills = skills_mcp.open_sync(repo=remote.url, wait_seconds=0.2)
        with pytest.raises(skills_mcp.ContentUnavailableError, match="wait_seconds"):
            skills.open()
    finally:
        remote.close()


async def test_opening_can_be_cancelled() -> None:
    remote = HangingRemote()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(skills_mcp.open(repo=remote.url).open)
            await anyio.to_thread.run_sync(remote.wait_for_request)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(remote.wait_for_hang_up)
    finally:
        remote.close()


async def _cancel(call: Coroutine[Any, Any, object]) -> None:
    """Cancel a call that has begun."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_first_call_closes_the_skills_for_no_other(folder: Path) -> None:
    skills = skills_mcp.open(folder)

    await _cancel(skills.refresh())
    found = await skills.list()
    await skills.close()

    assert found


async def test_opening_again_and_giving_up_closes_nothing(folder: Path) -> None:
    async with skills_mcp.open(folder) as skills:
        await _cancel(skills.open())

        assert await skills.list()


async def test_opening_again_and_again_keeps_nothing(folder: Path) -> None:
    async with skills_mcp.open(folder) as skills:
        for _ in range(9):
            await skills.open()

        assert len(skills.to_sync()._session.users) == 1

    for _ in range(9):
        with pytest.raises(skills_mcp.ContentUnavailableError):
            await skills.open()
    assert len(skills.to_sync()._session.users) == 1


async def test_opening_goes_on_for_the_others_that_wait(folder: Path) -> None:
    skills = skills_mcp.open(folder)

    waiting = asyncio.ensure_future(skills.open())
    await _cancel(skills.open())
    await waiting
    found = await skills.list()
    await skills.close()

    assert found


async def test_what_waits_is_told_when_the_skills_are_closed() -> None:
    remote = HangingRemote()
    skills = skills_mcp.open_sync(repo=remote.url)
    errors: list[str] = []

    def open_and_wait() -> None:
        with pytest.raises(skills_mcp.ContentUnavailableError) as caught:
            skills.open()
        errors.append(str(caught.value))

    waiting = Thread(target=open_and_wait)
    waiting.start()
    await anyio.to_thread.run_sync(remote.wait_for_request)
    await anyio.to_thread.run_sync(skills.close)
    waiting.join(60)
    remote.close()

    assert [error.partition(".")[0] for error in errors] == ["These skills were closed"]


def test_a_program_that_forgets_to_close_ends_all_the_same(folder: Path) -> None:
    said = run_python(
        "import skills_mcp, sys\n"
        "skills = skills_mcp.open_sync(directory=sys.argv[1]).open()\n"
        "print(skills.route('react').skill.path)",
        folder,
    )

    assert said == "ui/react"


def test_skills_that_are_dropped_are_closed(folder: Path) -> None:
    skills = skills_mcp.open_sync(directory=folder).open()
    background = skills._session.background
    narrow = skills.narrow("ui/**")

    del skills
    assert narrow.list()  # who looks at a part of it keeps it open
    del narrow

    wait_for(lambda: background._is_closed)


def test_a_callback_may_ask_the_skills(folder: Path, skills: SyncSkills) -> None:
    done = Event()

    def look(changes: SkillChanges) -> None:
        assert skills.load(changes.added[0]).skill.path == "new"
        done.set()

    skills.watch(look)
    write_skill(folder, "new.md", keywords=["new"])

    skills.refresh()

    assert done.wait(60)


@pytest.mark.usefixtures("started_anew")
def test_only_what_is_asked_for_is_imported(folder: Path) -> None:
    said = run_python(
        "import sys\n"
        "import skills_mcp\n"
        "heavy = {'mcp', 'mcp_types', 'pydantic', 'numpy', 'anyio', 'httpx', 'git'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "with skills_mcp.open_sync(directory=sys.argv[1]) as skills:\n"
        "    skills.route('react')\n"
        "heavy = {'mcp', 'mcp_types', 'httpx', 'git', 'rich', 'click', 'numpy.ma', 'tarfile'}\n"
        "heavy |= {'portalocker', 'skills_mcp.routing.ranked_matcher'}\n"
        "print(sorted(heavy & set(sys.modules)))",
        folder,
    )

    assert said.splitlines() == ["[]", "[]"]


@pytest.mark.usefixtures("started_anew")
def test_a_name_is_there_for_a_thread_while_another_imports_it() -> None:
    said = run_python(
        "import importlib.abc, sys, threading\n"
        "import skills_mcp\n"
        "begun, go_on, found = threading.Event(), threading.Event(), []\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'skills_mcp.api.representation':\n"  # by what has the name
        "            begun.set(); go_on.wait(60)\n"
        "def ask(): found.append(skills_mcp.open_sync.__name__)\n"
        "def waits():\n"
        "    frame = sys._current_frames().get(other.ident)\n"
        "    return frame is not None and frame.f_code.co_name in ('acquire', '_get_module_lock')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "one, other = threading.Thread(target=ask), threading.Thread(target=ask)\n"
        "one.start(); begun.wait(60); other.start()\n"
        "while other.is_alive() and not waits(): pass\n"
        "go_on.set(); one.join(60); other.join(60)\n"
        "print(*found)"
    )

    assert said.split() == ["open_sync", "open_sync"]


def test_it_says_what_it_has() -> None:
    assert "open" in dir(skills_mcp)
    assert set(skills_mcp.__all__) == set(dir(skills_mcp))
    with pytest.raises(AttributeError, match="no attribute 'build'"):
        getattr(skills_mcp, "build")  # noqa: B009 - a type checker knows it


@pytest.mark.skipif(sys.platform == "win32", reason="prints to a pipe of POSIX")
def test_a_library_prints_nothing_by_itself(tmp_path: Path) -> None:
    said = run_python(
        "import skills_mcp, sys\n"
        "sys.stderr = sys.stdout\n"
        "try:\n"
        "    skills_mcp.open_sync(directory=sys.argv[1]).open()\n"
        "except skills_mcp.SkillsError as error:\n"
        "    print(error.code)",
        tmp_path / "missing",
    )

    assert said == "SYNC_FAILED"
