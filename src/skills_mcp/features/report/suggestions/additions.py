"""Additions to skills.

Keywords and example tasks, tried, accepted and written as patches.

Rules: an addition inserts text at one position of the frontmatter; everything else
stays
byte for byte. It is judged by the answers of the same matcher over all tasks with known
skills, never by an estimate.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skills_mcp.features.authoring.frontmatter_text import (
    FRONTMATTER,
    compose_fields,
    dump_scalar,
    find_end,
    is_block_value,
)
from skills_mcp.skills.document import get_examples, get_mapping, get_words
from skills_mcp.skills.model import ProblemList
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings

if TYPE_CHECKING:
    from yaml import MappingNode, Node, ScalarNode, SequenceNode

_METADATA = "metadata"
_KEYWORDS = "keywords"
_EXAMPLES = "examples"

KEYWORD_KEYS = (
    (_KEYWORDS,),
    ("tags",),
    ("triggers",),
    (_METADATA, _KEYWORDS),
    (_METADATA, "tags"),
    (_METADATA, "skillhub", "tags"),
    (_METADATA, "triggers", _KEYWORDS),
)
"""Keys of keywords in a package, in order of precedence."""

_EXAMPLE_KEYS = ((_EXAMPLES,), (_METADATA, _EXAMPLES))

_BYTE_ORDER_MARK = "\ufeff"
_INDENT = "  "
_LITERAL = "|"

# What is the same in a list, in quotes and without them.
_PLAIN_WORD = re.compile(r"\w(?:[\w.+#-]*[\w+#])?")

_KeyPath = tuple[str, ...]
_Insertion = tuple[int, str]


class UnsafeAdditionError(ValueError):
    """The frontmatter needs a person to edit it; the message says why."""


def add_keywords(raw: bytes, words: Sequence[str], *, is_package: bool) -> bytes:
    """Add keywords to the text of a skill, next to existing ones.

    A package without any gets them below `metadata`.

    Raises:
        UnsafeAdditionError: They cannot be added safely.
    """
    if not all(map(_PLAIN_WORD.fullmatch, words)):
        raise UnsafeAdditionError("a keyword has characters that YAML may misread")
    keys = KEYWORD_KEYS if is_package else KEYWORD_KEYS[:1]
    for word in words:
        raw = _add(raw, _Addition(_KEYWORDS, word, keys, is_package))
    return raw


def add_example(raw: bytes, task: str, *, is_package: bool) -> bytes:
    """Add an example task to the text of a skill.

    `task` is one line without control characters. With `is_package` the Agent Skills
    standard
    applies: `metadata` has only texts.

    Raises:
        UnsafeAdditionError: It cannot be added safely.
    """
    keys = _EXAMPLE_KEYS if is_package else _EXAMPLE_KEYS[:1]
    return _add(raw, _Addition(_EXAMPLES, task, keys, is_package))


@dataclass(frozen=True, slots=True)
class _Addition:
    """A new item of a list in the frontmatter."""

    key: str
    item: str
    keys: tuple[_KeyPath, ...]
    is_package: bool

    def read(self, fields: Mapping[str, Any], key: _KeyPath) -> tuple[str, ...]:
        *folders, last = key
        for folder in folders:
            fields = get_mapping(fields, folder)
        if self.key == _EXAMPLES:
            return get_examples(fields.get(last), ProblemList(""))
        return get_words(fields, last)


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
    position, new = _insert(found[1], addition)
    position += found.start(1)
    edited = lines[:position] + new + lines[position:]
    return (edited.replace("\n", "\r\n") if "\r\n" in text else edited).encode("utf-8")


def _insert(block: str, addition: _Addition) -> _Insertion:
    root = compose_fields(block)
    if root is None:
        raise UnsafeAdditionError("its frontmatter is not YAML with a key on each line")
    before = parse_yaml_strings(block)
    if before.repeated:
        raise UnsafeAdditionError(f"it has {before.repeated[0]} twice in one place")
    key = next(
        (candidate for candidate in addition.keys if _find(root, candidate) is not None),
        None,
    )
    position, new = (
        _begin(block, root, addition) if key is None else _append(block, root, key, addition)
    )
    _check(before.value, block[:position] + new + block[position:], key, addition)
    return position, new


def _check(
    before: Mapping[str, Any], block: str, key: _KeyPath | None, addition: _Addition
) -> None:
    """Refuse any difference but the new item."""
    try:
        after = parse_yaml_strings(block).value
    except YamlError:
        after = {}
    key = key or _new_key(addition)
    expected = (*addition.read(before, key), addition.item)
    if addition.read(after, key) != expected or _others(before, key) != _others(after, key):
        raise UnsafeAdditionError(
            f"{'.'.join(key)} is written in a way that only a person should change"
        )


def _others(fields: Mapping[str, Any], key: _KeyPath) -> dict[str, Any]:
    """The fields without one key."""
    first, *rest = key
    left = dict(fields)
    value = left.pop(first, None)
    if rest and isinstance(value, dict) and (remaining := _others(value, tuple(rest))):
        left[first] = remaining
    return left


def _new_key(addition: _Addition) -> _KeyPath:
    return (_METADATA, addition.key) if addition.is_package else (addition.key,)


def _find(node: "Node | None", path: _KeyPath) -> "Node | None":
    from yaml import MappingNode

    for key in path:
        if not isinstance(node, MappingNode):
            return None
        values = {name.value: value for name, value in node.value}
        node = values.get(key)
    return node


def _begin(block: str, root: "MappingNode", addition: _Addition) -> _Insertion:
    """A new key with its first item."""
    if not addition.is_package:
        lines = f"{addition.key}:\n{_INDENT}- {dump_scalar(addition.item)}\n"
        return _end_of_line(block, len(block), lines)
    metadata = _find(root, (_METADATA,))
    if metadata is None:
        lines = f"{_METADATA}:\n{_field(addition, _INDENT)}"
        return _end_of_line(block, len(block), lines)
    if not is_block_value(metadata):
        raise UnsafeAdditionError("metadata is no mapping with a key per line")
    indent = " " * metadata.start_mark.column
    return _end_of_line(block, find_end(metadata), _field(addition, indent))


def _field(addition: _Addition, indent: str) -> str:
    """A key of `metadata`; its value has to be a text."""
    if addition.key == _EXAMPLES:
        return f"{indent}{_EXAMPLES}: {_LITERAL}\n{indent}{_INDENT}{addition.item}\n"
    return f"{indent}{addition.key}: {dump_scalar(addition.item)}\n"


def _append(block: str, root: "MappingNode", key: _KeyPath, addition: _Addition) -> _Insertion:
    """A new item, in the style of the others."""
    from yaml import ScalarNode, SequenceNode

    node = _find(root, key)
    if isinstance(node, SequenceNode):
        return _append_item(block, node, addition)
    if isinstance(node, ScalarNode) and node.value.strip():
        return _append_text(block, node, addition)
    raise UnsafeAdditionError(f"{'.'.join(key)} is neither a list nor a text")


def _append_item(block: str, node: "SequenceNode", addition: _Addition) -> _Insertion:
    if is_block_value(node):
        item = _quote_like(node, addition.item) or dump_scalar(addition.item)
        line = f"{' ' * node.start_mark.column}- {item}\n"
        return _end_of_line(block, find_end(node), line)
    quoted = json.dumps(addition.item, ensure_ascii=False)
    plain = addition.item if _is_plain(addition.item) else quoted
    item = _quote_like(node, addition.item) or plain
    if node.value:
        return find_end(node.value[-1]), f", {item}"
    return node.start_mark.index + 1, item


def _quote_like(node: "SequenceNode", item: str) -> str:
    """Quote an item like the others, if these agree."""
    styles = {getattr(sibling, "style", None) for sibling in node.value}
    if styles == {'"'}:
        return json.dumps(item, ensure_ascii=False)
    return "'{}'".format(item.replace("'", "''")) if styles == {"'"} else ""


def _append_text(block: str, node: "ScalarNode", addition: _Addition) -> _Insertion:
    if addition.key == _EXAMPLES:
        if node.style != _LITERAL:
            raise UnsafeAdditionError("its examples are no list, and no text with |")
        written = block[: find_end(node)].rstrip()
        last = written[written.rindex("\n") + 1 :]
        indent = last[: len(last) - len(last.lstrip())]
        return _end_of_line(block, len(written), f"{indent}{addition.item}\n")
    if node.style in {"'", '"'}:
        return find_end(node) - 1, f", {addition.item}"
    return len(block[: find_end(node)].rstrip()), f", {addition.item}"


def _is_plain(item: str) -> bool:
    """Whether an item needs no quotes in a flow sequence."""
    return bool(_PLAIN_WORD.fullmatch(item)) and dump_scalar(item) == item


def _end_of_line(block: str, position: int, lines: str) -> _Insertion:
    if position == 0 or block[position - 1] == "\n":
        return position, lines
    end = block.find("\n", position)
    if end < 0:
        return len(block), f"\n{lines}"
    return end + 1, lines
