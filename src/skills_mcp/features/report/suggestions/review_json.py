"""A review as programs read it: what `skills-mcp report --suggest --json` prints."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, get_args

from skills_mcp.features.authoring.evaluation import Outcome
from skills_mcp.features.report.suggestions.improvement import (
    Addition,
    DroppedAddition,
    KeptAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestions.patch import Patch
from skills_mcp.features.report.suggestions.recorded_tasks import Origin, origin_of
from skills_mcp.features.report.suggestions.review import Review
from skills_mcp.features.report.usage_report import Rivalry, Span


def render_review(
    review: Review, span: Span, patches: Iterable[Patch], notes: Sequence[str]
) -> dict[str, Any]:
    """Return a review as one object.

    Args:
        review: What is suggested.
        span: The days of its events.
        patches: Those that are asked for.
        notes: What the suggestions lack, and what to set.
    """
    improvement, record = review.improvement, review.record
    return {
        "since": span.first.isoformat(),
        "until": span.last.isoformat(),
        "algorithm": review.algorithm,
        "picks": record.picks,
        "unreadable": record.unreadable,
        "suggestions": [_render_kept(each, review) for each in improvement.kept],
        "left_out": [_render_dropped(each, review) for each in improvement.dropped],
        "effect": {o: asdict(review.measure_effect(o)) for o in get_args(Origin)},
        "changes": [_render_change(*each) for each in review.changes],
        "pairs": [_render_pair(each) for each in review.pairs],
        "sources": [_render_patch(each) for each in patches],
        "notes": list(notes),
    }


def _render_kept(kept: KeptAddition, review: Review) -> dict[str, Any]:
    return {**_render_addition(kept.addition, review), "better": list(kept.gains)}


def _render_dropped(dropped: DroppedAddition, review: Review) -> dict[str, Any]:
    shared = _render_addition(dropped.addition, review)
    return {**shared, "reason": dropped.reason, "detail": dropped.detail}


def _render_addition(addition: Addition, review: Review) -> dict[str, Any]:
    words = addition.words if isinstance(addition, WordAddition) else ()
    counts = review.count_picks(addition)
    return {
        "skill": addition.skill,
        "kind": "keywords" if words else "example",
        "keywords": list(words),
        "tasks": list(review.find_tasks(addition)),
        "picks": counts.picks,
        "people": len(counts.people),
        "days": len(counts.days),
    }


def _render_change(old: Outcome, new: Outcome) -> dict[str, Any]:
    return {
        "task": new.prompt.query,
        "expect": list(new.prompt.expect),
        "avoid": list(new.prompt.avoid),
        "before": list(old.answers),
        "after": list(new.answers),
        "origin": origin_of(new.prompt),
    }


def _render_pair(pair: Rivalry) -> dict[str, Any]:
    picks = None if pair.picks is None else list(pair.picks)
    return {"skills": list(pair.skills), "count": pair.count, "picks": picks}


def _render_patch(patch: Patch) -> dict[str, Any]:
    source = patch.source
    return {
        "source": source.name,
        "mount": source.mount,
        "diff": patch.diff.decode("utf-8"),
    }
