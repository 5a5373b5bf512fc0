"""History of a skill."""

from dataclasses import dataclass

from skills_mcp.config.sections import Visibility
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.forge import derive_commit_url
from skills_mcp.content.git.history import PastCommit
from skills_mcp.errors import SyncError
from skills_mcp.library.answers import derive_file_provenance, find_source
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.snapshot import Snapshot

_MAX_FILES = 500  # of a skill: each is an argument of Git


@dataclass(frozen=True, slots=True)
class SkillChange:
    """Commit changing a skill or an inherited rule."""

    past: PastCommit
    url: str


@dataclass(frozen=True, slots=True)
class SkillHistory:
    changes: tuple[SkillChange, ...] = ()
    searched_commits: int = 0
    reason: str = ""


def read_history(snapshot: Snapshot, skill: Skill, *, sees_everything: bool) -> SkillHistory:
    """Commits changing the composed text or files of a skill.  Blocking.

    An older version may have had a name or path hidden by the operator: so this
    requires
    access to every skill.
    """
    if not sees_everything or snapshot.config.visibility != Visibility():
        return SkillHistory(
            reason="The history is shown where no skill is hidden: an older version "
            "may have had a name by which it was."
        )
    limit = snapshot.config.web.history
    source = find_source(snapshot.content, skill)
    commit = derive_file_provenance(snapshot.content, skill).commit
    if not isinstance(source, RemoteBranch) or commit is None:
        reason = "This skill lies in a folder. Git keeps a history; a folder has none."
        return SkillHistory(reason=reason)
    if not limit:
        return SkillHistory(reason="The operator has switched it off (web.history: 0).")
    try:
        found = source.read_history(commit, _find_files(snapshot, skill, source), limit)
    except SyncError as error:
        reason = f"There is no history now: {error}"
        return SkillHistory(searched_commits=limit, reason=reason)
    forges = snapshot.config.web.forges
    return SkillHistory(
        tuple(
            SkillChange(past, derive_commit_url(source.url, past.commit, forges)) for past in found
        ),
        limit,
    )


def _find_files(snapshot: Snapshot, skill: Skill, source: RemoteBranch) -> tuple[str, ...]:
    content, index = snapshot.content, snapshot.index
    chain = index.lineage(skill) if skill.inherit else (skill,)
    rules = [
        derive_file_provenance(content, member).path
        for member in chain
        if find_source(content, member) is source
    ]
    own = [derive_file_provenance(content, skill, file).path for file in skill.files]
    return tuple(dict.fromkeys([*rules, *own]))[:_MAX_FILES]
