import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.content import refresher as refresher_module
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.refresher import Refresher, _pause_seconds
from skills_mcp.content.source import Checkout, Content, Mount
from skills_mcp.errors import ConfigError, ContentUnavailableError, SyncError
from tests.support import mounted, until


def checkout_of(revision: str) -> Checkout:
    return Checkout(Path("/nowhere"), revision, datetime.now(UTC))


def checkout_in(content: Content) -> Checkout:
    [part] = content.parts
    return part.checkout


@dataclass(eq=False)
class ScriptedSource:
    """A source whose every sync waits for the test to say how it ends."""

    here: Checkout | None = None
    mode: Literal["git"] = "git"
    name: str = "the source"
    syncs: int = 0
    outcomes: list[Checkout | Exception] = field(default_factory=list)
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def published(self) -> Checkout | None:
        return self.here

    def sync(self) -> Checkout:
        self.syncs += 1
        self._go.acquire(timeout=30)
        outcome = self.outcomes.pop(0) if self.outcomes else SyncError("closed")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def finish(self, outcome: Checkout | Exception) -> None:
        """Let one sync end like this."""
        self.outcomes.append(outcome)
        self._go.release()

    def count_changes(self, before: Checkout | None, after: Checkout) -> int:
        return int(before is not after)

    def find_changes(self, _: str | None, __: Checkout) -> None:
        return None

    def close(self) -> None:
        for _ in range(50):
            self._go.release()


class UnreadableSource(ScriptedSource):
    """What is here cannot even be looked at."""

    def published(self) -> Checkout | None:
        raise OSError("Input/output error")


@dataclass
class Bench:
    """A refresher that runs, its source, and what it has loaded."""

    source: ScriptedSource
    refresher: Refresher
    loaded: list[Checkout]


@asynccontextmanager
async def running(
    source: ScriptedSource | None = None,
    *,
    minutes: Callable[[], float | None] = lambda: None,
    load: Callable[[Content], None] | None = None,
) -> AsyncIterator[Bench]:
    source = source or ScriptedSource()
    loaded: list[Checkout] = []

    def remember(content: Content) -> None:
        loaded.append(checkout_in(content))

    refresher = Refresher(mounted(source), load or remember, minutes)
    bench = Bench(source, refresher, loaded)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.refresher.run)
            try:
                yield bench
            finally:
                tasks.cancel_scope.cancel()
                source.close()


async def begin_a_sync(bench: Bench) -> None:
    """Return while the first sync runs, which waits for the test."""
    bench.refresher.wake()
    await until(lambda: bench.source.syncs == 1)


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
    old = checkout_of("old")

    async with running(ScriptedSource(old)) as bench:
        await bench.refresher.wait_until_ready(20)
        await until(lambda: bench.source.syncs == 1)

        assert bench.loaded == [old]


@pytest.mark.spec("9.3")
async def test_what_a_sync_brings_replaces_what_was_published() -> None:
    old, new = checkout_of("old"), checkout_of("new")

    async with running(ScriptedSource(old)) as bench:
        bench.refresher.wake()
        bench.source.finish(new)
        await until(lambda: len(bench.loaded) == 2)

    assert bench.loaded == [old, new]


@pytest.mark.spec("9.5")
async def test_refreshes_at_the_same_time_join_one_sync() -> None:
    ended: list[int] = []

    async def refresh(number: int) -> None:
        await bench.refresher.refresh()
        ended.append(number)

    async with running() as bench, anyio.create_task_group() as callers:
        await begin_a_sync(bench)
        for number in range(5):
            callers.start_soon(refresh, number)
        await anyio.wait_all_tasks_blocked()
        bench.source.finish(checkout_of("new"))
        await until(lambda: len(ended) == 5)

        assert bench.source.syncs == 1
        assert len(bench.loaded) == 1


@pytest.mark.spec("9.5")
async def test_all_who_join_a_sync_get_its_error() -> None:
    errors: list[str] = []

    async def refresh() -> None:
        try:
            await bench.refresher.refresh()
        except SyncError as error:
            errors.append(str(error))

    async with running() as bench, anyio.create_task_group() as callers:
        await begin_a_sync(bench)
        for _ in range(3):
            callers.start_soon(refresh)
        await anyio.wait_all_tasks_blocked()
        bench.source.finish(SyncError("no network"))
        await until(lambda: len(errors) == 3)

    assert errors == ["no network"] * 3


