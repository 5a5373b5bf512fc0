"""The relevant part of a long text."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from skills_mcp.routing.matcher import Algorithm, Mask, Matcher
from skills_mcp.routing.tokens import SILENT_WORDS, fold

# A longer context is not scored as it is: most of it was pasted, and what people wrote
# themselves is found in parts, too (measured: docs/explanation/routing.md). To the
# keyword algorithm, which the specification defines, 10,000 are usual.
MAX_UNCUT_CHARACTERS: Mapping[Algorithm, int] = MappingProxyType({"keyword": 10_000, "ranked": 600})
"""Characters of a context scored without a cut."""

_MAX_PART_CHARACTERS = 600  # characters; as much as a person writes
_MIN_PART_CHARACTERS = 20  # a greeting is shorter, and no task

# How well a skill fits (`Matcher.rate`) that is likely meant; with less for the ends, a
# prompt with headings had its task between them. Measured: docs/explanation/routing.md.
_GOOD_SCORE = 0.4
_NEAR_MISS_SCORE = 0.05  # below it a skill is no near miss, unless the settings say otherwise

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LINE_END = re.compile(r"\n")
_WORD = re.compile(r"\w{3,64}")  # shorter words say little, longer ones are data

_MAX_PARAGRAPHS = 6  # among more, the best fits by chance
_MAX_COUNTED_WORDS = 500
_MAX_EXCERPT_WORDS = 30  # as many as a long task has; more find no better


def select_relevant_part(matcher: Matcher, context: str, *, within: Mask = None) -> str:
    """Select the part of a long text with the best score; a short text stays whole.

    Mostly the task stands before the pasted text, or behind it, and all the rest would
    be evidence against every skill. So a pasted ticket or log is read as its beginning
    and its end; if no skill fits these, as the paragraphs between, if they are few; and
    if none is near, as its most frequent terms. Linear, bounded.
    """
    if len(context) <= MAX_UNCUT_CHARACTERS[matcher.algorithm]:
        return context
    scores: dict[str, float] = {}
    for split, good_score in _STRATEGIES:
        parts = [part for part in split(context) if part not in scores]
        scores |= {part: matcher.quick_score(part, within=within) for part in parts}
        if max(scores.values()) >= good_score:
            break
    return max(scores, key=scores.__getitem__)


def take_ends(text: str) -> tuple[str, str]:
    text = text.strip()
    return _take_first(text), _take_last(text)


def _take_first(text: str) -> str:
    beginning = text[: _MAX_PART_CHARACTERS + 1]
    for boundary in (_BLANK_LINE, _LINE_END):
        for found in boundary.finditer(beginning, _MIN_PART_CHARACTERS):
            return beginning[: found.start()]
    return beginning[:_MAX_PART_CHARACTERS]


def _take_last(text: str) -> str:
    end = text[-_MAX_PART_CHARACTERS - 1 :]
    for boundary in (_BLANK_LINE, _LINE_END):
        for found in reversed(list(boundary.finditer(end, 0, len(end) - _MIN_PART_CHARACTERS))):
            return end[found.end() :]
    return end[-_MAX_PART_CHARACTERS:]


def find_short_paragraphs(text: str) -> Sequence[str]:
    """Find the paragraphs short enough to be typed; none if there are many."""
    found = [
        paragraph
        for paragraph in _BLANK_LINE.split(text)
        if _MIN_PART_CHARACTERS <= len(paragraph) <= _MAX_PART_CHARACTERS
    ]
    return found if len(found) <= _MAX_PARAGRAPHS else ()


def join_frequent_terms(text: str) -> tuple[str]:
    """Join the most frequent terms, with common words discounted, to one text."""
    # Late: the stemmer and the lists of words are not needed for the first answer.
    from skills_mcp.routing import lexicon
    from skills_mcp.routing.words import stem

    counted = Counter(_WORD.findall(text))
    folded: Counter[str] = Counter()
    for word, count in counted.most_common(_MAX_COUNTED_WORDS):
        if not word[0].isdecimal():
            folded[fold(word)] += count
    worth = {
        word: count * lexicon.common_word_weight(stem(word))
        for word, count in folded.items()
        if word not in SILENT_WORDS
    }
    best = sorted(worth, key=lambda word: (-worth[word], word))
    return (" ".join(best[:_MAX_EXCERPT_WORDS]),)


# How to read a long text, and how well a part has to fit so that no other way is tried.
_STRATEGIES: Sequence[tuple[Callable[[str], Iterable[str]], float]] = (
    (take_ends, _GOOD_SCORE),
    (find_short_paragraphs, _NEAR_MISS_SCORE),
    (join_frequent_terms, 0),
)
