import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.commit_store import CommitStore
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Checkout, Content, ContentPart, Freshness, Mount, SyncPolicy
from skills_mcp.errors import HistoryRewrittenError, RemoteMissingError, SyncError
from tests.content.git_server import serving
from tests.support import Upstream, git, running_python, sync, wait_for, write

SYNC = """
import sys
import time
from pathlib import Path
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import SyncPolicy
from skills_mcp.content.source import SyncPolicy
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Freshness, accept_any_commit
source = RemoteBranch(Remote(sys.argv[1], "main"), Path(sys.argv[2]), SyncPolicy())
print("ready", flush=True)
sys.stdin.readline()
checkout = source.sync(Freshness(time.time(), is_urgent=True), accept_any_commit)
text = (checkout.directory / "a.md").read_text()
print(checkout.revision, text, flush=True)
"""


@pytest.fixture
def source(upstream: Upstream, tmp_path: Path) -> RemoteBranch:
    return open_branch(upstream, tmp_path)


def open_branch(upstream: Upstream, tmp_path: Path, branch: str = "main") -> RemoteBranch:
    return RemoteBranch(Remote(upstream.url, branch), tmp_path / "cache", SyncPolicy())


def store_of(tmp_path: Path) -> Path:
    [store] = (tmp_path / "cache").iterdir()
    return store


def snapshots(tmp_path: Path) -> set[str]:
    return {p.name for p in (store_of(tmp_path) / "snap").iterdir() if p.is_dir()}


def text(checkout: Checkout, file: str = "a.md") -> str:
    return (checkout.directory / file).read_text()


@pytest.mark.spec("9.1")
def test_the_first_sync_publishes_the_branchs_commit(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    commit = upstream.commit({"skills/_root.md": "Rules", "config.yaml": ""})

    checkout = sync(source)

    assert checkout.revision == commit
    assert checkout.directory == store_of(tmp_path) / "snap" / commit
    assert text(checkout, "skills/_root.md") == "Rules"
    assert (store_of(tmp_path) / "current.json").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_files_of_a_snapshot_are_read_only(upstream: Upstream, source: RemoteBranch) -> None:
    upstream.commit({"a.md": "A", "b/run.sh": "#!/bin/sh"})

    directory = sync(source).directory

    modes = {stat.S_IMODE(p.stat().st_mode) for p in directory.rglob("*.*")}
    assert modes == {0o444}


@pytest.mark.spec("9.1")
def test_a_source_that_never_synced_publishes_nothing(source: RemoteBranch) -> None:
    assert source.open() is None


@pytest.mark.spec("9.1")
def test_another_server_finds_what_is_published_without_the_remote(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})
    sync(source)
    shutil.rmtree(upstream.bare)

    published = open_branch(upstream, tmp_path).open()

    assert published is not None
    assert published.revision == commit


