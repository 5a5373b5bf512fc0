"""What is kept can be read, and the rest is forgotten in time."""

import os
from pathlib import Path

import pytest

from skills_mcp.errors import (
    SyncError,
)
from tests.content.git.git_store import GitStore
from tests.content.git_server import (
    cut,
    serving,
)
from tests.support import Upstream, git, write


def test_what_is_kept_can_be_read_and_the_rest_is_forgotten_in_time(
    upstream: Upstream, store: GitStore
) -> None:
    commits = []
    for number in range(12):
        write(upstream.work / "large.bin", os.urandom(100_000))
        commits.append(upstream.commit({"a.md": str(number)}))
        store.fetch()
        store.keep(*commits[-2:])

    assert store.files(commits[-1])["a.md"] == b"11"
    assert store.files(commits[-2])["a.md"] == b"10"
    with pytest.raises(SyncError):
        store.repository.list_files(commits[0])
    assert store.repository.diff(commits[-2], commits[-1]) == {"a.md", "large.bin"}
    git("fsck", "--full", "--strict", cwd=store.objects)


def test_what_is_not_there_cannot_be_kept_and_is_left_out(
    upstream: Upstream, store: GitStore
) -> None:
    commit = upstream.commit({"a.md": "A"})
    store.fetch()

    store.keep(commit, "1" * 40)

    assert store.files(commit) == {"a.md": b"A"}
    refs = git("for-each-ref", "--format=%(refname)", cwd=store.objects)
    assert refs.split() == [f"refs/skills/kept/{commit}", "refs/skills/published"]


def test_a_commit_that_was_taken_back_is_kept_as_long_as_it_is_wanted(
    upstream: Upstream, store: GitStore
) -> None:
    first = upstream.commit({"a.md": "A"})
    second = upstream.commit({"a.md": "B"})
    store.fetch()
    store.keep(second)
    upstream.reset(first)
    store.fetch()
    store.keep(first, second)
    git("repack", "-adq", cwd=store.objects)

    assert store.files(second) == {"a.md": b"B"}


def test_the_size_of_a_store_follows_its_content(
    upstream: Upstream, tmp_path: Path
) -> None:
    content = 400_000
    store: GitStore | None = None

    with serving(tmp_path) as server:
        for number in range(6):
            write(upstream.work / "large.bin", os.urandom(content))
            commit = upstream.commit({"a.md": str(number)})
            url = f"{server.url}/upstream.git"
            store = GitStore.create(tmp_path / "store", url)
            server.fault = cut(0.9)
            store.fail()
            server.fault = None
            store.fetch()
            store.keep(commit)

    assert store is not None
    assert store.size() <= 3 * content
