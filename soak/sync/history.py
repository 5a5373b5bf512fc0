"""Changes of the repository by others: rewritten, moved, access withdrawn; and pins."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.errors import (
    AccessRefusedError,
    HistoryRewrittenError,
    RemoteMissingError,
    SyncError,
)
from skills_mcp.skills.source_layout import Selection
from soak.scenario import Figure, Scale, Scenario
from soak.sync.mirror import Mirror, mirrored, read_files, sync
from tests.content.git_server import GitServer, answer
from tests.support import Upstream, git


def follow_rewrites(folder: Path, _: Scale) -> Iterator[Figure]:
    """Change history in three ways; each is followed in one sync."""
    mirror = Mirror.create(folder)
    first = mirror.newest
    converged = []
    for change in (_force_push, _roll_back, _begin_anew):
        mirror.push(f"before {change.__name__}")
        mirror.sync()
        change(mirror, first)
        upstream = git("rev-parse", "refs/heads/main", cwd=mirror.upstream.bare)
        converged.append(mirror.sync() is None and mirror.serves(upstream))
    yield Figure.every(7, "force-push, rollback, unrelated history", sum(converged), len(converged))


def keep_last_good(folder: Path, _: Scale) -> Iterator[Figure]:
    """Take the branch, the repository or the permission away, and give it back."""
    with mirrored(folder) as (mirror, server):
        backup = folder / "backup.git"
        mirror.sync()
        typed, kept, healed = [], [], []
        for lose, kind in _LOSSES.items():
            mirror.push(lose.__name__)
            shutil.copytree(mirror.upstream.bare, backup)
            before = mirror.served()
            lose(mirror.upstream.bare, server)
            typed.append(type(mirror.sync()) is kind)
            kept.append(mirror.served() == before is not None)
            server.fault = None
            shutil.rmtree(mirror.upstream.bare)
            backup.rename(mirror.upstream.bare)
            healed.append(mirror.sync() is None and mirror.serves())
    for what, facts in (("typed", typed), ("kept", kept), ("healed", healed)):
        said = f"branch, repository or permission gone: {what}"
        yield Figure.every(8, said, sum(facts), len(facts))


def never_mix(folder: Path, _: Scale) -> Iterator[Figure]:
    """Configure another repository, branch, pin or part, with the same cache."""
    mirror = Mirror.create(folder)
    mirror.sync()
    git("tag", "v1", cwd=mirror.upstream.work)
    git("push", "-q", "origin", "v1", cwd=mirror.upstream.work)
    other = Mirror.create(folder / "other")
    other.push("of another repository")
    git("checkout", "-q", "-b", "next", cwd=mirror.upstream.work)
    mirror.push("of another branch")
    part = replace(mirror.policy, selections=(Selection("skills"),))
    others: dict[str, RemoteBranch] = {
        "repository": mirror.open(url=other.upstream.url),
        "branch": mirror.open(branch="next"),
        "tag": mirror.open(pin="v1"),
        "part": RemoteBranch(mirror.remote, mirror.cache, part),
    }
    wanted = {"repository": other.newest, "branch": mirror.newest}
    passed = []
    for name, source in others.items():
        is_blank = source.open() is None
        error, served = sync(source), source.open()
        assert served  # noqa: S101 - or the figure would be about something else
        commit = wanted.get(name, next(iter(mirror.commits)))
        passed.append(is_blank and error is None and served.revision == commit)
    yield Figure.every(9, "another repository, branch, pin or part", sum(passed), len(passed))
    yield Figure.every(9, "the first one is as it was", mirror.served() is not None, 1)


def stay_at_pins(folder: Path, _: Scale) -> Iterator[Figure]:
    """Pin a commit and a tag, and let the branch, the tag and the remote go."""
    mirror = Mirror.create(folder)
    pinned = mirror.newest
    _tag(mirror.upstream)
    by_commit, by_tag = mirror.open(pin=pinned), mirror.open(pin="v1")
    mirror.push("the branch goes on")
    exact = [_serves_after(source, mirror, pinned) for source in (by_commit, by_tag)]
    _force_push(mirror, pinned)
    exact += [_serves_after(source, mirror, pinned) for source in (by_commit, by_tag)]
    _tag(mirror.upstream)
    moved = _serves_after(by_tag, mirror, mirror.newest)
    missing = sync(mirror.open(pin="1" * 40)), sync(mirror.open(pin="v2"))
    shutil.rmtree(mirror.upstream.bare)
    exact.append(_serves_after(by_commit, mirror, pinned))
    yield Figure.every(28, "a pinned commit or tag is exact", sum(exact), len(exact))
    yield Figure.every(28, "a tag that was moved is followed", moved, 1)
    typed = sum(isinstance(each, RemoteMissingError) for each in missing)
    yield Figure.every(28, "a pin that is not there is said", typed, len(missing))


def refuse_rewrites(folder: Path, _: Scale) -> Iterator[Figure]:
    """Forbid rewrites; what only goes on is followed, also from a shallow copy."""
    mirror = Mirror.create(folder, allow_non_fast_forward=False)
    first = mirror.newest
    mirror.sync()
    followed = []
    for commits in (1, 3):
        for number in range(commits):
            mirror.push(f"onwards {commits} {number}")
        followed.append(mirror.sync() is None and mirror.serves())
    served = mirror.newest
    refused = []
    for change in (_force_push, _roll_back, _begin_anew):
        change(mirror, first)
        error = mirror.sync()
        is_refused = isinstance(error, HistoryRewrittenError)
        refused.append(is_refused and mirror.serves(served))
    mirror.upstream.reset(served)
    mirror.remember(served)
    back = mirror.sync() is None and mirror.serves(served)
    yield Figure.every(28, "fast-forwards followed", sum(followed), len(followed))
    yield Figure.every(28, "rewrites refused, old served", sum(refused), len(refused))
    yield Figure.every(28, "history restored: followed again", back, 1)


def _force_push(mirror: Mirror, first: str) -> None:
    mirror.upstream.reset(first)
    mirror.push(f"instead, {len(mirror.commits)}")


def _roll_back(mirror: Mirror, first: str) -> None:
    mirror.upstream.reset(first)
    mirror.remember(first)


def _begin_anew(mirror: Mirror, _: str) -> None:
    git("checkout", "-q", "--orphan", "anew", cwd=mirror.upstream.work)
    git("branch", "-q", "-D", "main", cwd=mirror.upstream.work)
    git("branch", "-q", "-m", "main", cwd=mirror.upstream.work)
    mirror.push(f"unrelated, {len(mirror.commits)}")


def _delete_branch(bare: Path, _: GitServer) -> None:
    git("update-ref", "-d", "refs/heads/main", cwd=bare)


def _rename_branch(bare: Path, _: GitServer) -> None:
    git("branch", "-q", "-m", "main", "main/v2", cwd=bare)


def _change_default(bare: Path, _: GitServer) -> None:
    git("branch", "-q", "-m", "main", "trunk", cwd=bare)
    git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=bare)


def _empty(bare: Path, _: GitServer) -> None:
    shutil.rmtree(bare)
    git("init", "-q", "--bare", "--initial-branch=main", str(bare), cwd=bare.parent)


def _delete_repository(bare: Path, _: GitServer) -> None:
    shutil.rmtree(bare)
    bare.mkdir()


def _answer_404(_: Path, server: GitServer) -> None:
    server.fault = answer(404)


def _answer_401(_: Path, server: GitServer) -> None:
    server.fault = answer(401, WWW_Authenticate='Basic realm="content"')


def _answer_403(_: Path, server: GitServer) -> None:
    server.fault = answer(403)


def _answer_503(_: Path, server: GitServer) -> None:
    server.fault = answer(503, Retry_After="60")


_LOSSES: Mapping[Callable[[Path, GitServer], None], type[SyncError]] = {
    _delete_branch: RemoteMissingError,
    _rename_branch: RemoteMissingError,
    _change_default: RemoteMissingError,
    _empty: RemoteMissingError,
    _delete_repository: RemoteMissingError,
    _answer_404: RemoteMissingError,
    _answer_401: AccessRefusedError,
    _answer_403: AccessRefusedError,
    _answer_503: SyncError,
}
"""What is taken away, and the error code to expect."""


def _serves_after(source: RemoteBranch, mirror: Mirror, commit: str) -> bool:
    error, served = sync(source), source.open()
    if error or served is None:
        return False
    return served.revision == commit and read_files(served) == mirror.commits[commit]


def _tag(upstream: Upstream) -> None:
    git("tag", "--force", "-m", "Release", "v1", cwd=upstream.work)
    git("push", "-q", "--force", "origin", "v1", cwd=upstream.work)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("rewrites", follow_rewrites),
    ("losses", keep_last_good),
    ("configuration", never_mix),
    ("pins", stay_at_pins),
    ("refused-rewrites", refuse_rewrites),
)