@pytest.mark.spec("9.5")
async def test_a_caller_who_cancels_does_not_take_the_sync_away_from_others() -> None:
    ended: list[str] = []

    async def refresh(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            await bench.refresher.refresh()
            ended.append(name)

    async with running() as bench, anyio.create_task_group() as callers:
        first, second = anyio.CancelScope(), anyio.CancelScope()
        await begin_a_sync(bench)
        callers.start_soon(refresh, "first", first)
        callers.start_soon(refresh, "second", second)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        bench.source.finish(checkout_of("new"))
        await until(lambda: ended)

        assert ended == ["second"]
        assert bench.source.syncs == 1
        assert len(bench.loaded) == 1


@pytest.mark.spec("9.4")
async def test_a_refresh_after_one_has_ended_syncs_again() -> None:
    async with running() as bench:
        for number in range(3):
            bench.source.finish(checkout_of(str(number)))
            await bench.refresher.refresh()

    assert [checkout.revision for checkout in bench.loaded][-1] == "2"
    assert bench.source.syncs >= 3


@pytest.mark.spec("13")
async def test_a_failed_first_sync_is_the_reason_for_having_nothing() -> None:
    async with running() as bench:
        bench.refresher.wake()
        bench.source.finish(SyncError("the host cannot be reached"))

        with pytest.raises(ContentUnavailableError) as error:
            await bench.refresher.wait_until_ready(20)

    assert "no skills yet: the host cannot be reached" in str(error.value)
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
    assert len(bench.loaded) == 1


@pytest.mark.spec("3.1")
async def test_waiting_for_content_is_bounded() -> None:
    async with running() as bench:
        with pytest.raises(ContentUnavailableError, match="is still running"):
            await bench.refresher.wait_until_ready(0.05)


async def test_waiting_for_content_wakes_the_refresher() -> None:
    async with running() as bench, anyio.create_task_group() as callers:
        callers.start_soon(bench.refresher.wait_until_ready, 20)
        await until(lambda: bench.source.syncs == 1)
        bench.source.finish(checkout_of("new"))


@pytest.mark.spec("9.3")
async def test_the_timer_syncs_again_and_again() -> None:
    async with running(minutes=lambda: 0.001) as bench:
        bench.refresher.wake()
        for number in range(3):
            bench.source.finish(checkout_of(str(number)))
        await until(lambda: bench.source.syncs >= 4)

    assert [checkout.revision for checkout in bench.loaded] == ["0", "1", "2"]


@pytest.mark.spec("9.3")
async def test_without_an_interval_there_is_one_sync_and_no_other() -> None:
    async with running() as bench:
        bench.source.finish(checkout_of("new"))
        bench.refresher.wake()
        await until(lambda: bench.loaded)
        await anyio.wait_all_tasks_blocked()

        assert bench.source.syncs == 1


async def test_content_that_cannot_be_loaded_is_the_error_of_the_refresh() -> None:
    def refuse(_: Content) -> None:
        raise ConfigError("config.yaml: nonsense")

    async with running(load=refuse) as bench:
        bench.source.finish(checkout_of("new"))
        with pytest.raises(ConfigError, match="nonsense"):
            await bench.refresher.refresh()


async def test_a_fault_of_ours_is_logged_and_the_next_sync_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as bench:
        bench.source.finish(RuntimeError("a fault"))
        with pytest.raises(SyncError, match="an unexpected error"):
            await bench.refresher.refresh()
        bench.source.finish(checkout_of("new"))
        await bench.refresher.refresh()

    assert "a fault" in caplog.text
    assert len(bench.loaded) == 1


async def test_what_is_published_and_cannot_be_loaded_waits_for_the_sync(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old, new = checkout_of("old"), checkout_of("new")
    loaded: list[Checkout] = []

    def load(content: Content) -> None:
        if checkout_in(content) is old:
            raise ConfigError("config.yaml: nonsense")
        loaded.append(checkout_in(content))

    async with running(ScriptedSource(old), load=load) as bench:
        bench.source.finish(new)
        await bench.refresher.wait_until_ready(20)

    assert loaded == [new]
    assert "nonsense" in caplog.text


async def test_a_cache_that_cannot_be_read_waits_for_the_sync(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(UnreadableSource()) as bench:
        bench.source.finish(checkout_of("new"))
        await bench.refresher.wait_until_ready(20)

    assert [checkout.revision for checkout in bench.loaded] == ["new"]
    assert "Input/output error" in caplog.text


@pytest.mark.spec("3.3")
async def test_it_ends_at_once_although_a_sync_is_running() -> None:
    source = ScriptedSource()
    refresher = Refresher(mounted(source), lambda _: None, lambda: None)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresher.run)
            refresher.wake()
            await until(lambda: source.syncs == 1)
            tasks.cancel_scope.cancel()
    still_running = source.syncs == 1 and not source.outcomes
    source.close()

    assert still_running


@pytest.mark.spec("3.3")
async def test_who_waits_for_a_sync_that_the_end_cuts_off_gets_an_error() -> None:
    source = ScriptedSource()
    refresher = Refresher(mounted(source), lambda _: None, lambda: None)
    errors: list[str] = []

    async def refresh() -> None:
        try:
            await refresher.refresh()
        except SyncError as error:
            errors.append(str(error))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as callers:
            callers.start_soon(refresh)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(refresher.run)
                await until(lambda: source.syncs == 1)
                tasks.cancel_scope.cancel()
    source.close()

    assert errors == ["the server is ending"]


@asynccontextmanager
async def running_two(
    first: ScriptedSource, second: ScriptedSource
) -> AsyncIterator[tuple[Refresher, list[list[str | None]]]]:
    """Run a refresher of two sources; yield it and the revisions that it loaded."""
    loaded: list[list[str | None]] = []

    def load(content: Content) -> None:
        loaded.append([part.checkout.revision for part in content.parts])

    mounts = Mounts((Mount(source=first), Mount(source=second, at="second")))
    refresher = Refresher(mounts, load, lambda: None)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresher.run)
            try:
                yield refresher, loaded
            finally:
                tasks.cancel_scope.cancel()
                mounts.close()


@pytest.mark.spec("13")
async def test_what_arrived_is_served_although_another_source_failed() -> None:
    good, bad = ScriptedSource(), ScriptedSource(name="bad")
    good.finish(checkout_of("1"))
    bad.finish(SyncError("no network"))

    async with running_two(good, bad) as (refresher, loaded):
        with pytest.raises(SyncError, match="bad: no network"):
            await refresher.refresh()
        await refresher.wait_until_ready(0)

    assert loaded == [["1"]]


@pytest.mark.spec("13")
async def test_a_source_that_fails_is_tried_again_although_no_timer_is_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresher_module, "_RETRY_BASE_SECONDS", 0.01)
    good, bad = ScriptedSource(), ScriptedSource(name="bad")
    for number in range(2):
        good.finish(checkout_of(str(number)))
    bad.finish(SyncError("no network"))
    bad.finish(checkout_of("back"))

    async with running_two(good, bad) as (refresher, loaded):
        refresher.wake()
        await until(lambda: len(loaded) == 2)

    assert loaded == [["0"], ["1", "back"]]
    assert "Sync failed: bad: no network" in caplog.text


