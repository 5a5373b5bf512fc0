"""What is kept can be read, and the rest is forgotten in time."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import GitRepository
from skills_mcp.content.source import SyncPolicy
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
    packs = (store.objects / "objects/pack").glob("*.idx")
    git("verify-pack", *map(str, packs), cwd=store.objects)


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


def test_the_size_of_a_store_follows_its_content(upstream: Upstream, tmp_path: Path) -> None:
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


@pytest.fixture
def narrow(upstream: Upstream, tmp_path: Path) -> GitStore:
    """A store that follows a repository, of which it serves one folder."""
    return GitStore.create(tmp_path / "narrow", upstream.url)


def has_object(store: GitStore, name: str) -> bool:
    try:
        git("cat-file", "-e", name, cwd=store.objects)
    except subprocess.CalledProcessError:
        return False
    return True


def test_what_is_not_served_is_not_kept(upstream: Upstream, narrow: GitStore) -> None:
    write(upstream.work / "docs/large.bin", os.urandom(1_000_000))
    commit = upstream.commit({"skills/a.md": "A", "docs/b.md": "B"})
    unserved = git("rev-parse", "HEAD:docs/b.md", cwd=upstream.work)

    narrow.fetch()
    narrow.keep(commit)

    assert narrow.size() < 100_000
    assert not has_object(narrow, unserved)
    [entry] = narrow.repository.list_served(commit).entries
    assert entry.file == "skills/a.md"
    with narrow.repository.read_blobs([entry.blob]) as contents:
        assert list(contents) == [b"A"]


def test_a_store_without_the_rest_follows_on(upstream: Upstream, narrow: GitStore) -> None:
    large = os.urandom(200_000)
    write(upstream.work / "docs/large.bin", large)
    first = upstream.commit({"skills/a.md": "A"})
    narrow.fetch()
    narrow.keep(first)

    second = upstream.commit({"skills/a.md": "B"})
    narrow.fetch()
    narrow.keep(first, second)

    assert not has_object(narrow, f"{second}:docs/large.bin")
    for commit, text in ((first, b"A"), (second, b"B")):
        [entry] = narrow.repository.list_served(commit).entries
        with narrow.repository.read_blobs([entry.blob]) as contents:
            assert list(contents) == [text]


def test_a_collection_forgets_where_history_was_cut_before(
    upstream: Upstream, narrow: GitStore
) -> None:
    commits = []
    for number in range(12):
        commits.append(upstream.commit({"skills/a.md": str(number)}))
        narrow.fetch()
        narrow.keep(commits[-1])

    cut = (narrow.objects / "shallow").read_text().split()

    assert commits[-1] in cut
    assert commits[1] not in cut
    assert narrow.repository.is_ancestor(commits[-1], commits[-1])


def test_a_tag_outlives_a_collection(upstream: Upstream, tmp_path: Path) -> None:
    write(upstream.work / "large.bin", os.urandom(200_000))
    commit = upstream.commit({"skills/a.md": "A"})
    git("tag", "-a", "-m", "One", "v1", cwd=upstream.work)
    git("push", "-q", "origin", "v1", cwd=upstream.work)
    remote = Remote(upstream.url, "main", pin="v1")
    store = GitStore.create(tmp_path / "s", remote)

    marked = store.fetch().object
    store.keep(commit)

    assert marked != commit
    assert has_object(store, marked)
    assert store.repository.refs.find_object(commit) == marked


LOCKS = [
    *("HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "index.lock"),
    *("refs/skills/published.lock", "objects/info/commit-graph.lock", "gc.pid"),
    *("objects/info/commit-graphs/commit-graph-chain.lock", "gc.pid.lock"),
    *("objects/pack/multi-pack-index.lock", "ORIG_HEAD.lock", "FETCH_HEAD.lock"),
    *("objects/info/alternates.lock", "refs/skills/kept.lock"),
    ".new-0",
]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_that_was_left_behind_does_not_wedge(
    lock: str, prepared: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, _, second = prepared
    shutil.copytree(folder / "store", tmp_path / "store")
    store = GitStore.create(tmp_path / "store", f"file://{folder}/upstream.git")
    place = write(store.objects / lock)

    fetched = store.fetch()
    store.keep(second)

    assert fetched.commit == second
    assert not place.exists()


def test_folders_in_the_place_of_locks_do_not_wedge(
    prepared: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, _, second = prepared
    shutil.copytree(folder / "store", tmp_path / "store")
    store = GitStore.create(tmp_path / "store", f"file://{folder}/upstream.git")
    places = [write(store.objects / lock / "inside").parent for lock in LOCKS]

    fetched = store.fetch()
    store.keep(second)

    assert fetched.commit == second
    assert not any(place.exists() for place in places)


LEFTOVERS = [
    *("pack/tmp_pack_AbCdEf", "pack/tmp_idx_AbCdEf", "pack/tmp_rev_AbCdEf"),
    *("pack/.tmp-123-pack-0123.pack", "pack/pack-0123.keep", "pack/pack-0123.idx"),
    *("pack/pack-4567.rev", "pack/pack-89ab.pack", "12/tmp_obj_AbCdEf"),
    *("tmp_objdir-incoming-AbCdEf/12/34", "incoming-AbCdEf/pack/tmp_pack_1"),
]


def test_what_a_killed_fetch_left_behind_is_deleted(
    prepared: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, _, second = prepared
    shutil.copytree(folder / "store", tmp_path / "store")
    store = GitStore.create(tmp_path / "store", f"file://{folder}/upstream.git")
    left = [write(store.objects / "objects" / name, "x" * 1000) for name in LEFTOVERS]

    assert store.fetch().commit == second
    assert [path for path in left if path.exists()] == []
    assert store.files(second) == {"a.md": b"C", "b.md": b"B"}


def break_pack(objects: Path, ending: str) -> None:
    [pack] = (objects / "objects/pack").glob(f"*{ending}")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[: pack.stat().st_size // 2])


def remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()


def replace_by_file(place: Path) -> None:
    remove(place)
    write(place, b"x")


def replace_by_folder(place: Path) -> None:
    remove(place)
    write(place / "x", b"1" * 40)


def empty_all_files(objects: Path) -> None:
    for path in objects.rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a pack that is cut off": lambda it: break_pack(it, ".pack"),
    "an index that is cut off": lambda it: break_pack(it, ".idx"),
    "no packs": lambda it: remove(it / "objects/pack"),
    "no objects": lambda it: remove(it / "objects"),
    "a file for objects": lambda it: replace_by_file(it / "objects"),
    "no refs": lambda it: remove(it / "refs"),
    "an empty ref": lambda it: write(it / "refs/skills/published", b""),
    "a ref of zeros": lambda it: write(it / "refs/skills/published", b"\0" * 41),
    "a ref to nowhere": lambda it: write(it / "refs/skills/published", b"1" * 40),
    "garbage for a ref": lambda it: write(it / "refs/skills/published", b"garbage"),
    "a folder for a ref": lambda it: replace_by_folder(it / "refs/skills/published"),
    "a file for the refs": lambda it: replace_by_file(it / "refs/skills"),
    "a kept ref to nowhere": lambda it: write(it / "refs/skills/kept/x", b"1" * 40),
    "no head": lambda it: remove(it / "HEAD"),
    "an empty head": lambda it: write(it / "HEAD", b""),
    "a garbage head": lambda it: write(it / "HEAD", b"\xff\0garbage"),
    "a garbage configuration": lambda it: write(it / "config", b"[garbage"),
    "an empty configuration": lambda it: write(it / "config", b""),
    "an empty list of borders": lambda it: write(it / "shallow", b""),
    "a garbage list of borders": lambda it: write(it / "shallow", b"\xff\xfe"),
    "garbage for packed refs": lambda it: write(it / "packed-refs", b"garbage"),
    "an alternate to nowhere": lambda it: write(it / "objects/info/alternates", b"/nowhere\n"),
    "a file for the store": replace_by_file,
    "nothing in any file": empty_all_files,
}


@pytest.mark.parametrize("is_new", [False, True], ids=["same commit", "new commit"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_store_heals_or_says_that_a_new_one_is_needed(
    damage: str, prepared: tuple[Path, str, str], tmp_path: Path, *, is_new: bool
) -> None:
    folder, *commits = prepared
    shutil.copytree(folder / "store", tmp_path / "store")
    shutil.copytree(folder / "upstream.git", tmp_path / "upstream.git")
    commit = commits[is_new]
    write(tmp_path / "upstream.git/refs/heads/main", f"{commit}\n")
    store = GitStore.create(tmp_path / "store", f"file://{tmp_path}/upstream.git")
    DAMAGES[damage](store.objects)

    def fetch() -> dict[str, bytes]:
        assert store.fetch().commit == commit
        files = store.files(commit)
        store.keep(commit)
        return files

    try:
        files = fetch()
    except DamagedStoreError:
        remove(store.objects)
        files = fetch()

    assert files == {"a.md": b"C" if is_new else b"A", "b.md": b"B"}


@pytest.mark.parametrize("damage", ["an empty ref", "a ref of zeros", "a folder for a ref"])
def test_what_a_crash_leaves_of_our_ref_costs_no_new_store(
    damage: str, prepared: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, _, second = prepared
    shutil.copytree(folder / "store", tmp_path / "store")
    store = GitStore.create(tmp_path / "store", f"file://{folder}/upstream.git")
    DAMAGES[damage](store.objects)

    assert store.fetch().commit == second


def test_an_object_that_is_missing_is_an_error_and_not_an_empty_file(
    upstream: Upstream,
) -> None:
    commit = upstream.commit({"a.md": "A"}, push=False)
    blob = git("rev-parse", "HEAD:a.md", cwd=upstream.work)
    (upstream.work / ".git/objects" / blob[:2] / blob[2:]).unlink()
    remote = Remote(upstream.url, "main")
    repository = GitRepository(upstream.work / ".git", remote, SyncPolicy())

    with (
        pytest.raises(DamagedStoreError, match="missing"),
        repository.read_blobs([blob]) as contents,
    ):
        next(contents)
    with pytest.raises(DamagedStoreError):
        repository.list_served(commit)


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_store_that_may_not_be_written_is_said(upstream: Upstream, store: GitStore) -> None:
    upstream.commit({"a.md": "A"})
    store.fetch()
    upstream.commit({"a.md": "B"})
    for folder in (store.objects / "objects/pack", store.objects / "refs/skills"):
        folder.chmod(0o500)

    error = store.fail()

    assert type(error) is SyncError
    assert "cannot be written" in str(error)
