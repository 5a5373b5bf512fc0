"""The main figures of some events: of a span, and of each group and source in it."""

from collections import Counter
from collections.abc import Iterable
from datetime import date

from skills_mcp.features.report.tallies import MOST_NAMES, Packed
from skills_mcp.features.report.usage_report import Answers, PartUse, Span, Totals
from skills_mcp.features.report.usage_rows import UsageRow


class TotalsTally:
    """The main figures of a span."""

    def __init__(self) -> None:
        self._answers: Counter[str] = Counter()
        self._people: set[str] = set()
        self._ratings: Counter[bool] = Counter()

    def add(self, row: UsageRow) -> None:
        """Count an event."""
        add_names(self._people, {row.person} - {""})
        if row.kind == "skill_feedback":
            self._ratings[row.is_set("useful")] += 1
        elif is_task(row):
            self._answers[row.kind] += 1

    def pack(self) -> Packed:
        """Return it as values for JSON."""
        return {
            "answers": self._answers,
            "people": sorted(self._people),
            "ratings": [self._ratings[False], self._ratings[True]],
        }

    def merge(self, packed: Packed) -> None:
        """Add what another one has packed."""
        self._answers.update(packed["answers"])
        add_names(self._people, packed["people"])
        bad, useful = packed["ratings"]
        self._ratings.update({False: bad, True: useful})

    def derive(self, span: Span, *, is_complete: bool) -> Totals:
        """Return the figures."""
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
    """The main figures of a part of the events, day by day, and of the span before."""

    def __init__(self) -> None:
        self.totals, self.before = TotalsTally(), TotalsTally()
        self._tasks: Counter[date] = Counter()

    def add(self, row: UsageRow) -> None:
        """Count an event of the span."""
        self.totals.add(row)
        if is_task(row):
            self._tasks[row.moment.date()] += 1

    def merge(self, day: date, packed: Packed) -> None:
        """Add the totals that were packed of a day of the span."""
        self.totals.merge(packed)
        self._tasks[day] += sum(packed["answers"].values())

    def join(self, other: "PartTally") -> None:
        """Add another part."""
        self.totals.merge(other.totals.pack())
        self.before.merge(other.before.pack())
        self._tasks.update(other._tasks)  # noqa: SLF001 - of the same class

    def derive(self, name: str, span: Span, before: Totals | None) -> PartUse:
        """Return the figures; `before` is that of all parts."""
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
    """Add names to a set until there are many; a report counts them."""
    for name in more:
        if len(names) >= MOST_NAMES:
            return
        names.add(name)


def is_task(row: UsageRow) -> bool:
    """Whether an event is the answer to a task that no other event tells of."""
    if row.kind != "skill_served":
        return row.kind in {"ambiguous", "no_match"}
    # Its task was counted as an ambiguous one, or as one without a match.
    return not row.is_set("was_ambiguous") and not row.is_set("was_near")


def count_answers(counted: Counter[str]) -> Answers:
    """Return how often each kind of answer was counted."""
    served, ambiguous, no_match = "skill_served", "ambiguous", "no_match"
    return Answers(counted[served], counted[ambiguous], counted[no_match])
