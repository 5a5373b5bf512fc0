"""What counts of a long text, such as a pasted ticket or a log: linear, bounded.

A task is a sentence or two, and mostly they stand before what was pasted, or behind it.
Read as a whole, all the rest would speak against every skill. So a long text is read as
its beginning and its end; if no skill fits one of these, as the paragraphs between, if
they are few; and if none is near, as the words that stand out. The part that fits some
skill best is the task.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from skills_mcp.routing.matcher import Algorithm, Mask, Matcher
from skills_mcp.routing.tokens import SILENT_WORDS, fold

# A longer context is not scored as it is: most of it was pasted, and what people wrote
# themselves is found in parts, too (measured: docs/explanation/routing.md). To the
# keyword algorithm, which the specification defines, 10,000 are usual.
LONGEST_WHOLE: Mapping[Algorithm, int] = MappingProxyType(
    {"keyword": 10_000, "ranked": 600}
)
"""Characters of a context that is scored as it is."""

_LONGEST_PART = 600  # characters; as much as a person writes
_SHORTEST_PART = 20  # a greeting is shorter, and no task

# How well a skill fits (`Matcher.rate`) that is likely meant; with less for the ends, a
# prompt with headings had its task between them. Measured: docs/explanation/routing.md.
_FITS = 0.4
_NEAR = 0.05  # below it a skill is no near miss, unless the settings say otherwise

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LINE_END = re.compile(r"\n")
_WORD = re.compile(r"\w{3,64}")  # shorter words say little, longer ones are data

_MOST_PARAGRAPHS = 6  # among more, the best fits by chance
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
    rated: dict[str, float] = {}
    for view, enough in _VIEWS:
        parts = [part for part in view(context) if part not in rated]
        rated |= {part: matcher.rate(part, within=within) for part in parts}
        if max(rated.values()) >= enough:
            break
    return max(rated, key=rated.__getitem__)


def derive_ends(text: str) -> tuple[str, str]:
    """Return the beginning of a text, and its end."""
    text = text.strip()
    return _take_first(text), _take_last(text)


def _take_first(text: str) -> str:
    """Return the first paragraph, or the first line, or so much of it."""
    beginning = text[: _LONGEST_PART + 1]
    for boundary in (_BLANK_LINE, _LINE_END):
        for found in boundary.finditer(beginning, _SHORTEST_PART):
            return beginning[: found.start()]
    return beginning[:_LONGEST_PART]


def _take_last(text: str) -> str:
    """Return the last paragraph, or the last line, or so much of it."""
    end = text[-_LONGEST_PART - 1 :]
    for boundary in (_BLANK_LINE, _LINE_END):
        for found in reversed(
            list(boundary.finditer(end, 0, len(end) - _SHORTEST_PART))
        ):
            return end[found.end() :]
    return end[-_LONGEST_PART:]


def find_paragraphs(text: str) -> Sequence[str]:
    """Return the paragraphs that a person may have written; none of many."""
    found = [
        paragraph
        for paragraph in _BLANK_LINE.split(text)
        if _SHORTEST_PART <= len(paragraph) <= _LONGEST_PART
    ]
    return found if len(found) <= _MOST_PARAGRAPHS else ()


def join_outstanding(text: str) -> tuple[str]:
    """Return one text: the words that occur most often, ordinary ones counting less."""
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
    return (" ".join(best[:_MOST_WORDS]),)


# How to read a long text, and how well a part has to fit so that no other way is tried.
_VIEWS: Sequence[tuple[Callable[[str], Iterable[str]], float]] = (
    (derive_ends, _FITS),
    (find_paragraphs, _NEAR),
    (join_outstanding, 0),
)
