"""A store follows its remote, whatever happens to it."""

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import FetchResult
from skills_mcp.errors import (
    RemoteMissingError,
    SyncError,
)
from tests.content.git.git_store import GitStore
from tests.content.git_server import (
    alternate,
    answer,
    serving,
)
from tests.support import Upstream, git, wait_for, write

TOKEN = f"canary-{uuid.uuid4().hex}"  # the bird that must not be heard


def tag(upstream: Upstream, name: str, *options: str) -> str:
    git("tag", *options, name, cwd=upstream.work)
    git("push", "-q", "--force", "origin", f"refs/tags/{name}", cwd=upstream.work)
    return git("rev-parse", name, cwd=upstream.work)


@pytest.mark.spec("9.1")
def test_a_branch_is_fetched_with_the_bytes_that_it_has(
    upstream: Upstream, store: GitStore
) -> None:
    files = {"empty.md": b"", "all.bin": bytes(range(256)) * 300, "crlf.md": b"a\r\nb"}
    files = {f"skills/pdf/{name}": data for name, data in files.items()}
    write(upstream.work / "skills/pdf/SKILL.md")
    for name, data in files.items():
        write(upstream.work / name, data)
    commit = upstream.commit({".gitattributes": "* filter=evil ident\n"})

    fetched = store.fetch()

    assert fetched == FetchResult(commit, commit)
    assert store.files(commit) | files == store.files(commit)


@pytest.mark.spec("9.2")
def test_a_private_repository_is_fetched_with_the_token(upstream: Upstream, tmp_path: Path) -> None:
    commit = upstream.commit({"a.md": "A"})

    with serving(tmp_path, TOKEN) as server:
        remote = Remote.parse(f"{server.url}/upstream.git", "main", TOKEN)
        fetched = GitStore.create(tmp_path / "store", remote).fetch()

    assert fetched.commit == commit


@pytest.mark.spec("9.3")
def test_whatever_happened_to_the_branch_is_followed(upstream: Upstream, store: GitStore) -> None:
    first = upstream.commit({"a.md": "A"})
    second = upstream.commit({"a.md": "B"})
    seen = [store.fetch().commit]
    upstream.reset(first)
    seen.append(store.fetch().commit)
    rewritten = upstream.commit({"a.md": "C"})
    seen.append(store.fetch().commit)
    git("checkout", "-q", "--orphan", "other", cwd=upstream.work)
    unrelated = upstream.commit({"a.md": "D"}, push=False)
    git("push", "-q", "--force", "origin", "HEAD:main", cwd=upstream.work)
    seen.append(store.fetch().commit)

    assert seen == [second, first, rewritten, unrelated]
    assert store.files(unrelated) == {"a.md": b"D"}


def test_a_branch_that_makes_room_for_a_folder_of_its_name_is_followed(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})
    before = GitStore.create(tmp_path / "store", upstream.url)
    before.fetch()
    second = upstream.commit({"a.md": "B"}, push=False)
    git("update-ref", "-d", "refs/heads/main", cwd=upstream.bare)
    git("push", "-q", "origin", "HEAD:refs/heads/main/v2", cwd=upstream.work)

    gone = before.fail()
    after = GitStore.create(tmp_path / "store", Remote(upstream.url, "main/v2"))

    assert isinstance(gone, RemoteMissingError)
    assert after.fetch().commit == second


def test_the_default_branch_is_followed_when_it_changes(upstream: Upstream, tmp_path: Path) -> None:
    first = upstream.commit({"a.md": "A"})
    store = GitStore.create(tmp_path / "store", Remote.parse(upstream.url, "HEAD"))
    seen = [store.fetch().commit]
    git("checkout", "-q", "-b", "trunk", cwd=upstream.work)
    second = upstream.commit({"a.md": "B"})
    git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=upstream.bare)
    seen.append(store.fetch().commit)

    assert seen == [first, second]


def test_of_an_annotated_tag_the_object_is_known_also_later(
    upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})
    mark = tag(upstream, "v1", "-a", "-m", "One")
    store = GitStore.create(tmp_path / "store", Remote.parse(upstream.url, "main", pin="v1"))

    fetched = store.fetch()
    store.keep(commit)
    upstream.commit({"a.md": "B"})
    tag(upstream, "v1", "-f", "-a", "-m", "Moved")
    moved = store.fetch()

    assert fetched == FetchResult(commit, mark)
    assert moved.commit != commit
    assert store.repository.refs.find_object(commit) == mark


def test_a_lightweight_tag_and_a_whole_commit_are_marked_by_nothing(
    upstream: Upstream, tmp_path: Path
) -> None:
    first = upstream.commit({"a.md": "A"})
    tag(upstream, "v1")
    upstream.commit({"a.md": "B"})

    for pin in ("v1", first):
        store = GitStore.create(tmp_path / pin, Remote.parse(upstream.url, "main", pin=pin))
        assert store.fetch() == FetchResult(first, first)
        assert store.repository.refs.find_object(first) == first


def test_a_tag_on_something_else_than_a_commit_is_no_pin(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})
    git("tag", "tree", "HEAD^{tree}", cwd=upstream.work)
    git("push", "-q", "origin", "tree", cwd=upstream.work)
    remote = Remote(upstream.url, "main", pin="tree")

    error = GitStore.create(tmp_path / "store", remote).fail()

    assert type(error) is RemoteMissingError
    assert "no such tag or commit" in str(error)