@pytest.mark.spec("3.1")
async def test_content_is_published_only_if_every_repository_has_some() -> None:
    here, new = ScriptedSource(checkout_of("old")), ScriptedSource()

    async with running_two(here, new) as (refresher, loaded):
        refresher.wake()
        await until(lambda: new.syncs == 1)
        before = loaded[:]
        here.finish(checkout_of("old"))
        new.finish(checkout_of("new"))
        await refresher.wait_until_ready(20)

    assert before == []
    assert loaded == [["old", "new"]]


@pytest.mark.spec("9.3")
@given(minutes=st.floats(0.01, 10_000))
def test_the_interval_is_kept_within_ten_per_cent(minutes: float) -> None:
    pause = _pause_seconds(minutes, 0)

    assert pause is not None
    assert 0.899 * 60 * minutes <= pause <= 1.101 * 60 * minutes


@pytest.mark.spec("13")
@given(minutes=st.floats(1, 10_000), failures=st.integers(1, 10_000))
def test_after_failures_the_pause_grows_but_never_past_the_interval(
    minutes: float, failures: int
) -> None:
    pause = _pause_seconds(minutes, failures)

    assert pause is not None
    assert 1 <= pause <= min(minutes * 60, 5 * 2 ** min(failures, 20))


@given(failures=st.integers(1, 10_000))
def test_without_an_interval_failures_are_still_tried_again(failures: int) -> None:
    pause = _pause_seconds(None, failures)

    assert pause is not None
    assert 1 <= pause <= 15 * 60


def test_without_an_interval_and_without_failures_there_is_no_next_time() -> None:
    assert _pause_seconds(None, 0) is None


def test_pauses_differ_so_that_windows_drift_apart() -> None:
    pauses = {_pause_seconds(15, 0) for _ in range(20)}

    assert len(pauses) > 1


async def test_what_is_published_never_replaces_what_a_sync_brought() -> None:
    loaded: list[str | None] = []
    opening = threading.Event()

    def load(content: Content) -> None:
        revision = checkout_in(content).revision
        if revision == "old":
            opening.wait(10)
        loaded.append(revision)

    source = ScriptedSource(here=checkout_of("old"))
    refresher = Refresher(mounted(source), load, lambda: None)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresher.run)
            tasks.start_soon(refresher.refresh)
            source.finish(checkout_of("new"))
            opening.set()
            await until(lambda: loaded[-1:] == ["new"])
            tasks.cancel_scope.cancel()
    source.close()

    assert loaded == ["old", "new"]
