"""Several sources together: what each of them has, and what one that fails costs."""

import math
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentSource,
    DiscoveredFolder,
    Freshness,
    LocalFolder,
    Mount,
    SourceState,
    SyncAttempt,
    SyncPolicy,
    accept_any_commit,
)
from skills_mcp.errors import AccessRefusedError, SyncError
from tests.content.sources import FakeSource, MeetingSource, checkout_of
from tests.support import PATIENCE_SECONDS, Upstream, mounted, write


def at_places(sources: Mapping[str, ContentSource]) -> Mounts:
    return Mounts([Mount(source=source, at=at) for at, source in sources.items()])


def sync(mounts: Mounts) -> Content:
    """Sync as a person does who wants the newest."""
    return mounts.sync(Freshness(time.time(), is_urgent=True), accept_any_commit)


def sync_due(mounts: Mounts) -> Content:
    """Sync as the timer does, every quarter of an hour."""
    return mounts.sync_due(900, accept_any_commit)


def states(mounts: Mounts, content: Content | None) -> tuple[SourceState, ...]:
    return mounts.states(content, 900)


def revisions(content: Content | None) -> dict[str, str | None]:
    assert content is not None
    return {part.mount.at: part.checkout.revision for part in content.parts}


def texts(content: Content | None) -> dict[str, str]:
    """Return what the file `a.md` says in each source."""
    assert content is not None
    return {part.mount.at: (part.checkout.directory / "a.md").read_text() for part in content.parts}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def one(tmp_path: Path) -> Upstream:
    return Upstream.create(tmp_path / "one")


@pytest.fixture
def two(tmp_path: Path) -> Upstream:
    return Upstream.create(tmp_path / "two")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "folder" / "a.md", "folder").parent


def branch_of(upstream: Upstream, cache: Path) -> RemoteBranch:
    return RemoteBranch(Remote.parse(upstream.url, "main"), cache, SyncPolicy())


def three(one: Upstream, two: Upstream, folder: Path, cache: Path) -> Mounts:
    """Return two repositories with a folder between them, as a new server would."""
    return at_places(
        {
            "": branch_of(one, cache),
            "mine": LocalFolder(folder),
            "teams/two": branch_of(two, cache),
        }
    )


@pytest.mark.spec("9.1")
def test_each_source_stands_at_its_place_in_the_operators_order(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})

    content = sync(three(one, two, folder, cache))

    assert list(texts(content).items()) == [
        ("", "one"),
        ("mine", "folder"),
        ("teams/two", "two"),
    ]
    assert content.error is None


