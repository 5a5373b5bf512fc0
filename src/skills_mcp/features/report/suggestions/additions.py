"""Adds keywords and example tasks to the frontmatter of a skill, and changes no more.

Rule: an addition is a piece of text that is put in at one place. What an author wrote
stays to the byte: comments, quotes, order and line ends.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skills_mcp.features.authoring.frontmatter_text import (
    FRONTMATTER,
    compose_fields,
    end_of,
    is_below,
    spell,
)
from skills_mcp.skills.document import examples_of, mapping_of, words_of
from skills_mcp.skills.model import ProblemList
from skills_mcp.text.safe_yaml import YamlError, parse_texts

if TYPE_CHECKING:
    from yaml import MappingNode, Node, ScalarNode, SequenceNode

_METADATA = "metadata"
_KEYWORDS = "keywords"
_EXAMPLES = "examples"

KEYWORD_PLACES = (
    (_KEYWORDS,),
    ("tags",),
    ("triggers",),
    (_METADATA, _KEYWORDS),
    (_METADATA, "tags"),
    (_METADATA, "skillhub", "tags"),
    (_METADATA, "triggers", _KEYWORDS),
)
"""Where a package may have its keywords, in the order in which they are read."""

_EXAMPLE_PLACES = ((_EXAMPLES,), (_METADATA, _EXAMPLES))

_BYTE_ORDER_MARK = "\ufeff"
_INDENT = "  "
_LITERAL = "|"

# What is the same in a list, in quotes and without them.
_PLAIN_WORD = re.compile(r"\w(?:[\w.+#-]*[\w+#])?")

_Place = tuple[str, ...]
_Insertion = tuple[int, str]
"""Where a text is put in, and the text."""


class UnsafeAdditionError(ValueError):
    """A frontmatter cannot be added to without a person; the message says why."""


def add_keywords(raw: bytes, words: Sequence[str], *, is_package: bool) -> bytes:
    """Return the text of a skill with more keywords, where its author has them.

    A package without any gets them below `metadata`.

    Raises:
        UnsafeAdditionError: They cannot be added safely.
    """
    if not all(map(_PLAIN_WORD.fullmatch, words)):
        raise UnsafeAdditionError("a keyword has characters that YAML may misread")
    places = KEYWORD_PLACES if is_package else KEYWORD_PLACES[:1]
    for word in words:
        raw = _add(raw, _Addition(_KEYWORDS, word, places, is_package))
    return raw


def add_example(raw: bytes, task: str, *, is_package: bool) -> bytes:
    """Return the text of a skill with one more example task.

    Args:
        raw: The whole file.
        task: In one line, without control characters.
        is_package: Whether the standard of packages holds, by which `metadata` has
            nothing but texts.

    Raises:
        UnsafeAdditionError: It cannot be added safely.
    """
    places = _EXAMPLE_PLACES if is_package else _EXAMPLE_PLACES[:1]
    return _add(raw, _Addition(_EXAMPLES, task, places, is_package))


@dataclass(frozen=True, slots=True)
class _Addition:
    """One item more of a list in the frontmatter."""

    key: str
    item: str
    places: tuple[_Place, ...]
    is_package: bool

    def read(self, fields: Mapping[str, Any], place: _Place) -> tuple[str, ...]:
        """Return the items that stand at a place, as skills are read."""
        *folders, last = place
        for folder in folders:
            fields = mapping_of(fields, folder)
        if self.key == _EXAMPLES:
            return examples_of(fields.get(last), ProblemList(""))
        return words_of(fields, last)


def _add(raw: bytes, addition: _Addition) -> bytes:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsafeAdditionError("its file is not UTF-8") from None
    if text.count("\r\n") not in {0, text.count("\n")}:
        raise UnsafeAdditionError("its lines end in different ways")
    lines = text.replace("\r\n", "\n")
    start = len(_BYTE_ORDER_MARK) if lines.startswith(_BYTE_ORDER_MARK) else 0
    found = FRONTMATTER.match(lines, start)
    if found is None:
        raise UnsafeAdditionError("no frontmatter begins in its first line")
    place, new = _insert(found[1], addition)
    place += found.start(1)
    whole = lines[:place] + new + lines[place:]
    return (whole.replace("\n", "\r\n") if "\r\n" in text else whole).encode("utf-8")


def _insert(block: str, addition: _Addition) -> _Insertion:
    root = compose_fields(block)
    if root is None:
        raise UnsafeAdditionError("its frontmatter is not YAML with a key on each line")
    before = parse_texts(block)
    if before.repeated:
        raise UnsafeAdditionError(f"it has {before.repeated[0]} twice in one place")
    place = next(
        (each for each in addition.places if _find(root, each) is not None), None
    )
    position, new = (
        _begin(block, root, addition)
        if place is None
        else _append(block, root, place, addition)
    )
    _check(before.value, block[:position] + new + block[position:], place, addition)
    return position, new


def _check(
    before: Mapping[str, Any], block: str, place: _Place | None, addition: _Addition
) -> None:
    """Refuse what does not read as the fields before and one item more."""
    try:
        after = parse_texts(block).value
    except YamlError:
        after = {}
    place = place or _new_place(addition)
    wanted = (*addition.read(before, place), addition.item)
    if addition.read(after, place) != wanted or _others(before, place) != _others(
        after, place
    ):
        raise UnsafeAdditionError(
            f"{'.'.join(place)} is written in a way that only a person should change"
        )


def _others(fields: Mapping[str, Any], place: _Place) -> dict[str, Any]:
    """Return the fields without what stands at a place."""
    first, *rest = place
    left = dict(fields)
    value = left.pop(first, None)
    if rest and isinstance(value, dict) and (kept := _others(value, tuple(rest))):
        left[first] = kept
    return left


def _new_place(addition: _Addition) -> _Place:
    return (_METADATA, addition.key) if addition.is_package else (addition.key,)


def _find(node: "Node | None", place: _Place) -> "Node | None":
    """Return the value at a place."""
    from yaml import MappingNode

    for key in place:
        if not isinstance(node, MappingNode):
            return None
        values = {each.value: value for each, value in node.value}
        node = values.get(key)
    return node


def _begin(block: str, root: "MappingNode", addition: _Addition) -> _Insertion:
    """Return the key with its first item."""
    if not addition.is_package:
        lines = f"{addition.key}:\n{_INDENT}- {spell(addition.item)}\n"
        return _end_of_line(block, len(block), lines)
    metadata = _find(root, (_METADATA,))
    if metadata is None:
        lines = f"{_METADATA}:\n{_field(addition, _INDENT)}"
        return _end_of_line(block, len(block), lines)
    if not is_below(metadata):
        raise UnsafeAdditionError("metadata is no mapping with a key per line")
    indent = " " * metadata.start_mark.column
    return _end_of_line(block, end_of(metadata), _field(addition, indent))


def _field(addition: _Addition, indent: str) -> str:
    """Return a key of `metadata`, whose value has to be a text."""
    if addition.key == _EXAMPLES:
        return f"{indent}{_EXAMPLES}: {_LITERAL}\n{indent}{_INDENT}{addition.item}\n"
    return f"{indent}{addition.key}: {spell(addition.item)}\n"


def _append(
    block: str, root: "MappingNode", place: _Place, addition: _Addition
) -> _Insertion:
    """Return one item more, in the way in which the others are written."""
    from yaml import ScalarNode, SequenceNode

    node = _find(root, place)
    if isinstance(node, SequenceNode):
        return _append_item(block, node, addition)
    if isinstance(node, ScalarNode) and node.value.strip():
        return _append_text(block, node, addition)
    raise UnsafeAdditionError(f"{'.'.join(place)} is neither a list nor a text")


def _append_item(block: str, node: "SequenceNode", addition: _Addition) -> _Insertion:
    if is_below(node):
        item = _quote_like(node, addition.item) or spell(addition.item)
        line = f"{' ' * node.start_mark.column}- {item}\n"
        return _end_of_line(block, end_of(node), line)
    quoted = json.dumps(addition.item, ensure_ascii=False)
    plain = addition.item if _is_plain(addition.item) else quoted
    item = _quote_like(node, addition.item) or plain
    if node.value:
        return end_of(node.value[-1]), f", {item}"
    return node.start_mark.index + 1, item


def _quote_like(node: "SequenceNode", item: str) -> str:
    """Return an item in the quotes that all others have; empty if they have none."""
    styles = {getattr(each, "style", None) for each in node.value}
    if styles == {'"'}:
        return json.dumps(item, ensure_ascii=False)
    return "'{}'".format(item.replace("'", "''")) if styles == {"'"} else ""


def _append_text(block: str, node: "ScalarNode", addition: _Addition) -> _Insertion:
    if addition.key == _EXAMPLES:
        if node.style != _LITERAL:
            raise UnsafeAdditionError("its examples are no list, and no text with |")
        written = block[: end_of(node)].rstrip()
        last = written[written.rindex("\n") + 1 :]
        indent = last[: len(last) - len(last.lstrip())]
        return _end_of_line(block, len(written), f"{indent}{addition.item}\n")
    if node.style in {"'", '"'}:
        return end_of(node) - 1, f", {addition.item}"
    return len(block[: end_of(node)].rstrip()), f", {addition.item}"


def _is_plain(item: str) -> bool:
    """Whether an item needs no quotes in a list between brackets."""
    return bool(_PLAIN_WORD.fullmatch(item)) and spell(item) == item


def _end_of_line(block: str, position: int, lines: str) -> _Insertion:
    """Return whole lines behind the one in which something ends."""
    if position == 0 or block[position - 1] == "\n":
        return position, lines
    end = block.find("\n", position)
    if end < 0:
        return len(block), f"\n{lines}"
    return end + 1, lines
