"""Events as tests make them up."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from skills_mcp.features.report.event_rows import UsageRow, parse_row
from skills_mcp.features.report.figure_queries import Aggregation, CurrentSkills
from skills_mcp.features.report.usage_report import Span, UsageReport

FIRST, LAST = date(2026, 11, 1), date(2026, 11, 30)
SPAN = Span(FIRST, LAST)

OLD, NEW = "a" * 40, "b" * 40

_numbers = count()


def event(
    kind: str,
    day: int = 1,
    *,
    hour: float = 12,
    person: str = "dev-ada",
    commit: str | None = OLD,
    **data: Any,
) -> dict[str, Any]:
    """Return an event of November, as the record holds it."""
    moment = datetime(2026, 11, day, tzinfo=UTC) + timedelta(hours=hour)
    made: dict[str, Any] = {
        "type": kind,
        "timestamp": moment.isoformat(),
        "server_id": person,
        "data": data,
        "event_id": f"event-{next(_numbers)}",
    }
    return made if commit is None else {**made, "content_commit": commit}


def served(path: str, day: int = 1, **more: Any) -> dict[str, Any]:
    """Return an event of a skill that was handed out."""
    data = {"context": "a task", "was_ambiguous": False, "unchanged": False}
    return event("skill_served", day, **{**data, "skill_path": path, **more})


def missed(task: str, day: int = 1, **more: Any) -> dict[str, Any]:
    """Return an event of a task that found nothing."""
    return event("no_match", day, context=task, **more)


def torn(task: str, *paths: str, day: int = 1, **more: Any) -> dict[str, Any]:
    """Return an event of an ambiguous answer."""
    return event("ambiguous", day, context=task, candidates=list(paths), **more)


def judged(path: str, *, useful: bool, day: int = 1, **more: Any) -> dict[str, Any]:
    """Return an event of feedback."""
    return event("skill_feedback", day, skill_path=path, useful=useful, **more)


def ran(file: str, day: int = 1, **more: Any) -> dict[str, Any]:
    """Return an event of a script that went well, unless something else is said."""
    data = {"skill_path": "tools", "success": True, "exit_code": 0, "duration_ms": 10}
    return event("script_executed", day, **{**data, "file": file, **more})


def aggregate(
    events: Iterable[object], offer: CurrentSkills | None = None, span: Span = SPAN
) -> UsageReport:
    """Return the report of some events."""
    aggregation = Aggregation(span)
    for each in events:
        aggregation.add(each)
    return aggregation.derive(offer)


def row(raw: object) -> UsageRow:
    """Return an event that is understood."""
    parsed = parse_row(raw)
    assert parsed is not None
    return parsed
