"""Main figures of a span, and of each group and source in it."""

from collections import Counter
from collections.abc import Iterable
from datetime import date

from skills_mcp.features.report.tallies import MAX_NAMES, Packed
from skills_mcp.features.report.usage_report import Answers, PartUse, Span, Totals
from skills_mcp.features.report.usage_rows import UsageRow


class TotalsTally:
    def __init__(self) -> None:
        self._answers: Counter[str] = Counter()
        self._people: set[str] = set()
        self._ratings: Counter[bool] = Counter()

    def add(self, row: UsageRow) -> None:
        add_names(self._people, {row.person} - {""})
        if row.kind == "skill_feedback":
            self._ratings[row.is_set("useful")] += 1
        elif is_task(row):
            self._answers[row.kind] += 1

    def pack(self) -> Packed:
        return {
            "answers": self._answers,
            "people": sorted(self._people),
            "ratings": [self._ratings[False], self._ratings[True]],
        }

    def merge(self, packed: Packed) -> None:
        self._answers.update(packed["answers"])
        add_names(self._people, packed["people"])
        bad, useful = packed["ratings"]
        self._ratings.update({False: bad, True: useful})

    def derive(self, span: Span, *, is_complete: bool) -> Totals:
        return Totals(
            since=span.first,
            until=span.last,
            answers=count_answers(self._answers),
            people=len(self._people),
            useful=self._ratings[True],
            not_useful=self._ratings[False],
            is_complete=is_complete,
        )


class PartTally:
    """Main figures of a part of the events, by day, and of the span before."""

    def __init__(self) -> None:
        self.totals, self.before = TotalsTally(), TotalsTally()
        self._tasks: Counter[date] = Counter()

    def add(self, row: UsageRow) -> None:
        self.totals.add(row)
        if is_task(row):
            self._tasks[row.moment.date()] += 1

    def merge(self, day: date, packed: Packed) -> None:
        self.totals.merge(packed)
        self._tasks[day] += sum(packed["answers"].values())

    def join(self, other: "PartTally") -> None:
        self.totals.merge(other.totals.pack())
        self.before.merge(other.before.pack())
        self._tasks.update(other._tasks)  # noqa: SLF001 - of the same class

    def derive(self, name: str, span: Span, before: Totals | None) -> PartUse:
        """`before` is that of all parts."""
        now = self.totals.derive(span, is_complete=True)
        old = self.before.derive(span, is_complete=True)
        periods: Counter[date] = Counter()
        for day, tasks in self._tasks.items():
            periods[span.start_of(day)] += tasks
        return PartUse(
            name=name,
            answers=now.answers,
            people=now.people,
            useful=now.useful,
            not_useful=now.not_useful,
            before=old.answers if before else None,
            periods=tuple(sorted((+periods).items())),
        )


def add_names(names: set[str], more: Iterable[str]) -> None:
    """Add names up to a limit; a report counts them."""
    for name in more:
        if len(names) >= MAX_NAMES:
            return
        names.add(name)


def is_task(row: UsageRow) -> bool:
    """Whether an event answers a task not counted by an earlier event."""
    if row.kind != "skill_served":
        return row.kind in {"ambiguous", "no_match"}
    # Its task was counted as an ambiguous one, or as one without a match.
    return not row.is_set("was_ambiguous") and not row.is_set("was_near")


def count_answers(counted: Counter[str]) -> Answers:
    served, ambiguous, no_match = "skill_served", "ambiguous", "no_match"
    return Answers(counted[served], counted[ambiguous], counted[no_match])
