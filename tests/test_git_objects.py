"""What tests write without Git is what Git would write."""

import os
import sys

import pytest

from tests.git_objects import write_commit
from tests.support import Upstream, git, write

EMPTY = ("commit", "-q", "--allow-empty", "-m", "One")


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes of POSIX")
def test_a_commit_is_that_of_git(upstream: Upstream) -> None:
    work = upstream.work
    for name in ("a.b", "a/b", "a-b", "é/ü.md", "deep/er/file", "x" * 200):
        write(work / name, name * 3)
    write(work / "a/run.sh", "#!/bin/sh").chmod(0o755)
    (work / "link").symlink_to("a/b")
    (work / "empty").mkdir()

    first = write_commit(work, upstream.bare / "objects")
    (work / "a/b").write_text("changed")
    (work / "a-b").unlink()
    second = write_commit(work, upstream.bare / "objects")

    assert git("status", "--porcelain", cwd=work) == ""
    assert git("rev-parse", "HEAD", "HEAD~1", cwd=work).split() == [second, first]
    assert git("diff", "--name-only", "HEAD~1", cwd=work).split() == ["a-b", "a/b"]
    git("rm", "-rqf", "--cached", ".", cwd=work)
    git("add", "--all", "--force", ".", cwd=work)
    assert git("write-tree", cwd=work) == git("rev-parse", "HEAD^{tree}", cwd=work)
    git("fsck", "--strict", cwd=work)


@pytest.mark.parametrize(
    "change",
    [
        lambda work: git("config", "commit.gpgsign", "true", cwd=work),
        lambda work: write(work / ".gitattributes", "* text"),
        lambda work: git("init", "-q", "within", cwd=work),
        lambda work: [git(*words, cwd=work) for words in (EMPTY, ("pack-refs", "--all"))],
        lambda work: os.mkfifo(work / "pipe"),
        lambda work: write(work / ".git/HEAD", "0" * 40),
    ],
)
def test_what_only_git_knows_is_left_to_it(upstream: Upstream, change: object) -> None:
    change(upstream.work)  # type: ignore[operator]

    assert write_commit(upstream.work, upstream.bare / "objects") is None
