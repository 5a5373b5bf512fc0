"""Other commits of a folder, without touching the work tree."""

from pathlib import Path

import pytest

from skills_mcp.content.revision import checked_out
from skills_mcp.errors import SyncError
from tests.packages import contents
from tests.support import Upstream, git


@pytest.fixture
def work(upstream: Upstream) -> Path:
    """A work tree with two commits; the second one changes what the first had."""
    upstream.commit({"skills/one.md": "old", "other.md": "x"})
    git("tag", "first", cwd=upstream.work)
    upstream.commit({"skills/one.md": "new", "skills/two.md": "two"})
    return upstream.work


@pytest.mark.parametrize("ref", ["HEAD~1", "first", "main^", "refs/tags/first"])
def test_a_folder_is_written_as_a_commit_has_it(work: Path, ref: str) -> None:
    with checked_out(work / "skills", ref) as folder:
        assert contents(folder) == {"one.md": b"old"}

    assert contents(work / "skills") == {"one.md": b"new", "two.md": b"two"}


def test_a_commit_is_known_by_its_hash(work: Path) -> None:
    commit = git("rev-parse", "--short", "HEAD~1", cwd=work)

    with checked_out(work / "skills", commit) as folder:
        assert contents(folder) == {"one.md": b"old"}


def test_the_top_of_a_work_tree_is_a_folder_like_any_other(work: Path) -> None:
    with checked_out(work, "HEAD~1") as folder:
        assert set(contents(folder)) == {"skills/one.md", "other.md"}


def test_what_is_not_committed_is_no_part_of_a_commit(work: Path) -> None:
    (work / "skills" / "one.md").write_text("edited")

    with checked_out(work / "skills", "HEAD") as folder:
        assert contents(folder)["one.md"] == b"new"
    assert (work / "skills" / "one.md").read_text() == "edited"
    assert git("status", "--short", cwd=work) == "M skills/one.md"


def test_the_copy_is_deleted_afterwards(work: Path) -> None:
    with checked_out(work, "HEAD") as folder:
        assert folder.is_dir()

    assert not folder.exists()


def test_a_linked_work_tree_has_the_same_commits(work: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", "-b", "side", str(linked), "first", cwd=work)

    with checked_out(linked / "skills", "HEAD") as folder:
        assert contents(folder) == {"one.md": b"old"}
    with checked_out(linked / "skills", "main") as folder:
        assert contents(folder)["one.md"] == b"new"


def test_a_link_to_a_folder_is_followed(work: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(work / "skills")

    with checked_out(link, "HEAD~1") as folder:
        assert contents(folder) == {"one.md": b"old"}


def test_a_git_variable_of_the_shell_leads_nowhere_else(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path))

    with checked_out(work / "skills", "HEAD~1") as folder:
        assert contents(folder) == {"one.md": b"old"}


@pytest.mark.parametrize("ref", ["nowhere", "HEAD~9", "--help", "", "a b", "HEAD:x"])
def test_a_commit_that_is_not_there_is_named_with_what_to_write(
    work: Path, ref: str
) -> None:
    with (
        pytest.raises(SyncError, match=r"has no commit .* such as HEAD~1"),
        checked_out(work / "skills", ref),
    ):
        pass


def test_a_part_of_a_commit_is_no_commit(work: Path) -> None:
    with (
        pytest.raises(SyncError, match="has no commit 'HEAD:skills'"),
        checked_out(work, "HEAD:skills"),
    ):
        pass


def test_a_folder_that_came_later_is_named(work: Path) -> None:
    (work / "later").mkdir()

    with (
        pytest.raises(SyncError, match="HEAD has no folder later yet"),
        checked_out(work / "later", "HEAD"),
    ):
        pass


def test_a_folder_outside_of_git_has_no_other_commit(tmp_path: Path) -> None:
    with (
        pytest.raises(SyncError, match="is in no work tree of Git"),
        checked_out(tmp_path, "HEAD"),
    ):
        pass
