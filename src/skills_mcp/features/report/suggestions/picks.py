"""Tasks of which agents have shown the right skill, by what they picked.  Pure.

A list of candidates and the near misses of a task leave the choice to the agent. What
it picks is right for that task, unless it says afterwards that the skill did not help.
A skill that it names beside the list is right only if it says that the skill helped.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from skills_mcp.events.privacy import HASH_PREFIX
from skills_mcp.features.report.tallies import (
    Answer,
    RivalryTally,
    derive_mark,
    derive_tick,
)
from skills_mcp.features.report.usage_report import Rivalry, Span
from skills_mcp.features.report.usage_rows import (
    AskedTask,
    UsageRow,
    identify,
    parse_row,
    tidy,
)

SESSION_HOURS = 4
"""How long feedback is about what the same person was handed out before: a morning.

An event names a person and no session.
"""

_SESSION_TICKS = timedelta(hours=SESSION_HOURS) // timedelta(microseconds=1)
_MOST_TASK = 10_000  # characters, which is what an event holds at most

PICK_KINDS = frozenset({"skill_served", "ambiguous", "skill_feedback"})
"""The types of events that say something about picks."""


@dataclass(frozen=True, slots=True)
class PickCounts:
    """How often a skill was picked for a task."""

    picks: int
    """Different people and days; a session that asks twice counts once."""
    people: frozenset[str]
    days: frozenset[date]


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task, and the skills that agents have shown to be right or wrong for it."""

    task: str
    """The newest wording, safe to show."""
    right: Mapping[str, PickCounts]
    """By the path of a skill; the one that was picked most often is the first."""
    wrong: tuple[str, ...]
    """Skills that did not help with it, by path."""


@dataclass(frozen=True, slots=True)
class AnsweredTask:
    """A task that one skill answered, and of which agents said nothing more."""

    task: str
    skill: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRecord:
    """What a span of events says about picks."""

    tasks: tuple[KnownTask, ...]
    """Those with most picks first."""
    answered: tuple[AnsweredTask, ...]
    """The most frequent ones first."""
    picks: int
    """All picks, readable or not."""
    unreadable: int
    """Picks whose task was recorded as a hash, or not at all."""
    rivalries: tuple[Rivalry, ...]
    """Pairs of skills that were candidates of the same answers."""


@dataclass(slots=True)
class _Served:
    """When a person was handed out a skill, and for which tasks."""

    ticks: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    """The numbers of the tasks; -1 for one that cannot be read."""


