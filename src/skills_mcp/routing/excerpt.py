"""What counts of a long text, such as a pasted ticket or a log: linear, bounded.

A task is a sentence or two, and nearly always they stand before what was pasted, or
behind it. Read as a whole, all the rest would speak against every skill. So a long text
is read as its beginning, its end and the words that stand out; each of these is scored
like a task of its own, and the one that some skill fits best is the task.
"""

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from skills_mcp.routing.matcher import Algorithm, Mask, Matcher
from skills_mcp.routing.tokens import SILENT_WORDS, fold

# A longer context is not scored as it is. Real prompts have 1,700 characters at most,
# and to the keyword algorithm, which the specification defines, 10,000 are usual.
LONGEST_WHOLE: Mapping[Algorithm, int] = MappingProxyType(
    {"keyword": 10_000, "ranked": 4_000}
)
"""Characters of a context that is scored as it is."""

# A paragraph of a person; what is longer was pasted.
_LONGEST_PART = 1_000

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_WORD = re.compile(r"\w{3,64}")  # shorter words say little, longer ones are data

_MOST_COMPARED = 500
_MOST_WORDS = 30  # as many as a long task has; more find no better


def focus(matcher: Matcher, context: str, *, within: Mask = None) -> str:
    """Return the part of a text that says best what its task is.

    A text that is not long is returned as it is.

    Args:
        matcher: Knows the skills.
        context: The task, in free text of any length.
        within: The skills that may be found; None for all.
    """
    if len(context) <= LONGEST_WHOLE[matcher.algorithm]:
        return context
    best, found = "", -1.0
    for part in derive_views(context):
        # To ask a provider of embeddings for the vectors of all would take long.
        candidates = matcher.by_words.score(part, most=1, within=within)
        score = float(candidates[0].score) if candidates else 0.0
        if score > found:
            best, found = part, score
    return best


def derive_views(text: str) -> tuple[str, str, str]:
    """Return the beginning of a text, its end, and the words that stand out."""
    text = text.strip()
    return _take_first(text), _take_last(text), " ".join(_find_outstanding(text))


def _take_first(text: str) -> str:
    """Return the first paragraph, or the first line, or so much of it."""
    beginning = text[: _LONGEST_PART + 1]
    paragraph = _BLANK_LINE.split(beginning, 1)[0]
    if len(paragraph) > _LONGEST_PART:
        paragraph = paragraph.split("\n", 1)[0]
    return paragraph[:_LONGEST_PART]


def _take_last(text: str) -> str:
    """Return the last paragraph, or the last line, or so much of it."""
    end = text[-_LONGEST_PART - 1 :]
    paragraph = _BLANK_LINE.split(end)[-1]
    if len(paragraph) > _LONGEST_PART:
        paragraph = paragraph.rsplit("\n", 1)[-1]
    return paragraph[-_LONGEST_PART:]


def _find_outstanding(text: str) -> list[str]:
    """Return the words that occur most often, what is ordinary counting less."""
    # Late: the stemmer and the lists of words are not needed for the first answer.
    from skills_mcp.routing import lexicon
    from skills_mcp.routing.words import stem

    counted = Counter(_WORD.findall(text))
    folded: Counter[str] = Counter()
    for word, count in counted.most_common(_MOST_COMPARED):
        if not word[0].isdecimal():
            folded[fold(word)] += count
    worth = {
        word: count * lexicon.weight_of(stem(word))
        for word, count in folded.items()
        if word not in SILENT_WORDS
    }
    best = sorted(worth, key=lambda word: (-worth[word], word))
    return best[:_MOST_WORDS]
