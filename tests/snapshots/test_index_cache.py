"""What the next process opens instead of reading and indexing everything again."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skills_mcp.config import Config, Layer, Limits, Settings, Visibility
from skills_mcp.content.source import Checkout, Content, ContentPart, LocalFolder, Mount
from skills_mcp.errors import ContentUnavailableError
from skills_mcp.snapshots import indexes
from skills_mcp.snapshots.current import CurrentSnapshot
from skills_mcp.snapshots.indexes import IndexCache, IndexState
from skills_mcp.snapshots.skill_records import SkillTable
from skills_mcp.snapshots.skill_snapshot import Snapshot, take_snapshot
from tests.support import PATIENCE_SECONDS, mounted, served_by, write

SETTINGS = Settings((Layer("test", {"toolsets": ["core", "packages"]}),))
PACKAGE = "---\nname: {0}\ndescription: Fills {0} forms.\n---\nThe body of {0}.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "content"
    for name in ("pdf", "doc", "xls"):
        write(folder / name / "SKILL.md", PACKAGE.format(name))
        write(folder / name / "notes.txt", name)
    return folder


@pytest.fixture
def cache(tmp_path: Path, folder: Path) -> IndexCache:
    return IndexCache(tmp_path / "index", content_of(folder), Config())


def content_of(folder: Path, at: str = "") -> Content:
    checkout = Checkout(folder, None, datetime.now(UTC))
    return Content((ContentPart(Mount(source=LocalFolder(folder), at=at), checkout),))


def taken(folder: Path, known: IndexState | None = None) -> Snapshot:
    snapshot = take_snapshot(content_of(folder), SETTINGS, known)
    snapshot.prepare()
    return snapshot


def server_of(folder: Path, tmp_path: Path) -> CurrentSnapshot:
    return CurrentSnapshot(mounted(folder), SETTINGS, tmp_path / "index")


def ranked(snapshot: Snapshot, task: str) -> list[tuple[str, float]]:
    found = snapshot.ranked.score(task)
    return [(each.skill.path, float(each.score)) for each in found]


def another(cache: IndexCache, folder: Path) -> IndexCache:
    """Return the same cache as the next process sees it."""
    return IndexCache(cache.folder.parent, content_of(folder), Config())


def test_what_was_opened_here_is_not_opened_again(folder: Path, cache: IndexCache) -> None:
    cache.save(taken(folder).state)
    other = another(cache, folder)

    assert cache.open() is not None
    assert cache.open() is None
    assert other.open() is not None
    assert other.open() is None
    other.save(taken(folder).state)
    assert cache.open() is not None


def only_folder(tmp_path: Path) -> Path:
    [layout] = (tmp_path / "index").iterdir()
    [folder] = (each for each in layout.iterdir() if each.is_dir())
    return folder


def test_what_was_saved_answers_as_what_was_built(folder: Path, cache: IndexCache) -> None:
    built = taken(folder)
    cache.save(built.state)

    kept = another(cache, folder).open()

    assert kept is not None
    assert kept.collection.table.text[:] == built.state.collection.table.text[:]
    opened = taken(folder, kept)
    assert opened.reuses_all_of(kept)
    assert list(opened.index) == list(built.index)
    assert ranked(opened, "pdf form") == ranked(built, "pdf form") != []
    assert opened.problems == built.problems


def test_what_was_read_is_freed_before_the_index_is_opened(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[weakref.ref[SkillTable]] = []
    freed: list[list[bool]] = []
    save, open_newest = IndexCache.save, IndexCache.open

    def note_table(cache: IndexCache, state: IndexState) -> bool:
        read.append(weakref.ref(state.collection.table))
        return save(cache, state)

    def note_freed(cache: IndexCache) -> IndexState | None:
        freed.append([table() is None for table in read])
        return open_newest(cache)

    monkeypatch.setattr(IndexCache, "save", note_table)
    monkeypatch.setattr(IndexCache, "open", note_freed)

    server_of(folder, tmp_path).load(content_of(folder))

    assert freed[-1] == [True]


def test_the_next_process_reads_no_skill_again(
    folder: Path, tmp_path: Path, opened_files: list[str]
) -> None:
    content = content_of(folder)
    server_of(folder, tmp_path).load(content)
    assert sorted(opened_files) == ["doc/SKILL.md", "pdf/SKILL.md", "xls/SKILL.md"]
    opened_files.clear()

    second = server_of(folder, tmp_path)
    second.load(content)

    assert opened_files == []
    assert ranked(served_by(second), "xls form")[0][0] == "xls"


def test_an_edit_is_seen_and_what_replaces_it_is_kept_instead(
    folder: Path, tmp_path: Path, opened_files: list[str]
) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    first = only_folder(tmp_path)
    write(folder / "pdf" / "SKILL.md", PACKAGE.format("pdf") + "Watermarks.\n")
    opened_files.clear()

    later = server_of(folder, tmp_path)
    later.load(content_of(folder))

    assert opened_files.count("doc/SKILL.md") == 0
    assert ranked(served_by(later), "watermarks")[0][0] == "pdf"
    assert only_folder(tmp_path) != first


def test_servers_that_start_together_build_it_once(
    folder: Path, tmp_path: Path, opened_files: list[str]
) -> None:
    content = content_of(folder)
    servers = [server_of(folder, tmp_path) for _ in range(6)]
    threads = [threading.Thread(target=each.load, args=(content,)) for each in servers]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(opened_files) == ["doc/SKILL.md", "pdf/SKILL.md", "xls/SKILL.md"]
    assert len({tuple(ranked(served_by(each), "doc form")) for each in servers}) == 1


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "noise"])
def test_a_damaged_file_counts_as_not_there(damage: str, folder: Path, tmp_path: Path) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    for file in only_folder(tmp_path).iterdir():
        raw = file.read_bytes()
        cut = {"cut": raw[: len(raw) // 2], "empty": b"", "noise": b"\xff" * len(raw)}
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(cut[damage])

    server = server_of(folder, tmp_path)
    server.load(content_of(folder))

    assert ranked(served_by(server), "pdf form")[0][0] == "pdf"
    again = IndexCache(tmp_path / "index", content_of(folder), Config())
    assert again.open() is not None


def test_each_single_damaged_file_is_survived(folder: Path, tmp_path: Path) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    for name in sorted(file.name for file in only_folder(tmp_path).iterdir()):
        (only_folder(tmp_path) / name).write_bytes(b"\x93NUMPY\x01\x00")

        server = server_of(folder, tmp_path)
        server.load(content_of(folder))

        assert ranked(served_by(server), "doc form")[0][0] == "doc"


def test_other_sources_limits_and_formats_have_folders_of_their_own(
    folder: Path, tmp_path: Path, cache: IndexCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save(taken(folder).state)
    index = tmp_path / "index"

    assert IndexCache(index, content_of(folder, at="x"), Config()).open() is None
    for other in (
        Config(limits=Limits(max_files=9)),
        Config(visibility=Visibility(deny=("pdf",))),
        Config(trust_content_config=True),
    ):
        assert IndexCache(index, content_of(folder), other).open() is None
    monkeypatch.setattr(indexes, "FORMAT", indexes.FORMAT + 1)
    assert IndexCache(index, content_of(folder), Config()).open() is None


def test_a_disk_that_takes_nothing_is_no_reason_not_to_serve(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "index", "a file where a folder should be")

    server = server_of(folder, tmp_path)
    server.load(content_of(folder))

    assert ranked(served_by(server), "pdf form")[0][0] == "pdf"


def test_what_nobody_opens_for_a_month_is_deleted(
    folder: Path, tmp_path: Path, cache: IndexCache
) -> None:
    old, recent = tmp_path / "index" / "old", tmp_path / "index" / "recent"
    write(old / "1" / "about.json")
    write(recent / "1" / "about.json")
    month_ago = time.time() - 32 * 24 * 60 * 60
    os.utime(old, (month_ago, month_ago))

    cache.save(taken(folder).state)

    assert not old.exists()
    assert recent.exists()


def test_who_is_denied_here_takes_nobodys_place_in_another_server(
    tmp_path: Path,
) -> None:
    parts = []
    for name in ("first", "second"):
        folder = tmp_path / name
        write(folder / "pdf" / "SKILL.md", PACKAGE.format("pdf") + name)
        checkout = Checkout(folder, "a" * 40, datetime.now(UTC))
        parts.append(ContentPart(Mount(source=LocalFolder(folder)), checkout))
    content = Content(tuple(parts))
    denying = Layer("test", {"visibility": {"deny": ["pdf"]}})
    CurrentSnapshot(mounted(tmp_path), Settings((denying,)), tmp_path / "index").load(content)

    server = CurrentSnapshot(mounted(tmp_path), Settings(()), tmp_path / "index")
    server.load(content)

    assert served_by(server).index.require("pdf").body.strip().endswith("first")


def test_what_somebody_else_has_written_is_not_taken_for_ours(
    folder: Path, cache: IndexCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = taken(folder).state
    write(folder / "new" / "SKILL.md", PACKAGE.format("new"))
    ours = taken(folder).state
    cache.save(theirs)
    monkeypatch.setattr(cache, "_list", list)  # it was not there when we looked

    assert not cache.save(ours)


@pytest.mark.parametrize("name", ["skills.paths.npy", "skills.keywords.npy"])
def test_damage_that_shows_late_is_repaired(name: str, folder: Path, tmp_path: Path) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    damaged = only_folder(tmp_path)
    (damaged / name).write_bytes((damaged / name).read_bytes()[:-1] + b"!")

    server = server_of(folder, tmp_path)
    server.load(content_of(folder))

    assert ranked(served_by(server), "pdf form")[0][0] == "pdf"
    assert only_folder(tmp_path) != damaged


def test_a_disk_that_takes_nothing_can_still_be_read(
    folder: Path, cache: IndexCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    cache.save(taken(folder).state)
    monkeypatch.setattr(os, "utime", refuse)

    other = IndexCache(tmp_path / "index", content_of(folder), Config())
    assert other.open() is not None


def test_what_somebody_died_over_is_deleted(folder: Path, tmp_path: Path) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    layout = only_folder(tmp_path).parent
    for name, age_seconds in ((".staging-old", 2 * 60 * 60), (".staging-new", 0)):
        left = write(layout / name / "a.npy").parent
        os.utime(left, (time.time() - age_seconds,) * 2)
    write(folder / "new" / "SKILL.md", PACKAGE.format("new"))

    server_of(folder, tmp_path).load(content_of(folder))

    assert {each.name for each in layout.iterdir()} == {"lock", "2", ".staging-new"}


def test_damage_to_one_skill_keeps_no_other_from_being_served(folder: Path, tmp_path: Path) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    file = only_folder(tmp_path) / "text.bin"
    file.write_bytes(b"!" + file.read_bytes()[1:])

    server = server_of(folder, tmp_path)
    server.load(content_of(folder))

    assert served_by(server).index.require("xls").name == "xls"


def test_a_single_wrong_byte_in_a_skill_is_noticed(folder: Path, tmp_path: Path) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    text = only_folder(tmp_path) / "text.bin"
    raw = text.read_bytes()
    text.write_bytes(raw.replace(b"The body of pdf", b"The bodY of pdf"))

    server = server_of(folder, tmp_path)
    server.load(content_of(folder))

    assert served_by(server).index.require("pdf").body == "The body of pdf."


_DAMAGED = "damaged and built anew"


def test_any_wrong_byte_of_any_file_is_noticed_told_and_repaired(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    randomness = random.Random(19)  # noqa: S311 - chooses what is damaged
    server_of(folder, tmp_path).load(content_of(folder))
    expected = ranked(served_by(server_of_loaded(folder, tmp_path)), "doc form")
    for name in sorted(file.name for file in only_folder(tmp_path).iterdir()):
        damaged = only_folder(tmp_path)
        raw = bytearray((damaged / name).read_bytes())
        raw[randomness.randrange(len(raw))] ^= 1 << randomness.randrange(8)
        (damaged / name).write_bytes(raw)
        caplog.clear()

        server = server_of_loaded(folder, tmp_path)

        assert ranked(served_by(server), "doc form") == expected
        assert bodies(server) == ["The body of doc.", *BODIES]
        assert only_folder(tmp_path) != damaged
        assert sum(_DAMAGED in each for each in caplog.messages) == 1


BODIES = ["The body of pdf.", "The body of xls."]


def bodies(server: CurrentSnapshot) -> list[str]:
    return [skill.body for skill in served_by(server).index.offered]


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def fill(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.write(b"x" * file.stat().st_size)


@pytest.mark.parametrize("harm", [cut, fill])
def test_what_happens_to_its_files_harms_no_server_that_has_opened_them(
    harm: Callable[[Path], None],
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = ranked(served_by(server_of_loaded(folder, tmp_path)), "doc form")
    server = server_of_loaded(folder, tmp_path)
    served = served_by(server)
    for file in only_folder(tmp_path).iterdir():
        harm(file)

    assert bodies(server) == ["The body of doc.", *BODIES]
    assert [served.index.require(path).body for path in ("pdf", "xls")] == BODIES
    assert ranked(served_by(server), "doc form") == found
    assert sum(_DAMAGED in each for each in caplog.messages) == 1
    assert bodies(server_of_loaded(folder, tmp_path))[1:] == BODIES
    assert sum(_DAMAGED in each for each in caplog.messages) == 1


def test_a_damaged_text_of_a_skill_that_was_edited_since_is_told(
    folder: Path, tmp_path: Path
) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    server = server_of_loaded(folder, tmp_path)
    cut(only_folder(tmp_path) / "text.bin")
    write(folder / "xls" / "SKILL.md", PACKAGE.format("xls") + "More.\n")

    with pytest.raises(ContentUnavailableError, match="repeat the call"):
        _ = served_by(server).index.require("xls").body

    assert served_by(server).index.require("xls").body.endswith("More.")


def test_a_state_with_a_damaged_text_is_not_built_upon(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server_of(folder, tmp_path).load(content_of(folder))
    fill(only_folder(tmp_path) / "text.bin")
    write(folder / "new" / "SKILL.md", PACKAGE.format("new"))

    server = server_of_loaded(folder, tmp_path)

    assert bodies(server)[0] == "The body of doc."
    assert sum(_DAMAGED in each for each in caplog.messages) == 1


@pytest.mark.parametrize("harm", [cut, fill])
def test_words_whose_order_is_damaged_are_read_from_their_skill_again(
    harm: Callable[[Path], None],
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ranked(served_by(server_of_loaded(folder, tmp_path)), "doc form")
    served = served_by(server_of_loaded(folder, tmp_path))
    damaged = only_folder(tmp_path)
    harm(damaged / "sequences.bin")

    assert ranked(served, "doc form") == expected
    assert only_folder(tmp_path) != damaged
    assert sum(_DAMAGED in each for each in caplog.messages) == 1


@pytest.mark.parametrize("harm", [cut, fill])
def test_words_whose_order_is_damaged_are_not_built_upon(
    harm: Callable[[Path], None],
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = server_of(folder, tmp_path)
    server.load(content_of(folder))
    harm(only_folder(tmp_path) / "sequences.bin")
    write(folder / "new" / "SKILL.md", PACKAGE.format("new"))

    server.load(content_of(folder))

    assert bodies(server)[0] == "The body of doc."
    assert ranked(served_by(server), "new form")[0][0] == "new"
    assert sum(_DAMAGED in each for each in caplog.messages) == 1


def server_of_loaded(folder: Path, tmp_path: Path) -> CurrentSnapshot:
    """Return a process that has opened what is kept, or built it."""
    server = server_of(folder, tmp_path)
    server.load(content_of(folder))
    return server


def test_a_process_that_was_stopped_in_mid_build_keeps_no_other_waiting(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "_WAIT_SECONDS", 60 * 60)
    layout = IndexCache(tmp_path / "index", content_of(folder), Config()).folder
    layout.mkdir(parents=True)
    command = [sys.executable, "-c", _HOLD, str(layout / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as stopped:
        try:
            assert stopped.stdout is not None
            assert stopped.stdout.read(4) == b"held"
            stopped.send_signal(signal.SIGSTOP)

            server = server_of(folder, tmp_path)
            loading = threading.Thread(target=server.load, args=(content_of(folder),), daemon=True)
            loading.start()
            loading.join(PATIENCE_SECONDS)

            assert not loading.is_alive()
            assert ranked(served_by(server), "pdf form")[0][0] == "pdf"
        finally:
            stopped.kill()


_HOLD = """
import sys, time
from pathlib import Path
from skills_mcp.files.locks import acquire_lock, lock_heartbeat
lock = acquire_lock(Path(sys.argv[1]))
with lock, lock_heartbeat(lock):
    print("held", end="", flush=True)
    time.sleep(600)
"""
