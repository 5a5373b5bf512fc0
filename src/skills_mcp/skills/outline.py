"""Outline of a skill's text: its headings, and its must-lines.

A must-line is a sentence with "must", "never" or "do not", a sentence in bold, or an item
of a list under a heading with one of these. Fenced code has none; of a table, only cells
with MUST, NEVER or DO NOT are read.

Rule: pure and deterministic; a line of a list keeps the heading that gives it its sense.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import truncate_text

MAX_LINE_CHARACTERS = 200
"""A longer line is cut: it names the rule, and the text has the rest."""

_MAX_LINES = 40
"""Of each list; more is a text of its own."""

_SHORT_TITLE = 40
"""Characters of a title that is repeated with each item although it only demands."""

_SHORT_SENTENCE = 4
"""Words of a sentence that needs the one before it."""

_FENCE = re.compile(r"\s*(?:>\s*)*(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)[\s#]*$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(?=\S)")
_QUOTE = re.compile(r"^\s*(?:>\s?)+(?:\[!\w+\]\s*$)?")
_SKIPPED = re.compile(r"\s*(?:\||<!--|</?[a-zA-Z][^>]*>\s*$|(?:[-*_]\s*){3,}$|={3,})")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^()\s]*\)")
_CODE = re.compile(r"`[^`]*`")
_EMPHASIS = re.compile(r"\*\*|__|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`]*[A-Z0-9`])|(?<=。)")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx)\.$", re.IGNORECASE)
_BOLD_SENTENCE = re.compile(r"\*\*(?:[^\s*]+\s+){3}[^*]+(?:[.!]\*\*|\*\*[.!])")

# "Do not" orders something at the start of a clause; behind a subject it describes.
_CLAUSE = r"(?:^[^\w`]*|[,;:.(\u2013\u2014-]\s*|\b(?:and|but|or|then|so|please|also)\s)[\"*_]*"
_RULE = re.compile(
    r"\b(?:MUST|SHALL|NEVER|ALWAYS|REQUIRED|MANDATORY|ONLY|DO NOT|DON['\u2019]T)\b(?!\))"
    r"|(?i:\b(?:(?<!what )(?<!which )must|mustn['\u2019]t)\b(?!-)"
    r"|\b(?<!have )(?<!has )(?<!that )never\b(?![-)])"
    r"|^only\b.*\b(?:if|when|after|unless)\b"
    rf"|{_CLAUSE}(?:do\s\**not|don['\u2019]t)\b|(?:^|[,;:.(\u2013\u2014-]\s*)[\"*_]*always\b(?!/))"
)
_PROHIBITION = re.compile(
    r"\bnever\b|\bmust not\b|^(?:do not|don['\u2019]t)\b|\bdon['\u2019]?ts\b|\bnot allowed\b"
    r"|\b(?:forbidden|prohibited|anti-?patterns?)\b",
    re.IGNORECASE,
)
_DEMAND = re.compile(
    r"\b(?:must|mandatory|no exceptions|hard rules|iron laws?)\b|^always\b|\balways$",
    re.IGNORECASE,
)
_CELL_RULE = re.compile(r"\b(?:MUST|NEVER|DO NOT)\b")


@dataclass(frozen=True, slots=True)
class Outline:
    """Headings and must-lines of a composed text; the skill's own headings come first."""

    headings: tuple[str, ...]
    must_lines: tuple[str, ...]
    inherited_must_lines: tuple[str, ...]
    """Those of the other parts, the nearest one first."""


def derive_outline(parts: Sequence[Skill]) -> Outline:
    """Derive the outline of the parts of a composed text, the skill itself being the last."""
    *above, skill = parts
    blocks = (block for part in reversed(parts) for block in _read_blocks(part.body))
    headings = dict.fromkeys(block.text for block in blocks if block.level)
    own = dict.fromkeys(find_must_lines(skill.body))
    inherited = (line for part in reversed(above) for line in find_must_lines(part.body))
    others = dict.fromkeys(line for line in inherited if line not in own)
    return Outline(*(tuple(found)[:_MAX_LINES] for found in (headings, own, others)))


