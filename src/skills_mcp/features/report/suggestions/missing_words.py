"""Words missing in skills, from the tasks agents picked them for.  Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skills_mcp.features.report.suggestions.picks import (
    KnownTask,
    PickCounts,
    join_counts,
)
from skills_mcp.routing.lexicon import common_word_weight, is_technology_name
from skills_mcp.routing.matcher import Matcher, TermWeight
from skills_mcp.routing.tokens import fold
from skills_mcp.routing.words import analyze_token, split_raw_tokens, stem
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Skill

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
    and
    another answer now; the matcher weighs the words of a task as routing does.
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
                skill_terms[path] = _find_terms(skill)
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
        stem(evidence.typed): evidence.typed
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
        and common_word_weight(stem(typed)) == 1
        and not is_technology_name(typed)
    )


def _find_terms(skill: Skill) -> frozenset[str]:
    """Stems of the path, name, description and keywords."""
    text = " ".join((skill.path, skill.name, skill.description, *skill.keywords))
    pieces = (piece.decode() for piece in split_raw_tokens(fold(text).replace("-", " ")))
    return frozenset(word.term for piece in pieces for word in analyze_token(piece))


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
            for piece in split_raw_tokens(fold(example)):
                for word in analyze_token(piece.decode()):
                    owned[word.term][skill.path] += 1
    return owned


def _is_owner(path: str, counts: Counter[str]) -> bool:
    """Whether most tasks with a word are this skill's."""
    others = max((n for other, n in counts.items() if other != path), default=0)
    return counts[path] > others
