"""Implicit relevance feedback: tasks and the skills agents picked for them.  Pure.

A list of candidates and the near misses of a task leave the choice to the agent. Its
pick is right for the task, unless it says afterwards that the skill did not help. A
skill named by the agent, from no list, is right only if it says that the skill helped.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from operator import itemgetter

from skills_mcp.events.privacy import HASH_PREFIX
from skills_mcp.features.report import event_rows
from skills_mcp.features.report.day_figures import derive_task_key, derive_tick
from skills_mcp.features.report.figure_queries import Answer, FigureQueries, FigureTable
from skills_mcp.features.report.usage_report import Rivalry, Span
from skills_mcp.routing import lexicon
from skills_mcp.routing.matcher import Matcher, TermWeight
from skills_mcp.routing.tokenizer import fold
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import SkillIndex

SESSION_HOURS = 4
"""Maximum time from serving a skill to feedback on it: a morning.

An event names a person and no session.
"""

_SESSION_TICKS = timedelta(hours=SESSION_HOURS) // timedelta(microseconds=1)
_MAX_TASK_LENGTH = 10_000  # characters, which is what an event holds at most

PICK_KINDS = frozenset({"skill_served", "ambiguous", "skill_feedback"})
"""The event types with evidence on picks."""


@dataclass(frozen=True, slots=True)
class PickCounts:
    picks: int
    """Distinct people and days; a repetition in a session counts once."""
    people: frozenset[str]
    days: frozenset[date]


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task with its right and wrong skills."""

    task: str
    """The newest wording, safe to display."""
    right: Mapping[str, PickCounts]
    """By path of the skill, the most picked first."""
    wrong: tuple[str, ...]
    """Paths of unhelpful skills."""


@dataclass(frozen=True, slots=True)
class AnsweredTask:
    """A task with a single answer and no feedback."""

    task: str
    skill: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRecord:
    """The picks of a span of events."""

    tasks: tuple[KnownTask, ...]
    """Most picks first."""
    answered: tuple[AnsweredTask, ...]
    """The most frequent first."""
    picks: int
    """All picks, readable or not."""
    unreadable: int
    """Picks with a hashed or unrecorded task."""
    rivalries: tuple[Rivalry, ...]
    """Pairs of candidates of the same answers."""


@dataclass(slots=True)
class _TaskPicks:
    tick: int = 0
    text: str = ""
    answers: Counter[str] = field(default_factory=Counter)
    """How often each skill was the single answer."""
    picks: defaultdict[str, set[tuple[str, date]]] = field(default_factory=lambda: defaultdict(set))
    named: defaultdict[str, set[tuple[str, date]]] = field(default_factory=lambda: defaultdict(set))
    """Skills requested by path, and in no list."""
    ratings: defaultdict[str, Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))


