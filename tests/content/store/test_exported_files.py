"""Commits as files: written once, compared at a glance, and put right."""

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path

import pytest

from skills_mcp.content.exported_files import (
    export_files,
    exported_revision,
    repair_files,
)
from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.git.object_store import TreeEntry, TreeListing
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import GitRepository
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import SyncError
from skills_mcp.skills.model import EXPORTED_TIMES_NS
from tests.packages import contents
from tests.support import Upstream, git, write

FILES = {
    "README.md": b"Read me",
    "ui/_index.md": b"",
    "ui/auth.md": b"Log in",
    "ui/auth/flow.svg": b"<svg/>",
    "tools/run.sh": b"#!/bin/sh\n",
}

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")


@dataclass
class Blobs:
    """A store of Git's that remembers what was asked of it."""

    contents: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    calls: int = 0

    @contextmanager
    def read_blobs(self, blobs: Iterable[str]) -> Iterator[Iterator[bytes]]:
        self.calls += 1
        yield self._read(blobs)

    def _read(self, blobs: Iterable[str]) -> Iterator[bytes]:
        for blob in blobs:
            self.asked.append(blob)
            yield self.contents[blob]

    def list(self, files: dict[str, bytes]) -> TreeListing:
        entries = []
        for file, data in files.items():
            blob = blob_of(data)
            self.contents[blob] = data
            entries.append(TreeEntry(file, blob, len(data), file.endswith(".sh")))
        return TreeListing(tuple(entries))


@pytest.fixture
def blobs() -> Blobs:
    return Blobs()


@pytest.fixture
def listing(blobs: Blobs) -> TreeListing:
    return blobs.list(FILES)


@pytest.fixture
def folder(blobs: Blobs, listing: TreeListing, tmp_path: Path) -> Path:
    """A folder that is as its commit says."""
    folder = make(tmp_path / "snapshot")
    export_files(listing, blobs, folder)
    blobs.asked.clear()
    blobs.calls = 0
    return folder


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def blob_of(data: bytes) -> str:
    return sha1(b"blob %d\0%s" % (len(data), data)).hexdigest()  # noqa: S324 - as Git


@pytest.mark.spec("9.1")
def test_a_commit_is_written(folder: Path) -> None:
    assert contents(folder) == FILES


def test_a_commit_of_a_real_repository_is_written(upstream: Upstream, tmp_path: Path) -> None:
    commit = upstream.commit({"ui/auth.md": "Log in", "Écran.md": "Bonjour\r\n"})
    repository = GitRepository(upstream.bare, Remote(upstream.url, "main"), SyncPolicy())
    listing = repository.list_served(commit)

    export_files(listing, repository, make(tmp_path / "snapshot"))
    (tmp_path / "snapshot/Écran.md").unlink()
    wrong = repair_files(listing, repository, tmp_path / "snapshot")

    assert wrong == ("Écran.md",)
    assert contents(tmp_path / "snapshot") == {
        "ui/auth.md": b"Log in",
        "Écran.md": b"Bonjour\r\n",
    }


@needs_posix
def test_what_is_written_cannot_be_edited_by_accident_and_shows_an_edit(
    blobs: Blobs, listing: TreeListing, tmp_path: Path
) -> None:
    folder, before = make(tmp_path / "strict"), os.umask(0o077)
    try:
        export_files(listing, blobs, folder)
    finally:
        os.umask(before)

    looks = {file: (folder / file).stat() for file in FILES}

    assert all(each.st_mtime_ns in EXPORTED_TIMES_NS for each in looks.values())
    assert len({each.st_mtime_ns for each in looks.values()}) == len(FILES)
    assert stat.S_IMODE(looks["tools/run.sh"].st_mode) == 0o555
    assert stat.S_IMODE(looks["ui/auth.md"].st_mode) == 0o444


