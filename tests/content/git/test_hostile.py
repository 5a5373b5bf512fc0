"""What an attacker writes into an address, a tree or a pack does nothing."""

import os
import subprocess
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skills_mcp.content.git import object_store
from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import GitRepository
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import (
    LimitExceededError,
    SyncError,
)
from tests.content.git.addresses import ODD_NAMES, UNSAFE_ADDRESSES
from tests.content.git.git_store import GitStore
from tests.content.git_server import (
    Answer,
    Fault,
    Request,
    answer,
    cut,
    flip,
    flood,
    hang,
    redirect,
    replaying,
    serving,
)
from tests.support import Upstream, git, write

TOKEN = f"canary-{uuid.uuid4().hex}"  # the bird that must not be heard


@pytest.mark.parametrize("url", UNSAFE_ADDRESSES)
def test_an_unsafe_address_is_refused_before_git_sees_it(url: str, tmp_path: Path) -> None:
    store = GitStore.create(tmp_path / "store", Remote(url, "main", TOKEN))

    error = store.fail()

    assert "Write https://host/path" in str(error)
    assert not store.objects.exists()
    assert list(tmp_path.rglob("alarm")) == []


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if "\0" not in name])
def test_an_unsafe_name_changes_nothing_even_if_nobody_has_looked_at_it(
    name: str, prepared: tuple[Path, str, str], tmp_path: Path
) -> None:
    url = f"file://{prepared[0]}/upstream.git"
    store = GitStore.create(tmp_path / "store", Remote(url, name))

    error = store.fail()

    assert isinstance(error, SyncError)
    assert not (store.objects / "refs/heads/other").exists()
    assert list(tmp_path.rglob("touch*")) == []


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("name", ["..", ".", ".git", ".GIT", "git~1"])
def test_a_tree_that_climbs_out_is_refused(name: str, upstream: Upstream, store: GitStore) -> None:
    upstream.commit({"evil.md": "E"})
    commit = commit_tree_named(name, upstream)
    git("push", "-q", "origin", f"{commit}:refs/heads/main", cwd=upstream.work)

    error = store.fail()

    assert not isinstance(error, DamagedStoreError)
    assert "broken or dangerous" in str(error)


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("name", ["..", "."])
def test_a_tree_that_climbs_out_is_not_listed_even_if_git_has_it(
    name: str, upstream: Upstream
) -> None:
    upstream.commit({"evil.md": "E"})
    commit = commit_tree_named(name, upstream)
    remote = Remote(upstream.url, "main")
    repository = GitRepository(upstream.work / ".git", remote, SyncPolicy())

    assert repository.list_served(commit).entries == ()


def commit_tree_named(name: str, upstream: Upstream) -> str:
    """Make a commit whose tree holds the folder `name`, as no honest Git would."""
    inner = git("rev-parse", "HEAD^{tree}", cwd=upstream.work)
    done = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        input=b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner),
        cwd=upstream.work,
        check=True,
        capture_output=True,
    )
    tree = done.stdout.decode().strip()
    return git("commit-tree", "-m", "Evil", "-p", "HEAD", tree, cwd=upstream.work)


@pytest.mark.parametrize("spoil", [cut, flip])
def test_a_pack_that_is_cut_or_changed_is_never_taken_for_a_good_one(
    spoil: Callable[[float], Fault], upstream: Upstream, tmp_path: Path
) -> None:
    files = {"a.md": "A" * 50, "b/c.md": "hello"}
    commit = upstream.commit(files)
    answers: dict[bytes, Answer] = {}
    points = 25

    def try_at(point: int) -> tuple[str, object]:
        def spoil_recorded(request: Request) -> None:
            good = replaying(request, answers)
            request.ask_git = lambda: good  # type: ignore[method-assign]
            spoil((point + 0.5) / points)(request)

        with serving(tmp_path) as server:
            server.fault = spoil_recorded
            url = f"{server.url}/upstream.git"
            store = GitStore.create(tmp_path / f"store-{point}", url)
            try:
                fetched = store.fetch().commit
                return "fetched", (fetched, store.files(fetched))
            except SyncError as error:
                return type(error).__name__, str(error)

    try_at(0)  # so that what Git says is recorded
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(try_at, range(points)))

    whole = (commit, {name: text.encode() for name, text in files.items()})
    wrong = [it for ended, it in results if ended == "fetched" and it != whole]
    failed = [ended for ended, _ in results if ended != "fetched"]
    assert wrong == []
    assert len(failed) > points * (0.99 if spoil is cut else 0.3)
    assert failed.count("SyncError") > len(failed) * 0.8  # a store is not thrown away


