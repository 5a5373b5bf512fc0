import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.refresher import Refresher
from skills_mcp.content.source import (
    Checkout,
    CommitCheck,
    Content,
    ContentSource,
    Freshness,
    LocalFolder,
    Mount,
    SyncAttempt,
    SyncPolicy,
    accept_any_commit,
)
from skills_mcp.errors import (
    ConfigError,
    ContentUnavailableError,
    OutOfMemoryError,
    SyncError,
)
from tests.content.sources import ScriptedSource, checkout_of
from tests.support import PATIENCE_SECONDS, Upstream, mounted, until

_POLL_SECONDS = 0.001
_START = 1_800_000_000.0
_DUE = 0.0


def checkout_in(content: Content) -> Checkout:
    [part] = content.parts
    return part.checkout


class UnreadableSource(ScriptedSource):
    """What is here cannot even be looked at."""

    def open(self) -> Checkout | None:
        raise OSError("Input/output error")


@dataclass
class Bench:
    """A refresher that runs, its sources, the time, and what it has loaded."""

    source: ScriptedSource
    mounts: Mounts
    minutes: float | None = None
    accept: CommitCheck = accept_any_commit
    load: Callable[[Content], None] | None = None
    now: float = _START
    loaded: list[list[str | None]] = field(default_factory=list)
    is_loaded: bool = False

    @property
    def revisions(self) -> list[str | None]:
        """What was loaded, of the only source."""
        return [revision for [revision] in self.loaded]

    def open(self) -> Refresher:
        return Refresher(
            self.mounts,
            self._load,
            self.accept,
            lambda: self.minutes,
            is_loaded=lambda: self.is_loaded,
            poll_seconds=_POLL_SECONDS,
            clock=lambda: self.now,
        )

    async def look(self, source: ScriptedSource | None = None) -> None:
        """Return when the refresher has looked twice whether anything is due."""
        intervals = (source or self.source).intervals
        before = len(intervals)
        await until(lambda: len(intervals) > before + 1)

    async def pass_time(self, condition: Callable[[], object]) -> None:
        """Let the longest pause after a failure pass, again and again, until then."""

        def pass_pause() -> object:
            self.now += 61
            return condition()

        await until(pass_pause)

    def _load(self, content: Content) -> None:
        (self.load or self._remember)(content)
        self.is_loaded = True

    def _remember(self, content: Content) -> None:
        self.loaded.append([part.checkout.revision for part in content.parts])


@dataclass
class Running(Bench):
    """A bench whose refresher runs."""

    refresher: Refresher = field(init=False)


@asynccontextmanager
async def running(
    *sources: ContentSource,
    minutes: float | None = None,
    accept: CommitCheck = accept_any_commit,
    load: Callable[[Content], None] | None = None,
) -> AsyncIterator[Running]:
    """Run a refresher of some sources, each at a place of its own."""
    every = sources or (ScriptedSource(),)
    scripted = [source for source in every if isinstance(source, ScriptedSource)]
    source = scripted[0] if scripted else ScriptedSource()
    mounts = Mounts([Mount(source=s, at=str(n)) for n, s in enumerate(every)])
    bench = Running(source, mounts, minutes, accept, load)
    bench.refresher = bench.open()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.refresher.run)
            try:
                yield bench
            finally:
                tasks.cancel_scope.cancel()
                mounts.close()


async def begin_a_sync(bench: Running) -> None:
    """Return while the first sync runs, which waits for the test."""
    bench.refresher.wake()
    await until(lambda: bench.source.syncs == 1)


async def end_the_first_sync(bench: Running, outcome: Checkout | Exception) -> None:
    """Return when the first sync is over and the refresher looks for work."""
    bench.refresher.wake()
    bench.source.finish(outcome)
    await bench.look()


@pytest.mark.spec("3.1")
async def test_nothing_happens_before_it_is_woken() -> None:
    async with running(ScriptedSource(checkout_of("old"))) as bench:
        await anyio.wait_all_tasks_blocked()
        asleep = (bench.source.syncs, bench.loaded[:])

        bench.refresher.wake()
        await until(lambda: bench.source.syncs == 1)

    assert asleep == (0, [])


@pytest.mark.spec("3.1")
async def test_what_is_published_is_served_while_the_sync_still_runs() -> None:
    async with running(ScriptedSource(checkout_of("old"))) as bench:
        await bench.refresher.wait_until_ready(20)
        await until(lambda: bench.source.syncs == 1)

        assert bench.revisions == ["old"]