def test_progress_is_told_file_by_file(blobs: Blobs, listing: TreeListing, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    export_files(
        listing,
        blobs,
        make(tmp_path / "a"),
        None,
        lambda done, all_: told.append((done, all_)),
    )

    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_a_commit_without_files_is_an_empty_folder(blobs: Blobs, tmp_path: Path) -> None:
    export_files(TreeListing(()), blobs, make(tmp_path / "empty"))

    assert contents(tmp_path / "empty") == {}
    assert blobs.calls == 0


def test_a_file_whose_size_is_wrong_is_a_damage_of_gits_store(
    blobs: Blobs, listing: TreeListing, tmp_path: Path
) -> None:
    blobs.contents[blob_of(b"Log in")] = b"Log"

    with pytest.raises(DamagedStoreError, match=r"'ui/auth\.md' has 3 bytes .* of 6"):
        export_files(listing, blobs, make(tmp_path / "torn"))


def test_a_store_that_ends_early_is_damaged(listing: TreeListing, tmp_path: Path) -> None:
    class Short(Blobs):
        @contextmanager
        def read_blobs(self, blobs: Iterable[str]) -> Iterator[Iterator[bytes]]:
            del blobs
            yield iter([b"Read me"])

    with pytest.raises(DamagedStoreError):
        export_files(listing, Short(), make(tmp_path / "short"))


def test_what_is_in_the_way_is_never_written_through(
    blobs: Blobs, listing: TreeListing, tmp_path: Path
) -> None:
    target = write(tmp_path / "theirs.md", "theirs")
    (make(tmp_path / "trap") / "README.md").symlink_to(target)

    with pytest.raises(FileExistsError):
        export_files(listing, blobs, tmp_path / "trap")

    assert target.read_text() == "theirs"


def test_a_file_that_is_the_same_in_the_commit_before_gets_a_second_name(
    blobs: Blobs, listing: TreeListing, folder: Path, tmp_path: Path
) -> None:
    changed = blobs.list({**FILES, "README.md": b"READ ME", "moved.md": b"Log in"})

    export_files(changed, blobs, make(tmp_path / "next"), (listing, folder))

    assert contents(tmp_path / "next") == {
        **FILES,
        "README.md": b"READ ME",
        "moved.md": b"Log in",
    }
    assert blobs.asked == [blob_of(b"READ ME")]
    assert (tmp_path / "next/ui/auth.md").samefile(folder / "ui/auth.md")
    assert contents(folder) == FILES


@needs_posix
def test_a_file_whose_mode_differs_is_not_the_same(
    blobs: Blobs, listing: TreeListing, folder: Path, tmp_path: Path
) -> None:
    flipped = tuple(
        entry._replace(is_executable=not entry.is_executable) for entry in listing.entries
    )

    export_files(TreeListing(flipped), blobs, make(tmp_path / "next"), (listing, folder))

    assert len(blobs.asked) == len(FILES)
    assert os.access(tmp_path / "next/ui/auth.md", os.X_OK)


def edit(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"LOG IN")


def edit_and_hide_it(path: Path) -> None:
    mode = path.stat().st_mode
    edit(path)
    path.chmod(mode)


def truncate(path: Path) -> None:
    before = path.stat()
    path.chmod(0o644)
    os.truncate(path, 0)
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    path.chmod(before.st_mode)


def forge(path: Path) -> None:
    """Write other bytes that look the same from outside."""
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as handle:
        handle.write(b"LOG IN")
    path.chmod(stat.S_IMODE(before.st_mode))
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))


def touch(path: Path) -> None:
    os.utime(path)


def open_for_writing(path: Path) -> None:
    path.chmod(0o644)


def close(path: Path) -> None:
    path.chmod(0)


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    write(path / "inner/file.md", "surprise")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    edit,
    edit_and_hide_it,
    truncate,
    touch,
    open_for_writing,
    close,
    Path.unlink,
    replace_by_link,
    replace_by_folder,
    replace_by_pipe,
]