def find_must_lines(body: str) -> Iterator[str]:
    r"""Yield the must-lines of one text in their order, those that are only bold at the end.

    >>> [*find_must_lines("Be brief. You must test all of it.\n\n## Never\n\n- Push to main")]
    ['You must test all of it.', 'Never: Push to main']
    """
    titles: dict[int, str] = {}
    emphasised: list[str] = []
    lead = ""
    pending: list[str] = []
    for block in (*_read_blocks(body), _Block("")):
        if not block.is_item:
            yield from pending  # a lead without a list behind it
        pending = []
        if block.level:
            titles = {level: title for level, title in titles.items() if level < block.level}
            titles |= {block.level: block.text} if _is_rule_title(block.text) else {}
            lead = ""
        elif block.is_item and (title := lead or next(reversed(titles.values()), "")):
            yield _join_title(title, _strip_markup(block.text))
        else:
            sentences = [*_split_sentences(block.text)]
            if sentences and not block.is_item:
                lead = _strip_markup(sentences[-1])
                has_list = lead.endswith(":")
                lead = lead.rstrip(":") if has_list and _is_rule_title(lead[:-1]) else ""
                titles = {} if has_list and not lead else titles  # such as "Instead:"
            found = [*_find_in_sentences(sentences)]
            if 0 < len(lead) <= _SHORT_TITLE and found:  # it is repeated with each item
                pending = [found.pop()[0]]
            for line, is_rule in found:
                if is_rule:
                    yield line
                else:
                    emphasised.append(line)
    yield from emphasised  # a fact in bold may be no rule


def _is_rule_title(title: str) -> bool:
    return bool(_PROHIBITION.search(title) or _DEMAND.search(title))


def _join_title(title: str, item: str) -> str:
    """An item of a list, which would say its opposite without a title that prohibits."""
    is_needed = len(title) <= _SHORT_TITLE or _PROHIBITION.search(title)
    return _cut(f"{title}: {item}" if is_needed and not _is_rule(item) else item)


class _Block(NamedTuple):
    text: str
    level: int = 0
    """Level of a heading, otherwise 0."""
    is_item: bool = False


def _read_blocks(body: str) -> Iterator[_Block]:
    """Yield headings, paragraphs and items of lists, each in one line."""
    lines: list[str] = []
    is_item, fence = False, ""
    for line in (*body.splitlines(), ""):
        fence, text = _leave_out_code(line, fence)
        heading, item = _HEADING.match(text), _ITEM.match(text)
        is_blank = not text.strip() or _SKIPPED.match(text)
        if lines and (heading or item or is_blank):
            yield _Block(" ".join(lines), is_item=is_item)
            lines, is_item = [], False
        if text.lstrip().startswith("|"):
            cells = (cell.strip() for cell in text.split("|"))
            yield from (_Block(cell) for cell in cells if _CELL_RULE.search(_CODE.sub("", cell)))
        if heading:
            yield _Block(_strip_markup(heading[2]), level=len(heading[1]))
        elif not is_blank:
            is_item = is_item or item is not None
            lines.append(text[item.end() if item else 0 :].strip())


def _leave_out_code(line: str, fence: str) -> tuple[str, str]:
    """The fence that is open behind a line, and its text outside of fences."""
    found = _FENCE.match(line)
    if fence:
        return ("" if found and found[1].startswith(fence) else fence), ""
    return (found[1], "") if found else ("", _QUOTE.sub("", line))


def _find_in_sentences(sentences: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield must-lines, each with whether its words say so, or only its type."""
    for before, sentence in pairwise(("", *sentences)):
        is_rule = _is_rule(sentence)
        if is_rule or _BOLD_SENTENCE.fullmatch(sentence):
            # "Never a float." says nothing without the sentence before it.
            is_short = len(sentence.split()) <= _SHORT_SENTENCE and not _is_rule(before)
            yield _cut(_strip_markup(f"{before} {sentence}" if is_short else sentence)), is_rule


def _is_rule(sentence: str) -> bool:
    has_words = " " in sentence.strip()  # "Always." alone says nothing
    return has_words and _RULE.search(_CODE.sub("``", sentence)) is not None


def _split_sentences(text: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(text):
        sentence = text[start : end.end()].strip()
        if not _ABBREVIATION.search(sentence):
            yield sentence
            start = end.end()
    if rest := text[start:].strip():
        yield rest


def _strip_markup(text: str) -> str:
    return " ".join(_EMPHASIS.sub("", _LINK.sub(r"\1", text)).split())


def _cut(text: str) -> str:
    return truncate_text(text, MAX_LINE_CHARACTERS)
