"""A review as JSON, for `skills-mcp report --suggest --json`."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, get_args

from skills_mcp.features.authoring.evaluation import Outcome
from skills_mcp.features.report.suggestions.improvement import (
    AcceptedAddition,
    Addition,
    RejectedAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestions.patch import Patch
from skills_mcp.features.report.suggestions.recorded_tasks import (
    TaskOrigin,
    derive_origin,
)
from skills_mcp.features.report.suggestions.review import SuggestionReview
from skills_mcp.features.report.usage_report import Rivalry, Span


def render_review(
    review: SuggestionReview, span: Span, patches: Iterable[Patch], notes: Sequence[str]
) -> dict[str, Any]:
    """A review as one JSON object, with the requested patches."""
    improvement, record = review.improvement, review.record
    return {
        "since": span.first.isoformat(),
        "until": span.last.isoformat(),
        "algorithm": review.algorithm,
        "picks": record.picks,
        "unreadable": record.unreadable,
        "suggestions": [_render_accepted(item, review) for item in improvement.accepted],
        "left_out": [_render_rejected(item, review) for item in improvement.rejected],
        "effect": {o: asdict(review.measure_effect(o)) for o in get_args(TaskOrigin)},
        "changes": [_render_change(*item) for item in review.changes],
        "pairs": [_render_pair(item) for item in review.pairs],
        "sources": [_render_patch(item) for item in patches],
        "notes": list(notes),
    }


def _render_accepted(addition: AcceptedAddition, review: SuggestionReview) -> dict[str, Any]:
    return {
        **_render_addition(addition.addition, review),
        "better": list(addition.gains),
    }


def _render_rejected(dropped: RejectedAddition, review: SuggestionReview) -> dict[str, Any]:
    shared = _render_addition(dropped.addition, review)
    return {**shared, "reason": dropped.reason, "detail": dropped.detail}


def _render_addition(addition: Addition, review: SuggestionReview) -> dict[str, Any]:
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
        "origin": derive_origin(new.prompt),
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