def test_only_what_is_new_is_fetched_and_only_its_last_commit(
    upstream: Upstream, store: GitStore
) -> None:
    first = upstream.commit({"a.md": "A"})
    upstream.commit({"a.md": "B"})
    last = upstream.commit({"a.md": "C"})

    store.fetch()

    assert git("rev-list", last, cwd=store.objects) == last
    with pytest.raises(DamagedStoreError):
        store.repository.list_files(first)


@dataclass(frozen=True)
class History:
    """A remote whose branch can be put on each of several commits."""

    bare: Path
    commits: dict[str, str]

    def publish(self, name: str) -> str:
        write(self.bare / "refs/heads/main", f"{self.commits[name]}\n")
        return self.commits[name]


@pytest.fixture(scope="module")
def recorded_history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Five commits in a row, and others beside them."""
    upstream = Upstream.create(tmp_path_factory.mktemp("history"))
    commits = {}
    for number in range(1, 6):
        commits[f"c{number}"] = upstream.commit({"a.md": str(number)}, push=False)
    git("checkout", "-q", "-b", "side", commits["c2"], cwd=upstream.work)
    commits["side of c3"] = upstream.commit({"side.md": "S"}, push=False)
    git("checkout", "-q", commits["c4"], cwd=upstream.work)
    git("merge", "-q", "--no-ff", "-m", "M", "side", cwd=upstream.work)
    commits["merge of c4"] = git("rev-parse", "HEAD", cwd=upstream.work)
    git("checkout", "-q", "--orphan", "other", cwd=upstream.work)
    commits["unrelated"] = upstream.commit({"a.md": "other"}, push=False)
    for number, commit in enumerate(commits.values()):
        ref = f"{commit}:refs/heads/b{number}"
        git("push", "-q", "origin", ref, cwd=upstream.work)
    return History(upstream.bare, commits)


@pytest.fixture
def history(recorded_history: History, upstream: Upstream) -> History:
    """The same as the remote that `store` follows."""
    shutil.copytree(recorded_history.bare, upstream.bare, dirs_exist_ok=True)
    return History(upstream.bare, recorded_history.commits)


AFTER_C3 = {
    "c3": True,
    "c4": True,
    "c5": True,
    "merge of c4": True,
    "c2": False,
    "c1": False,
    "side of c3": False,
    "unrelated": False,
}


@pytest.mark.parametrize("target", AFTER_C3)
@pytest.mark.parametrize("begin", ["shallow", "twice shallow", "forgotten"])
def test_a_store_without_history_knows_what_descends_from_what_is_served(
    begin: str, target: str, history: History, store: GitStore
) -> None:
    served = history.publish("c3")
    store.fetch()
    if begin == "twice shallow":  # a fetch that was never published cuts the way
        history.publish("c4")
        store.fetch()
    if begin == "forgotten":
        shutil.rmtree(store.objects)
    commit = history.publish(target)

    fetched = store.fetch(known=served)

    assert fetched.commit == commit
    assert store.repository.is_ancestor(served, commit) == AFTER_C3[target]


def test_to_know_that_only_the_history_since_then_is_fetched(
    history: History, store: GitStore
) -> None:
    served = history.publish("c3")
    store.fetch()
    commit = history.publish("c5")

    store.fetch(known=served)

    found = git("rev-list", commit, cwd=store.objects).split()
    assert found == [history.commits[name] for name in ("c5", "c4", "c3")]


def test_of_what_is_not_there_nothing_can_be_said(history: History, store: GitStore) -> None:
    commit = history.publish("c3")
    store.fetch()

    assert store.repository.is_ancestor(commit, commit)
    assert not store.repository.is_ancestor("1" * 40, commit)
    assert not store.repository.is_ancestor(commit, "1" * 40)


def test_how_far_a_fetch_is_is_told(upstream: Upstream, store: GitStore) -> None:
    upstream.commit({f"{number}.md": str(number) for number in range(30)})
    told: list[tuple[str, float]] = []

    store.fetch(on_progress=lambda verb, share: told.append((verb, share)))

    assert told[-1][1] == 1.0
    assert {verb for verb, _ in told} <= {
        *("Receiving objects", "Resolving deltas", "Counting objects"),
        *("Compressing objects", "Enumerating objects"),
    }


def test_only_what_can_be_served_is_listed_to_be_written(
    upstream: Upstream, store: GitStore
) -> None:
    files = ["config.yaml", "skills/a.md", "skills/b/c.md", "skills2/d.md", "e.py"]
    commit = upstream.commit(dict.fromkeys(files, "x"))
    store.fetch()

    listing = store.repository.list_served(commit)

    assert [e.file for e in listing.entries] == files[:3]


def test_a_closed_repository_says_that_the_server_is_ending(
    upstream: Upstream, store: GitStore
) -> None:
    commit = upstream.commit({"a.md": "A"})
    store.fetch()

    store.repository.git.close()

    with pytest.raises(SyncError, match="the process is ending"):
        store.repository.list_files(commit)


def test_a_host_that_does_not_name_its_branches_quickly_is_not_waited_for(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    with serving(tmp_path) as server:
        server.fault = alternate(None, answer(500))
        remote = Remote(f"{server.url}/upstream.git", "trunk")
        error = GitStore.create(tmp_path / "store", remote).fail()
        wait_for(lambda: server.counts["info/refs"] == 2)

    assert type(error) is RemoteMissingError
    assert "no such branch. Check its name" in str(error)