class PickTally:
    """Aggregates the events of a span, in any order.

    Memory grows with the answers and the different tasks. `hide` redacts a task.
    """

    def __init__(self, span: Span, redact: Callable[[str], str]) -> None:
        self._span = span
        self._redact = redact
        self._seen: set[int] = set()
        self._numbers: dict[str, int] = {}
        self._tasks: list[_TaskPicks] = []
        self._served: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        """When a person got a skill, and the number of the task; -1 for an unreadable one."""
        self._feedback: list[tuple[int, str, str, bool]] = []
        self._figures = FigureTable()
        self._counts: Counter[str] = Counter()

    def add(self, raw: object) -> None:
        """Count an event; other types and days are ignored."""
        row = event_rows.parse_row(raw)
        if row is None or row.kind not in PICK_KINDS:
            return
        mark = event_rows.identify(raw)
        if row.moment.date() not in self._span or mark in self._seen:
            return
        self._seen.add(mark)
        self._figures.add(row)
        if row.kind == "skill_served":
            self._add_served(row)
        elif row.kind == "skill_feedback":
            skill, useful = row.text("skill_path"), row.is_set("useful")
            tick = derive_tick(row.moment)
            self._feedback.append((tick, row.person, skill, useful))

    def _add_served(self, row: event_rows.UsageRow) -> None:
        skill, tick = row.text("skill_path"), derive_tick(row.moment)
        is_pick = row.is_set("was_ambiguous") or row.is_set("was_near")
        number = self._find_task(row, tick)
        self._served[row.person, skill].append((tick, number))
        if is_pick:
            self._counts["picks"] += 1
            self._counts["unreadable"] += number < 0
        if number < 0:
            return
        session = row.person, row.moment.date()
        if is_pick:
            self._tasks[number].picks[skill].add(session)
        elif row.is_set("was_picked"):
            self._tasks[number].named[skill].add(session)
        else:
            self._tasks[number].answers[skill] += 1

    def _find_task(self, row: event_rows.UsageRow, tick: int) -> int:
        """Number of the task, by its words; -1 if it is unreadable."""
        written = row.data.get("context")
        if not isinstance(written, str) or written.startswith(HASH_PREFIX):
            return -1
        # What is cut or folded first could hide a secret from those who look for one.
        text = event_rows.clean_line(self._redact(written), _MAX_TASK_LENGTH)
        if not text:
            return -1
        mark = derive_task_key(event_rows.RecordedTask(text, text))
        number = self._numbers.setdefault(mark, len(self._tasks))
        if number == len(self._tasks):
            self._tasks.append(_TaskPicks())
        known = self._tasks[number]
        known.tick, known.text = max((known.tick, known.text), (tick, text))
        return number

    def derive(self, answer: Answer | None = None) -> PickRecord:
        """`answer` routes a task now."""
        self._attribute_feedback()
        tasks = [task for task in map(_derive_task, self._tasks) if task is not None]
        known = {task.task for task in tasks}
        answered = [
            AnsweredTask(task.text, *task.answers.most_common(1)[0])
            for task in self._tasks
            if len(task.answers) == 1 and task.text not in known
        ]
        return PickRecord(
            tasks=tuple(sorted(tasks, key=_task_rank)),
            answered=tuple(sorted(answered, key=lambda a: (-a.count, a.task))),
            picks=self._counts["picks"],
            unreadable=self._counts["unreadable"],
            rivalries=FigureQueries(self._figures.query, self._span).find_rivalries(answer),
        )

    def _attribute_feedback(self) -> None:
        """Attribute feedback to the task the person had the skill for."""
        for task in self._tasks:
            task.ratings.clear()
        for served in self._served.values():
            served.sort()
        for tick, person, skill, is_useful in self._feedback:
            served = self._served.get((person, skill), [])
            index = bisect_right(served, tick, key=itemgetter(0))
            if index == 0:
                continue
            served_at, number = served[index - 1]
            if number >= 0 and tick - served_at <= _SESSION_TICKS:
                self._tasks[number].ratings[skill][is_useful] += 1


def _derive_task(found: _TaskPicks) -> KnownTask | None:
    """None without evidence for or against a skill."""
    wrong = {skill for skill, ratings in found.ratings.items() if ratings[False]}
    helped = {skill for skill, ratings in found.ratings.items() if ratings[True]}
    # An agent may have named another skill than the list has for any reason; that it
    # helped is the evidence.
    named = {path: sessions for path, sessions in found.named.items() if path in helped}
    picked = {
        skill: _count_picks((*found.picks.get(skill, ()), *named.get(skill, ())))
        for skill in {*found.picks, *named} - wrong
    }
    # A single answer that was called useful is as right as a pick, but says nothing
    # that routing does not know.
    useful = {
        skill: PickCounts(0, frozenset(), frozenset()) for skill in helped - wrong - picked.keys()
    }
    if not (picked or useful or wrong):
        return None
    order = sorted(picked.items(), key=lambda item: (-item[1].picks, item[0]))
    right = {**dict(order), **dict(sorted(useful.items()))}
    return KnownTask(found.text, right, tuple(sorted(wrong)))


def _count_picks(picks: Iterable[tuple[str, date]]) -> PickCounts:
    distinct = set(picks)
    people = frozenset(person for person, _ in distinct if person)
    return PickCounts(len(distinct), people, frozenset(day for _, day in distinct))


def _task_rank(task: KnownTask) -> tuple[int, str]:
    return -sum(counts.picks for counts in task.right.values()), task.task


def join_counts(counts: Collection[PickCounts]) -> PickCounts:
    return PickCounts(
        sum(count.picks for count in counts),
        frozenset().union(*(count.people for count in counts)),
        frozenset().union(*(count.days for count in counts)),
    )


MIN_TASKS = 2
"""Different tasks with a word: a single one may be about anything."""

MAX_DOCUMENT_SHARE = 0.1
"""Maximum share of all skills with a word; a commoner one tells less."""

_MIN_DOCUMENTS = 2
"""Always allowed, even among few skills."""

