"""Life cycle of skills: draft, active or deprecated, inherited by folder.

See docs/reference/life-cycle.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, TypedDict, get_args

from skills_mcp.skills.document import EMPTY_SCALARS, get_owner, get_text, get_words, parse_boolean
from skills_mcp.skills.model import NO_LIFECYCLE, Lifecycle, ProblemList, Skill, SkillPath, Status
from skills_mcp.skills.skill_index import derive_parent_path
from skills_mcp.text.rendering import abbreviate_value

_STATUS = "status"
_REPLACED_BY = "replaced_by"
_DEPRECATED = "deprecated"
_REVIEW_BY = "review_by"

_STATUSES: tuple[Status, ...] = get_args(Status)
_MAX_REASON = 300  # characters: one or two sentences, in each reply


def parse_lifecycle(fields: Mapping[str, Any], report: ProblemList) -> Lifecycle:
    """Parse the life cycle that a frontmatter declares; a wrong value is reported and ignored."""
    owner = get_owner(fields)
    if fields.keys().isdisjoint((_STATUS, _REPLACED_BY, _DEPRECATED, _REVIEW_BY)):
        return NO_LIFECYCLE._replace(owner=owner) if owner else NO_LIFECYCLE
    status = _parse_status(fields, report)
    replaced_by = get_text(fields, _REPLACED_BY).strip("/").removesuffix(".md")
    reason = get_text(fields, _DEPRECATED)
    is_deprecated = parse_boolean(reason)
    if is_deprecated is not None:
        reason = ""
    if status is None and (replaced_by or reason or is_deprecated):
        status = "deprecated"
    if status != "deprecated" and (replaced_by or reason):
        named = _REPLACED_BY if replaced_by else _DEPRECATED
        text = f"has {named} but is {status}, so {named} is ignored"
        report.warn("status", text, "write status: deprecated", key=named)
        replaced_by = reason = ""
    review_by = _parse_review_by(fields, report)
    return Lifecycle(status, replaced_by, reason[:_MAX_REASON], review_by, owner)


def _parse_status(fields: Mapping[str, Any], report: ProblemList) -> Status | None:
    word = get_text(fields, _STATUS).casefold()
    if word in _STATUSES:
        return word
    if _STATUS in fields and fields[_STATUS] not in EMPTY_SCALARS:
        reason = f"has {_STATUS}: {abbreviate_value(fields[_STATUS])}, which is ignored"
        report.warn("status", reason, f"write one of {', '.join(_STATUSES)}", key=_STATUS)
    return None


def _parse_review_by(fields: Mapping[str, Any], report: ProblemList) -> str:
    text = get_text(fields, _REVIEW_BY)
    if not text:
        return ""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        reason = f"has {_REVIEW_BY}: {abbreviate_value(text)}, which is no date"
        report.warn("review-by", reason, "write a date: review_by: 2027-01-31", key=_REVIEW_BY)
        return ""


def inherit_lifecycles(
    paths: Sequence[SkillPath], declared: Mapping[SkillPath, Lifecycle]
) -> dict[SkillPath, Lifecycle]:
    """Derive the life cycle of each skill that declares one, or whose folders do.

    Status, successor and reason are inherited together, from the nearest that declares a
    status; the date of the review and the owner, from the nearest that declares one.
    """
    derived: dict[SkillPath | None, Lifecycle] = {None: NO_LIFECYCLE}

    def derive(path: SkillPath | None) -> Lifecycle:
        chain: list[SkillPath] = []
        while path is not None and path not in derived:
            chain.append(path)
            path = derive_parent_path(path)
        inherited = derived[path]
        for member in reversed(chain):
            inherited = derived[member] = _overlay(inherited, declared.get(member, NO_LIFECYCLE))
        return inherited

    found = {path: derive(path) for path in paths} if declared else {}
    return {path: lifecycle for path, lifecycle in found.items() if lifecycle != NO_LIFECYCLE}


class NamedRelations(TypedDict):
    """Fields of a `Skill`."""

    requires: tuple[str, ...]
    related: tuple[str, ...]


def parse_relations(fields: Mapping[str, Any]) -> NamedRelations:
    """Parse the paths or names of required and related skills."""
    return {
        "requires": get_words(fields, "requires"),
        "related": get_words(fields, "related"),
    }


def with_lifecycle(skill: Skill, lifecycle: Lifecycle) -> Skill:
    """A skill with its derived life cycle, and a description that says so in every list."""
    mark = ""
    if lifecycle.is_draft:
        mark = "Draft: "
    elif lifecycle.is_deprecated:
        successor = lifecycle.replaced_by
        mark = f"Deprecated, use {successor} instead: " if successor else "Deprecated: "
    return replace(skill, lifecycle=lifecycle, description=mark + skill.description)


def _overlay(above: Lifecycle, own: Lifecycle) -> Lifecycle:
    nearest = above if own.status is None else own
    return nearest._replace(
        review_by=own.review_by or above.review_by, owner=own.owner or above.owner
    )