@pytest.mark.spec("9.4")
def test_an_old_checkout_still_reads_its_old_bytes_after_the_next_sync(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    first = upstream.commit({"a.md": "old"})
    old = sync(source)
    second = upstream.commit({"a.md": "new"})

    new = sync(source)

    assert (text(old), text(new)) == ("old", "new")
    assert snapshots(tmp_path) == {first, second}


def test_an_old_checkout_that_nobody_holds_is_collected_by_the_next_sync(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    first = upstream.commit({"a.md": "old"})
    sync(source)
    second = upstream.commit({"a.md": "new"})

    sync(source)

    assert snapshots(tmp_path) == {first, second}  # one to go back to
    third = upstream.commit({"a.md": "newest"})
    sync(source)
    assert snapshots(tmp_path) == {second, third}


@pytest.mark.spec("9.4")
def test_a_sync_without_news_keeps_the_commit_and_moves_the_time(
    upstream: Upstream, source: RemoteBranch
) -> None:
    upstream.commit({"a.md": "A"})

    first, second = sync(source), sync(source)

    assert first.revision == second.revision
    assert first.synced_at < second.synced_at


@pytest.mark.spec("9.4")
def test_a_force_push_converges_in_one_sync(upstream: Upstream, source: RemoteBranch) -> None:
    base = upstream.commit({"a.md": "1"})
    upstream.commit({"a.md": "2"})
    sync(source)
    upstream.reset(base)
    pushed = upstream.commit({"a.md": "3"})

    checkout = sync(source)

    assert (checkout.revision, text(checkout)) == (pushed, "3")


@pytest.mark.spec("9.4")
def test_a_rollback_converges_in_one_sync(upstream: Upstream, source: RemoteBranch) -> None:
    good = upstream.commit({"a.md": "good"})
    upstream.commit({"a.md": "bad", "b.md": "bad"})
    sync(source)
    upstream.reset(good)

    checkout = sync(source)

    assert (checkout.revision, text(checkout)) == (good, "good")
    assert not (checkout.directory / "b.md").exists()


@pytest.mark.spec("9.4")
def test_unrelated_history_converges_in_one_sync(upstream: Upstream, source: RemoteBranch) -> None:
    upstream.commit({"a.md": "old", "gone.md": "old"})
    sync(source)
    git("checkout", "-q", "--orphan", "fresh", cwd=upstream.work)
    git("rm", "-qrf", ".", cwd=upstream.work)
    write(upstream.work / "a.md", "new")
    git("add", ".", cwd=upstream.work)
    git("commit", "-qm", "Fresh", cwd=upstream.work)
    git("push", "-qf", "origin", "HEAD:main", cwd=upstream.work)

    checkout = sync(source)

    assert [path.name for path in checkout.directory.iterdir()] == ["a.md"]
    assert text(checkout) == "new"


@pytest.mark.spec("13")
@pytest.mark.parametrize(
    "branch, breakage, advice",
    [
        ("main", "repository", "Check the address"),
        ("main", "branch", "the repository is empty"),
        ("main", "server", "Check the network"),
    ],
)
def test_a_sync_that_fails_says_what_to_do_and_keeps_what_is_published(
    branch: str, breakage: str, advice: str, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})
    with serving(tmp_path) as server:
        remote = Remote(f"{server.url}/upstream.git", branch)
        source = RemoteBranch(remote, tmp_path / "cache")
        sync(source)
        if breakage == "repository":
            shutil.rmtree(upstream.bare)
        elif breakage == "branch":
            git("update-ref", "-d", "refs/heads/main", cwd=upstream.bare)
        if breakage != "server":
            with pytest.raises(SyncError, match=advice):
                sync(source)
    if breakage == "server":
        with pytest.raises(SyncError, match=advice):
            sync(source)

    published = source.open()
    assert published is not None
    assert (published.revision, text(published)) == (commit, "A")


@pytest.mark.spec("9.1")
def test_a_branch_that_never_was_is_said_at_the_first_sync(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})
    source = open_branch(upstream, tmp_path, "release")

    with pytest.raises(SyncError, match="no such branch"):
        sync(source)

    assert source.open() is None


@pytest.mark.spec("9.1")
def test_another_branch_never_shares_a_store(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"a.md": "main"})
    git("checkout", "-q", "-b", "release", cwd=upstream.work)
    upstream.commit({"a.md": "release"})

    main = sync(open_branch(upstream, tmp_path))
    release = sync(open_branch(upstream, tmp_path, "release"))

    assert (text(main), text(release)) == ("main", "release")
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.spec("9.1")
def test_another_repository_never_shares_a_store(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Upstream.create(tmp_path / name).commit({"a.md": name})

    checkouts = [
        sync(
            RemoteBranch(
                Remote(f"file://{tmp_path}/{name}/upstream.git", "main"),
                tmp_path / "cache",
            )
        )
        for name in ("one", "two")
    ]

    assert [text(checkout) for checkout in checkouts] == ["one", "two"]
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_lock_files_that_a_dead_git_left_behind_do_not_matter(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "1"})
    sync(source)
    objects = store_of(tmp_path) / "objects.git"
    for leftover in ("shallow.lock", "config.lock", "HEAD.lock", "packed-refs.lock"):
        write(objects / leftover)
    write(objects / "refs/skills/published.lock")
    write(objects / "objects/pack/tmp_pack_dead", "half a pack")
    write(objects / "marker", "not made anew")
    upstream.commit({"a.md": "2"})

    assert text(sync(source)) == "2"
    assert not list(objects.rglob("tmp_pack_dead"))
    assert (objects / "marker").exists()


