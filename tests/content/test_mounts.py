"""Several sources together: what each of them has, and what one that fails costs."""

import shutil
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.local import DiscoveredFolder, LocalFolder
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.remote import Remote
from skills_mcp.content.source import Checkout, Content, ContentSource, Mount
from skills_mcp.errors import SyncError
from tests.support import Upstream, mounted, write


class FakeSource:
    """A repository that is as far away as the test says."""

    mode: Literal["git"] = "git"

    def __init__(self, name: str, outcome: Checkout | Exception | None = None) -> None:
        self.name = name
        self.outcome = outcome
        self.here: Checkout | None = None
        self.syncs = 0
        self.is_closed = False

    def published(self) -> Checkout | None:
        return self.here

    def sync(self) -> Checkout | None:
        self.syncs += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def count_changes(self, before: Checkout | None, _: Checkout) -> int:
        return 1 if before else 10

    def find_changes(self, _: str | None, __: Checkout) -> None:
        return None

    def close(self) -> None:
        self.is_closed = True


class MeetingSource(FakeSource):
    """A source whose sync ends only while another one is syncing, too."""

    def __init__(self, name: str, meeting: threading.Barrier) -> None:
        super().__init__(name, checkout_of(name))
        self._meeting = meeting

    def sync(self) -> Checkout | None:
        self._meeting.wait(timeout=10)
        return super().sync()


def checkout_of(revision: str | None, directory: Path | None = None) -> Checkout:
    return Checkout(directory or Path("/nowhere"), revision, datetime.now(UTC))


def at_places(sources: Mapping[str, ContentSource]) -> Mounts:
    return Mounts([Mount(source=source, at=at) for at, source in sources.items()])


def revisions(content: Content | None) -> dict[str, str | None]:
    assert content is not None
    return {part.mount.at: part.checkout.revision for part in content.parts}


def texts(content: Content | None) -> dict[str, str]:
    """Return what the file `a.md` says in each source."""
    assert content is not None
    return {
        part.mount.at: (part.checkout.directory / "a.md").read_text()
        for part in content.parts
    }


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


def branch_of(upstream: Upstream, cache: Path, **pin: str) -> RemoteBranch:
    return RemoteBranch(Remote.parse(upstream.url, "main", **pin), cache)


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

    content = three(one, two, folder, cache).sync()

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

    content = three(one, two, folder, cache).sync()

    assert texts(content) == {"": "one", "mine": "folder"}
    [failure] = content.failures
    assert failure.mount.at == "teams/two"
    assert str(content.error).startswith(f"{two.url} (main): no repository is there")


