"""Words that skills lack, by the tasks that agents picked them for.  Pure.

A word is named only with evidence: two different tasks at least, for which the
skill is known to be right, and fewer of them for any other skill.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skills_mcp.features.report.suggestions.picks import (
    KnownTask,
    PickCounts,
    join_counts,
)
from skills_mcp.routing.lexicon import names_technology, weight_of
from skills_mcp.routing.matcher import Matcher, WordEvidence
from skills_mcp.routing.tokens import fold
from skills_mcp.routing.words import derive_words, split_text, stem
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Skill

LEAST_TASKS = 2
"""Different tasks with a word: one may be about anything."""

MOST_HELD = 0.1
"""The share of all skills that a word may speak for; a commoner one tells less."""

_FEW_HOLDERS = 2
"""So many skills may hold a word also where there are few skills."""

_SHORTEST = 3
"""Characters of a word: shorter ones match only as a whole, and are often initials."""


@dataclass(frozen=True, slots=True)
class MissingWord:
    """A word that a skill lacks, and the tasks that say so."""

    skill: str
    word: str
    """As most of the tasks have it."""
    tasks: tuple[str, ...]
    counts: PickCounts
    """The picks of all these tasks."""


def derive_missing_words(
    tasks: Sequence[KnownTask],
    unsettled: Collection[str],
    index: SkillIndex,
    matcher: Matcher,
) -> tuple[MissingWord, ...]:
    """Return the words that skills lack, those with most evidence first.

    Args:
        tasks: What agents have shown to be right.
        unsettled: The tasks that one right skill does not answer now.
        index: The skills that are served.
        matcher: Weighs the words of a task as routing does.
    """
    most = max(_FEW_HOLDERS, round(MOST_HELD * len(index)))
    words = {each.task: _find_words(each.task, matcher, most) for each in tasks}
    owned = _count_owned(tasks, words, index)
    held: dict[str, frozenset[str]] = {}
    found: defaultdict[tuple[str, str], list[KnownTask]] = defaultdict(list)
    for task in tasks:
        for path in _find_picked(task):
            skill = index.get(path)
            if skill is None:
                continue
            if path not in held:
                held[path] = _find_terms(skill)
            for term in words[task.task].keys() - held[path]:
                found[path, term].append(task)
    suggestions = [
        _suggest(path, [words[each.task][term] for each in its], its)
        for (path, term), its in found.items()
        if len(its) >= LEAST_TASKS
        and any(each.task in unsettled for each in its)
        and _is_owner(path, owned[term])
    ]
    return tuple(sorted(suggestions, key=_rank))


def _suggest(
    skill: str, forms: Iterable[str], tasks: Sequence[KnownTask]
) -> MissingWord:
    """Return the suggestion, with the form of the word that most tasks have."""
    counted = Counter(forms)
    word = min(counted, key=lambda form: (-counted[form], len(form), form))
    counts = join_counts([each.right[skill] for each in tasks])
    return MissingWord(skill, word, tuple(each.task for each in tasks), counts)


def _rank(each: MissingWord) -> tuple[int, int, str, str]:
    return -len(each.tasks), -each.counts.picks, each.skill, each.word


def _find_picked(task: KnownTask) -> Iterator[str]:
    """Iterate over the skills that were picked for a task."""
    return (path for path, counts in task.right.items() if counts.picks)


def _find_words(task: str, matcher: Matcher, most: int) -> dict[str, str]:
    """Return the words of a task that say what it is about, by their stems."""
    weighed = matcher.weigh(task)
    return {stem(each.typed): each.typed for each in weighed if _tells(each, most)}


def _tells(word: WordEvidence, most: int) -> bool:
    """Whether a word can tell skills apart, and is no name that many tasks have."""
    typed = word.typed
    return (
        len(typed) >= _SHORTEST
        and typed.isalpha()
        and word.skills <= most
        and weight_of(stem(typed)) == 1
        and not names_technology(typed)
    )


def _find_terms(skill: Skill) -> frozenset[str]:
    """Return the stems of what a skill says of itself."""
    said = " ".join((skill.path, skill.name, skill.description, *skill.keywords))
    pieces = (piece.decode() for piece in split_text(fold(said).replace("-", " ")))
    return frozenset(word.term for piece in pieces for word in derive_words(piece))


def _count_owned(
    tasks: Iterable[KnownTask],
    words: Mapping[str, Mapping[str, str]],
    index: SkillIndex,
) -> defaultdict[str, Counter[str]]:
    """Count for each word the tasks of each skill that have it, its examples, too."""
    owned: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        for term in words[task.task]:
            owned[term].update(_find_picked(task))
    for skill in index:
        for example in skill.examples:
            for piece in split_text(fold(example)):
                for word in derive_words(piece.decode()):
                    owned[word.term][skill.path] += 1
    return owned


def _is_owner(path: str, counts: Counter[str]) -> bool:
    """Whether more tasks with a word are this skill's than any other's."""
    others = max((n for other, n in counts.items() if other != path), default=0)
    return counts[path] > others
