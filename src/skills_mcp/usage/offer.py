"""What the content offers now: the other half of what a report compares."""

from functools import partial

from skills_mcp.routing.choosing import choose
from skills_mcp.routing.explanation import list_answers
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.snapshots.snapshot import Snapshot
from skills_mcp.usage.entries import MOST_NAME, MOST_TEXT, tidy
from skills_mcp.usage.reckoning import Offer
from skills_mcp.usage.skills import OfferedSkill


def derive_offer(snapshot: Snapshot) -> Offer:
    """Return the skills that are offered, and what they would answer."""
    skills = (
        OfferedSkill(
            path=tidy(skill.path, MOST_NAME),
            description=tidy(skill.description, MOST_TEXT),
            keywords=tuple(tidy(word, MOST_NAME) for word in skill.keywords),
            is_above_others=_is_above_others(skill.path),
        )
        for skill in snapshot.index
    )
    return Offer(tuple(skills), partial(_answer, snapshot))


def _is_above_others(path: str) -> bool:
    return path == ROOT or path.rpartition("/")[2] == INDEX


def _answer(snapshot: Snapshot, task: str) -> tuple[str, ...]:
    decision = choose(snapshot.matcher, task, snapshot.config.matching)
    return tuple(tidy(each.skill.path, MOST_NAME) for each in list_answers(decision))