_MIN_LENGTH = 3
"""Characters of a word: shorter ones match only as a whole, and are often initials."""


@dataclass(frozen=True, slots=True)
class MissingWord:
    """A word missing in a skill, with the tasks as evidence."""

    skill: str
    word: str
    """The most frequent form."""
    tasks: tuple[str, ...]
    counts: PickCounts
    """The picks of all these tasks."""


def derive_missing_words(
    tasks: Sequence[KnownTask],
    unsettled: Collection[str],
    index: SkillIndex,
    matcher: Matcher,
) -> tuple[MissingWord, ...]:
    """Words missing in skills, those with most evidence first.

    Evidence for a word: at least two different tasks for which the skill is known to be
    right, and fewer for any other skill. `unsettled` are the tasks with one right skill
    and another answer now; the matcher weighs the words of a task as routing does.
    """
    max_skills = max(_MIN_DOCUMENTS, round(MAX_DOCUMENT_SHARE * len(index)))
    words = {known.task: _find_words(known.task, matcher, max_skills) for known in tasks}
    owned = _count_owned(tasks, words, index)
    skill_terms: dict[str, frozenset[str]] = {}
    found: defaultdict[tuple[str, str], list[KnownTask]] = defaultdict(list)
    for task in tasks:
        for path in _find_picked(task):
            skill = index.get(path)
            if skill is None:
                continue
            if path not in skill_terms:
                skill_terms[path] = find_terms(skill)
            for term in words[task.task].keys() - skill_terms[path]:
                found[path, term].append(task)
    suggestions = [
        _suggest(path, [words[known.task][term] for known in evidence], evidence)
        for (path, term), evidence in found.items()
        if len(evidence) >= MIN_TASKS
        and any(known.task in unsettled for known in evidence)
        and _is_owner(path, owned[term])
    ]
    return tuple(sorted(suggestions, key=_word_rank))


def _suggest(skill: str, forms: Iterable[str], tasks: Sequence[KnownTask]) -> MissingWord:
    counted = Counter(forms)
    word = min(counted, key=lambda form: (-counted[form], len(form), form))
    counts = join_counts([task.right[skill] for task in tasks])
    return MissingWord(skill, word, tuple(task.task for task in tasks), counts)


def _word_rank(word: MissingWord) -> tuple[int, int, str, str]:
    return -len(word.tasks), -word.counts.picks, word.skill, word.word


def _find_picked(task: KnownTask) -> Iterator[str]:
    return (path for path, counts in task.right.items() if counts.picks)


def _find_words(task: str, matcher: Matcher, max_skills: int) -> dict[str, str]:
    """The distinctive words of a task, by stem."""
    weighed = matcher.weigh_terms(task)
    return {
        lexicon.stem(evidence.typed): evidence.typed
        for evidence in weighed
        if _is_distinctive(evidence, max_skills)
    }


def _is_distinctive(word: TermWeight, max_skills: int) -> bool:
    """Whether a word tells skills apart, and is no frequent name."""
    typed = word.typed
    return (
        len(typed) >= _MIN_LENGTH
        and typed.isalpha()
        and word.skills <= max_skills
        and lexicon.common_word_weight(lexicon.stem(typed)) == 1
        and not lexicon.is_technology_name(typed)
    )


def find_terms(skill: Skill) -> frozenset[str]:
    """Stems of the path, name, description and keywords."""
    text = " ".join((skill.path, skill.name, skill.description, *skill.keywords))
    pieces = (piece.decode() for piece in lexicon.split_raw_tokens(fold(text).replace("-", " ")))
    return frozenset(word.term for piece in pieces for word in lexicon.analyze_token(piece))


def _count_owned(
    tasks: Iterable[KnownTask],
    words: Mapping[str, Mapping[str, str]],
    index: SkillIndex,
) -> defaultdict[str, Counter[str]]:
    """For each word, count the tasks and examples of each skill."""
    owned: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        for term in words[task.task]:
            owned[term].update(_find_picked(task))
    for skill in index:
        for example in skill.examples:
            for piece in lexicon.split_raw_tokens(fold(example)):
                for word in lexicon.analyze_token(piece.decode()):
                    owned[word.term][skill.path] += 1
    return owned


def _is_owner(path: str, counts: Counter[str]) -> bool:
    """Whether most tasks with a word are this skill's."""
    others = max((n for other, n in counts.items() if other != path), default=0)
    return counts[path] > others
