"""What a sync lets through, what it keeps, and what it leaves alone."""

import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Checkout, Freshness, Signers, SyncPolicy, accept_any_commit
from skills_mcp.errors import (
    AccessRefusedError,
    HistoryRewrittenError,
    LimitExceededError,
    SignatureError,
    SyncError,
    UnreadableContentError,
)
from skills_mcp.skills.model import Stamp
from skills_mcp.skills.source_layout import DEFAULT_SELECTION, Selection
from tests.content.git_server import GitServer, answer, serving
from tests.support import Upstream, git, mounted, sync, write


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path: Path, upstream: Upstream) -> Iterator[GitServer]:
    upstream.commit({"a.md": "1"})
    with serving(tmp_path) as server:
        yield server


def follow(
    upstream: Upstream, cache: Path, policy: SyncPolicy | None = None, pin: str = ""
) -> RemoteBranch:
    remote = Remote(upstream.url, "main", pin=pin)
    return RemoteBranch(remote, cache, policy or SyncPolicy())


def read(checkout: Checkout | None, file: str = "a.md") -> str:
    assert checkout is not None
    return (checkout.directory / file).read_text()


def pointer_of(cache: Path) -> Path:
    [pointer] = cache.glob("*/current.json")
    return pointer


# -- what is accepted


