"""Figures of events: what happened on a day, and how often.  Pure.

The queries of a report add them up; `events.collector.schema` has their table.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from typing import Any, NamedTuple

from skills_mcp.events.tracker import EventType
from skills_mcp.features.report.event_rows import (
    MAX_TEXT_LENGTH,
    RecordedTask,
    UsageRow,
    parse_task,
)
from skills_mcp.routing.tokenizer import fold, tokenize

LAYOUT = "6"
"""Changes with every change of a figure, or if figures may be wrong."""

OTHERS = "(others)"
"""Stands for the names beyond the limit."""

MAX_NAMES = 50_000
"""Distinct rows of one figure on a day, as many as the largest catalogue has skills.

A sender chooses the names.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_DAY_TICKS = timedelta(days=1) // _TICK

_MAX_PAIRED = 8  # candidates of an answer; an agent is offered fewer

ANSWERS: dict[EventType, str] = {
    "skill_served": "answered",
    "ambiguous": "ambiguous",
    "no_match": "no_match",
}
"""The figures of tasks, by type of event."""


def derive_tick(moment: datetime) -> int:
    """Microseconds since the epoch: cheap to pack and compare."""
    return (moment - _EPOCH) // _TICK


def derive_day(tick: int) -> date:
    """The day of a tick, in UTC.

    >>> derive_day(derive_tick(datetime(2026, 11, 3, 23, 59, tzinfo=UTC)))
    datetime.date(2026, 11, 3)
    """
    return date.fromordinal(_EPOCH.toordinal() + tick // _DAY_TICKS)


def derive_moment(tick: int) -> datetime:
    return _EPOCH + tick * _TICK


class Figure(NamedTuple):
    """A name of a figure, with the names that it is counted by."""

    name: str
    content_commit: str = ""
    team: str = ""
    person: str = ""
    skill: str = ""
    other: str = ""
    """A second skill, a file, or the near misses in lines."""
    mark: str = ""
    """A task, as its words or as a hash."""
    wording: str = ""
    duration_ms: int | None = None
    number: int = 1


COLUMNS = ("day", "figure", *Figure._fields[1:], "first_at", "last_at")


class DayFigures:
    """Counts the figures of events, in any order; bounded by day and figure."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, Figure], list[int]] = {}
        self._sizes: Counter[tuple[int, str]] = Counter()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: UsageRow) -> None:
        tick, day = derive_tick(row.moment), row.moment.toordinal()
        for figure in derive_figures(row):
            found = self._rows.get((day, figure)) or self._open(day, figure, tick)
            found[0] += figure.number
            found[1] = min(found[1], tick)
            found[2] = max(found[2], tick)

    def _open(self, day: int, figure: Figure, tick: int) -> list[int]:
        if self._sizes[day, figure.name] >= MAX_NAMES:
            figure = Figure(figure.name, skill=OTHERS, number=figure.number)
        self._sizes[day, figure.name] += 1
        return self._rows.setdefault((day, figure), [0, tick, tick])

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the table `day_figures`."""
        for (day, figure), (number, first_at, last_at) in self._rows.items():
            values = (day, *figure[:-1], number, first_at, last_at)
            yield dict(zip(COLUMNS, values, strict=True))


def derive_figures(row: UsageRow) -> Iterator[Figure]:
    commit, team = row.commit, row.group
    yield Figure("event", commit, team)
    if row.person:
        yield Figure("person", commit, team, row.person)
    if is_task(row):
        yield Figure(ANSWERS[row.kind], commit, team)
    yield from _DERIVERS.get(row.kind, _derive_other)(row)


def is_task(row: UsageRow) -> bool:
    """Whether an event answers a task not counted by an earlier event."""
    if row.kind != "skill_served":
        return row.kind in ANSWERS
    # Its task was counted as an ambiguous one, or as one without a match.
    return not row.is_set("was_ambiguous") and not row.is_set("was_near")


def _derive_served(row: UsageRow) -> Iterator[Figure]:
    skill = row.text("skill_path")
    yield Figure("served", row.commit, skill=skill)
    if tokens := row.number("tokens"):
        yield Figure("tokens", skill=skill, number=tokens)
    if row.is_set("unchanged"):
        yield Figure("unchanged", skill=skill)
    if row.is_set("was_ambiguous"):
        yield Figure("picked", skill=skill)
        if mark := _mark_session(row, parse_task(row)):
            yield Figure("pick", skill=skill, mark=mark)


def _derive_pairs(row: UsageRow) -> Iterator[Figure]:
    """Pairs of candidates, with their common keywords."""
    candidates = row.texts("candidates")[:_MAX_PAIRED]
    matched = row.lists("matched_keywords")[:_MAX_PAIRED]
    has_keywords = len(matched) == len(candidates)
    words = dict(zip(candidates, map(set, matched), strict=True)) if has_keywords else {}
    task = parse_task(row)
    mark = _mark_session(row, task)
    for first, second in combinations(sorted(set(candidates)), 2):
        yield Figure("pair", skill=first, other=second, mark=mark, wording=task.text)
        for word in words.get(first, set()) & words.get(second, set()):
            yield Figure("keyword", skill=first, other=second, wording=word)


def _derive_ambiguous(row: UsageRow) -> Iterator[Figure]:
    if not parse_task(row).text:
        yield Figure("untold")
    for path in dict.fromkeys(row.texts("candidates")):
        yield Figure("candidate", skill=path)
    yield from _derive_pairs(row)


def _derive_gap(row: UsageRow) -> Iterator[Figure]:
    task = parse_task(row)
    if not task.text:
        yield Figure("untold")
    if task.mark:
        yield Figure(
            "gap",
            person=row.person,
            other="\n".join(row.texts("near")),
            mark=derive_task_key(task),
            wording=task.text,
        )


def _derive_run(row: UsageRow) -> Iterator[Figure]:
    script = row.commit, "", "", row.text("skill_path"), row.text("file")
    yield Figure("runs", *script, duration_ms=row.number("duration_ms"))
    if row.is_set("timed_out"):
        yield Figure("timeouts", *script)
    elif not row.is_set("success"):
        is_cancelled = "exit_code" in row.data and row.data["exit_code"] is None
        yield Figure("cancelled" if is_cancelled else "failures", *script)


def _derive_feedback(row: UsageRow) -> Iterator[Figure]:
    skill, is_useful = row.text("skill_path"), row.is_set("useful")
    yield Figure("useful" if is_useful else "not_useful", row.commit, row.group, skill=skill)
    if text := row.text("comment", MAX_TEXT_LENGTH):
        kind = "praise" if is_useful else "complaint"
        yield Figure(kind, row.commit, skill=skill, wording=text)


def _derive_other(row: UsageRow) -> Iterator[Figure]:
    if row.kind == "asset_served":
        yield Figure("files", skill=row.text("skill_path"))
    elif row.kind == "refresh":
        yield Figure("refreshed" if row.is_set("success") else "refresh_failed")
    else:
        yield Figure("dropped", number=row.number("count") or 0)


_DERIVERS: dict[EventType, Callable[[UsageRow], Iterator[Figure]]] = {
    "skill_served": _derive_served,
    "ambiguous": _derive_ambiguous,
    "no_match": _derive_gap,
    "script_executed": _derive_run,
    "skill_feedback": _derive_feedback,
}


def _mark_session(row: UsageRow, task: RecordedTask) -> str:
    """A hash for a task of a person; the text would take much space.

    A pick follows its answer within minutes, so it is looked for on the same day.
    """
    if not task.mark:
        return ""
    named = f"{row.person}\0{task.mark}".encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=12).hexdigest()


def derive_task_key(task: RecordedTask) -> str:
    """A key shared by tasks of the same words, in any order and form."""
    return _sort_words(task.text) if task.text else task.mark


@lru_cache(maxsize=4096)
def _sort_words(text: str) -> str:
    return " ".join(sorted(tokenize(text))) or fold(text)
