"""How a skill, and the rules above it, came to be what they are.

Rule: an older version may have had another name or place, by which it was hidden. So
the history is for callers from whom nothing is hidden.
"""

from dataclasses import dataclass

from skills_mcp.config.sections import Visibility
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.forge import derive_commit_url
from skills_mcp.content.git.history import PastCommit
from skills_mcp.errors import SyncError
from skills_mcp.library.answers import derive_place, find_source
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.snapshot import Snapshot

_MAX_FILES = 500  # of a skill: each is an argument of Git


@dataclass(frozen=True, slots=True)
class SkillChange:
    """A commit that changed a skill or a rule above it."""

    past: PastCommit
    url: str
    """Its page at the forge; empty if there is none that is known."""


@dataclass(frozen=True, slots=True)
class SkillHistory:
    """The commits that changed a skill, the newest first."""

    changes: tuple[SkillChange, ...] = ()
    most: int = 0
    """How many commits of the branch were looked through."""
    reason: str = ""
    """Why there is no history; empty if there is."""


def read_history(
    snapshot: Snapshot, skill: Skill, *, sees_everything: bool
) -> SkillHistory:
    """Return the commits that changed what an agent gets of a skill.  Blocking."""
    if not sees_everything or snapshot.config.visibility != Visibility():
        return SkillHistory(
            reason="The history is shown where no skill is hidden: an older version "
            "may have had a name by which it was."
        )
    most = snapshot.config.web.history
    source = find_source(snapshot.content, skill)
    commit = derive_place(snapshot.content, skill).commit
    if not isinstance(source, RemoteBranch) or commit is None:
        reason = "This skill lies in a folder. Git keeps a history; a folder has none."
        return SkillHistory(reason=reason)
    if not most:
        return SkillHistory(reason="The operator has switched it off (web.history: 0).")
    try:
        found = source.read_history(commit, _find_files(snapshot, skill, source), most)
    except SyncError as error:
        reason = f"There is no history now: {error}"
        return SkillHistory(most=most, reason=reason)
    forges = snapshot.config.web.forges
    return SkillHistory(
        tuple(
            SkillChange(past, derive_commit_url(source.url, past.commit, forges))
            for past in found
        ),
        most,
    )


def _find_files(
    snapshot: Snapshot, skill: Skill, source: RemoteBranch
) -> tuple[str, ...]:
    """Return the files of a skill and of the rules above it, in its repository."""
    content, index = snapshot.content, snapshot.index
    chain = index.lineage(skill) if skill.inherit else (skill,)
    rules = [
        derive_place(content, each).path
        for each in chain
        if find_source(content, each) is source
    ]
    own = [derive_place(content, skill, file).path for file in skill.files]
    return tuple(dict.fromkeys([*rules, *own]))[:_MAX_FILES]