class Reader:
    """Refuses what it is told to, as a library refuses what it cannot read."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken: set[str] = set()

    def __call__(self, _: object, checkout: Checkout) -> None:
        text = read(checkout)
        self.asked.append(text)
        if text in self.broken:
            raise UnreadableContentError(f"{text} cannot be read")


def now() -> Freshness:
    return Freshness(time.time(), is_urgent=True)


def test_a_commit_is_read_before_anybody_is_served_from_it(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1"})
    source, seen = follow(upstream, cache), []

    def look(_: object, checkout: Checkout) -> None:
        seen.append((read(checkout), source.open()))

    source.sync(now(), look)

    assert seen == [("1", None)]


def test_a_commit_that_cannot_be_read_is_not_published(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "good"})
    source, reader = follow(upstream, cache), Reader()
    source.sync(now(), reader)
    upstream.commit({"a.md": "bad"})
    reader.broken.add("bad")

    with pytest.raises(UnreadableContentError, match="bad cannot be read"):
        source.sync(now(), reader)

    assert read(source.open()) == "good"


def test_a_commit_that_was_refused_is_not_read_again_and_the_next_one_is(
    upstream: Upstream, cache: Path
) -> None:
    upstream.commit({"a.md": "bad"})
    source, reader = follow(upstream, cache), Reader()
    reader.broken.add("bad")
    for _ in range(3):
        with pytest.raises(UnreadableContentError):
            source.sync(now(), reader)
    upstream.commit({"a.md": "repaired"})

    checkout = source.sync(now(), reader)

    assert read(checkout) == "repaired"
    assert reader.asked == ["bad", "repaired"]


def test_what_is_published_already_is_not_read_again(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1"})
    source, reader = follow(upstream, cache), Reader()

    for _ in range(3):
        source.sync(now(), reader)

    assert reader.asked == ["1"]


def test_a_commit_beyond_a_limit_is_not_published(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1"})
    source = follow(upstream, cache, SyncPolicy(max_files=2))
    sync(source)
    upstream.commit({f"{name}.md": "x" for name in "bcd"})

    with pytest.raises(LimitExceededError, match=r"limits\.max_files"):
        sync(source)

    assert read(source.open()) == "1"


def test_a_limit_that_was_raised_lets_a_file_in(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1", "b.md": "longer"})
    small = sync(follow(upstream, cache, SyncPolicy(max_file_bytes=3)))
    left_out = [each.file for each in small.surveyed[DEFAULT_SELECTION].problems]

    large = sync(follow(upstream, cache))

    assert left_out == ["b.md"]
    assert large.surveyed[DEFAULT_SELECTION].problems == ()
    assert read(large, "b.md") == "longer"


def test_only_the_parts_that_are_served_are_written(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"web/a.md": "1", "data/b.md": "2", "config.yaml": ""})

    part = sync(follow(upstream, cache, SyncPolicy(selections=(Selection("web"),))))
    whole = sync(follow(upstream, cache))

    assert {each.name for each in part.directory.iterdir()} == {"web", "config.yaml"}
    assert {each.name for each in whole.directory.iterdir()} >= {"data", "web"}
    assert len(list(cache.iterdir())) == 2


# -- where the history may go

FAITHFUL = SyncPolicy(allow_non_fast_forward=False)


def test_a_history_that_goes_on_is_followed(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1"})
    source = follow(upstream, cache, FAITHFUL)
    sync(source)
    for number in ("2", "3", "4"):
        upstream.commit({"a.md": number})

    assert read(sync(source)) == "4"


@pytest.mark.parametrize("change", ["rewritten", "taken back", "unrelated"])
def test_a_history_that_does_not_go_on_is_refused(
    change: str, upstream: Upstream, cache: Path
) -> None:
    first = upstream.commit({"a.md": "1"})
    upstream.commit({"a.md": "2"})
    source = follow(upstream, cache, FAITHFUL)
    sync(source)
    if change == "unrelated":
        git("checkout", "-q", "--orphan", "other", cwd=upstream.work)
        git("commit", "-qm", "Other", "--allow-empty", cwd=upstream.work)
        git("push", "-qf", "origin", "other:main", cwd=upstream.work)
    else:
        upstream.reset(first)
    if change == "rewritten":
        upstream.commit({"a.md": "another 2"})

    with pytest.raises(HistoryRewrittenError, match="--allow-rewrite"):
        sync(source)

    assert read(source.open()) == "2"


def test_a_rewrite_can_be_let_through_once(upstream: Upstream, cache: Path) -> None:
    first = upstream.commit({"a.md": "1"})
    upstream.commit({"a.md": "2"})
    sync(follow(upstream, cache, FAITHFUL))
    upstream.reset(first)
    upstream.commit({"a.md": "right"})

    sync(follow(upstream, cache))  # as `sync --allow-rewrite` opens it

    assert read(sync(follow(upstream, cache, FAITHFUL))) == "right"


# -- who has signed


def test_what_nobody_trusted_has_signed_is_not_published(
    upstream: Upstream, cache: Path, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "1"})
    signers = Signers(allowed=tmp_path / "allowed_signers")

    with pytest.raises(SignatureError):
        sync(follow(upstream, cache, SyncPolicy(signers=signers)))

    assert follow(upstream, cache).open() is None


def test_what_was_fetched_before_it_had_to_be_signed_is_not_served_any_more(
    upstream: Upstream, cache: Path, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "1"})
    sync(follow(upstream, cache))
    signers = Signers(allowed=tmp_path / "allowed_signers")

    source = follow(upstream, cache, SyncPolicy(signers=signers))

    with pytest.raises(SignatureError):
        source.open()
    offline = follow(upstream, cache, SyncPolicy(signers=signers, is_offline=True))
    with pytest.raises(SignatureError):
        offline.sync(Freshness(0.0), accept_any_commit)


# -- going back


def two_commits(upstream: Upstream, cache: Path) -> RemoteBranch:
    source = follow(upstream, cache)
    for number in ("1", "2"):
        upstream.commit({"a.md": number})
        sync(source)
    return source


def test_the_commit_before_is_served_until_told_otherwise(upstream: Upstream, cache: Path) -> None:
    source = two_commits(upstream, cache)
    checkout = source.roll_back()
    upstream.commit({"a.md": "3"})

    held = sync(source)

    assert (read(checkout), read(held)) == ("1", "1")
    assert held.hold is not None
    assert read(follow(upstream, cache).open()) == "1"


def test_following_again_brings_what_was_taken_back_and_then_the_newest(
    upstream: Upstream, cache: Path
) -> None:
    source = two_commits(upstream, cache)
    source.roll_back()

    source.resume()
    resumed = source.open()
    upstream.commit({"a.md": "3"})

    assert read(resumed) == "2"
    assert resumed is not None
    assert resumed.hold is None
    assert read(sync(source)) == "3"


def test_one_can_go_back_again_after_following(upstream: Upstream, cache: Path) -> None:
    source = two_commits(upstream, cache)
    source.roll_back()
    source.resume()

    assert read(source.roll_back()) == "1"


def test_there_is_no_way_back_from_the_first_commit(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1"})
    source = follow(upstream, cache)
    sync(source)

    with pytest.raises(SyncError, match="no previous commit"):
        source.roll_back()
    with pytest.raises(SyncError, match="nothing is held"):
        source.resume()

    assert read(source.open()) == "1"


def test_a_sync_without_news_keeps_the_way_back(upstream: Upstream, cache: Path) -> None:
    source = two_commits(upstream, cache)
    for _ in range(3):
        sync(source)

    assert read(source.roll_back()) == "1"


def test_what_is_held_comes_back_if_somebody_deletes_it(upstream: Upstream, cache: Path) -> None:
    source = two_commits(upstream, cache)
    held = source.roll_back()
    shutil.rmtree(held.directory)

    assert read(sync(source)) == "1"


def test_what_is_gone_back_to_is_whole(upstream: Upstream, cache: Path) -> None:
    source = two_commits(upstream, cache)
    earlier = json.loads(pointer_of(cache).read_text())["previous"]
    file = pointer_of(cache).parent / "snap" / earlier / "a.md"
    file.chmod(0o644)
    file.write_text("edited")

    assert read(source.roll_back()) == "1"


# -- what somebody does to the files


def test_a_file_that_somebody_has_edited_is_put_right(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1", "b.md": "2"})
    source = follow(upstream, cache)
    folder = sync(source).directory
    (folder / "a.md").chmod(0o644)
    (folder / "a.md").write_text("edited")
    (folder / "b.md").unlink()
    (folder / "c.md").write_text("more")

    checkout = sync(source)

    names = {each.name for each in checkout.directory.iterdir()}
    assert (read(checkout), names) == ("1", {"a.md", "b.md"})


def test_what_is_served_is_put_right_while_the_remote_is_not_asked_again(
    upstream: Upstream, cache: Path
) -> None:
    upstream.commit({"a.md": "1"})
    source = follow(upstream, cache)
    served = sync(source).directory / "a.md"
    shutil.rmtree(upstream.bare)
    with pytest.raises(SyncError):
        source.sync(now(), accept_any_commit)
    served.unlink()

    with pytest.raises(SyncError) as caught:
        source.sync(Freshness(time.time()), accept_any_commit)

    assert caught.value.is_recalled
    assert served.read_text() == "1"


def test_what_is_served_is_put_right_although_the_remote_is_away(
    upstream: Upstream, cache: Path
) -> None:
    upstream.commit({"a.md": "1"})
    source = follow(upstream, cache)
    (sync(source).directory / "a.md").unlink()
    shutil.rmtree(upstream.bare)

    with pytest.raises(SyncError):
        sync(source)

    assert read(source.open()) == "1"


# -- when the remote is asked


def over_http(server: GitServer, cache: Path, token: str | None = None) -> RemoteBranch:
    remote = Remote(f"{server.url}/upstream.git", "main", token)
    return RemoteBranch(remote, cache)


def requests(server: GitServer) -> int:
    return len(server.kinds)


def test_what_was_fetched_since_then_will_do(server: GitServer, cache: Path) -> None:
    asked_at = time.time()
    sync(over_http(server, cache))
    before = requests(server)

    checkout = over_http(server, cache).sync(Freshness(asked_at), accept_any_commit)

    assert (read(checkout), requests(server)) == ("1", before)


def test_a_fetch_of_tomorrow_proves_nothing(
    server: GitServer, cache: Path, upstream: Upstream
) -> None:
    sync(over_http(server, cache))
    pointer = pointer_of(cache)
    said = json.loads(pointer.read_text()) | {"fetched_at": time.time() + 86_400}
    pointer.write_text(json.dumps(said))
    upstream.commit({"a.md": "2"})

    source = over_http(server, cache)

    assert source.next_sync_at(900) <= time.time()
    assert read(source.sync(Freshness(0.0), accept_any_commit)) == "2"


def test_all_windows_leave_a_remote_alone_that_has_failed(server: GitServer, cache: Path) -> None:
    server.token = "right"  # noqa: S105 - a test
    with pytest.raises(AccessRefusedError):
        over_http(server, cache, "wrong").sync(Freshness(time.time()), accept_any_commit)
    before = requests(server)

    for _ in range(10):
        with pytest.raises(AccessRefusedError) as raised:
            over_http(server, cache, "wrong").sync(Freshness(time.time()), accept_any_commit)
        assert raised.value.is_recalled

    assert requests(server) == before


def test_who_insists_is_not_kept_from_asking(server: GitServer, cache: Path) -> None:
    server.fault = answer(503)
    with pytest.raises(SyncError):
        sync(over_http(server, cache))
    server.fault = None

    assert read(sync(over_http(server, cache))) == "1"


def test_a_failure_since_then_answers_who_insists_as_well(server: GitServer, cache: Path) -> None:
    asked_at = time.time()
    server.fault = answer(503)
    with pytest.raises(SyncError):
        sync(over_http(server, cache))
    before = requests(server)

    with pytest.raises(SyncError) as raised:
        over_http(server, cache).sync(Freshness(asked_at, is_urgent=True), accept_any_commit)

    assert raised.value.is_recalled
    assert requests(server) == before


def test_a_success_ends_the_memory_of_failures(server: GitServer, cache: Path) -> None:
    source = over_http(server, cache)
    server.fault = answer(503)
    with pytest.raises(SyncError):
        sync(source)
    failed = source.attempt().failures
    server.fault = None

    sync(source)

    assert (failed, source.attempt().failures) == (1, 0)


def test_a_host_that_asks_for_rest_gets_it(server: GitServer, cache: Path) -> None:
    server.fault = answer(429, Retry_After="600")
    source = over_http(server, cache)
    with pytest.raises(SyncError):
        sync(source)

    attempt = source.attempt()

    assert round(attempt.next_attempt_at - attempt.attempted_at) == 600
    assert source.next_sync_at(900) == attempt.next_attempt_at


def test_the_next_sync_is_an_interval_after_the_last_one(server: GitServer, cache: Path) -> None:
    source = over_http(server, cache)
    never = source.next_sync_at(900)
    sync(source)

    assert never <= time.time()
    assert source.next_sync_at(900) == source.attempt().attempted_at + 900
    assert source.next_sync_at(None) == math.inf


def test_what_is_held_or_final_or_offline_is_never_due(upstream: Upstream, cache: Path) -> None:
    two_commits(upstream, cache).roll_back()
    commit = git("rev-parse", "HEAD", cwd=upstream.work)
    pinned = follow(upstream, cache, pin=commit)
    sync(pinned)

    held = follow(upstream, cache)
    offline = follow(upstream, cache, SyncPolicy(is_offline=True))

    for source in (held, pinned, offline):
        assert source.next_sync_at(900) == math.inf


def test_offline_nothing_is_asked(server: GitServer, cache: Path) -> None:
    sync(over_http(server, cache))
    before = requests(server)
    remote = Remote(f"{server.url}/upstream.git", "main")
    offline = RemoteBranch(remote, cache, SyncPolicy(is_offline=True))

    assert read(sync(offline)) == "1"
    assert requests(server) == before


def test_offline_and_never_synced_says_what_to_do(upstream: Upstream, cache: Path) -> None:
    offline = follow(upstream, cache, SyncPolicy(is_offline=True))

    with pytest.raises(SyncError, match="skills-mcp sync"):
        sync(offline)


def test_what_another_process_publishes_is_news_once(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1"})
    mine, other = follow(upstream, cache), follow(upstream, cache)
    sync(mine)
    before = mine.has_update()
    upstream.commit({"a.md": "2"})
    sync(other)

    told = mine.has_update()

    assert (before, told) == (False, True)
    assert read(mine.open()) == "2"
    assert not mine.has_update()


# -- what readers of an older commit notice


def test_a_file_that_the_next_commit_shares_is_the_same_to_its_readers(
    upstream: Upstream, cache: Path
) -> None:
    upstream.commit({"a.md": "1", "shared.md": "shared"})
    source = follow(upstream, cache)
    first = sync(source)
    shared = first.directory / "shared.md"
    looks = [Stamp.of(shared.lstat())]

    for number in ("2", "3"):
        upstream.commit({"a.md": number})
        last = sync(source)
        looks.append(Stamp.of(shared.lstat()))

    assert (last.directory / "shared.md").samefile(shared)
    assert len(set(looks)) == 1


def test_another_content_of_the_same_size_looks_different(upstream: Upstream, cache: Path) -> None:
    source = follow(upstream, cache)
    looks = set()

    for number in ("1", "2"):
        upstream.commit({"a.md": number})
        looks.add(Stamp.of((sync(source).directory / "a.md").lstat()))

    assert len(looks) == 2


@pytest.mark.parametrize("is_offline", [False, True])
def test_what_never_asks_the_remote_is_put_right_all_the_same(
    upstream: Upstream, cache: Path, *, is_offline: bool
) -> None:
    commit = upstream.commit({"a.md": "1"})
    sync(follow(upstream, cache, pin=commit))
    source = follow(upstream, cache, SyncPolicy(is_offline=is_offline), pin=commit)
    file = pointer_of(cache).parent / "snap" / commit / "a.md"
    file.chmod(0o644)
    write(file, "edited")

    assert read(sync(source)) == "1"


# -- what died half-way, and what was lost


def test_the_timer_asks_again_although_who_published_last_died_before_saying_so(
    upstream: Upstream, cache: Path
) -> None:
    source = two_commits(upstream, cache)
    pointer, state = pointer_of(cache), pointer_of(cache).with_name("state.json")
    published = json.loads(pointer.read_text())
    published["fetched_at"] -= 600
    said = json.loads(state.read_text())
    said |= {"attempted_at": published["fetched_at"] - 600, "failures": 2}
    write(pointer, json.dumps(published))
    write(state, json.dumps(said))
    newest = upstream.commit({"a.md": "3"})

    attempt = source.attempt()
    content = mounted(source).sync_due(300, accept_any_commit)

    assert (attempt.attempted_at, attempt.failures) == (published["fetched_at"], 0)
    assert content.parts[0].checkout.revision == newest


def test_what_is_held_is_served_although_gits_store_is_lost(
    upstream: Upstream, cache: Path
) -> None:
    source = two_commits(upstream, cache)
    source.roll_back()
    shutil.rmtree(pointer_of(cache).parent / "objects.git")

    assert read(sync(source)) == "1"


def test_a_hold_whose_files_are_lost_says_how_to_end_it_and_can_be_ended(
    upstream: Upstream, cache: Path
) -> None:
    source = two_commits(upstream, cache)
    source.roll_back()
    for name in ("objects.git", "snap"):
        shutil.rmtree(pointer_of(cache).parent / name)

    with pytest.raises(SyncError, match="rollback --resume"):
        sync(source)
    source.resume()

    assert read(sync(source)) == "2"


def test_a_rewrite_is_refused_although_the_files_are_gone(upstream: Upstream, cache: Path) -> None:
    base = upstream.commit({"a.md": "1"})
    upstream.commit({"a.md": "2"})
    source = follow(upstream, cache, SyncPolicy(allow_non_fast_forward=False))
    shutil.rmtree(sync(source).directory)
    upstream.reset(base)
    upstream.commit({"a.md": "rewritten"})

    with pytest.raises(HistoryRewrittenError):
        sync(source)


@pytest.mark.parametrize("is_news", [False, True])
def test_the_way_back_outlives_the_files_of_what_is_served(
    upstream: Upstream, cache: Path, *, is_news: bool
) -> None:
    source = two_commits(upstream, cache)
    served = source.open()
    assert served is not None
    shutil.rmtree(served.directory)
    if is_news:
        upstream.commit({"a.md": "3"})

    sync(source)

    assert read(source.roll_back()) == "1"


def test_commits_that_are_refused_do_not_fill_the_disk(upstream: Upstream, cache: Path) -> None:
    upstream.commit({"a.md": "1"})
    source = follow(upstream, cache)
    sync(source)
    reader, store = Reader(), pointer_of(cache).parent
    for number in range(6):
        reader.broken.add(str(number))
        write(upstream.work / "large.bin", os.urandom(100_000))
        upstream.commit({"a.md": str(number)})
        with pytest.raises(UnreadableContentError):
            source.sync(now(), reader)

    objects = (store / "objects.git/objects").rglob("*")
    assert sum(each.stat().st_size for each in objects if each.is_file()) < 300_000
    assert len([each for each in (store / "snap").iterdir() if each.is_dir()]) == 1


def test_a_remote_that_is_damaged_itself_costs_nothing_that_is_here(
    upstream: Upstream, cache: Path
) -> None:
    first = upstream.commit({"a.md": "1"})
    source = follow(upstream, cache)
    sync(source)
    upstream.commit({"a.md": "2"})
    blob = git("rev-parse", "HEAD:a.md", cwd=upstream.work)
    (upstream.bare / "objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(SyncError, match="the transfer was cut off"):
        sync(source)

    objects = pointer_of(cache).parent / "objects.git"
    assert git("cat-file", "-t", first, cwd=objects) == "commit"


def test_a_damaged_store_is_kept_until_there_is_a_new_one(
    upstream: Upstream, cache: Path, tmp_path: Path
) -> None:
    first = upstream.commit({"a.md": "1"})
    source = follow(upstream, cache)
    sync(source)
    objects = pointer_of(cache).parent / "objects.git"
    config = (objects / "config").read_text()
    write(objects / "config", "[half a sec")
    upstream.bare.rename(tmp_path / "away")

    with pytest.raises(SyncError):
        sync(source)
    write(objects / "config", config)

    assert git("cat-file", "-t", first, cwd=objects) == "commit"


def test_a_store_that_cannot_be_cleaned_serves_on_and_is_made_anew_next_time(
    upstream: Upstream, cache: Path
) -> None:
    source = two_commits(upstream, cache)
    objects = pointer_of(cache).parent / "objects.git"
    for file in (objects / "objects/pack").iterdir():
        moved = file.rename(cache / file.name)
        if moved.suffix == ".pack":
            with moved.open("rb") as stream:
                command = ["git", f"--git-dir={objects}", "unpack-objects", "-q"]
                subprocess.run(command, stdin=stream, check=True)
    blob = git("rev-parse", "HEAD:a.md", cwd=upstream.work)
    (objects / "objects" / blob[:2] / blob[2:]).unlink()
    write(upstream.work / "large.bin", os.urandom(200_000))
    commit = upstream.commit({"a.md": "3"})

    served = read(sync(source))
    found = git("cat-file", "-t", commit, cwd=objects)
    sync(source)

    assert (served, found) == ("3", "commit")
    git("cat-file", "blob", f"{commit}:a.md", cwd=objects)


# -- going back to what has to be signed

needs_keys = pytest.mark.skipif(
    not shutil.which("ssh-keygen"), reason="signatures need ssh-keygen (OpenSSH)"
)


def sign(upstream: Upstream, key: Path, text: str) -> None:
    """Commit and push as whoever has the key; without one, as anybody."""
    write(upstream.work / "a.md", text)
    git("add", ".", cwd=upstream.work)
    config = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={key}")
    git(*config, "commit", "-qm", text, "-S", cwd=upstream.work)
    git("push", "-q", "origin", "HEAD:main", cwd=upstream.work)


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    """Those of two people; both may sign."""
    found = {name: tmp_path / name for name in ("ada", "bob")}
    lines = []
    for name, key in found.items():
        words = ("-q", "-t", "ed25519", "-N", "", "-C", name)
        subprocess.run(["ssh-keygen", *words, "-f", key], check=True)
        lines.append(f"{name} {key.with_suffix('.pub').read_text()}")
    write(tmp_path / "allowed", "".join(lines))
    return found


@needs_keys
def test_who_has_signed_is_that_of_the_commit_gone_back_to(
    upstream: Upstream, cache: Path, tmp_path: Path, keys: dict[str, Path]
) -> None:
    policy = SyncPolicy(signers=Signers(allowed=tmp_path / "allowed"))
    source, names = follow(upstream, cache, policy), []
    for name in ("ada", "bob"):
        sign(upstream, keys[name], name)
        names.append(sync(source).verified_by)

    names.append(source.roll_back().verified_by)
    source.resume()
    resumed = source.open()

    assert resumed is not None
    names.append(resumed.verified_by)
    assert [str(each).split(",")[0] for each in names] == ["ada", "bob", "ada", "bob"]


@needs_keys
def test_there_is_no_way_back_to_what_nobody_trusted_has_signed(
    upstream: Upstream, cache: Path, tmp_path: Path, keys: dict[str, Path]
) -> None:
    upstream.commit({"a.md": "unsigned"})
    sync(follow(upstream, cache))
    policy = SyncPolicy(signers=Signers(allowed=tmp_path / "allowed"))
    source = follow(upstream, cache, policy)
    sign(upstream, keys["ada"], "signed")
    sync(source)

    with pytest.raises(SignatureError):
        source.roll_back()

    assert read(source.open()) == "signed"


@needs_keys
def test_what_was_let_through_stays_so_although_its_publisher_died_at_once(
    upstream: Upstream, cache: Path, tmp_path: Path, keys: dict[str, Path]
) -> None:
    policy = SyncPolicy(signers=Signers(allowed=tmp_path / "allowed", verify="tag"))
    source = follow(upstream, cache, policy, pin="v1")
    upstream.commit({"a.md": "signed"})
    config = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={keys['ada']}")
    git(*config, "tag", "-s", "v1", "-m", "v1", cwd=upstream.work)
    git("push", "-q", "origin", "v1", cwd=upstream.work)
    sync(source)
    shutil.rmtree(pointer_of(cache).parent / "objects.git/refs/skills/kept")
    upstream.commit({"a.md": "unsigned"})
    git("tag", "--force", "v1", cwd=upstream.work)
    git("push", "-qf", "origin", "v1", cwd=upstream.work)

    with pytest.raises(SignatureError):
        sync(source)

    assert read(follow(upstream, cache, policy, pin="v1").open()) == "signed"


@needs_keys
def test_what_was_taken_back_with_its_key_does_not_keep_anybody_from_following(
    upstream: Upstream, cache: Path, tmp_path: Path, keys: dict[str, Path]
) -> None:
    policy = SyncPolicy(signers=Signers(allowed=tmp_path / "allowed"))
    source = follow(upstream, cache, policy)
    for name in ("ada", "bob"):
        sign(upstream, keys[name], name)
        sync(source)
    source.roll_back()
    write(tmp_path / "allowed", f"ada {keys['ada'].with_suffix('.pub').read_text()}")

    source.resume()
    resumed = source.open()

    assert resumed is not None
    assert (read(resumed), resumed.hold) == ("ada", None)


@needs_keys
def test_who_has_signed_is_said_of_what_was_fetched_before_anybody_had_to(
    upstream: Upstream, cache: Path, tmp_path: Path, keys: dict[str, Path]
) -> None:
    sign(upstream, keys["ada"], "signed")
    sync(follow(upstream, cache))
    policy = SyncPolicy(signers=Signers(allowed=tmp_path / "allowed"))

    checkout = follow(upstream, cache, policy).open()

    assert checkout is not None
    assert str(checkout.verified_by).startswith("ada,")


@needs_keys
def test_a_pinned_commit_that_nobody_can_verify_any_more_is_fetched_again(
    upstream: Upstream, cache: Path, tmp_path: Path, keys: dict[str, Path]
) -> None:
    sign(upstream, keys["ada"], "signed")
    commit = git("rev-parse", "HEAD", cwd=upstream.work)
    policy = SyncPolicy(signers=Signers(allowed=tmp_path / "allowed"))
    sync(follow(upstream, cache, policy, pin=commit))
    shutil.rmtree(pointer_of(cache).parent / "objects.git")

    assert read(sync(follow(upstream, cache, policy, pin=commit))) == "signed"