@needs_posix
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_somebody_has_touched_is_written_again(
    damage: Callable[[Path], None], blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    damage(folder / "ui/auth.md")

    wrong = repair_files(listing, blobs, folder)

    assert set(wrong) >= {"ui/auth.md"}
    assert blobs.asked == [blob_of(b"Log in")]
    assert contents(folder) == FILES
    assert repair_files(listing, blobs, folder) == ()


@needs_posix
def test_an_edit_that_does_not_show_is_found_by_the_content(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    forge(folder / "ui/auth.md")

    unseen = repair_files(listing, blobs, folder)
    found = repair_files(listing, blobs, folder, by_content=True)

    assert unseen == ()
    assert found == ("ui/auth.md",)
    assert contents(folder) == FILES
    assert repair_files(listing, blobs, folder, by_content=True) == ()


@needs_posix
@pytest.mark.parametrize("damage", [*DAMAGES, forge])
def test_a_file_that_somebody_has_touched_is_not_linked(
    damage: Callable[[Path], None],
    blobs: Blobs,
    listing: TreeListing,
    folder: Path,
    tmp_path: Path,
) -> None:
    damage(folder / "ui/auth.md")

    export_files(listing, blobs, make(tmp_path / "next"), (listing, folder))

    assert blobs.asked == [blob_of(b"Log in")]
    assert contents(tmp_path / "next") == FILES


def test_copies_in_a_commit_are_one_file_on_the_disk(tmp_path: Path) -> None:
    files = {f"{place}/SKILL.md": b"Fill the form" for place in ("a", "b", "c")}
    blobs = Blobs()
    listing = blobs.list({**files, "d/SKILL.md": b"Sign the form"})

    export_files(listing, blobs, make(tmp_path / "commit"))

    inodes = {(tmp_path / "commit" / file).stat().st_ino for file in files}
    assert len(inodes) == 1
    assert len(blobs.asked) == 2
    assert contents(tmp_path / "commit") == {**files, "d/SKILL.md": b"Sign the form"}


@needs_posix
def test_a_copy_that_was_edited_is_repaired_with_the_others(tmp_path: Path) -> None:
    files = {f"{place}/SKILL.md": b"Fill the form" for place in ("a", "b")}
    blobs = Blobs()
    listing = blobs.list(files)
    export_files(listing, blobs, folder := make(tmp_path / "commit"))
    edit(folder / "a/SKILL.md")

    wrong = repair_files(listing, blobs, folder)

    assert "a/SKILL.md" in wrong
    assert contents(folder) == files


def test_where_files_cannot_be_linked_they_are_written(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    places = filter(Path.is_dir, map(Path, ("/dev/shm", "/var/tmp")))  # noqa: S108
    others = [place for place in places if place.stat().st_dev != folder.stat().st_dev]
    if not others:
        pytest.skip("needs a second file system")
    elsewhere = make(others[0] / f"skills-mcp-test-{os.getpid()}")
    try:
        export_files(listing, blobs, elsewhere, (listing, folder))
        written = contents(elsewhere)
    finally:
        shutil.rmtree(elsewhere)

    assert written == FILES
    assert len(blobs.asked) == len(FILES)


@needs_posix
def test_a_pipe_that_looks_like_an_empty_file_is_none(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    path = folder / "ui/_index.md"
    moment = path.stat().st_mtime_ns
    replace_by_pipe(path)
    path.chmod(0o444)
    os.utime(path, ns=(moment, moment))

    wrong = repair_files(listing, blobs, folder)

    assert wrong == ("ui/_index.md",)
    assert contents(folder) == FILES


def stamps(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What a change alters; not the time of the last reading, which the next second does."""
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {path: (at.st_mode, at.st_ino, at.st_ctime_ns) for path, at in found.items()}


def test_a_folder_that_is_well_is_left_alone(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    before = stamps(folder)

    wrong = repair_files(listing, blobs, folder)

    assert wrong == ()
    assert blobs.calls == 0
    assert stamps(folder) == before


def test_what_is_not_in_the_commit_is_deleted(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    write(folder / "ui/extra.md", "extra")
    write(folder / "new/deep/er.md", "extra")
    make(folder / "ui/empty")
    (folder / "away").symlink_to(folder.parent)

    wrong = repair_files(listing, blobs, folder)

    assert wrong == ("away", "new", "ui/empty", "ui/extra.md")
    assert contents(folder) == FILES
    assert folder.parent.is_dir()


def test_a_folder_that_became_a_link_is_made_again_and_the_target_left_alone(
    blobs: Blobs, listing: TreeListing, folder: Path, tmp_path: Path
) -> None:
    (folder / "ui").rename(tmp_path / "theirs")
    (folder / "ui").symlink_to(tmp_path / "theirs")
    write(tmp_path / "theirs/more.md", "theirs")

    repair_files(listing, blobs, folder)

    assert not (folder / "ui").is_symlink()
    assert contents(folder) == FILES
    assert (tmp_path / "theirs/more.md").read_text() == "theirs"
    assert (tmp_path / "theirs/auth.md").exists()


def test_a_folder_that_became_a_file_is_made_again(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    shutil.rmtree(folder / "ui")
    write(folder / "ui", "a file")

    wrong = repair_files(listing, blobs, folder)

    assert wrong == ("ui", "ui/_index.md", "ui/auth.md", "ui/auth/flow.svg")
    assert contents(folder) == FILES


@needs_posix
def test_a_folder_that_was_closed_is_opened_again(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    (folder / "ui/auth").chmod(0)
    folder.chmod(0o500)

    wrong = repair_files(listing, blobs, folder)

    assert wrong == (".", "ui/auth")
    assert stat.S_IMODE((folder / "ui/auth").stat().st_mode) == 0o700
    assert repair_files(listing, blobs, folder) == ()


def test_who_reads_a_file_while_it_is_repaired_reads_one_state_of_it(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    edit(folder / "ui/auth.md")

    with (folder / "ui/auth.md").open("rb") as reader:
        repair_files(listing, blobs, folder)
        read = reader.read()

    assert read == b"LOG IN"
    assert (folder / "ui/auth.md").read_bytes() == b"Log in"


def test_a_repair_that_fails_leaves_nothing_half_done(
    blobs: Blobs, listing: TreeListing, folder: Path
) -> None:
    edit(folder / "ui/auth.md")
    blobs.contents[blob_of(b"Log in")] = b"short"

    with pytest.raises(DamagedStoreError):
        repair_files(listing, blobs, folder)

    assert contents(folder) == {**FILES, "ui/auth.md": b"LOG IN"}


def test_an_edit_of_a_file_with_two_names_is_repaired_under_both(
    blobs: Blobs, listing: TreeListing, folder: Path, tmp_path: Path
) -> None:
    following = make(tmp_path / "next")
    export_files(listing, blobs, following, (listing, folder))
    edit(folder / "ui/auth.md")

    both = repair_files(listing, blobs, folder), repair_files(listing, blobs, following)

    assert both == (("ui/auth.md",), ("ui/auth.md",))
    assert contents(folder) == contents(following) == FILES


@pytest.fixture
def work(upstream: Upstream) -> Path:
    """A work tree with two commits; the second one changes what the first had."""
    upstream.commit({"skills/one.md": "old", "other.md": "x"})
    git("tag", "first", cwd=upstream.work)
    upstream.commit({"skills/one.md": "new", "skills/two.md": "two"})
    return upstream.work


@pytest.mark.parametrize("ref", ["HEAD~1", "first", "main^", "refs/tags/first"])
def test_a_folder_is_written_as_a_commit_has_it(work: Path, ref: str) -> None:
    with exported_revision(work / "skills", ref) as folder:
        assert contents(folder) == {"one.md": b"old"}

    assert contents(work / "skills") == {"one.md": b"new", "two.md": b"two"}


def test_a_commit_is_known_by_its_hash(work: Path) -> None:
    commit = git("rev-parse", "--short", "HEAD~1", cwd=work)

    with exported_revision(work / "skills", commit) as folder:
        assert contents(folder) == {"one.md": b"old"}


def test_of_a_whole_work_tree_only_what_can_be_served_is_written(
    work: Path,
) -> None:
    with exported_revision(work, "HEAD~1") as folder:
        assert set(contents(folder)) == {"skills/one.md"}


def test_what_is_not_committed_is_no_part_of_a_commit(work: Path) -> None:
    (work / "skills" / "one.md").write_text("edited")

    with exported_revision(work / "skills", "HEAD") as folder:
        assert contents(folder)["one.md"] == b"new"
    assert (work / "skills" / "one.md").read_text() == "edited"
    assert git("status", "--short", cwd=work) == "M skills/one.md"


def test_the_copy_is_deleted_afterwards(work: Path) -> None:
    with exported_revision(work, "HEAD") as folder:
        assert folder.is_dir()

    assert not folder.exists()


def test_a_linked_work_tree_has_the_same_commits(work: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", "-b", "side", str(linked), "first", cwd=work)

    with exported_revision(linked / "skills", "HEAD") as folder:
        assert contents(folder) == {"one.md": b"old"}
    with exported_revision(linked / "skills", "main") as folder:
        assert contents(folder)["one.md"] == b"new"


def test_a_link_to_a_folder_is_followed(work: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(work / "skills")

    with exported_revision(link, "HEAD~1") as folder:
        assert contents(folder) == {"one.md": b"old"}


def test_a_git_variable_of_the_shell_leads_nowhere_else(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path))

    with exported_revision(work / "skills", "HEAD~1") as folder:
        assert contents(folder) == {"one.md": b"old"}


@pytest.mark.parametrize("ref", ["nowhere", "HEAD~9", "--help", "", "a b", "HEAD:x"])
def test_a_commit_that_is_not_there_is_named_with_what_to_write(work: Path, ref: str) -> None:
    with (
        pytest.raises(SyncError, match=r"has no commit .* such as HEAD~1"),
        exported_revision(work / "skills", ref),
    ):
        pass


def test_a_shallow_clone_is_named_with_how_to_complete_it(work: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git("clone", "--quiet", "--depth", "1", work.as_uri(), str(clone), cwd=tmp_path)

    with (
        pytest.raises(SyncError, match=r"shallow clone without 'HEAD~1'.*git fetch --unshallow"),
        exported_revision(clone / "skills", "HEAD~1"),
    ):
        pass

    git("fetch", "--quiet", "--unshallow", cwd=clone)
    with exported_revision(clone / "skills", "HEAD~1") as folder:
        assert contents(folder) == {"one.md": b"old"}


@pytest.mark.parametrize("folder", ["", "skills"])
def test_a_clone_without_folders_is_named_with_how_to_complete_it(
    work: Path, tmp_path: Path, folder: str
) -> None:
    clone = tmp_path / "clone"
    git("config", "uploadpack.allowFilter", "true", cwd=work)
    git("clone", "--quiet", "--filter=tree:0", work.as_uri(), str(clone), cwd=tmp_path)

    with (
        pytest.raises(SyncError, match=r"made with --filter.*fetch --refetch"),
        exported_revision(clone / folder, "HEAD~1"),
    ):
        pass


def test_a_part_of_a_commit_is_no_commit(work: Path) -> None:
    with (
        pytest.raises(SyncError, match="has no commit 'HEAD:skills'"),
        exported_revision(work, "HEAD:skills"),
    ):
        pass


def test_a_folder_that_came_later_is_empty(work: Path) -> None:
    (work / "later").mkdir()

    with exported_revision(work / "later", "HEAD") as folder:
        assert contents(folder) == {}


def test_a_folder_that_is_missing_from_the_store_is_not_taken_for_a_later_one(work: Path) -> None:
    (work / "skills" / "one.md").write_text("edited")
    git("commit", "-qam", "third", cwd=work)
    tree = git("rev-parse", "HEAD:skills", cwd=work)
    (work / ".git" / "objects" / tree[:2] / tree[2:]).unlink()

    with pytest.raises(DamagedStoreError), exported_revision(work / "skills", "HEAD"):
        pass


def test_a_folder_outside_of_git_has_no_other_commit(tmp_path: Path) -> None:
    with (
        pytest.raises(SyncError, match="is in no work tree of Git"),
        exported_revision(tmp_path, "HEAD"),
    ):
        pass
