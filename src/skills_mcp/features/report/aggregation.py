"""Aggregates events into a report, one at a time and in any order.  Pure.

Memory grows with the distinct tasks, skills, scripts and people, and by one number per
event to detect duplicates; never with the texts of all events.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from hashlib import blake2b
from heapq import nsmallest
from itertools import combinations, groupby, takewhile
from statistics import median
from typing import Any, Protocol, TypeVar

from skills_mcp.events.heartbeat import Heartbeat, ServedSource, is_heartbeat, parse_heartbeat
from skills_mcp.events.received_event import MAX_FIELD_LENGTH, InvalidEventError
from skills_mcp.events.tracker import EventType
from skills_mcp.features.report.event_rows import (
    MAX_TEXT_LENGTH,
    RecordedTask,
    UsageRow,
    clean_line,
    identify,
    parse_row,
    parse_task,
)
from skills_mcp.features.report.usage_report import (
    Answers,
    Counts,
    Feedback,
    Fleet,
    FleetCommit,
    FleetVersion,
    Gap,
    KeywordCount,
    PartUse,
    PeriodAnswers,
    Refreshes,
    Release,
    Rivalry,
    ScriptUse,
    SkillUse,
    Span,
    Totals,
    Unrecorded,
    Unserved,
    UsageReport,
)
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import answered_candidates, score_and_decide
from skills_mcp.routing.tokenizer import fold, tokenize
from skills_mcp.skills.skill_index import INDEX, ROOT

OTHERS = "(others)"
"""Stands for the names beyond the limit."""

MAX_NAMES = 50_000
"""Distinct names in one tally, as many as the largest catalogue has skills.