@dataclass(slots=True)
class _TaskPicks:
    """What is known of a task."""

    tick: int = 0
    text: str = ""
    answers: Counter[str] = field(default_factory=Counter)
    """How often each skill was the single answer."""
    picks: defaultdict[str, set[tuple[str, date]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    named: defaultdict[str, set[tuple[str, date]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """Skills that were asked for by their paths, and in no list."""
    ratings: defaultdict[str, Counter[bool]] = field(
        default_factory=lambda: defaultdict(Counter)
    )


class PickTally:
    """Adds the events of a span up, in any order.

    Memory grows with the answers and with the different tasks.

    Args:
        span: The days.
        hide: Takes out of a task what may not be shown.
    """

    def __init__(self, span: Span, hide: Callable[[str], str]) -> None:
        self._span = span
        self._hide = hide
        self._seen: set[int] = set()
        self._numbers: dict[str, int] = {}
        self._tasks: list[_TaskPicks] = []
        self._served: defaultdict[tuple[str, str], _Served] = defaultdict(_Served)
        self._feedback: list[tuple[int, str, str, bool]] = []
        self._rivalry_tally = RivalryTally()
        self._counts: Counter[str] = Counter()

    def add(self, raw: object) -> None:
        """Take in an event; those of other types and days are left out."""
        row = parse_row(raw)
        if row is None or row.kind not in PICK_KINDS:
            return
        mark = identify(raw)
        if row.moment.date() not in self._span or mark in self._seen:
            return
        self._seen.add(mark)
        if row.kind == "skill_served":
            self._add_served(row)
        elif row.kind == "ambiguous":
            self._rivalry_tally.add_ambiguous(row)
        else:
            skill, useful = row.text("skill_path"), row.is_set("useful")
            tick = derive_tick(row.moment)
            self._feedback.append((tick, row.person, skill, useful))

    def _add_served(self, row: UsageRow) -> None:
        skill, tick = row.text("skill_path"), derive_tick(row.moment)
        is_pick = row.is_set("was_ambiguous") or row.is_set("was_near")
        number = self._find_task(row, tick)
        served = self._served[row.person, skill]
        served.ticks.append(tick)
        served.tasks.append(number)
        if row.is_set("was_ambiguous"):
            self._rivalry_tally.add_pick(row)
        if is_pick:
            self._counts["picks"] += 1
            self._counts["unreadable"] += number < 0
        if number < 0:
            return
        asked = row.person, row.moment.date()
        if is_pick:
            self._tasks[number].picks[skill].add(asked)
        elif row.is_set("was_picked"):
            self._tasks[number].named[skill].add(asked)
        else:
            self._tasks[number].answers[skill] += 1

    def _find_task(self, row: UsageRow, tick: int) -> int:
        """Return the number of the task, by its words; -1 if it cannot be read."""
        written = row.data.get("context")
        if not isinstance(written, str) or written.startswith(HASH_PREFIX):
            return -1
        # What is cut or folded first could hide a secret from those who look for one.
        text = tidy(self._hide(written), _MOST_TASK)
        if not text:
            return -1
        mark = derive_mark(AskedTask(text, text))
        number = self._numbers.setdefault(mark, len(self._tasks))
        if number == len(self._tasks):
            self._tasks.append(_TaskPicks())
        known = self._tasks[number]
        known.tick, known.text = max((known.tick, known.text), (tick, text))
        return number

    def derive(self, answer: Answer | None = None) -> PickRecord:
        """Return what is known of picks.

        Args:
            answer: Says what a task is answered with now.
        """
        self._rate()
        tasks = [each for each in map(_derive_task, self._tasks) if each is not None]
        known = {each.task for each in tasks}
        answered = [
            AnsweredTask(each.text, *each.answers.most_common(1)[0])
            for each in self._tasks
            if len(each.answers) == 1 and each.text not in known
        ]
        return PickRecord(
            tasks=tuple(sorted(tasks, key=_rank)),
            answered=tuple(sorted(answered, key=lambda a: (-a.count, a.task))),
            picks=self._counts["picks"],
            unreadable=self._counts["unreadable"],
            rivalries=self._rivalry_tally.derive(self._span, answer),
        )

    def _rate(self) -> None:
        """Give each feedback to the task that the person had the skill for."""
        for task in self._tasks:
            task.ratings.clear()
        for served in self._served.values():
            order = sorted(zip(served.ticks, served.tasks, strict=True))
            served.ticks = [tick for tick, _ in order]
            served.tasks = [task for _, task in order]
        for tick, person, skill, is_useful in self._feedback:
            found = self._served.get((person, skill))
            place = bisect_right(found.ticks, tick) - 1 if found else -1
            if found is None or place < 0 or found.tasks[place] < 0:
                continue
            if tick - found.ticks[place] <= _SESSION_TICKS:
                task = self._tasks[found.tasks[place]]
                task.ratings[skill][is_useful] += 1


def _derive_task(found: _TaskPicks) -> KnownTask | None:
    """Return a task if a skill is known to be right or wrong for it."""
    wrong = {skill for skill, ratings in found.ratings.items() if ratings[False]}
    helped = {skill for skill, ratings in found.ratings.items() if ratings[True]}
    # An agent may have named another skill than the list has for any reason; that it
    # helped is the evidence.
    named = {each: asked for each, asked in found.named.items() if each in helped}
    picked = {
        skill: _count((*found.picks.get(skill, ()), *named.get(skill, ())))
        for skill in {*found.picks, *named} - wrong
    }
    # A single answer that was called useful is as right as a pick, but says nothing
    # that routing does not know.
    useful = {
        skill: PickCounts(0, frozenset(), frozenset())
        for skill in helped - wrong - picked.keys()
    }
    if not (picked or useful or wrong):
        return None
    order = sorted(picked.items(), key=lambda item: (-item[1].picks, item[0]))
    right = {**dict(order), **dict(sorted(useful.items()))}
    return KnownTask(found.text, right, tuple(sorted(wrong)))


def _count(picks: Iterable[tuple[str, date]]) -> PickCounts:
    every = set(picks)
    people = frozenset(person for person, _ in every if person)
    return PickCounts(len(every), people, frozenset(day for _, day in every))


def _rank(task: KnownTask) -> tuple[int, str]:
    return -sum(each.picks for each in task.right.values()), task.task


def join_counts(counts: Collection[PickCounts]) -> PickCounts:
    """Return the counts of several tasks together."""
    return PickCounts(
        sum(each.picks for each in counts),
        frozenset().union(*(each.people for each in counts)),
        frozenset().union(*(each.days for each in counts)),
    )