@pytest.mark.parametrize(
    "damage",
    ["no HEAD", "empty HEAD", "empty folder", "no objects", "no refs", "empty pack"],
)
def test_a_damaged_object_store_is_made_anew(
    damage: str, upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "1"})
    sync(source)
    objects = store_of(tmp_path) / "objects.git"
    match damage:
        case "no HEAD":
            (objects / "HEAD").unlink()
        case "empty HEAD":
            write(objects / "HEAD")
        case "empty folder":
            shutil.rmtree(objects)
            objects.mkdir()
        case "empty pack":
            for file in (objects / "objects/pack").iterdir():
                file.chmod(0o600)
                write(file)
        case _:
            shutil.rmtree(objects / damage.removeprefix("no "))
    upstream.commit({"a.md": "2"})

    assert text(sync(source)) == "2"


def test_a_blob_that_is_missing_heals_at_the_next_sync(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "1"})
    sync(source)
    store = store_of(tmp_path)
    for file in (store / "objects.git/objects/pack").iterdir():
        moved = file.rename(tmp_path / file.name)
        if moved.suffix == ".pack":
            unpack(moved, store / "objects.git")
    blob = git("rev-parse", "HEAD:a.md", cwd=upstream.work)
    (store / "objects.git/objects" / blob[:2] / blob[2:]).unlink()
    shutil.rmtree(store / "snap" / commit)

    assert text(sync(source)) == "1"


def unpack(pack: Path, repository: Path) -> None:
    """Turn a pack into single objects, of which one can be taken away."""
    command = ["git", f"--git-dir={repository}", "unpack-objects", "-q"]
    with pack.open("rb") as stream:
        subprocess.run(command, stdin=stream, check=True)


@pytest.mark.parametrize("pointer", ["garbage", "missing", "from the future"])
def test_a_damaged_pointer_heals_at_the_next_sync(
    pointer: str, upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "1"})
    sync(source)
    file = store_of(tmp_path) / "current.json"
    match pointer:
        case "garbage":
            write(file, "{")
        case "missing":
            file.unlink()
        case _:
            write(file, f'{{"commit": "{commit}", "fetched_at": 99999999999}}')
            commit = upstream.commit({"a.md": "2"})

    assert sync(source).revision == commit
    published = source.open()
    assert published is not None
    assert published.revision == commit


def test_a_snapshot_folder_that_was_deleted_heals_at_the_next_sync(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "1"})
    sync(source)
    shutil.rmtree(store_of(tmp_path) / "snap" / commit)

    before = source.open()
    after = sync(source)

    assert before is None
    assert text(after) == "1"


def test_what_an_interrupted_sync_left_over_disappears(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "1"})
    sync(source)
    write(store_of(tmp_path) / "snap/.staging-dead/a.md", "half")

    checkout = sync(source)

    assert checkout.revision == commit
    assert snapshots(tmp_path) == {commit}


def test_a_cache_that_cannot_be_written_is_an_error_of_the_sync(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "1"})
    write(tmp_path / "cache", "a file where the folder should be")

    with pytest.raises(SyncError, match="cannot be written"):
        sync(open_branch(upstream, tmp_path))


@pytest.mark.spec("9.5")
def test_two_processes_that_sync_at_once_on_a_cold_cache_both_succeed(
    upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({f"{n}.md": "x" * 1000 for n in range(50)} | {"a.md": "A"})
    arguments = (upstream.url, tmp_path / "cache")

    with (
        running_python(SYNC, *arguments) as one,
        running_python(SYNC, *arguments) as two,
    ):
        answers = []
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
        for process in (one, two):
            assert process.stdout is not None
            answers.append(process.stdout.readline().decode().split())

    assert answers == [[commit, "A"], [commit, "A"]]


@pytest.mark.spec("9.5")
def test_a_fetch_that_began_after_we_asked_is_shared(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "1"})
    sync(source)
    [current] = store_of(tmp_path).glob("current.json")
    commit = upstream.commit({"a.md": "2"})

    with running_python(SYNC, upstream.url, tmp_path / "cache") as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"ready\n"
        with source._store.exclusive(timeout_seconds=10) as lock:
            other.stdin.write(b"go\n")
            other.stdin.flush()
            _wait_until_it_waits_for_the_lock(other)
            source._delivery.run(lock, Freshness(time.time()), lambda _: None)
            shutil.rmtree(upstream.bare)  # whoever fetches now, fails
        answer = other.stdout.readline().decode().split()

    assert answer == [commit, "2"]
    assert current.is_file()