def test_a_flood_of_branches_is_bounded(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"a.md": "A"})

    with serving(tmp_path) as server:
        server.fault = flood(20_000)
        store = GitStore.create(tmp_path / "store", f"{server.url}/upstream.git")
        error = store.fail()

    assert len(str(error)) < 2_000
    assert store.size() < 100_000


def test_a_repository_that_is_too_large_is_given_up_and_leaves_nothing(
    upstream: Upstream, tmp_path: Path
) -> None:
    write(upstream.work / "large.bin", os.urandom(300_000))
    upstream.commit({"a.md": "A"})
    store = GitStore.create(tmp_path / "s", upstream.url, max_total_bytes=50_000)

    errors = [store.fail(), store.fail()]

    for error in errors:
        assert isinstance(error, LimitExceededError)
        assert "twice limits.max_total_bytes" in str(error)
    assert store.size() < 100_000


def test_a_download_is_ended_as_soon_as_it_is_too_large(upstream: Upstream, tmp_path: Path) -> None:
    write(upstream.work / "large.bin", os.urandom(300_000))
    upstream.commit({"a.md": "A"})

    def send_most(request: Request) -> None:
        good = request.ask_git()
        if request.kind != "fetch":
            request.send(good)
            return
        request.send(good, good.content[:250_000])
        request.wait()

    with serving(tmp_path) as server:
        server.fault = send_most
        url = f"{server.url}/upstream.git"
        store = GitStore.create(tmp_path / "store", url, max_total_bytes=50_000)
        error = store.fail()

    assert isinstance(error, LimitExceededError)
    assert store.size() < 100_000


def test_too_many_files_are_refused_with_their_number(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({f"{number}.md": "x" for number in range(20)})
    store = GitStore.create(tmp_path / "store", upstream.url, max_files=10)

    error = store.fail()

    assert isinstance(error, LimitExceededError)
    assert "20 files and folders, and limits.max_files is 10" in str(error)
    assert store.size() < 100_000  # nothing of it is kept


@pytest.mark.parametrize("number, folder", [(100, ""), (60, "f" * 200 + "/" + "g" * 200 + "/")])
def test_a_commit_of_countless_files_is_refused_before_they_fill_the_memory(
    number: int, folder: str, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_MAX_LISTED_FILES", 99)
    upstream.commit({f"{folder}{n}.txt": "x" for n in range(number)})
    store = GitStore.create(tmp_path / "store", upstream.url, max_files=10)

    error = store.fail()

    assert isinstance(error, LimitExceededError)
    assert "more than 99 files" in str(error)
    assert store.size() < 100_000


@pytest.mark.spec("9.2")
@pytest.mark.parametrize("place", ["environment", "url", "file"])
def test_the_token_is_in_no_file_argument_or_message(
    place: str,
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = upstream.commit({"a.md": "A"})
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    file = write(tmp_path / "token", TOKEN)
    seen: list[str] = []

    with serving(tmp_path, TOKEN) as server:
        server.on_request = lambda: seen.append(arguments_of_all_processes())
        url = f"{server.url}/upstream.git"
        remote = {
            "environment": Remote.parse(url, "main", TOKEN),
            "url": Remote.parse(url.replace("//", f"//x-access-token:{TOKEN}@"), "main"),
            "file": Remote.parse(url, "main", token_file=file),
        }[place]
        store = GitStore.create(tmp_path / "store", remote)
        store.fetch()
        store.keep(commit)
        server.token = f"not-{TOKEN}"
        messages = [str(store.fail())]
        for fault in (answer(403), answer(500), redirect(302, TOKEN), cut(0.5), hang):
            server.fault = fault
            messages.append(str(store.fail(timeout_seconds=0.5)))

    assert server.url in "".join(seen)  # the transport was seen
    assert TOKEN not in "".join(seen) + "".join(messages) + repr(remote)
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any("objects" in path.parts for path in files)
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []


def arguments_of_all_processes() -> str:
    done = subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], check=True, capture_output=True, text=True
    )
    return done.stdout