@pytest.mark.spec("9.3")
async def test_what_a_sync_brings_replaces_what_was_published() -> None:
    async with running(ScriptedSource(checkout_of("old"))) as bench:
        bench.refresher.wake()
        bench.source.finish(checkout_of("new"))
        await until(lambda: len(bench.loaded) == 2)

    assert bench.revisions == ["old", "new"]


async def test_a_window_that_opens_takes_what_was_fetched_a_moment_ago() -> None:
    async with running() as bench:
        await begin_a_sync(bench)

    [freshness] = bench.source.asked
    assert not freshness.is_urgent
    assert _START - 60 < freshness.newer_than < _START


@pytest.mark.spec("9.5")
async def test_refreshes_at_the_same_time_join_one_sync() -> None:
    ended: list[int] = []

    async def refresh(number: int) -> None:
        await bench.refresher.refresh()
        ended.append(number)

    async with running() as bench, anyio.create_task_group() as callers:
        await end_the_first_sync(bench, checkout_of("first"))
        for number in range(5):
            callers.start_soon(refresh, number)
        await until(lambda: bench.source.syncs == 2)
        await anyio.wait_all_tasks_blocked()
        bench.source.finish(checkout_of("new"))
        await until(lambda: len(ended) == 5)

        assert bench.source.syncs == 2
        assert bench.revisions == ["first", "new"]


async def test_a_refresh_wants_what_there_is_now_and_will_not_be_put_off() -> None:
    async with running() as bench:
        await end_the_first_sync(bench, checkout_of("first"))
        bench.now += 1000
        bench.source.finish(checkout_of("new"))
        await bench.refresher.refresh()

    freshness = bench.source.asked[-1]
    assert (freshness.newer_than, freshness.is_urgent) == (_START + 1000, True)


@pytest.mark.spec("9.5")
async def test_refreshes_while_the_timer_syncs_share_the_sync_after_it() -> None:
    ended: list[int] = []

    async def refresh(number: int) -> None:
        await bench.refresher.refresh()
        ended.append(number)

    async with running() as bench, anyio.create_task_group() as callers:
        await begin_a_sync(bench)
        for number in range(5):
            callers.start_soon(refresh, number)
        await anyio.wait_all_tasks_blocked()
        bench.now += 10
        bench.source.finish(checkout_of("asked before the push"))
        await until(lambda: bench.source.syncs == 2)
        early = ended[:]
        bench.source.finish(checkout_of("pushed"))
        await until(lambda: len(ended) == 5)

    first, second = bench.source.asked
    assert early == []
    assert (first.is_urgent, second.is_urgent) == (False, True)
    assert second.newer_than == _START + 10
    assert bench.revisions == ["asked before the push", "pushed"]


@pytest.mark.spec("9.5")
async def test_all_who_join_a_sync_get_its_error() -> None:
    errors: list[str] = []

    async def refresh() -> None:
        try:
            await bench.refresher.refresh()
        except SyncError as error:
            errors.append(str(error))

    async with running() as bench, anyio.create_task_group() as callers:
        await end_the_first_sync(bench, checkout_of("first"))
        for _ in range(3):
            callers.start_soon(refresh)
        await until(lambda: bench.source.syncs == 2)
        await anyio.wait_all_tasks_blocked()
        bench.source.finish(SyncError("no network"))
        await until(lambda: len(errors) == 3)

    assert errors == ["the source: no network"] * 3