@pytest.mark.spec("9.4")
def test_a_repository_that_stopped_answering_keeps_exactly_what_it_had(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    before = three(one, two, folder, cache).sync()
    one.commit({"a.md": "one, newer"})
    shutil.rmtree(two.bare)

    content = three(one, two, folder, cache).sync()

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
    before = mounts.sync()
    one.reset(base)
    pushed = one.commit({"a.md": "3"})

    after = mounts.sync()

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
    served = mounts.sync()
    two.commit({"a.md": "by another process"})
    three(one, two, folder, cache).sync()
    shutil.rmtree(two.bare)

    content = mounts.sync()

    assert texts(content)["teams/two"] == "served"
    assert content.parts[2].checkout is served.parts[2].checkout


def test_a_folder_that_is_gone_is_a_failure_and_takes_its_skills_along(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    mounts = three(one, two, folder, cache)
    mounts.sync()
    shutil.rmtree(folder)

    content = mounts.sync()

    assert texts(content) == {"": "one", "teams/two": "two"}
    assert f"the folder {folder} cannot be read" in str(content.error)


def test_nothing_at_all_is_an_error_that_names_every_source(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    for missing in (one.bare, two.bare, folder):
        shutil.rmtree(missing)

    with pytest.raises(SyncError) as error:
        three(one, two, folder, cache).sync()

    assert all(
        name in str(error.value) for name in (one.url, two.url, f"folder {folder}")
    )


def test_a_message_that_does_not_name_its_source_gets_the_name() -> None:
    mounts = at_places(
        {
            "": FakeSource("good", checkout_of("1")),
            "x": FakeSource("bad", SyncError("!")),
        }
    )

    assert str(mounts.sync().error) == "bad: !"


@pytest.mark.spec("13")
def test_one_source_alone_fails_as_if_there_were_no_mounts(
    one: Upstream, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    mounts = mounted(branch_of(one, cache))
    mounts.sync()
    shutil.rmtree(one.bare)

    with pytest.raises(SyncError, match="Check its address"):
        mounts.sync()

    assert texts(mounts.published()) == {"": "one"}


def test_all_sources_are_asked_at_the_same_time() -> None:
    meeting = threading.Barrier(3)

    content = at_places({at: MeetingSource(at, meeting) for at in "abc"}).sync()

    assert revisions(content) == {"a": "a", "b": "b", "c": "c"}


def test_a_repository_that_is_mounted_twice_is_asked_once() -> None:
    source = FakeSource("twice", checkout_of("1"))
    mounts = at_places({"a": source, "b": source})

    content = mounts.sync()

    assert source.syncs == 1
    assert revisions(content) == {"a": "1", "b": "1"}
    assert mounts.count_changes(None, content) == 10


def test_a_fault_of_ours_is_no_failure_of_a_source() -> None:
    mounts = at_places(
        {"": FakeSource("good", checkout_of("1")), "x": FakeSource("odd", OSError("!"))}
    )

    with pytest.raises(OSError, match="!"):
        mounts.sync()


def test_what_is_here_is_published_without_any_remote(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    three(one, two, folder, cache).sync()
    shutil.rmtree(one.bare)
    shutil.rmtree(two.bare)

    content = three(one, two, folder, cache).published()

    assert texts(content) == {"": "one", "mine": "folder", "teams/two": "two"}


def test_nothing_is_published_until_every_repository_has_something(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    mounted(branch_of(one, cache)).sync()

    assert three(one, two, folder, cache).published() is None


def test_a_folder_that_is_gone_does_not_keep_the_rest_from_being_published(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    one.commit({"a.md": "one"})
    two.commit({"a.md": "two"})
    three(one, two, folder, cache).sync()
    shutil.rmtree(folder)

    content = three(one, two, folder, cache).published()

    assert texts(content) == {"": "one", "teams/two": "two"}
    assert content is not None
    assert [failure.mount.at for failure in content.failures] == ["mine"]


def test_folders_alone_are_never_published(folder: Path) -> None:
    mounts = at_places({"": LocalFolder(folder), "x": LocalFolder(folder)})

    assert mounts.published() is None
    assert mounts.mode == "local"


def test_changes_are_those_of_all_repositories_and_none_of_what_is_the_same() -> None:
    a, b = FakeSource("a", checkout_of("1")), FakeSource("b", checkout_of("1"))
    mounts = at_places({"a": a, "b": b})
    before = mounts.sync()
    b.outcome = checkout_of("2")
    after = mounts.sync()

    assert mounts.count_changes(None, before) == 20
    assert mounts.count_changes(before, before) == 0
    assert mounts.count_changes(before, after) == 1


def test_a_folder_that_was_not_there_appears_at_a_later_sync(
    one: Upstream, cache: Path, tmp_path: Path
) -> None:
    one.commit({"a.md": "one"})
    late = Mount(
        source=DiscoveredFolder(tmp_path / "late"), at=".agents/skills", scope="repo"
    )
    mounts = Mounts((Mount(source=branch_of(one, cache)), late))
    first = mounts.sync()
    write(tmp_path / "late" / "a.md", "late")

    second = mounts.sync()

    assert (first.error, second.error) == (None, None)
    assert texts(first) == {"": "one"}
    assert texts(second) == {"": "one", ".agents/skills": "late"}


def test_found_folders_alone_may_all_be_missing(tmp_path: Path) -> None:
    found = [
        Mount(source=DiscoveredFolder(tmp_path / name), at=name, scope="repo")
        for name in ("a", "b")
    ]

    assert Mounts(found).sync() == Content(())
    assert Mounts(found[:1]).sync() == Content(())


def test_a_folder_that_is_found_twice_is_served_at_its_first_place(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder)
    places = {"a": folder, "b": tmp_path / "link", "c": tmp_path}
    mounts = Mounts(
        [
            Mount(source=DiscoveredFolder(path), at=at, scope="repo")
            for at, path in places.items()
        ]
    )

    content = mounts.sync()

    assert [part.mount.at for part in content.parts] == ["a", "c"]
    assert [state.mount for state in mounts.derive_states(content)] == ["a", "c"]


def test_a_folder_that_the_operator_lists_twice_is_served_twice(folder: Path) -> None:
    mounts = at_places({"a": LocalFolder(folder), "b": LocalFolder(folder)})

    assert list(revisions(mounts.sync())) == ["a", "b"]


def test_the_state_of_each_source_says_what_it_has_and_what_went_wrong(
    one: Upstream, two: Upstream, folder: Path, cache: Path
) -> None:
    commit = one.commit({"a.md": "one"})
    shutil.rmtree(two.bare)
    mounts = three(one, two, folder, cache)
    content = mounts.sync()

    first, mine, last = mounts.derive_states(content)

    assert (first.mount, first.mode, first.commit) == ("", "git", commit)
    assert (first.name, first.error) == (f"{one.url} (main)", None)
    assert first.synced_at == content.parts[0].checkout.synced_at
    assert (mine.mount, mine.mode, mine.commit) == ("mine", "local", None)
    assert (last.mount, last.commit, last.synced_at) == ("teams/two", None, None)
    assert last.error is content.failures[0].error


def test_before_any_content_every_named_source_has_a_state(tmp_path: Path) -> None:
    found = Mount(source=DiscoveredFolder(tmp_path / "no"), at="x", scope="repo")
    mounts = Mounts((Mount(source=LocalFolder(tmp_path)), found))

    [state] = mounts.derive_states(None)

    assert (state.mount, state.synced_at) == ("", None)


def test_closing_closes_every_source() -> None:
    sources = [FakeSource(name) for name in "ab"]

    at_places({source.name: source for source in sources}).close()

    assert all(source.is_closed for source in sources)


@pytest.mark.parametrize(
    "number, name", [(1, "s0"), (2, "s0 and 1 more"), (4, "s0 and 3 more")]
)
def test_the_name_is_short_however_many_there_are(number: int, name: str) -> None:
    mounts = at_places({str(n): FakeSource(f"s{n}") for n in range(number)})

    assert mounts.name == name
    assert mounts.mode == "git"
