"""Composition of the text of one skill: inherited parts, required parts, its own.

Each part occurs once. A relation that cannot be served, such as a cycle, is a problem of
the reply: the skill is served without it. See docs/reference/life-cycle.md.

Of a text that the caller has, the outline is enough: its headings and its must-lines. A
must-line is a sentence with "must", "never" or "do not", a sentence in bold, or an item
of a list under a heading with one of these. Fenced code has none; of a table, only cells
with MUST, NEVER or DO NOT are read. A line of a list keeps the heading that gives it its
sense.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from skills_mcp.errors import SkillsError
from skills_mcp.skills.inheritance import compose, escape_headers, find_owners
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.text.rendering import abbreviate_value, truncate_text
from skills_mcp.text.tokens import count_tokens, estimate_from_bytes

MAX_REQUIRED = 100
"""Required skills of one skill, also indirectly: more than a reply has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """Other skills that the reply of a skill names."""

    successor: SkillPath | None = None
    """The skill to use instead of a deprecated one."""
    requires: tuple[SkillPath, ...] = ()
    """Required skills, whose text is served with this one."""
    omitted: tuple[SkillPath, ...] = ()
    """Required skills that did not fit."""
    related: tuple[SkillPath, ...] = ()
    problems: tuple[str, ...] = ()
    """Relations that cannot be served."""


NO_RELATIONS = Relations()


# 64 bits: it tells an old text from a new one, and guards nothing.
_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, kw_only=True)
class Composition:
    """Text of a skill, and the parts that it is made of."""

    contributors: tuple[Skill, ...]
    """The skill behind the ancestors that it inherits from."""
    parts: tuple[Skill, ...]
    """The same, with required skills and their ancestors in front of the skill itself."""
    notice: str
    """First lines of the text: about the project, a draft, or a deprecated skill."""
    relations: Relations
    applies: str = ""
    """How the project at hand differs from what it is written for; else empty."""

    def with_misfit(self, line: str) -> "Composition":
        """The same with this first line, unless it is empty."""
        if not line:
            return self
        return replace(self, applies=line, notice="\n\n".join(filter(None, (line, self.notice))))

    @cached_property
    def guidance(self) -> str:
        """Text of `get_skill`."""
        return self._frame(compose(self.parts))

    @property
    def instructions(self) -> str:
        """Text of `load_skill`: without a header for a single part."""
        is_alone = len(self.parts) == 1
        return self._frame(escape_headers(self.parts[0].body) if is_alone else compose(self.parts))

    @cached_property
    def digest(self) -> str:
        """Digest of everything an answer says about the skill and the parts of its text.

        `get_skill` and `load_skill` have the same digest. Times are excluded: the files
        of every commit are new, and most are unchanged.
        """
        skill = self.parts[-1]
        about = (skill.path, skill.name, skill.description, skill.category, skill.inherit)
        notice = (self.notice,) if self.notice else ()
        said = [(*about, *skill.entry), *map(_list_digested, self.parts), *notice]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:_DIGEST_CHARACTERS]

    @property
    def outline(self) -> "Outline":
        return derive_outline(self.parts)

    def _frame(self, text: str) -> str:
        omitted = ", ".join(self.relations.omitted)
        rest = f"Required, too, and left out for its length: {omitted}." if omitted else ""
        return "\n\n".join(filter(None, (self.notice, text, rest))) if self.notice or rest else text


def _list_digested(part: Skill) -> tuple[object, ...]:
    sizes = {file: stamp.size_bytes for file, stamp in part.files.items()}
    return part.file, part.body, tuple(map(repr, part.entries())), sizes


def compose_skill(
    index: SkillIndex, skill: Skill, *, max_characters: int | None = None
) -> Composition:
    """Compose a skill; required skills are added while the text fits into `max_characters`."""
    contributors = index.contributors(skill)
    required, obstacles = find_required(index, skill) if skill.requires else ((), ())
    parts, omitted = _join_parts(index, contributors, required, max_characters)
    successor = index.successors.get(skill.path) if skill.lifecycle.is_deprecated else None
    relations = Relations(
        successor=successor,
        requires=tuple(member.path for member in required if member.path not in omitted),
        omitted=omitted,
        related=find_related(index, skill) if skill.related else (),
        problems=tuple(map(str, obstacles)),
    )
    notice = _render_notice(skill, successor)
    return Composition(contributors=contributors, parts=parts, notice=notice, relations=relations)


def join_compositions(first: Composition, second: Composition) -> Composition:
    """Join the texts of two skills that apply together, below their common ancestors."""
    shared = {part.path: part for part in (*first.parts[:-1], *second.parts[:-1])}
    own = {part.path: part for part in (first.parts[-1], second.parts[-1])}
    above = tuple(part for path, part in shared.items() if path not in own)
    notices = filter(None, (first.notice, second.notice))
    return replace(first, parts=(*above, *own.values()), notice="\n\n".join(notices))