@pytest.mark.spec("9.1")
def test_a_repository_that_never_answered_leaves_the_others(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    shutil.rmtree(two.bare)

    content = sync(three(one, two, folder, cache))

    assert texts(content) == {"": "one", "mine": "folder"}
    [failure] = content.failures
    assert failure.mount.at == "teams/two"
    assert str(content.error).startswith(f"{two.url} (main): repository not found")


@pytest.mark.spec("9.4")
def test_a_repository_that_stopped_answering_keeps_exactly_what_it_had(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    before = sync(three(one, two, folder, cache))
    one.commit({"a.md": "one, newer"})
    shutil.rmtree(two.bare)

    content = sync(three(one, two, folder, cache))

    assert texts(content)[""] == "one, newer"
    assert texts(content)["teams/two"] == "two"
    assert revisions(content)["teams/two"] == revisions(before)["teams/two"]
    assert [failure.mount.at for failure in content.failures] == ["teams/two"]


@pytest.mark.spec("9.4")
def test_a_force_push_to_one_repository_changes_that_one_only(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    base = one.commit({"a.md": "1"})
    one.commit({"a.md": "2"})
    two.commit({"a.md": "two"})
    mounts = three(one, two, folder, cache)
    before = sync(mounts)
    one.reset(base)
    pushed = one.commit({"a.md": "3"})

    after = sync(mounts)

    assert texts(after) == {"": "3", "mine": "folder", "teams/two": "two"}
    assert revisions(after) == revisions(before) | {"": pushed}
    assert after.parts[2].checkout.directory == before.parts[2].checkout.directory
    assert mounts.count_changes(before, after) == 1


def test_a_failed_sync_goes_on_with_what_is_served_and_not_with_what_others_published(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "served"})
    mounts = three(one, two, folder, cache)
    served = sync(mounts)
    two.commit({"a.md": "by another process"})
    sync(three(one, two, folder, cache))
    shutil.rmtree(two.bare)

    content = sync(mounts)

    assert texts(content)["teams/two"] == "served"
    assert content.parts[2].checkout is served.parts[2].checkout


def test_a_folder_that_is_gone_is_a_failure_and_takes_its_skills_along(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    mounts = three(one, two, folder, cache)
    sync(mounts)
    shutil.rmtree(folder)

    content = sync(mounts)

    assert texts(content) == {"": "one", "teams/two": "two"}
    assert f"the folder {folder} cannot be read" in str(content.error)


def test_nothing_at_all_is_an_error_that_names_every_source(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    for missing in (one.bare, two.bare, folder):
        shutil.rmtree(missing)

    with pytest.raises(SyncError) as error:
        sync(three(one, two, folder, cache))

    assert all(name in str(error.value) for name in (one.url, two.url, f"folder {folder}"))


def test_a_message_that_does_not_name_its_source_gets_the_name() -> None:
    mounts = at_places(
        {
            "": FakeSource("good", checkout_of("1")),
            "x": FakeSource("bad", SyncError("!")),
        }
    )

    assert str(sync(mounts).error) == "bad: !"


@pytest.mark.spec("13")
def test_one_source_alone_fails_as_if_there_were_no_mounts(one: Upstream, cache: Path) -> None:
    one.commit({"a.md": "one"})
    mounts = mounted(branch_of(one, cache))
    sync(mounts)
    shutil.rmtree(one.bare)

    with pytest.raises(SyncError, match="Check its address"):
        sync(mounts)

    assert texts(mounts.open_published()) == {"": "one"}


def test_all_sources_are_asked_at_the_same_time() -> None:
    meeting = threading.Barrier(3)

    def meet() -> None:
        meeting.wait(timeout=PATIENCE_SECONDS)

    content = sync(at_places({at: MeetingSource(at, meet) for at in "abc"}))

    assert revisions(content) == {"a": "a", "b": "b", "c": "c"}


def test_a_repository_that_is_mounted_twice_is_asked_once() -> None:
    source = FakeSource("twice", checkout_of("1"))
    mounts = at_places({"a": source, "b": source})

    content = sync(mounts)

    assert source.syncs == 1
    assert revisions(content) == {"a": "1", "b": "1"}
    assert mounts.count_changes(None, content) == 10


def test_a_fault_of_ours_is_no_failure_of_a_source() -> None:
    mounts = at_places(
        {"": FakeSource("good", checkout_of("1")), "x": FakeSource("odd", OSError("!"))}
    )

    with pytest.raises(OSError, match="!"):
        sync(mounts)


def test_what_is_here_is_published_without_any_remote(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    sync(three(one, two, folder, cache))
    shutil.rmtree(one.bare)
    shutil.rmtree(two.bare)

    content = three(one, two, folder, cache).open_published()

    assert texts(content) == {"": "one", "mine": "folder", "teams/two": "two"}


def test_nothing_is_published_until_every_repository_has_something(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    sync(mounted(branch_of(one, cache)))

    assert three(one, two, folder, cache).open_published() is None


def test_a_folder_that_is_gone_does_not_keep_the_rest_from_being_published(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    sync(three(one, two, folder, cache))
    shutil.rmtree(folder)

    content = three(one, two, folder, cache).open_published()

    assert texts(content) == {"": "one", "teams/two": "two"}
    assert content is not None
    assert [failure.mount.at for failure in content.failures] == ["mine"]


def test_folders_alone_are_never_published(folder: Path) -> None:
    mounts = at_places({"": LocalFolder(folder), "x": LocalFolder(folder)})

    assert mounts.open_published() is None
    assert mounts.mode == "local"


def test_changes_are_those_of_all_repositories_and_none_of_what_is_the_same() -> None:
    a, b = FakeSource("a", checkout_of("1")), FakeSource("b", checkout_of("1"))
    mounts = at_places({"a": a, "b": b})
    before = sync(mounts)
    b.outcome = checkout_of("2")
    after = sync(mounts)

    assert mounts.count_changes(None, before) == 20
    assert mounts.count_changes(before, before) == 0
    assert mounts.count_changes(before, after) == 1


def test_a_folder_that_was_not_there_appears_at_a_later_sync(
    one: Upstream, cache: Path, tmp_path: Path
) -> None:
    one.commit({"a.md": "one"})
    late = Mount(source=DiscoveredFolder(tmp_path / "late"), at=".agents/skills", scope="repo")
    mounts = Mounts((Mount(source=branch_of(one, cache)), late))
    first = sync(mounts)
    write(tmp_path / "late" / "a.md", "late")

    second = sync(mounts)

    assert (first.error, second.error) == (None, None)
    assert texts(first) == {"": "one"}
    assert texts(second) == {"": "one", ".agents/skills": "late"}


def test_found_folders_alone_may_all_be_missing(tmp_path: Path) -> None:
    found = [
        Mount(source=DiscoveredFolder(tmp_path / name), at=name, scope="repo")
        for name in ("a", "b")
    ]

    assert sync(Mounts(found)) == Content(())
    assert sync(Mounts(found[:1])) == Content(())


def test_a_folder_that_is_found_twice_is_served_at_its_first_place(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder)
    places = {"a": folder, "b": tmp_path / "link", "c": tmp_path}
    mounts = Mounts(
        [Mount(source=DiscoveredFolder(path), at=at, scope="repo") for at, path in places.items()]
    )

    content = sync(mounts)

    assert [part.mount.at for part in content.parts] == ["a", "c"]
    assert [state.mount for state in states(mounts, content)] == ["a", "c"]


def test_a_folder_that_the_operator_lists_twice_is_served_twice(folder: Path) -> None:
    mounts = at_places({"a": LocalFolder(folder), "b": LocalFolder(folder)})

    assert list(revisions(sync(mounts))) == ["a", "b"]


def test_the_state_of_each_source_says_what_it_has_and_what_went_wrong(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    commit = one.commit({"a.md": "one"})
    shutil.rmtree(two.bare)
    mounts = three(one, two, folder, cache)
    content = sync(mounts)

    first, mine, last = states(mounts, content)

    assert (first.mount, first.mode, first.commit) == ("", "git", commit)
    assert (first.name, first.error) == (f"{one.url} (main)", None)
    assert first.synced_at == content.parts[0].checkout.synced_at
    assert (mine.mount, mine.mode, mine.commit) == ("mine", "local", None)
    assert (last.mount, last.commit, last.synced_at) == ("teams/two", None, None)
    assert str(last.error) == str(content.failures[0].error)
    assert [state.is_stale for state in (first, mine, last)] == [False, False, True]


def test_before_any_content_every_named_source_has_a_state(tmp_path: Path) -> None:
    found = Mount(source=DiscoveredFolder(tmp_path / "no"), at="x", scope="repo")
    mounts = Mounts((Mount(source=LocalFolder(tmp_path)), found))

    [state] = states(mounts, None)

    assert (state.mount, state.synced_at) == ("", None)


def test_closing_closes_every_source() -> None:
    sources = [FakeSource(name) for name in "ab"]

    at_places({source.name: source for source in sources}).close()

    assert all(source.is_closed for source in sources)


@pytest.mark.parametrize("number, name", [(1, "s0"), (2, "s0 and 1 more"), (4, "s0 and 3 more")])
def test_the_name_is_short_however_many_there_are(number: int, name: str) -> None:
    mounts = at_places({str(n): FakeSource(f"s{n}") for n in range(number)})

    assert mounts.name == name
    assert mounts.mode == "git"


def test_only_sources_whose_time_has_come_are_asked() -> None:
    early, due = FakeSource("early", checkout_of("1")), FakeSource("due")
    mounts = at_places({"early": early, "due": due})
    due.outcome = checkout_of("1")
    sync(mounts)
    early.outcome = due.outcome = checkout_of("2")
    early.due_at, due.due_at = time.time() + 3600, time.time() - 1

    content = sync_due(mounts)

    assert (early.syncs, due.syncs) == (1, 2)
    assert revisions(content) == {"early": "1", "due": "2"}


def test_a_source_that_is_due_is_not_asked_if_another_process_has_just_done_so() -> None:
    source = FakeSource("due", checkout_of("1"))
    source.last_attempt = SyncAttempt(attempted_at=1000.0)
    source.due_at = 0.0

    sync_due(mounted(source))

    [freshness] = source.asked
    assert freshness == Freshness(math.nextafter(1000.0, math.inf), is_urgent=False)


def test_a_source_that_is_not_due_brings_what_another_process_has_published() -> None:
    idle, due = FakeSource("idle", checkout_of("1")), FakeSource("due")
    due.outcome = checkout_of("1")
    mounts = at_places({"idle": idle, "due": due})
    sync(mounts)
    idle.here, due.due_at = checkout_of("by another"), 0.0

    content = sync_due(mounts)

    assert revisions(content) == {"idle": "by another", "due": "1"}


def test_a_remote_that_rests_after_a_failure_is_still_said_to_have_failed() -> None:
    resting, due = FakeSource("resting", checkout_of("1")), FakeSource("due")
    due.outcome = checkout_of("1")
    mounts = at_places({"resting": resting, "due": due})
    sync(mounts)
    resting.last_attempt = SyncAttempt(failures=1, error_message="no network")
    resting.due_at, due.due_at = time.time() + 3600, 0.0

    content = sync_due(mounts)

    assert resting.syncs == 1
    assert revisions(content) == {"resting": "1", "due": "1"}
    assert str(content.error) == "resting: no network"
    assert content.error
    assert content.error.is_recalled


def test_one_remote_alone_that_rests_fails_as_it_did() -> None:
    source = FakeSource("resting", checkout_of("1"))
    source.last_attempt = SyncAttempt(
        failures=1, error_code="AUTH_FAILED", error_message="wrong token"
    )

    with pytest.raises(AccessRefusedError, match="wrong token"):
        sync_due(mounted(source))

    assert source.syncs == 0


def test_folders_are_looked_at_whenever_something_else_is_due(tmp_path: Path) -> None:
    idle = FakeSource("idle", checkout_of("1"))
    mounts = at_places({"": idle, "late": LocalFolder(tmp_path / "late")})
    first = sync(mounts)
    (tmp_path / "late").mkdir()

    second = sync_due(mounts)

    assert [each.mount.at for each in first.failures] == ["late"]
    assert second.error is None
    assert list(revisions(second)) == ["", "late"]
    assert idle.syncs == 1


def test_the_first_source_that_is_due_decides_when_it_is_time_again(
    folder: Path,
) -> None:
    one, two = FakeSource("one"), FakeSource("two")
    one.due_at, two.due_at = 20.0, 10.0
    mounts = at_places({"a": one, "b": two, "c": LocalFolder(folder)})

    assert mounts.next_sync_at(900) == 10.0
    assert one.intervals == two.intervals == [900]
    assert mounted(folder).next_sync_at(900) == math.inf


def test_news_are_what_another_process_has_published(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "1"})
    two.commit({"a.md": "two"})
    mine, other = (three(one, two, folder, cache) for _ in range(2))
    before = sync(mine)
    quiet = mine.has_update()
    pushed = one.commit({"a.md": "2"})
    sync(other)
    shutil.rmtree(one.bare)
    told = mine.has_update()

    after = mine.open_update()

    assert (quiet, told, mine.has_update()) == (False, True, False)
    assert texts(after) == {"": "2", "mine": "folder", "teams/two": "two"}
    assert revisions(after) == revisions(before) | {"": pushed}


def test_a_published_commit_that_vanishes_is_no_news_and_is_served_on() -> None:
    source = FakeSource("deleted", checkout_of("1"))
    mounts = mounted(source)
    sync(mounts)
    source.here = None

    assert mounts.has_update()
    assert mounts.open_update() is None
    assert not mounts.has_update()
    assert revisions(mounts.open()) == {"": "1"}


def test_a_look_asks_no_remote(one: Upstream, two: Upstream, folder: Path, cache: Path) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    sync(mounted(branch_of(one, cache)))
    shutil.rmtree(one.bare)

    content = three(one, two, folder, cache).open()

    assert texts(content) == {"": "one", "mine": "folder"}


def test_a_look_at_nothing_says_what_is_wrong(tmp_path: Path) -> None:
    mounts = mounted(tmp_path / "missing")

    content = mounts.open()

    [state] = states(mounts, content)
    assert content is None
    assert state.is_stale
    assert f"the folder {tmp_path}/missing cannot be read" in str(state.error)


def test_a_store_that_cannot_be_read_costs_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unreadable(FakeSource):
        def open(self) -> Checkout | None:
            raise SyncError("too many open files")

    good = FakeSource("good")
    good.here = checkout_of("1")

    content = at_places({"good": good, "bad": Unreadable("bad")}).open()

    assert revisions(content) == {"good": "1"}
    assert "the cache of bad: too many open files" in caplog.text


def test_a_failure_that_nobody_could_write_down_is_in_the_state_all_the_same() -> None:
    source = FakeSource("full", checkout_of("1"))
    mounts = mounted(source)
    content = sync(mounts)
    source.outcome = SyncError("the disk is full")
    with pytest.raises(SyncError, match="the disk is full"):
        sync(mounts)
    [failed] = states(mounts, content)
    source.outcome = checkout_of("2")

    [healed] = states(mounts, sync(mounts))

    assert str(failed.error) == "the disk is full"
    assert (failed.commit, failed.is_stale) == ("1", False)
    assert (healed.commit, healed.error) == ("2", None)


def test_what_another_process_has_published_ends_a_failure_of_ours() -> None:
    source = FakeSource("busy", SyncError("another sync has been running"))
    mounts = mounted(source)
    with pytest.raises(SyncError):
        sync(mounts)
    source.here = checkout_of("1")

    [state] = states(mounts, mounts.open_update())

    assert (state.commit, state.error) == ("1", None)


@pytest.mark.parametrize("due_at, is_stale", [(math.inf, False), (0.0, True)])
def test_content_that_nobody_syncs_is_old_but_never_stale(
    due_at: float,
    is_stale: bool,  # noqa: FBT001
) -> None:
    checkout = checkout_of("1")
    old = replace(checkout, synced_at=checkout.synced_at.replace(year=2020))
    source = FakeSource("offline", old)
    source.due_at = due_at
    mounts = mounted(source)

    [state] = states(mounts, sync(mounts))

    assert state.is_stale is is_stale
    assert state.age_seconds
    assert state.age_seconds > 24 * 3600


def test_what_a_sync_is_at_is_that_of_the_first_source_that_is_busy() -> None:
    idle, busy = FakeSource("idle"), FakeSource("busy")
    mounts = at_places({"a": idle, "b": busy})
    before = mounts.doing
    busy.doing = "Receiving objects 45%"

    assert (before, mounts.doing) == ("", "Receiving objects 45%")


def test_a_commit_that_is_not_accepted_is_a_failure_of_its_source_alone() -> None:
    def accept(source: ContentSource, _: Checkout) -> None:
        if source.name == "bad":
            raise SyncError("bad: no skill can be read")

    mounts = at_places({name: FakeSource(name, checkout_of("1")) for name in ("good", "bad")})

    content = mounts.sync(Freshness(0.0), accept)

    assert revisions(content) == {"good": "1"}
    assert str(content.error) == "bad: no skill can be read"
