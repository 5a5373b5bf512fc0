"""History of one skill, with the commits of each part of its composed text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from skills_mcp.config.sections import Visibility
from skills_mcp.errors import SyncError
from skills_mcp.features.history.source_history import SourceLog, SourceLogs
from skills_mcp.library import (
    LibraryView,
    RemoteBranch,
    Snapshot,
    derive_commit_url,
    derive_file_provenance,
    derive_pull_request_url,
    find_repository,
)
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.skills.skill_index import INDEX, ROOT

if TYPE_CHECKING:
    from skills_mcp.library import PastCommit, Review

_MAX_FILES = 500  # of a skill: each is an argument of Git


@dataclass(frozen=True, slots=True)
class SkillChange:
    """Commit changing a skill, or another part of its composed text."""

    past: "PastCommit"
    url: str
    parts: tuple[str, ...] = ()
    """Paths of the changed skills; the file of one that is gone."""
    signer: str = ""
    """Empty without a signature by one of `sync.allowed_signers`."""
    review: "Review | None" = None
    review_url: str = ""
    files: tuple[str, ...] = ()
    """Changed files of these skills, relative to the repository."""


@dataclass(frozen=True, slots=True)
class SkillHistory:
    changes: tuple[SkillChange, ...] = ()
    searched_commits: int = 0
    is_complete: bool = False
    """Whether these are all commits of the branch."""
    reason: str = ""
    owner: str = ""
    """Whom the skill or its folders name, else CODEOWNERS."""


def read_history(
    view: LibraryView, name: str, logs: SourceLogs | None, max_changes: int | None = None
) -> SkillHistory:
    """Commits changing the composed text or files of a skill.  Blocking.

    They are read from what `logs` has fetched, as no request waits for the network.

    An older version may have had a name or path hidden by the operator: so this
    requires access to every skill.

    Raises:
        SkillsError: No, several or a hidden skill; see the subclass.
    """
    snapshot = view.snapshot
    skill = snapshot.index.resolve(name)
    if not may_see_history(view):
        return SkillHistory(
            reason="The history is shown where no skill is hidden: an older version "
            "may have had a name by which it was."
        )
    source = find_repository(snapshot.content, skill)
    commit = derive_file_provenance(snapshot.content, skill).commit
    log = _find_log(snapshot, skill, logs or {})
    if log is None:
        return SkillHistory(reason="The history is being read. Reload the page in a moment.")
    if log.reason or source is None or commit is None:
        return SkillHistory(reason=log.reason)
    files = _find_files(snapshot, skill, source)
    limit = snapshot.config.web.history
    try:
        found = source.history.read(commit, tuple(files), limit)[:max_changes]
        reviews = source.history.read_reviews(commit) if found else {}
        signers = source.history.read_signers(past.commit for past in found)
    except SyncError as error:
        return SkillHistory(reason=f"There is no history now: {error}")
    changed = {each.commit: each.files for each in log.commits}
    forges = snapshot.config.web.forges
    changes = tuple(
        SkillChange(
            past=past,
            url=derive_commit_url(source.url, past.commit, forges),
            parts=_name_parts(files, changed.get(past.commit, ())),
            files=tuple(each for each in changed.get(past.commit, ()) if each in files),
            signer=signers.get(past.commit, ""),
            review=(review := reviews.get(past.commit)),
            review_url=derive_pull_request_url(source.url, review.number, forges) if review else "",
        )
        for past in found
    )
    owner = skill.lifecycle.owner or log.owners.find(
        derive_file_provenance(snapshot.content, skill).path
    )
    return SkillHistory(changes, len(log.commits), log.is_complete, owner=owner)


_MAX_COMPARED_FILES = 10  # of a commit: each takes two calls of Git


def find_power_changes(
    view: LibraryView, name: str, change: SkillChange
) -> tuple[Sequence[str], Sequence[str]]:
    """The powers that a commit has added to the composed skill, and removed.  Blocking."""
    source = find_repository(view.snapshot.content, view.snapshot.index.resolve(name))
    if source is None:
        return (), ()
    commit, files = change.past.commit, change.files[:_MAX_COMPARED_FILES]
    before, after = (
        {file: source.history.read_file(at, file) or b"" for file in files}
        for at in (f"{commit}^", commit)
    )
    compared = (audit.compare_files(before, after) for audit in load_audits())
    return next(filter(None, compared), ((), ()))


def may_see_history(view: LibraryView) -> bool:
    """Whether neither grants nor the operator hide a skill from the caller."""
    shown = view.config.visibility.model_copy(update={"drafts": False})
    return view.sees_everything and shown == Visibility()


def _find_log(snapshot: Snapshot, skill: Skill, logs: SourceLogs) -> SourceLog | None:
    if skill.location is None:
        return None
    part = snapshot.content.find_part(skill.location, skill.path, skill.scope)
    return logs.get(part.checkout.directory) if part else None


def _name_parts(files: Mapping[str, str], changed: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(files[file] for file in changed if file in files))


def _find_files(snapshot: Snapshot, skill: Skill, source: RemoteBranch) -> Mapping[str, str]:
    """Map the files of a composed skill to the paths of its parts."""
    content = snapshot.content
    parts = snapshot.compose(skill).parts
    found = {
        derive_file_provenance(content, member).path: str(member.path)
        for member in parts
        if find_repository(content, member) is source
    }
    for file in skill.files:
        found.setdefault(derive_file_provenance(content, skill, file).path, skill.path)
    if skill.inherit:
        for file in _find_former_rules(derive_file_provenance(content, skill).path, skill):
            found.setdefault(file, file)
    return dict(list(found.items())[:_MAX_FILES])


def _find_former_rules(file: str, skill: Skill) -> Iterator[str]:
    """Yield the files from which a skill may have inherited in an earlier commit."""
    depth = skill.path.count("/") + 1
    for folder in PurePosixPath(file).parents[: depth + 1]:
        yield from ((folder / f"{rules}.md").as_posix() for rules in (INDEX, ROOT))