def _wait_until_it_waits_for_the_lock(process: "subprocess.Popen[bytes]") -> None:
    """See that it has opened the lock file, which it does after it has asked."""
    folder = Path(f"/proc/{process.pid}/fd")
    if not folder.exists():
        pytest.skip("needs /proc")
    wait_for(
        lambda: any(
            link.is_symlink() and str(link.readlink()).endswith("sync.lock")
            for link in folder.iterdir()
        )
    )


def content_of(source: RemoteBranch) -> Content:
    """Return the newest commit as the content of a server."""
    return Content((ContentPart(Mount(source=source), sync(source)),))


@pytest.mark.spec("9.4")
def test_changes_are_counted_by_file(upstream: Upstream, source: RemoteBranch) -> None:
    upstream.commit({"same.md": "S", "changed.md": "1", "removed.md": "R"})
    before = content_of(source)
    upstream.commit({"changed.md": "2", "removed.md": None, "added.md": "A"})
    mounts = Mounts((Mount(source=source),))

    after = content_of(source)

    assert mounts.count_changes(before, after) == 3
    assert mounts.count_changes(after, after) == 0
    assert mounts.count_changes(None, after) == 3


def test_a_commit_long_forgotten_counts_as_empty(upstream: Upstream, source: RemoteBranch) -> None:
    upstream.commit({"a.md": "1", "b.md": "1"})
    after = content_of(source)
    [part] = after.parts
    forgotten = Checkout(part.checkout.directory, "0" * 40, part.checkout.synced_at)
    before = Content((ContentPart(part.mount, forgotten),))

    assert source.content_ids(forgotten) == {}
    assert Mounts((Mount(source=source),)).count_changes(before, after) == 2


def test_files_of_one_content_and_mode_have_one_id(
    upstream: Upstream, source: RemoteBranch
) -> None:
    upstream.commit({"a.md": "1", "b.md": "1", "c.md": "2", "run.sh": "1"})
    (upstream.work / "run.sh").chmod(0o755)
    upstream.commit({})

    ids = source.content_ids(sync(source))

    assert ids is not None
    assert ids["a.md"] == ids["b.md"]
    assert len({ids[file] for file in ("a.md", "c.md", "run.sh")}) == 3


def test_its_name_is_the_address_and_the_branch(source: RemoteBranch) -> None:
    assert source.name.endswith("upstream.git (main)")
    assert source.mode == "git"


def open_pinned(upstream: Upstream, tmp_path: Path, pin: str) -> RemoteBranch:
    remote = Remote.parse(upstream.url, "main", pin=pin)
    return RemoteBranch(remote, tmp_path / "cache")


@pytest.mark.parametrize("options", [["-a", "-m", "First"], []])
def test_a_pinned_tag_stays_where_it_is_while_the_branch_goes_on(
    options: list[str], upstream: Upstream, tmp_path: Path
) -> None:
    tagged = upstream.commit({"a.md": "tagged"})
    git("tag", *options, "v1", cwd=upstream.work)
    git("push", "-q", "origin", "v1", cwd=upstream.work)
    source = open_pinned(upstream, tmp_path, "v1")
    before = sync(source)
    upstream.commit({"a.md": "newer"})

    after = sync(source)

    assert (before.revision, after.revision) == (tagged, tagged)
    assert text(after) == "tagged"


def test_a_tag_wins_over_a_branch_of_the_same_name(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"a.md": "tagged"})
    git("tag", "both", cwd=upstream.work)
    git("checkout", "-q", "-b", "both", cwd=upstream.work)
    upstream.commit({"a.md": "branch"})
    git("push", "-q", "origin", "refs/tags/both", cwd=upstream.work)

    tag = sync(open_pinned(upstream, tmp_path, "both"))
    branch = sync(open_branch(upstream, tmp_path, "both"))

    assert (text(tag), text(branch)) == ("tagged", "branch")


