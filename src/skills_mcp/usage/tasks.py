"""Tasks that found nothing, and skills that get in each other's way.  Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import combinations

from skills_mcp.routing.tokens import fold, tokenize
from skills_mcp.usage.entries import Entry, Task, parse_task
from skills_mcp.usage.span import Span
from skills_mcp.usage.summary import Gap, KeywordCount, Rivalry

Answer = Callable[[str], tuple[str, ...]]
"""From a task to the skills that would be its answer now; several are candidates."""

Pair = tuple[str, str]

_MOST_KEYWORDS = 8  # of a pair: the first of them are those to change
_MOST_TRIED = 200  # tasks that are routed again: nobody reads further down

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Newest:
    """The newest words for something, whatever order they come in."""

    moment: datetime = _NEVER
    text: str = ""

    def add(self, moment: datetime, text: str) -> None:
        """Keep them, if they are newer."""
        self.moment, self.text = max((self.moment, self.text), (moment, text))


@dataclass(slots=True)
class _Found:
    """How often a task found nothing."""

    count: int = 0
    people: set[str] = field(default_factory=set)
    newest: Newest = field(default_factory=Newest)


class Gaps:
    """Tasks that found nothing, together if they have the same words."""

    def __init__(self) -> None:
        self._found: defaultdict[str, _Found] = defaultdict(_Found)

    def add(self, entry: Entry) -> None:
        """Count a task without a skill."""
        task = parse_task(entry)
        if not task.mark:
            return
        found = self._found[derive_mark(task)]
        found.count += 1
        found.people |= {entry.person} - {""}
        found.newest.add(entry.moment, task.text)

    def derive(self, answer: Answer | None) -> tuple[Gap, ...]:
        """Return them, the most frequent first."""
        order = sorted(
            self._found.values(),
            key=lambda found: (-found.count, found.newest.text, found.newest.moment),
        )
        return tuple(
            Gap(
                task=found.newest.text,
                count=found.count,
                people=len(found.people),
                last_seen=found.newest.moment.date(),
                today=_ask(answer, found.newest.text, place),
            )
            for place, found in enumerate(order)
        )


@dataclass(slots=True)
class _Asked:
    """What became of one task of one person that was ambiguous."""

    candidates: Counter[tuple[str, ...]] = field(default_factory=Counter)
    picks: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Met:
    """How often two skills were candidates of the same answer."""

    days: Counter[date] = field(default_factory=Counter)
    keywords: Counter[str] = field(default_factory=Counter)
    newest: Newest = field(default_factory=Newest)


class Rivalries:
    """Pairs of skills that were candidates of the same ambiguous answers."""

    def __init__(self) -> None:
        self._met: defaultdict[Pair, _Met] = defaultdict(_Met)
        self._asked: defaultdict[int, _Asked] = defaultdict(_Asked)

    def add_ambiguous(self, entry: Entry) -> None:
        """Count an ambiguous answer."""
        candidates = entry.texts("candidates")
        task = parse_task(entry)
        if task.mark:
            self._asked[_key(entry, task)].candidates[tuple(sorted(candidates))] += 1
        for pair, shared in _pairs(candidates, entry.lists("matched_keywords")):
            met = self._met[pair]
            met.days[entry.moment.date()] += 1
            met.keywords.update(shared)
            met.newest.add(entry.moment, task.text)

    def add_pick(self, entry: Entry) -> None:
        """Count a skill that an agent took from several candidates."""
        task = parse_task(entry)
        if task.mark:
            self._asked[_key(entry, task)].picks[entry.text("skill_path")] += 1

    def derive(self, span: Span, answer: Answer | None) -> tuple[Rivalry, ...]:
        """Return them, the most frequent first."""
        picks = self._count_picks()
        order = sorted(
            self._met.items(), key=lambda item: (-item[1].days.total(), item[0])
        )
        return tuple(
            _rivalry(pair, met, picks.get(pair), span, _ask(answer, text, place))
            for place, (pair, met) in enumerate(order)
            for text in [met.newest.text]
        )

    def _count_picks(self) -> dict[Pair, Counter[str]]:
        """Return how often each of two was taken after they had been candidates."""
        counted: defaultdict[Pair, Counter[str]] = defaultdict(Counter)
        for asked in self._asked.values():
            pairs: Counter[Pair] = Counter()
            for candidates, count in asked.candidates.items():
                for pair in combinations(dict.fromkeys(candidates), 2):
                    pairs[pair] += count
            for pair, count in pairs.items():
                counted[pair].update(
                    {path: min(asked.picks[path], count) for path in pair}
                )
        return counted


def _rivalry(
    pair: Pair,
    met: _Met,
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
        keywords=tuple(KeywordCount(*each) for each in keywords[:_MOST_KEYWORDS]),
        days=tuple(sorted(periods.items())),
        last_seen=met.newest.moment.date(),
        task=met.newest.text,
        is_still=None if today is None else set(pair) <= set(today),
    )


def _pairs(
    candidates: tuple[str, ...], matched: tuple[tuple[str, ...], ...]
) -> Iterator[tuple[Pair, set[str]]]:
    """Yield every two of the candidates, and the keywords that both matched by."""
    is_told = len(matched) == len(candidates)
    words = dict(zip(candidates, map(set, matched), strict=True)) if is_told else {}
    for first, second in combinations(sorted(set(candidates)), 2):
        yield (first, second), words.get(first, set()) & words.get(second, set())


def _key(entry: Entry, task: Task) -> int:
    """Return what stands for a task of a person; the text would take much room."""
    return hash((entry.person, task.mark))


def _ask(answer: Answer | None, text: str, place: int) -> tuple[str, ...] | None:
    return answer(text) if answer and text and place < _MOST_TRIED else None


def derive_mark(task: Task) -> str:
    """Return the same for tasks of the same words, in whatever order and form."""
    return _words(task.text) if task.text else task.mark


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    return " ".join(sorted(tokenize(text))) or fold(text)
