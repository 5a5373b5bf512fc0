"""Whether a skill wins against its rivals: what only the router of tasks knows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from skills_mcp.authoring.validation.rules import Finding
from skills_mcp.routing.choosing import choose
from skills_mcp.routing.decision import (
    Ambiguous,
    Candidate,
    Decision,
    Match,
    NoMatch,
)
from skills_mcp.routing.tokens import fold
from skills_mcp.skills.index import INDEX, ROOT, SkillIndex, derive_parent_path
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.snapshot import Snapshot

MAX_SKILLS = 3000
"""Each is tried against all others, so the time grows with the square of it."""

_SHOWN = 3


class SharedKeywords:
    """Which skills of a folder declare the same keyword.

    A keyword that the folder's own rules declare, too, is what the folder is about,
    and no wonder in all of its skills.
    """

    def __init__(self, index: SkillIndex) -> None:
        self._declared: dict[tuple[str | None, str], list[Skill]] = defaultdict(list)
        for skill in index:
            parent = derive_parent_path(skill.path)
            about = index.get(parent) if parent else None
            known = set(map(fold, about.keywords)) if about else set()
            for word in {*map(fold, skill.keywords)} - known:
                self._declared[parent, word].append(skill)

    def check(self, skill: Skill, line: int) -> Iterator[Finding]:
        """Compare a skill with its siblings."""
        shared = list(self._shared(skill))
        if not shared:
            return
        reason = f"shares keywords with its siblings: {_join(shared)}"
        hint = "keep a keyword in the skill that it says most about"
        yield Finding("keyword-shared", reason, hint, line)

    def _shared(self, skill: Skill) -> Iterator[str]:
        parent = derive_parent_path(skill.path)
        for keyword in skill.keywords:
            declaring = self._declared.get((parent, fold(keyword)), [])
            others = [other.path for other in declaring if other is not skill]
            if others:
                yield f"{keyword!r} ({_join(others)})"


def check_findable(snapshot: Snapshot, skill: Skill, line: int) -> Iterator[Finding]:
    """Try the tasks that a skill should win if it can win any.

    Rules for whole folders are left out: they reach agents with the skills below.
    """
    if skill.path == ROOT or skill.path.rsplit("/", 1)[-1] == INDEX:
        return
    winners: dict[str, None] = {}
    for task in _tasks(skill):
        found = _candidates(_route(snapshot, task))
        if any(each.skill.path == skill.path for each in found):
            return
        winners |= dict.fromkeys(each.skill.path for each in found[:1])
    reason = "is found by no task, not even by its own name, description and keywords"
    if winners:
        reason += f", which find {_join(tuple(winners))}"
    yield Finding("never-found", reason, _advise(snapshot), line)


def _tasks(skill: Skill) -> Iterable[str]:
    """Return what the skill should win, the quickest to try first."""
    return filter(None, (skill.name, skill.description, " ".join(skill.keywords)))


def _route(snapshot: Snapshot, task: str) -> Decision:
    return choose(snapshot.matcher, task, snapshot.config.matching)


def _candidates(decision: Decision) -> tuple[Candidate, ...]:
    match decision:
        case Match(candidate):
            return (candidate,)
        case Ambiguous(candidates):
            return candidates
        case NoMatch():
            return ()


def _advise(snapshot: Snapshot) -> str:
    if snapshot.algorithm == "keyword":
        return "give it keywords that the others do not have"
    return "describe it in words that the others do not have"


def _join(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more