def _render_notice(skill: Skill, successor: SkillPath | None) -> str:
    lifecycle = skill.lifecycle
    if lifecycle.is_draft:
        return "Draft: this skill is not in force yet."
    if not lifecycle.is_deprecated:
        return ""
    reason = f" {lifecycle.reason}" if lifecycle.reason else ""
    if successor:
        return f"Use {successor} instead: this skill is deprecated.{reason}"
    return f"Deprecated:{reason}" if reason else "Deprecated."


class Obstacle(NamedTuple):
    """A required skill that cannot be served, and why."""

    holder: SkillPath
    """The skill that requires it."""
    named: str
    """Its path, or the words of the holder if there is none."""
    reason: Literal["missing", "cycle", "draft", "too many"]

    def __str__(self) -> str:
        return f"{self.holder} requires {abbreviate_value(self.named)}, {_REASONS[self.reason]}"


_REASONS = {
    "missing": "which is no skill here",
    "cycle": "which requires it in turn",
    "draft": "which is a draft",
    "too many": f"beyond {MAX_REQUIRED} required skills",
}


def find_required(
    index: SkillIndex, skill: Skill
) -> tuple[tuple[Skill, ...], tuple[Obstacle, ...]]:
    """Find the required skills, each behind those that it requires itself."""
    found: dict[SkillPath, Skill] = {}
    obstacles: dict[Obstacle, None] = {}
    chain: list[SkillPath] = []

    def visit(member: Skill) -> None:
        chain.append(member.path)
        for named in resolve_words(index, member.requires):
            if isinstance(named, str):
                obstacles[Obstacle(member.path, named, "missing")] = None
            elif named.path in chain:
                obstacles[Obstacle(member.path, named.path, "cycle")] = None
            elif _is_hidden_draft(index, named) and not skill.lifecycle.is_draft:
                obstacles[Obstacle(member.path, named.path, "draft")] = None
            elif named.path not in found and len(chain) + len(found) > MAX_REQUIRED:
                obstacles[Obstacle(member.path, named.path, "too many")] = None
            elif named.path not in found:
                visit(named)
                found[named.path] = named
        chain.pop()

    visit(skill)
    return tuple(found.values()), tuple(obstacles)


def _is_hidden_draft(index: SkillIndex, skill: Skill) -> bool:
    return skill.lifecycle.is_draft and index.find(skill.path) is None


def resolve_words(index: SkillIndex, words: Sequence[str]) -> list[Skill | str]:
    """Resolve paths and names; the words themselves where there is no such skill."""
    resolved = [resolve_word(index, word) for word in words]
    is_relation = any(isinstance(r, Skill) or "/" in r for r in resolved)
    return resolved if is_relation else []  # a list of something else, such as programs


def resolve_word(index: SkillIndex, word: str) -> Skill | str:
    try:
        return index.resolve(word.strip("/"))
    except SkillsError:
        return word


def find_related(index: SkillIndex, skill: Skill) -> tuple[SkillPath, ...]:
    """Find the paths of the related skills that are offered."""
    resolved = (found for found in resolve_words(index, skill.related) if isinstance(found, Skill))
    paths = dict.fromkeys(found.path for found in resolved if index.find(found.path) is not None)
    return tuple(path for path in paths if path != skill.path)


def _join_parts(
    index: SkillIndex,
    contributors: Sequence[Skill],
    required: Sequence[Skill],
    max_characters: int | None,
) -> tuple[tuple[Skill, ...], tuple[SkillPath, ...]]:
    """Join inherited parts, required ones and the skill; and list what did not fit."""
    *inherited, skill = contributors
    parts = {part.path: part for part in inherited}
    omitted: list[SkillPath] = []
    for member in required:
        added = {part.path: part for part in index.contributors(member)}
        added.pop(skill.path, None)
        joined = (*(parts | added).values(), skill)
        if max_characters is None or len(compose(joined)) <= max_characters:
            parts |= added
        else:
            omitted.append(member.path)
    return (*parts.values(), skill), tuple(omitted)


@dataclass(frozen=True, slots=True)
class ContextSizes:
    """Sizes of the parts of a skill, all in one unit."""

    own: int
    """The skill's own text."""
    inherited: int
    """The other rules of its text, with their headers."""
    assets: int
    """All files that can be fetched, none of which comes by itself."""

    @property
    def text(self) -> int:
        return self.own + self.inherited


@dataclass(frozen=True, slots=True)
class SkillCost:
    tokens: ContextSizes
    characters: ContextSizes
    """Those of assets are bytes, as they are not read."""

    def render(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        tokens = self.tokens
        assets = f", and files of {tokens.assets:,}" if tokens.assets else ""
        return f"about {tokens.text:,} tokens, {tokens.inherited:,} of them inherited{assets}"


def derive_cost(index: SkillIndex, skill: Skill) -> SkillCost:
    text, body = compose_skill(index, skill).guidance, skill.body
    owners = find_owners(index, skill).items()
    asset_bytes = sum(owner.files[file].size_bytes for file, owner in owners if file != "SKILL.md")
    own = count_tokens(body)
    tokens = ContextSizes(own, max(0, count_tokens(text) - own), estimate_from_bytes(asset_bytes))
    return SkillCost(tokens, ContextSizes(len(body), max(0, len(text) - len(body)), asset_bytes))


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