def test_a_tag_that_somebody_moves_is_followed(upstream: Upstream, tmp_path: Path) -> None:
    source = open_pinned(upstream, tmp_path, "v1")
    for content in ("old", "new"):
        upstream.commit({"a.md": content})
        git("tag", "-f", "v1", cwd=upstream.work)
        git("push", "-qf", "origin", "v1", cwd=upstream.work)
        checkout = sync(source)

    assert text(checkout) == "new"


def test_a_pinned_commit_is_served_whatever_the_branch_does(
    upstream: Upstream, tmp_path: Path
) -> None:
    pinned = upstream.commit({"a.md": "pinned"})
    upstream.commit({"a.md": "newer"})

    checkout = sync(open_pinned(upstream, tmp_path, pinned))

    assert (checkout.revision, text(checkout)) == (pinned, "pinned")


def test_a_pinned_commit_that_is_here_needs_no_remote(upstream: Upstream, tmp_path: Path) -> None:
    pinned = upstream.commit({"a.md": "pinned"})
    sync(open_pinned(upstream, tmp_path, pinned))
    shutil.rmtree(upstream.bare)

    again = sync(open_pinned(upstream, tmp_path, pinned.upper()))

    assert (again.revision, text(again)) == (pinned, "pinned")


def test_a_pinned_commit_that_was_deleted_is_fetched_again(
    upstream: Upstream, tmp_path: Path
) -> None:
    pinned = upstream.commit({"a.md": "pinned"})
    sync(open_pinned(upstream, tmp_path, pinned))
    shutil.rmtree(store_of(tmp_path) / "snap" / pinned)

    assert text(sync(open_pinned(upstream, tmp_path, pinned))) == "pinned"


def test_a_pinned_commit_is_repaired_also_if_its_store_is_damaged(
    upstream: Upstream, tmp_path: Path
) -> None:
    pinned = upstream.commit({"a.md": "pinned"})
    folder = sync(open_pinned(upstream, tmp_path, pinned)).directory
    shutil.rmtree(store_of(tmp_path) / "objects.git/objects/pack")
    (folder / "a.md").unlink()

    assert text(sync(open_pinned(upstream, tmp_path, pinned))) == "pinned"


@pytest.mark.parametrize("pin", ["v9", "1" * 40, "HEAD"])
def test_a_pin_that_is_not_there_is_said_with_what_to_write(
    pin: str, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    with pytest.raises(SyncError, match="no such tag or commit") as error:
        sync(open_pinned(upstream, tmp_path, pin))

    assert "Check `ref`" in str(error.value)
    assert f"({pin})" in str(error.value)


def test_a_tag_on_something_else_than_a_commit_is_no_pin(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})
    git("tag", "tree", "HEAD^{tree}", cwd=upstream.work)
    git("push", "-q", "origin", "tree", cwd=upstream.work)

    with pytest.raises(SyncError, match="no such tag or commit"):
        sync(open_pinned(upstream, tmp_path, "tree"))


def test_pins_and_branches_never_share_a_store(upstream: Upstream, tmp_path: Path) -> None:
    commit = upstream.commit({"a.md": "A"})
    git("tag", "main", cwd=upstream.work)
    git("tag", "v1", cwd=upstream.work)
    git("push", "-q", "origin", "refs/tags/main", "v1", cwd=upstream.work)

    sync(open_branch(upstream, tmp_path))
    for pin in ("main", "v1", commit):
        sync(open_pinned(upstream, tmp_path, pin))

    assert len(list((tmp_path / "cache").iterdir())) == 4


@pytest.fixture(params=["develop", "trunk"])
def without_main(request: pytest.FixtureRequest, tmp_path: Path) -> Upstream:
    """A repository with one branch, its default, which is not called main."""
    upstream = Upstream.create(tmp_path, branch=request.param)
    upstream.commit({"a.md": "A"})
    return upstream