@pytest.mark.spec("9.5")
async def test_a_caller_who_cancels_does_not_take_the_sync_away_from_others() -> None:
    ended: list[str] = []

    async def refresh(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            await bench.refresher.refresh()
            ended.append(name)

    async with running() as bench, anyio.create_task_group() as callers:
        first, second = anyio.CancelScope(), anyio.CancelScope()
        await end_the_first_sync(bench, checkout_of("first"))
        callers.start_soon(refresh, "first", first)
        callers.start_soon(refresh, "second", second)
        await until(lambda: bench.source.syncs == 2)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        bench.source.finish(checkout_of("new"))
        await until(lambda: ended)

        assert ended == ["second"]
        assert bench.source.syncs == 2
        assert bench.revisions == ["first", "new"]


@pytest.mark.spec("9.4")
async def test_a_refresh_after_one_has_ended_syncs_again() -> None:
    async with running() as bench:
        await end_the_first_sync(bench, checkout_of("first"))
        for number in range(3):
            bench.source.finish(checkout_of(str(number)))
            await bench.refresher.refresh()

    assert bench.revisions == ["first", "0", "1", "2"]


@pytest.mark.spec("13")
async def test_a_failed_first_sync_is_the_reason_for_having_nothing() -> None:
    async with running() as bench:
        bench.refresher.wake()
        bench.source.finish(SyncError("the host cannot be reached"))

        with pytest.raises(ContentUnavailableError) as error:
            await bench.refresher.wait_until_ready(20)

    assert "no skills yet: the source: the host cannot be reached" in str(error.value)
    assert "refresh_skills" in str(error.value)


@pytest.mark.spec("13")
async def test_a_later_sync_that_succeeds_heals() -> None:
    async with running() as bench:
        bench.refresher.wake()
        bench.source.finish(SyncError("the host cannot be reached"))
        with pytest.raises(ContentUnavailableError):
            await bench.refresher.wait_until_ready(20)

        bench.source.finish(checkout_of("new"))
        await bench.refresher.refresh()

        await bench.refresher.wait_until_ready(0)


@pytest.mark.spec("13")
async def test_a_sync_that_fails_later_leaves_what_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(ScriptedSource(checkout_of("old"))) as bench:
        await bench.refresher.wait_until_ready(20)
        bench.source.finish(SyncError("the host cannot be reached"))
        await until(lambda: "the host cannot be reached" in caplog.text)

        await bench.refresher.wait_until_ready(0)

    assert "WARNING" in caplog.text
    assert bench.revisions == ["old"]


@pytest.mark.spec("3.1")
async def test_waiting_for_content_is_bounded() -> None:
    async with running() as bench:
        with pytest.raises(ContentUnavailableError, match="is still running"):
            await bench.refresher.wait_until_ready(0.05)


async def test_a_call_that_gives_up_waiting_says_how_far_the_sync_has_got() -> None:
    async with running() as bench:
        bench.mounts.progress.begin("Reading skills", 20_000)

        with pytest.raises(ContentUnavailableError) as refused:
            await bench.refresher.wait_until_ready(0.05)

    assert "is still running (Reading skills 0 of 20,000)" in str(refused.value)
    assert "Call again in a moment" in str(refused.value)


async def test_waiting_for_content_wakes_the_refresher() -> None:
    async with running() as bench, anyio.create_task_group() as callers:
        callers.start_soon(bench.refresher.wait_until_ready, 20)
        await until(lambda: bench.source.syncs == 1)
        bench.source.finish(checkout_of("new"))


@pytest.mark.spec("9.3")
async def test_the_timer_syncs_again_and_again() -> None:
    async with running(minutes=15) as bench:
        bench.source.due_at = _DUE
        bench.refresher.wake()
        for number in range(3):
            bench.source.finish(checkout_of(str(number)))
        await until(lambda: bench.source.syncs == 4)

    assert bench.revisions == ["0", "1", "2"]
    assert not any(freshness.is_urgent for freshness in bench.source.asked)


@pytest.mark.spec("9.3")
async def test_the_source_decides_when_it_is_time_again_by_the_clock_on_the_wall() -> None:
    async with running(minutes=15) as bench:
        bench.source.due_at = _START + 900
        await end_the_first_sync(bench, checkout_of("first"))
        await bench.look()
        early = bench.source.syncs
        bench.source.due_at = _DUE  # as after a laptop has slept
        bench.source.finish(checkout_of("second"))
        await until(lambda: len(bench.loaded) == 2)

    assert early == 1
    assert bench.revisions == ["first", "second"]


@pytest.mark.spec("9.3")
async def test_the_interval_is_kept_within_ten_per_cent_and_differs() -> None:
    seen: set[float | None] = set()
    for _ in range(10):
        async with running(minutes=15) as bench:
            await end_the_first_sync(bench, checkout_of("first"))
        seen |= set(bench.source.intervals)

    intervals = [seconds for seconds in seen if seconds is not None]
    assert len(intervals) == len(seen) > 1
    assert all(0.899 * 900 <= seconds <= 1.101 * 900 for seconds in intervals)


async def test_a_timer_that_is_switched_off_or_on_counts_from_the_next_look() -> None:
    async with running(minutes=None) as bench:
        await end_the_first_sync(bench, checkout_of("first"))
        off = bench.source.intervals[-1]
        bench.minutes = 1
        await bench.look()
        on = bench.source.intervals[-1]

    assert off is None
    assert on


@pytest.mark.spec("9.3")
async def test_without_an_interval_there_is_one_sync_and_no_other() -> None:
    async with running() as bench:
        await end_the_first_sync(bench, checkout_of("new"))
        await bench.look()

        assert bench.source.syncs == 1
        assert set(bench.source.intervals) == {None}


@pytest.mark.spec("9.3")
async def test_folders_have_no_timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[None] = []

    async with running(LocalFolder(tmp_path), minutes=1) as bench:
        monkeypatch.setattr(bench.mounts, "has_update", lambda: polls.append(None))
        bench.refresher.wake()
        await bench.pass_time(lambda: len(polls) > 2)

    assert len(bench.loaded) == 1


async def test_what_another_process_has_published_is_served_without_a_sync() -> None:
    async with running() as bench:
        await end_the_first_sync(bench, checkout_of("first"))
        bench.source.here = checkout_of("by another")
        await until(lambda: len(bench.loaded) == 2)

    assert bench.revisions == ["first", "by another"]
    assert bench.source.syncs == 1


async def test_files_that_were_compared_with_git_are_looked_at_again() -> None:
    class Checked(ScriptedSource):
        checks = 0
        is_due = False

        def is_check_due(self) -> bool:
            return self.is_due

        def check(self) -> None:
            self.checks += 1
            self.is_due = False

    source = Checked()
    async with running(source) as bench:
        await end_the_first_sync(bench, checkout_of("first"))
        source.is_due = True
        await until(lambda: len(bench.loaded) == 2)

    assert bench.revisions == ["first", "first"]
    assert (source.checks, source.syncs) == (1, 1)


async def test_news_that_turn_out_to_be_none_are_not_loaded() -> None:
    async with running() as bench:
        await end_the_first_sync(bench, checkout_of("first"))
        bench.source.here = None
        await bench.look()

    assert bench.revisions == ["first"]


async def test_a_look_that_fails_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Faulty(ScriptedSource):
        is_faulty = False

        def has_update(self) -> bool:
            if self.is_faulty:
                self.is_faulty = False
                raise OSError("too many open files")
            return super().has_update()

    source = Faulty()
    async with running(source) as bench:
        await end_the_first_sync(bench, checkout_of("first"))
        source.is_faulty = True
        await until(lambda: "too many open files" in caplog.text)
        source.here = checkout_of("second")
        await until(lambda: len(bench.loaded) == 2)

    assert bench.revisions == ["first", "second"]


async def test_content_that_cannot_be_loaded_is_the_error_of_the_refresh() -> None:
    def refuse(_: Content) -> None:
        raise ConfigError("config.yaml: nonsense")

    async with running(load=refuse) as bench:
        for revision in ("first", "second"):
            bench.source.finish(checkout_of(revision))
        with pytest.raises(ConfigError, match="nonsense"):
            await bench.refresher.refresh()


async def test_each_sync_gets_what_reads_a_commit_before_it_is_published() -> None:
    read: list[str | None] = []

    def accept(_: ContentSource, checkout: Checkout) -> None:
        read.append(checkout.revision)

    async with running(accept=accept, minutes=15) as bench:
        bench.source.due_at = _DUE
        for revision in ("first", "second", "third"):
            bench.source.finish(checkout_of(revision))
        await bench.refresher.refresh()

    assert read[:2] == ["first", "second"]


async def test_a_sync_without_enough_memory_is_said_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as bench:
        bench.source.finish(checkout_of("first"))
        bench.source.finish(MemoryError())
        with pytest.raises(OutOfMemoryError):
            await bench.refresher.refresh()

    assert "not enough memory" in caplog.text
    assert not any(record.exc_info for record in caplog.records)
    assert bench.revisions == ["first"]


async def test_a_fault_of_ours_is_logged_and_the_next_sync_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as bench:
        bench.source.finish(checkout_of("first"))
        bench.source.finish(RuntimeError("a fault"))
        with pytest.raises(SyncError, match="an unexpected error"):
            await bench.refresher.refresh()
        bench.source.finish(checkout_of("new"))
        await bench.refresher.refresh()

    assert "a fault" in caplog.text
    assert bench.revisions == ["first", "new"]


async def test_what_is_published_and_cannot_be_loaded_waits_for_the_sync(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loaded: list[str | None] = []

    def load(content: Content) -> None:
        if checkout_in(content).revision == "old":
            raise ConfigError("config.yaml: nonsense")
        loaded.append(checkout_in(content).revision)

    async with running(ScriptedSource(checkout_of("old")), load=load) as bench:
        bench.source.finish(checkout_of("new"))
        await bench.refresher.wait_until_ready(20)

    assert loaded == ["new"]
    assert "nonsense" in caplog.text


async def test_a_cache_that_cannot_be_read_waits_for_the_sync(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(UnreadableSource()) as bench:
        bench.source.finish(checkout_of("new"))
        await bench.refresher.wait_until_ready(20)

    assert bench.revisions == ["new"]
    assert "Input/output error" in caplog.text


@pytest.mark.spec("3.3")
async def test_it_ends_at_once_although_a_sync_is_running() -> None:
    source = ScriptedSource()
    refresher = Bench(source, mounted(source)).open()

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresher.run)
            refresher.wake()
            await until(lambda: source.syncs == 1)
            tasks.cancel_scope.cancel()
    still_running = source.here is None and not source.is_closed
    source.close()

    assert still_running


@pytest.mark.spec("3.3")
async def test_who_waits_for_a_sync_that_the_end_cuts_off_gets_an_error() -> None:
    source = ScriptedSource()
    refresher = Bench(source, mounted(source)).open()
    errors: list[str] = []

    async def refresh() -> None:
        try:
            await refresher.refresh()
        except SyncError as error:
            errors.append(str(error))

    source.finish(checkout_of("first"))
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as callers:
            callers.start_soon(refresh)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(refresher.run)
                await until(lambda: source.syncs == 2)
                tasks.cancel_scope.cancel()
    source.close()

    assert errors == ["the process is ending"]


@pytest.mark.spec("13")
async def test_what_arrived_is_served_although_another_source_failed() -> None:
    good, bad = ScriptedSource(), ScriptedSource(name="bad")
    for _ in range(2):
        good.finish(checkout_of("1"))
        bad.finish(SyncError("no network"))

    async with running(good, bad) as bench:
        with pytest.raises(SyncError, match="bad: no network"):
            await bench.refresher.refresh()
        await bench.refresher.wait_until_ready(0)

    assert bench.loaded == [["1"], ["1"]]


@pytest.mark.spec("13")
async def test_a_source_that_fails_is_tried_again_alone_and_without_a_timer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good, bad = ScriptedSource(), ScriptedSource(name="bad")
    good.finish(checkout_of("1"))
    bad.finish(SyncError("no network"))

    async with running(good, bad) as bench:
        bench.refresher.wake()
        await until(lambda: len(bench.loaded) == 1)
        bad.due_at = _DUE
        bad.finish(checkout_of("back"))
        await bench.pass_time(lambda: len(bench.loaded) == 2)

    assert bench.loaded == [["1"], ["1", "back"]]
    assert good.syncs == 1
    assert "Sync failed: bad: no network" in caplog.text


@pytest.mark.spec("13")
async def test_a_folder_that_is_missing_is_looked_for_after_a_pause(
    tmp_path: Path,
) -> None:
    source = ScriptedSource()
    source.finish(checkout_of("1"))

    async with running(source, LocalFolder(tmp_path / "late")) as bench:
        bench.refresher.wake()
        await until(lambda: bench.loaded)
        (tmp_path / "late").mkdir()
        await bench.pass_time(lambda: bench.loaded[-1] == ["1", None])
        tries = len(bench.loaded)
        bench.now += 1000
        await bench.look()

    assert len(bench.loaded) == tries
    assert source.syncs == 1


async def test_during_the_pause_after_a_failure_nothing_is_asked() -> None:
    asked = threading.Event()

    class Waiting(ScriptedSource):
        def has_update(self) -> bool:
            if self.syncs:
                asked.set()
            return super().has_update()

    source = Waiting()
    source.due_at = _DUE  # as on a full disk, where nobody remembers the failure
    source.finish(SyncError("the disk is full"))
    source.finish(checkout_of("too early"))

    async with running(source) as bench:
        bench.refresher.wake()
        for _ in range(3):
            await until(asked.is_set)
            asked.clear()
        early = source.syncs
        await bench.pass_time(lambda: bench.loaded)

    assert early == 1


async def test_a_clock_that_is_set_back_makes_no_long_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = ScriptedSource()
    source.finish(SyncError("no network"))

    async with running(source) as bench:
        bench.refresher.wake()
        await until(lambda: "no network" in caplog.text)
        source.due_at = _DUE
        source.finish(checkout_of("back"))
        bench.now -= 100_000
        await until(lambda: bench.loaded)

    assert bench.revisions == ["back"]


async def test_the_same_failure_is_said_once_until_it_is_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = ScriptedSource()
    source.due_at = _DUE
    outcomes: list[Checkout | Exception] = [
        SyncError("no network"),
        SyncError("no network"),
        SyncError("wrong token"),
        checkout_of("1"),
        SyncError("no network"),
    ]

    for outcome in outcomes:
        source.finish(outcome)
    async with running(source) as bench:
        bench.refresher.wake()
        await bench.pass_time(lambda: source.syncs > len(outcomes))

    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert said == [
        "Sync failed: the source: no network",
        "Sync failed: the source: wrong token",
        "Sync failed: the source: no network",
    ]


async def test_a_refresh_that_succeeds_ends_the_pause_after_a_failure() -> None:
    source = ScriptedSource()
    source.finish(SyncError("no network"))

    async with running(source, minutes=15) as bench:
        bench.refresher.wake()
        await until(lambda: source.syncs == 1)
        source.finish(checkout_of("1"))
        await bench.refresher.refresh()
        before = len(source.intervals)
        await until(lambda: len(source.intervals) > before)

    assert bench.revisions == ["1"]


async def test_a_remote_that_rests_is_not_asked_but_by_a_refresh() -> None:
    source = ScriptedSource(checkout_of("old"))
    source.finish(SyncError("no network"))

    async with running(source, minutes=15) as bench:
        bench.refresher.wake()
        await until(lambda: source.syncs == 1)
        source.last_attempt = SyncAttempt(failures=1, error_message="no network")
        looks = len(source.intervals)
        await bench.pass_time(lambda: len(source.intervals) > looks + 1)
        rested = source.syncs
        source.finish(checkout_of("new"))
        await bench.refresher.refresh()

    assert rested == 1
    assert bench.revisions == ["old", "new"]


@pytest.mark.spec("3.1")
async def test_content_is_published_only_if_every_repository_has_some() -> None:
    here, new = ScriptedSource(checkout_of("old")), ScriptedSource()

    async with running(here, new) as bench:
        bench.refresher.wake()
        await until(lambda: new.syncs == 1)
        before = bench.loaded[:]
        here.finish(checkout_of("old"))
        new.finish(checkout_of("new"))
        await bench.refresher.wait_until_ready(20)

    assert before == []
    assert bench.loaded == [["old", "new"]]


async def test_what_is_published_never_replaces_what_a_sync_brought() -> None:
    loaded: list[str | None] = []
    opening = threading.Event()

    def load(content: Content) -> None:
        revision = checkout_in(content).revision
        if revision == "old":
            opening.wait(PATIENCE_SECONDS)
        loaded.append(revision)

    source = ScriptedSource(checkout_of("old"))
    async with running(source, load=load) as bench:
        bench.refresher.wake()
        source.finish(checkout_of("new"))
        opening.set()
        await until(lambda: loaded[-1:] == ["new"])

    assert loaded == ["old", "new"]


async def test_a_rollback_and_its_end_reach_a_window_that_runs(
    upstream: Upstream, tmp_path: Path
) -> None:
    def open_window() -> RemoteBranch:
        remote = Remote.parse(upstream.url, "main")
        return RemoteBranch(remote, tmp_path / "cache", SyncPolicy())

    good = upstream.commit({"a.md": "good"})
    command = open_window()
    command.sync(Freshness(time.time()), accept_any_commit)
    bad = upstream.commit({"a.md": "bad"})
    async with running(open_window(), minutes=15) as bench:
        await bench.refresher.refresh()
        served = bench.revisions[-1]
        command.roll_back()
        await until(lambda: bench.revisions[-1] == good)
        await bench.refresher.refresh()
        held = bench.revisions[-1]
        command.resume()
        await until(lambda: bench.revisions[-1] == bad)

    assert (served, held) == (bad, good)