A sender chooses the names, and a tally of so many takes 100 MB.
"""

_MAX_COMMENTS = 5  # of a skill at a commit: more of them repeat each other

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_DAY_TICKS = timedelta(days=1) // _TICK
_EARLIEST_TICK = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _TICK
_LATEST_TICK = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _TICK

_BROKEN = 0.5  # of the runs: a script may have a reason to fail less often

Answer = Callable[[str], tuple[str, ...]]
"""Routes a task now: paths of one skill, several candidates or none."""

Pair = tuple[str, str]

Packed = Mapping[str, Any]

Key = TypeVar("Key")
Value = TypeVar("Value")

_MOST_OF_ONE = 100  # names beside one pair or task; a report shows a few
_MOST_PAIRED = 8  # candidates of an answer; an agent is offered fewer
_MAX_KEYWORDS = 8  # of a pair: the first of them are those to change
_MOST_TRIED = 200  # tasks that are routed again: lists are shown to 40 rows


def derive_tick(moment: datetime) -> int:
    """Microseconds since the epoch: cheap to pack and compare."""
    return (moment - _EPOCH) // _TICK


def derive_day(tick: int) -> date:
    """The day of a tick, in UTC.

    >>> derive_day(derive_tick(datetime(2026, 11, 3, 23, 59, tzinfo=UTC)))
    datetime.date(2026, 11, 3)
    """
    return _find_day(tick // _DAY_TICKS)


@lru_cache(maxsize=4096)
def _find_day(number: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + number)


class BoundedTally(defaultdict[Key, Value]):
    """Counts by name; beyond `limit` names, new ones count as `others`."""

    def __init__(self, make: Callable[[], Value], others: Key, limit: int = MAX_NAMES) -> None:
        super().__init__(make)
        self._make = make
        self._others = others
        self._most = limit

    def __missing__(self, key: Key) -> Value:
        key = key if len(self) < self._most else self._others
        return self.setdefault(key, self._make())


def add_bounded(counts: Counter[Key], name: Key, count: int = 1, limit: int = MAX_NAMES) -> None:
    """Add to a count, unless the name is new and the limit is reached."""
    if name in counts or len(counts) < limit:
        counts[name] += count


@dataclass(frozen=True, slots=True)
class CurrentSkill:
    """The part of a served skill used by a report."""

    path: str
    description: str
    keywords: tuple[str, ...]
    is_above_others: bool = False
    """Whether it is an index, delivered with the skills below it."""


@dataclass(slots=True)
class TickRange:
    """First and last tick of some events."""

    first: int = _LATEST_TICK
    last: int = _EARLIEST_TICK

    def add(self, moment: datetime) -> None:
        tick = derive_tick(moment)
        self.merge((tick, tick))

    def pack(self) -> tuple[int, int]:
        return self.first, self.last

    def merge(self, packed: tuple[int, int]) -> None:
        first, last = packed
        self.first = min(self.first, first)
        self.last = max(self.last, last)


@dataclass(slots=True)
class _SkillCounts:
    served: int = 0
    unchanged: int = 0
    picked: int = 0
    files: int = 0
    seen: TickRange = field(default_factory=TickRange)


class SkillTally:
    def __init__(self) -> None:
        self._used = BoundedTally(_SkillCounts, OTHERS)
        self._candidates: Counter[str] = Counter()

    def add_served(self, row: UsageRow) -> None:
        used = self._use(row)
        used.served += 1
        used.unchanged += row.is_set("unchanged")
        used.picked += row.is_set("was_ambiguous")

    def add_file(self, row: UsageRow) -> None:
        self._use(row).files += 1

    def add_ambiguous(self, row: UsageRow) -> None:
        self._add_candidates(dict.fromkeys(row.texts("candidates"), 1))

    def _add_candidates(self, counts: Mapping[str, int]) -> None:
        for path, count in counts.items():
            add_bounded(self._candidates, path, count)

    def _use(self, row: UsageRow) -> _SkillCounts:
        used = self._used[row.text("skill_path")]
        used.seen.add(row.moment)
        return used

    def pack(self) -> Packed:
        used = [
            [
                path,
                counts.served,
                counts.unchanged,
                counts.picked,
                counts.files,
                counts.seen.pack(),
            ]
            for path, counts in self._used.items()
        ]
        return {"used": used, "candidates": self._candidates}

    def merge(self, packed: Packed) -> None:
        self._add_candidates(packed["candidates"])
        for path, served, unchanged, picked, files, seen in packed["used"]:
            used = self._used[path]
            used.served += served
            used.unchanged += unchanged
            used.picked += picked
            used.files += files
            used.seen.merge(seen)

    def derive(self, offered: Mapping[str, CurrentSkill] | None) -> tuple[SkillUse, ...]:
        order = sorted(self._used.items(), key=lambda item: (-item[1].served, item[0]))
        return tuple(
            SkillUse(
                skill=path,
                served=used.served,
                unchanged=used.unchanged,
                picked=used.picked,
                files=used.files,
                last_seen=derive_day(used.seen.last),
                is_offered=None if offered is None else path in offered,
            )
            for path, used in order
        )

    def derive_unserved(
        self, offered: Mapping[str, CurrentSkill] | None
    ) -> tuple[Unserved, ...] | None:
        """Skills without a use, by path; None if no skills are known."""
        if offered is None:
            return None
        served = {path for path, used in self._used.items() if used.served}
        return tuple(
            Unserved(
                skill=skill.path,
                description=skill.description,
                keywords=skill.keywords,
                candidate=self._candidates[skill.path],
            )
            for _, skill in sorted(offered.items())
            if skill.path not in served and not skill.is_above_others
        )


@dataclass(slots=True)
class _FeedbackCounts:
    served: int = 0
    useful: int = 0
    not_useful: int = 0
    comments: dict[tuple[bool, str], int] = field(default_factory=dict)
    """From a comment and its kind to its last tick."""
    seen: TickRange = field(default_factory=TickRange)

    def comment(self, written: Iterable[tuple[bool, str, int]]) -> None:
        """Add comments, and drop the least important beyond the limit."""
        comments = self.comments
        for is_complaint, text, tick in written:
            key = is_complaint, text
            comments[key] = max(tick, comments.get(key, tick))
        if len(comments) > _MAX_COMMENTS:
            retained = self.order()[:_MAX_COMMENTS]
            self.comments = {key: comments[key] for key in retained}

    def order(self) -> list[tuple[bool, str]]:
        return sorted(self.comments, key=self._rank, reverse=True)

    def _rank(self, key: tuple[bool, str]) -> tuple[bool, int, str]:
        return key[0], self.comments[key], key[1]


class FeedbackTally:
    """Feedback on skills, by commit."""

    def __init__(self) -> None:
        self._judged = BoundedTally(_FeedbackCounts, (OTHERS, ""))

    def add_served(self, row: UsageRow) -> None:
        self._judge(row).served += 1

    def add(self, row: UsageRow) -> None:
        judged = self._judge(row)
        is_useful = row.is_set("useful")
        judged.useful += is_useful
        judged.not_useful += not is_useful
        if text := row.text("comment", MAX_TEXT_LENGTH):
            judged.comment([(not is_useful, text, derive_tick(row.moment))])

    def _judge(self, row: UsageRow) -> _FeedbackCounts:
        judged = self._judged[row.text("skill_path"), row.commit]
        judged.seen.add(row.moment)
        return judged

    def pack(self) -> Packed:
        judged = [
            [
                *(path, commit, counts.served, counts.useful, counts.not_useful),
                [
                    [is_complaint, text, tick]
                    for (is_complaint, text), tick in counts.comments.items()
                ],
                counts.seen.pack(),
            ]
            for (path, commit), counts in self._judged.items()
        ]
        return {"judged": judged}

    def merge(self, packed: Packed) -> None:
        for path, commit, served, useful, bad, comments, seen in packed["judged"]:
            judged = self._judged[path, commit]
            judged.served += served
            judged.useful += useful
            judged.not_useful += bad
            judged.seen.merge(seen)
            judged.comment(comments)

    def derive(self) -> tuple[Feedback, ...]:
        """Most complaints first, and per skill by time."""
        complaints: Counter[str] = Counter()
        for (path, _), judged in self._judged.items():
            complaints[path] += judged.not_useful
        rows = [
            Feedback(
                skill=path,
                commit=commit,
                served=judged.served,
                useful=judged.useful,
                not_useful=judged.not_useful,
                comments=tuple(text for _, text in judged.order()),
                first_seen=derive_day(judged.seen.first),
                last_seen=derive_day(judged.seen.last),
            )
            for (path, commit), judged in sorted(
                self._judged.items(), key=lambda item: (item[1].seen.first, item[0])
            )
            if judged.useful + judged.not_useful
        ]
        return tuple(sorted(rows, key=lambda row: (-complaints[row.skill], row.skill)))


@dataclass(slots=True)
class _RunCounts:
    runs: int = 0
    failures: int = 0
    timeouts: int = 0
    cancelled: int = 0
    durations: "array[int]" = field(default_factory=lambda: array("q"))
    seen: TickRange = field(default_factory=TickRange)


class ScriptTally:
    """Runs of scripts and commands, by commit."""

    def __init__(self) -> None:
        self._ran = BoundedTally(_RunCounts, (OTHERS, "", ""))

    def add(self, row: UsageRow) -> None:
        ran = self._ran[row.text("skill_path"), row.text("file"), row.commit]
        ran.seen.add(row.moment)
        ran.runs += 1
        if row.is_set("timed_out"):
            ran.timeouts += 1
        elif not row.is_set("success"):
            is_cancelled = "exit_code" in row.data and row.data["exit_code"] is None
            ran.cancelled += is_cancelled
            ran.failures += not is_cancelled
        if (duration := row.number("duration_ms")) is not None:
            ran.durations.append(duration)

    def pack(self) -> Packed:
        ran = [
            [
                *key,
                *(counts.runs, counts.failures, counts.timeouts, counts.cancelled),
                list(counts.durations),
                counts.seen.pack(),
            ]
            for key, counts in self._ran.items()
        ]
        return {"ran": ran}

    def merge(self, packed: Packed) -> None:
        for skill, file, commit, *counts, durations, seen in packed["ran"]:
            ran = self._ran[skill, file, commit]
            runs, failures, timeouts, cancelled = counts
            ran.runs += runs
            ran.failures += failures
            ran.timeouts += timeouts
            ran.cancelled += cancelled
            ran.durations.extend(durations)
            ran.seen.merge(seen)

    def derive(self) -> tuple[ScriptUse, ...]:
        """Most failures first, and per script by time."""
        order = sorted(self._ran.items(), key=lambda item: (item[0][:2], item[1].seen.first))
        uses = [_derive_use(*key, ran) for key, ran in order]
        scripts = [
            _mark_break(list(runs))
            for _, runs in groupby(uses, key=lambda use: (use.skill, use.file))
        ]
        scripts.sort(key=lambda runs: -sum(use.failures + use.timeouts for use in runs))
        return tuple(use for runs in scripts for use in runs)


def _derive_use(skill: str, file: str, commit: str, ran: _RunCounts) -> ScriptUse:
    return ScriptUse(
        skill=skill,
        file=file,
        commit=commit,
        runs=ran.runs,
        failures=ran.failures,
        timeouts=ran.timeouts,
        cancelled=ran.cancelled,
        median_ms=round(median(ran.durations)) if ran.durations else None,
        first_seen=derive_day(ran.seen.first),
        is_broken_since=False,
    )


def _mark_break(uses: list[ScriptUse]) -> list[ScriptUse]:
    """Mark the first of the newest commits with only failures."""
    broken = len(list(takewhile(_is_broken, reversed(uses))))
    if broken:
        uses[-broken] = replace(uses[-broken], is_broken_since=True)
    return uses


def _is_broken(use: ScriptUse) -> bool:
    failed = use.failures + use.timeouts
    return 0 < failed >= _BROKEN * (use.runs - use.cancelled)


@dataclass(slots=True)
class NewestText:
    """The newest of texts in any order."""

    tick: int = _EARLIEST_TICK
    text: str = ""

    def add(self, tick: int, text: str) -> None:
        self.tick, self.text = max((self.tick, self.text), (tick, text))


@dataclass(slots=True)
class _TaskCounts:
    """Counts of an unmatched task; flat, since there are very many."""

    count: int
    people: Collection[str]
    tick: int
    """Of the newest wording."""
    text: str
    near_tick: int
    near: Sequence[str]
    """The last near misses: the same for the same words."""

    def merge(self, other: "_TaskCounts") -> None:
        self.count += other.count
        self.people = {*self.people, *other.people}
        newest = max((self.tick, self.text), (other.tick, other.text))
        self.tick, self.text = newest
        near = max((self.near_tick, self.near), (other.near_tick, other.near))
        self.near_tick, self.near = near


class GapTally:
    """Unmatched tasks; tasks of the same words count as one."""

    def __init__(self) -> None:
        self._found: dict[str, _TaskCounts] = {}

    def add(self, row: UsageRow) -> None:
        task = parse_task(row)
        if not task.mark:
            return
        people, tick = {row.person} - {""}, derive_tick(row.moment)
        near = list(row.texts("near"))
        counts = _TaskCounts(1, people, tick, task.text, tick, near)
        self._add(derive_task_key(task), counts)

    def _add(self, mark: str, counts: _TaskCounts) -> None:
        """Beyond the limit, a new task counts as one without a text."""
        if known := self._found.get(mark):
            known.merge(counts)
        elif len(self._found) < MAX_NAMES:
            self._found[mark] = counts

    def pack(self) -> Packed:
        found = [
            [
                *(mark, counts.count, sorted(counts.people), counts.tick, counts.text),
                *(counts.near_tick, counts.near),
            ]
            for mark, counts in self._found.items()
        ]
        return {"found": found}

    def merge(self, packed: Packed) -> None:
        for mark, *counts in packed["found"]:
            self._add(mark, _TaskCounts(*counts))

    def derive_unrecorded(self, no_match: int) -> Unrecorded:
        """Unmatched tasks without a text."""
        hashed = [task.count for task in self._found.values() if not task.text]
        recorded = sum(task.count for task in self._found.values()) - sum(hashed)
        return Unrecorded(
            count=no_match - recorded,
            different=len(hashed),
            most=max(hashed, default=0),
        )

    def derive(self, answer: Answer | None, limit: int | None = None) -> tuple[Gap, ...]:
        """The most frequent first, up to a limit."""
        tasks = self._found.values()
        order = nsmallest(len(tasks) if limit is None else limit, tasks, _rank)
        return tuple(
            Gap(
                task=found.text,
                count=found.count,
                people=len(found.people),
                last_seen=derive_day(found.tick),
                near=tuple(found.near),
                today=_route(answer, found.text, index) if answer else None,
            )
            for index, found in enumerate(order)
        )


def _rank(found: _TaskCounts) -> tuple[int, str, int]:
    return -found.count, found.text, found.tick


@dataclass(slots=True)
class _AmbiguousTask:
    """Ambiguous answers to a task of a person on a day, and the picks."""

    candidates: Counter[tuple[str, ...]] = field(default_factory=Counter)
    picks: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _PairCounts:
    """How often two skills were candidates of the same answer."""

    days: Counter[date] = field(default_factory=Counter)
    keywords: Counter[str] = field(default_factory=Counter)
    newest: NewestText = field(default_factory=NewestText)

    def add_keywords(self, counts: Mapping[str, int]) -> None:
        for word, count in counts.items():
            add_bounded(self.keywords, word, count, _MOST_OF_ONE)


class RivalryTally:
    """Pairs of candidates of the same ambiguous answers."""

    def __init__(self) -> None:
        self._met = BoundedTally(_PairCounts, (OTHERS, OTHERS))
        self._ambiguous_tasks = BoundedTally(_AmbiguousTask, OTHERS)
        self._picks = BoundedTally(Counter[str], (OTHERS, OTHERS))
        """Those that were packed."""

    def add_ambiguous(self, row: UsageRow) -> None:
        candidates = row.texts("candidates")[:_MOST_PAIRED]
        task = parse_task(row)
        if task.mark:
            ambiguous = self._ambiguous_tasks[_key(row, task)]
            add_bounded(ambiguous.candidates, tuple(sorted(candidates)), limit=_MOST_OF_ONE)
        matched = row.lists("matched_keywords")[:_MOST_PAIRED]
        for pair, shared in _pairs(candidates, matched):
            met = self._met[pair]
            met.days[row.moment.date()] += 1
            met.add_keywords(dict.fromkeys(shared, 1))
            met.newest.add(derive_tick(row.moment), task.text)

    def add_pick(self, row: UsageRow) -> None:
        task = parse_task(row)
        if task.mark:
            picks = self._ambiguous_tasks[_key(row, task)].picks
            add_bounded(picks, row.text("skill_path"), limit=_MOST_OF_ONE)

    def pack(self) -> Packed:
        picks = self._count_picks()
        met = [
            [
                *(pair, {day.isoformat(): n for day, n in counts.days.items()}),
                *(
                    counts.keywords,
                    counts.newest.tick,
                    counts.newest.text,
                    picks.get(pair),
                ),
            ]
            for pair, counts in self._met.items()
        ]
        return {"met": met}

    def merge(self, packed: Packed) -> None:
        for (first, second), days, keywords, tick, text, picks in packed["met"]:
            pair = first, second
            met = self._met[pair]
            for day, count in days.items():
                met.days[date.fromisoformat(day)] += count
            met.add_keywords(keywords)
            met.newest.add(tick, text)
            for path, count in (picks or {}).items():
                add_bounded(self._picks[pair], path, count, _MOST_OF_ONE)

    def pack_unfinished(self) -> Packed:
        """Serialise tasks with picks still to come."""
        unfinished = [
            [key, [[pair, n] for pair, n in task.candidates.items()], task.picks]
            for key, task in self._ambiguous_tasks.items()
        ]
        return {"asked": unfinished}

    def reopen(self, packed: Packed) -> None:
        """Load a serialised day to continue it with more picks."""
        self._picks.clear()
        for key, found, picks in packed["asked"]:
            ambiguous = self._ambiguous_tasks[key]
            ambiguous.candidates.update({tuple(pair): n for pair, n in found})
            ambiguous.picks.update(picks)

    def derive(self, span: Span, answer: Answer | None) -> tuple[Rivalry, ...]:
        picks = self._count_picks()
        order = sorted(self._met.items(), key=lambda item: (-item[1].days.total(), item[0]))
        return tuple(
            _rivalry(pair, met, picks.get(pair), span, _route(answer, text, index))
            for index, (pair, met) in enumerate(order)
            for text in [met.newest.text]
        )

    def _count_picks(self) -> dict[Pair, Counter[str]]:
        counted: defaultdict[Pair, Counter[str]] = defaultdict(Counter)
        for pair, packed in self._picks.items():
            counted[pair].update(packed)
        for ambiguous in self._ambiguous_tasks.values():
            pairs: Counter[Pair] = Counter()
            for candidates, count in ambiguous.candidates.items():
                for pair in combinations(dict.fromkeys(candidates), 2):
                    pairs[pair] += count
            for pair, count in pairs.items():
                counted[pair].update({path: min(ambiguous.picks[path], count) for path in pair})
        return counted


def _rivalry(
    pair: Pair,
    met: _PairCounts,
    picks: Counter[str] | None,
    span: Span,
    today: tuple[str, ...] | None,
) -> Rivalry:
    periods: Counter[date] = Counter()
    for day, count in met.days.items():
        periods[span.start_of(day)] += count
    keywords = sorted(met.keywords.items(), key=lambda item: (-item[1], item[0]))
    return Rivalry(
        skills=pair,
        count=met.days.total(),
        picks=None if picks is None else (picks[pair[0]], picks[pair[1]]),
        keywords=tuple(KeywordCount(*keyword) for keyword in keywords[:_MAX_KEYWORDS]),
        days=tuple(sorted(periods.items())),
        last_seen=derive_day(met.newest.tick),
        task=met.newest.text,
        is_still=None if today is None else set(pair) <= set(today),
    )


def _pairs(
    candidates: tuple[str, ...], matched: tuple[tuple[str, ...], ...]
) -> Iterator[tuple[Pair, set[str]]]:
    """Each pair of candidates, with their common keywords."""
    has_keywords = len(matched) == len(candidates)
    words = dict(zip(candidates, map(set, matched), strict=True)) if has_keywords else {}
    for first, second in combinations(sorted(set(candidates)), 2):
        yield (first, second), words.get(first, set()) & words.get(second, set())


def _key(row: UsageRow, task: RecordedTask) -> str:
    """A hash for a task of a person; the text would take much memory.

    A pick follows its answer within minutes, so the figures of a day depend on the
    events of
    that day alone.
    """
    named = f"{row.moment.date()}\0{row.person}\0{task.mark}"
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _route(answer: Answer | None, text: str, index: int) -> tuple[str, ...] | None:
    return answer(text) if answer and text and index < _MOST_TRIED else None


def derive_task_key(task: RecordedTask) -> str:
    """A key shared by tasks of the same words, in any order and form."""
    return _words(task.text) if task.text else task.mark


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    return " ".join(sorted(tokenize(text))) or fold(text)


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


FLEET_DAYS = 7
"""A server without a heartbeat for so long has left the fleet."""


_MAX_COMMITS, _MAX_VERSIONS = 1_000, 100
"""The most frequent; a fleet has a few, and a sender may invent a million."""


class FleetTally:
    """The newest heartbeat of each server, and the commits of all."""

    def __init__(self) -> None:
        self._newest: dict[str, Heartbeat] = {}
        self._names: dict[str, str] = {}

    def add(self, beat: Heartbeat) -> None:
        known = self._newest.setdefault(beat.server_id, beat)
        if known.happened_at < beat.happened_at:
            self._newest[beat.server_id] = beat
        for source in beat.sources:
            if source.commit:
                self._names[source.commit] = source.repository or source.mount

    @property
    def names(self) -> dict[str, str]:
        """From a commit to its repository, or else its mount."""
        return self._names

    def derive(self, releases: Sequence[Release]) -> Fleet | None:
        """The fleet in the days up to the newest heartbeat."""
        if not self._newest:
            return None
        newest = max(beat.happened_at for beat in self._newest.values())
        since = newest - timedelta(days=FLEET_DAYS)
        beats = [heartbeat for heartbeat in self._newest.values() if heartbeat.happened_at >= since]
        return derive_fleet(beats, releases)


def derive_fleet(beats: Sequence[Heartbeat], releases: Sequence[Release] = ()) -> Fleet:
    first_seen = {entry.commit: entry.first_seen for entry in releases}
    served: defaultdict[tuple[str, str], list[ServedSource]] = defaultdict(list)
    for beat in beats:
        for entry in beat.sources:
            if entry.commit:
                served[entry.repository or entry.mount, entry.commit].append(entry)
    commits = [
        FleetCommit(
            source=source,
            commit=commit,
            servers=len(entry),
            failing=sum(one.last_error is not None for one in entry),
            oldest_sync_seconds=max(
                (one.age_seconds for one in entry if one.age_seconds is not None),
                default=None,
            ),
            first_seen=first_seen.get(commit),
        )
        for (source, commit), entry in served.items()
    ]
    commits = nsmallest(_MAX_COMMITS, commits, lambda entry: -entry.servers)
    versions = Counter(beat.version for beat in beats)
    return Fleet(
        days=FLEET_DAYS,
        servers=len(beats),
        commits=tuple(sorted(commits, key=lambda c: (c.source, -c.servers, c.commit))),
        versions=tuple(
            FleetVersion(version=version, servers=count)
            for version, count in nsmallest(
                _MAX_VERSIONS,
                versions.items(),
                key=lambda item: (-item[1], item[0]),
            )
        ),
    )


@dataclass(frozen=True, slots=True)
class CurrentSkills:
    """The served skills, for a comparison with the events."""

    skills: tuple[CurrentSkill, ...]
    answer: Answer


# Commits with their groups; each has sums of its own, which take ten times a name.
_MOST_PARTS = 10_000

_Part = tuple[str, str]
"""A commit and a group; each may be empty."""


class PackedTally(Protocol):
    """A serialisable, mergeable tally."""

    def pack(self) -> Packed: ...

    def merge(self, packed: Packed) -> None: ...


class Aggregation:
    """All sums of a span."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._seen: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._newest: datetime | None = None
        self._oldest: datetime | None = None
        self._before = TotalsTally()
        self._parts = BoundedTally(PartTally, ("", ""), _MOST_PARTS)
        self._answers: defaultdict[date, Counter[str]] = defaultdict(Counter)
        self._people: defaultdict[date, set[str]] = defaultdict(set)
        self._releases = BoundedTally(TickRange, OTHERS)
        self._refreshes: Counter[bool] = Counter()
        self._fleet_tally = FleetTally()
        self._gap_tally = GapTally()
        self._rivalry_tally = RivalryTally()
        self._skill_tally = SkillTally()
        self._feedback_tally = FeedbackTally()
        self._script_tally = ScriptTally()
        self._adders: Mapping[EventType, Callable[[UsageRow], None]] = {
            "skill_served": self._add_served,
            "ambiguous": self._add_ambiguous,
            "no_match": self._add_no_match,
            "asset_served": self._skill_tally.add_file,
            "script_executed": self._script_tally.add,
            "skill_feedback": self._feedback_tally.add,
            "refresh": self._add_refresh,
            "events_dropped": self._add_dropped,
        }

    def add(self, raw: object) -> None:
        """Count an event; an invalid one counts as unreadable."""
        if is_heartbeat(raw):
            self._add_heartbeat(raw)
            return
        row = parse_row(raw)
        if row is None:
            self._counts["unreadable"] += 1
            return
        self._newest = max(self._newest or row.moment, row.moment)
        self._oldest = min(self._oldest or row.moment, row.moment)
        day = row.moment.date()
        if day not in self._span:
            self._add_outside(raw, row)
        elif self._is_repeated(raw):
            self._counts["repeated"] += 1
        else:
            self._counts["events"] += 1
            self._count(row, day)

    def _add_heartbeat(self, raw: Mapping[str, Any]) -> None:
        try:
            self._fleet_tally.add(parse_heartbeat(raw))
        except InvalidEventError:
            self._counts["unreadable"] += 1

    def _add_outside(self, raw: object, row: UsageRow) -> None:
        self._counts["outside"] += 1
        before = self._span.before
        if before and row.moment.date() in before and not self._is_repeated(raw):
            self._before.add(row)
            self._parts[row.commit, row.group].before.add(row)

    def _is_repeated(self, raw: object) -> bool:
        mark = identify(raw)
        if mark in self._seen:
            return True
        self._seen.add(mark)
        return False

    def _count(self, row: UsageRow, day: date) -> None:
        if row.person:
            add_names(self._people[day], (row.person,))
        if row.commit:
            self._releases[row.commit].add(row.moment)
        self._parts[row.commit, row.group].add(row)
        self._adders[row.kind](row)

    def _add_served(self, row: UsageRow) -> None:
        self._skill_tally.add_served(row)
        self._feedback_tally.add_served(row)
        if row.is_set("was_ambiguous"):
            self._rivalry_tally.add_pick(row)
        if is_task(row):
            self._answers[row.moment.date()][row.kind] += 1

    def _add_no_match(self, row: UsageRow) -> None:
        self._add_task(row)
        self._gap_tally.add(row)

    def _add_ambiguous(self, row: UsageRow) -> None:
        self._add_task(row)
        self._rivalry_tally.add_ambiguous(row)
        self._skill_tally.add_ambiguous(row)

    def _add_task(self, row: UsageRow) -> None:
        self._answers[row.moment.date()][row.kind] += 1
        self._counts["untold_tasks"] += not parse_task(row).text

    def _add_refresh(self, row: UsageRow) -> None:
        self._refreshes[row.is_set("success")] += 1

    def _add_dropped(self, row: UsageRow) -> None:
        self._counts["dropped"] += row.number("count") or 0

    def pack(self) -> tuple[Packed, Packed]:
        """Serialise one day: the main figures, and all others."""
        packed = {part: item.totals.pack() for part, item in self._parts.items()}
        parts = [[*part, item] for part, item in packed.items()]
        totals = TotalsTally()
        for item in packed.values():
            totals.merge(item)
        body = {
            "counts": self._counts,
            "releases": {name: item.pack() for name, item in self._releases.items()},
            "refreshes": [self._refreshes[False], self._refreshes[True]],
            **{name: tally.pack() for name, tally in self._tallies().items()},
        }
        return {**totals.pack(), "parts": parts}, body

    def pack_unfinished(self) -> Packed:
        """Serialise the state `reopen` needs in addition."""
        return self._rivalry_tally.pack_unfinished()

    def reopen(self, day: date, totals: Packed, body: Packed, unfinished: Packed) -> None:
        """Load a serialised day to continue it with late events."""
        self.merge(day, totals, body)
        self._rivalry_tally.reopen(unfinished)

    def merge(self, day: date, totals: Packed, body: Packed) -> None:
        """Add a serialised day of the span."""
        self._counts.update(body["counts"])
        if totals["answers"]:
            self._answers[day].update(totals["answers"])
        if totals["people"]:
            add_names(self._people[day], totals["people"])
        for commit, group, packed in totals["parts"]:
            self._parts[commit, group].merge(day, packed)
        for commit, packed in body["releases"].items():
            self._releases[commit].merge(packed)
        failures, successes = body["refreshes"]
        self._refreshes.update({False: failures, True: successes})
        for name, tally in self._tallies().items():
            tally.merge(body[name])

    def merge_before(self, totals: Packed) -> None:
        """Add the serialised main figures of a day before the span."""
        self._before.merge(totals)
        for commit, group, packed in totals["parts"]:
            self._parts[commit, group].before.merge(packed)

    def bound(self, oldest: datetime, newest: datetime, outside: int, uncounted: int = 0) -> None:
        """Set the time range of the events, and how many are excluded or not yet counted."""
        self._oldest, self._newest = oldest, newest
        self._counts["outside"] = outside
        self._counts["uncounted"] = uncounted

    def _tallies(self) -> Mapping[str, PackedTally]:
        return {
            "gaps": self._gap_tally,
            "rivalries": self._rivalry_tally,
            "skills": self._skill_tally,
            "feedback": self._feedback_tally,
            "scripts": self._script_tally,
        }

    def derive_sources(self, names: Mapping[str, str]) -> tuple[PartUse, ...]:
        """Main figures of each source, the most used first; `names` by commit."""
        return self._derive_parts(lambda part: names.get(part[0], ""))

    def _derive_known_sources(self) -> tuple[PartUse, ...] | None:
        names = self._fleet_tally.names
        return self.derive_sources(names) if names else None

    def _derive_groups(self) -> tuple[PartUse, ...] | None:
        if not any(group for _, group in self._parts):
            return None
        return self._derive_parts(lambda part: part[1])

    def _derive_parts(self, name_of: Callable[[_Part], str]) -> tuple[PartUse, ...]:
        tallies: defaultdict[str, PartTally] = defaultdict(PartTally)
        for part, tally in self._parts.items():
            tallies[name_of(part)].join(tally)
        span, before = self._covered_span, self._derive_before()
        uses = [tally.derive(name, span, before) for name, tally in tallies.items()]
        return tuple(sorted(uses, key=lambda use: (-use.answers.tasks, use.name)))

    @property
    def _covered_span(self) -> Span:
        """The span without the days before the first event."""
        days = self._answers.keys() | self._people.keys()
        return self._span.starting(min(days, default=self._span.last))

    def derive(self, current: CurrentSkills | None, max_gaps: int | None = None) -> UsageReport:
        """Derive the report.

        `current` adds today's answers; None for `max_gaps` reports all unmatched tasks.
        """
        span = self._covered_span
        answer = current.answer if current else None
        answers = count_answers(sum(self._answers.values(), Counter()))
        offered = {skill.path: skill for skill in current.skills} if current else None
        return UsageReport(
            since=self._span.first,
            until=self._span.last,
            period=span.period,
            counts=self._derive_counts(),
            people=len(set().union(*self._people.values())),
            answers=answers,
            before=self._derive_before(),
            periods=self._derive_periods(span) if self._answers or self._people else (),
            gaps=self._gap_tally.derive(answer, max_gaps),
            unrecorded=self._gap_tally.derive_unrecorded(answers.no_match),
            rivalries=self._rivalry_tally.derive(span, answer),
            skills=self._skill_tally.derive(offered),
            unserved=self._skill_tally.derive_unserved(offered),
            feedback=self._feedback_tally.derive(),
            scripts=self._script_tally.derive(),
            releases=self._derive_releases(),
            refreshes=Refreshes(count=self._refreshes.total(), failures=self._refreshes[False]),
            groups=self._derive_groups(),
            sources=self._derive_known_sources(),
            fleet=self._fleet_tally.derive(self._derive_releases()),
        )

    def _derive_before(self) -> Totals | None:
        before = self._span.before
        if not before or not self._oldest or self._oldest.date() > before.last:
            return None
        is_complete = self._oldest.date() <= before.first
        return self._before.derive(before, is_complete=is_complete)

    def _derive_counts(self) -> Counts:
        count = self._counts
        return Counts(
            events=count["events"],
            repeated=count["repeated"],
            outside=count["outside"],
            unreadable=count["unreadable"],
            dropped=count["dropped"],
            untold_tasks=count["untold_tasks"],
            uncounted=count["uncounted"],
            newest=self._newest.date() if self._newest else None,
        )

    def _derive_periods(self, span: Span) -> tuple[PeriodAnswers, ...]:
        answers: defaultdict[date, Counter[str]] = defaultdict(Counter)
        people: defaultdict[date, set[str]] = defaultdict(set)
        for day, counted in self._answers.items():
            answers[span.start_of(day)].update(counted)
        for day, persons in self._people.items():
            people[span.start_of(day)] |= persons
        return tuple(
            PeriodAnswers(start, count_answers(answers[start]), len(people[start]))
            for start in span.periods()
        )

    def _derive_releases(self) -> tuple[Release, ...]:
        order = sorted(self._releases.items(), key=lambda item: (item[1].first, item[0]))
        return tuple(
            Release(commit=commit, first_seen=derive_day(seen.first)) for commit, seen in order
        )


def derive_current_skills(snapshot: Snapshot) -> CurrentSkills:
    skills = (
        CurrentSkill(
            path=clean_line(skill.path, MAX_FIELD_LENGTH),
            description=clean_line(skill.description, MAX_TEXT_LENGTH),
            keywords=tuple(clean_line(word, MAX_FIELD_LENGTH) for word in skill.keywords),
            is_above_others=_is_above_others(skill.path),
        )
        for skill in snapshot.index
    )
    return CurrentSkills(tuple(skills), partial(_answer_paths, snapshot))


def _is_above_others(path: str) -> bool:
    return path == ROOT or path.rpartition("/")[2] == INDEX


def _answer_paths(snapshot: Snapshot, task: str) -> tuple[str, ...]:
    decision = score_and_decide(snapshot.matcher, task, snapshot.config.matching)
    return tuple(
        clean_line(candidate.skill.path, MAX_FIELD_LENGTH)
        for candidate in answered_candidates(decision)
    )