def test_the_default_branch_is_followed_where_no_branch_is_named_and_there_is_no_main(
    without_main: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    branch = git("branch", "--show-current", cwd=without_main.work)
    caplog.set_level("INFO")

    checkout = sync(open_branch(without_main, tmp_path, ""))
    again = open_branch(without_main, tmp_path, "")

    assert text(checkout) == "A"
    assert checkout.default_branch == branch
    found = again.open()
    assert found
    assert found.default_branch == branch
    assert again.name == f"{without_main.url} ({branch})"
    said = f"{without_main.url} has no branch main: its default branch '{branch}' is followed"
    assert caplog.messages.count(said) == 2


def test_a_main_that_comes_later_is_followed(without_main: Upstream, tmp_path: Path) -> None:
    source = open_branch(without_main, tmp_path, "")
    sync(source)
    git("switch", "-q", "-c", "main", cwd=without_main.work)
    without_main.commit({"a.md": "M"})

    checkout = sync(source)

    assert (text(checkout), checkout.default_branch) == ("M", "")
    assert source.name == f"{without_main.url} (main)"


def test_a_rollback_and_its_end_stay_on_the_default_branch(
    without_main: Upstream, tmp_path: Path
) -> None:
    source = open_branch(without_main, tmp_path, "")
    branch = sync(source).default_branch
    without_main.commit({"a.md": "B"})
    sync(source)

    held = source.roll_back()
    source.resume()

    newest = source.open()
    assert (text(held), held.default_branch) == ("A", branch)
    assert newest
    assert (text(newest), newest.default_branch) == ("B", branch)


@pytest.mark.parametrize("named", ["main", "master"])
def test_a_branch_that_is_named_is_never_replaced(
    named: str, without_main: Upstream, tmp_path: Path
) -> None:
    sync(open_branch(without_main, tmp_path, ""))
    source = open_branch(without_main, tmp_path, named)

    with pytest.raises(RemoteMissingError, match=r"has no such branch\. Its default"):
        sync(source)

    assert source.open() is None  # nor is what another process has published


def test_a_named_main_that_is_lost_keeps_what_is_published(
    upstream: Upstream, source: RemoteBranch
) -> None:
    commit = upstream.commit({"a.md": "A"})
    sync(source)
    git("branch", "-m", "main", "trunk", cwd=upstream.bare)

    with pytest.raises(RemoteMissingError, match="Its default branch is 'trunk'"):
        sync(source)

    kept = source.open()
    assert kept
    assert kept.revision == commit


@pytest.mark.parametrize("head", ["refs/heads/main", "refs/heads/gone"])
def test_without_a_default_branch_the_branches_are_named(
    head: str, without_main: Upstream, tmp_path: Path
) -> None:
    branch = git("branch", "--show-current", cwd=without_main.work)
    git("symbolic-ref", "HEAD", head, cwd=without_main.bare)

    with pytest.raises(RemoteMissingError, match=f"one that it has: '{branch}'"):
        sync(open_branch(without_main, tmp_path, ""))


def test_an_empty_repository_has_no_default_branch(upstream: Upstream, tmp_path: Path) -> None:
    with pytest.raises(RemoteMissingError, match=r"is empty\. Push"):
        sync(open_branch(upstream, tmp_path, ""))


def test_the_default_branch_of_a_rewritten_history_is_checked_like_any_other(
    without_main: Upstream, tmp_path: Path
) -> None:
    strict = SyncPolicy(allow_non_fast_forward=False)
    remote = Remote(without_main.url, "")
    source = RemoteBranch(remote, tmp_path / "cache", strict)
    sync(source)
    without_main.commit({"a.md": "B"})
    assert text(sync(source)) == "B"
    git("checkout", "-q", "--orphan", "main", cwd=without_main.work)
    without_main.commit({"a.md": "M"})

    with pytest.raises(HistoryRewrittenError):
        sync(source)


DAYS = 24 * 60 * 60


@pytest.fixture
def forgotten(upstream: Upstream, tmp_path: Path) -> Path:
    """The store of a branch that was followed 31 days ago."""
    upstream.commit({"a.md": "A"})
    git("push", "-q", "origin", "HEAD:refs/heads/old", cwd=upstream.work)
    sync(open_branch(upstream, tmp_path, "old"))
    store = store_of(tmp_path)
    os.utime(store, (time.time() - 31 * DAYS,) * 2)
    return store


def test_the_store_of_a_branch_that_is_followed_no_more_is_deleted(
    forgotten: Path, source: RemoteBranch, tmp_path: Path
) -> None:
    others = [tmp_path / "cache/index", tmp_path / "cache/0123456789abcdef"]
    for other in others:  # neither is a store
        other.mkdir()
        os.utime(other, (0, 0))

    sync(source)

    assert not forgotten.exists()
    assert all(other.is_dir() for other in others)
    assert len(list((tmp_path / "cache").iterdir())) == len(others) + 1


def test_a_store_that_was_opened_lately_stays(
    forgotten: Path, upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    open_branch(upstream, tmp_path, "old").open()

    sync(source)

    assert forgotten.is_dir()


def test_a_store_that_is_read_stays(
    forgotten: Path, upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    reader = open_branch(upstream, tmp_path, "old").open()
    os.utime(forgotten, (0, 0))

    sync(source)

    assert reader is not None
    assert text(reader) == "A"


def test_a_store_that_is_written_stays(forgotten: Path, source: RemoteBranch) -> None:
    with CommitStore(forgotten).exclusive(timeout_seconds=1):
        os.utime(forgotten, (0, 0))

        sync(source)

    assert forgotten.is_dir()


def test_a_branch_whose_store_was_deleted_is_fetched_again(
    forgotten: Path, upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    old = open_branch(upstream, tmp_path, "old")
    sync(source)

    assert old.open() is None
    assert text(sync(old)) == "A"
    assert forgotten.is_dir()


def forge(file: Path) -> None:
    """Write other bytes of the same size, time and mode."""
    before = file.stat()
    file.chmod(0o644)
    file.write_bytes(b"x" * before.st_size)
    file.chmod(stat.S_IMODE(before.st_mode))
    os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))


def age_check(checkout: Checkout, days: float) -> None:
    checked = checkout.directory.with_name(f"{checkout.revision}.checked")
    os.utime(checked, (time.time() - days * 24 * 60 * 60,) * 2)


def test_an_edit_that_does_not_show_is_found_within_a_day(
    upstream: Upstream, source: RemoteBranch, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.commit({"skills/a.md": "The rules"})
    checkout = sync(source)
    forge(checkout.directory / "skills/a.md")
    assert not source.is_check_due()
    age_check(checkout, days=1.1)
    assert source.is_check_due()

    source.check()

    assert text(checkout, "skills/a.md") == "The rules"
    assert f"'skills/a.md' differed from commit {checkout.revision}" in caplog.text
    assert not source.is_check_due()


def test_an_edit_that_does_not_show_gets_into_no_other_commit(
    upstream: Upstream, source: RemoteBranch
) -> None:
    upstream.commit({"skills/a.md": "The rules"})
    forge(sync(source).directory / "skills/a.md")
    upstream.commit({"skills/b.md": "More rules"})

    checkout = sync(source)

    assert text(checkout, "skills/a.md") == "The rules"
    assert not source.is_check_due()


def test_another_window_makes_the_check_instead(
    upstream: Upstream, source: RemoteBranch, tmp_path: Path
) -> None:
    upstream.commit({"skills/a.md": "The rules"})
    checkout = sync(source)
    other = open_branch(upstream, tmp_path)
    age_check(checkout, days=2)
    assert other.is_check_due()

    source.check()

    assert not other.is_check_due()


def test_a_check_that_cannot_be_made_is_not_tried_at_every_look(
    upstream: Upstream, source: RemoteBranch
) -> None:
    upstream.commit({"skills/a.md": "The rules"})
    checkout = sync(source)
    age_check(checkout, days=2)
    shutil.rmtree(checkout.directory.parents[1] / "objects.git")

    source.check()

    assert not source.is_check_due()


@pytest.mark.parametrize("pin", ["", "v1"])
def test_a_pinned_or_followed_commit_is_checked_without_the_remote(
    pin: str, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/a.md": "The rules"})
    git("tag", "v1", cwd=upstream.work)
    git("push", "-q", "--tags", cwd=upstream.work)
    remote = Remote(upstream.url, "main", pin=pin)
    source = RemoteBranch(remote, tmp_path / "cache", SyncPolicy())
    checkout = sync(source)
    forge(checkout.directory / "skills/a.md")
    age_check(checkout, days=2)
    shutil.rmtree(upstream.bare)

    source.check()

    assert text(checkout, "skills/a.md") == "The rules"
