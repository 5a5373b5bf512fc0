"""JSON with comments and trailing commas, edited as a text.

Rule: an edit touches one member of an object. Everything else stays as it was written:
comments, order, indentation, line ends.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_SPACE = re.compile(r"\s*")
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)
_BYTE_ORDER_MARK = "\ufeff"


class UnfitTextError(ValueError):
    """A text cannot be parsed, or a value stands where a table belongs."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A key and its value; the numbers are places in the text."""

    key: str
    start: int
    value_start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """An object: the places of its braces, and its members."""

    start: int
    close: int
    members: tuple[_Member, ...]

    def find(self, key: str) -> _Member | None:
        """Return the member that counts: of several with one key, the last."""
        return next((each for each in reversed(self.members) if each.key == key), None)


def parse(text: str) -> dict[str, Any]:
    """Return what a text says; an empty one says nothing.

    >>> parse('{"a": 1, /* b */ "c": [2,],} // d')
    {'a': 1, 'c': [2]}

    Raises:
        UnfitTextError: It is no JSON object.
    """
    bare = _blank(text)
    if not bare.strip():
        return {}
    try:
        parsed = json.loads(bare)
    except ValueError as error:
        raise UnfitTextError(str(error)) from error
    if not isinstance(parsed, dict):
        raise UnfitTextError("it is not an object")
    return parsed


def insert(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with a value at a path; objects on the way are made.

    >>> print(insert('{"a": {}} // b', ["a", "c"], 1))
    {"a": {
      "c": 1
    }} // b

    Raises:
        UnfitTextError: It is no JSON object, or a value on the way is none.
    """
    unit = _find_unit(text)
    if not parse(text):
        bare = _blank(text)
        if not bare.strip():
            body = json.dumps(_nest(path, value), indent=unit, ensure_ascii=False)
            return f"{text}{body}\n"
    held = _read_object(_blank(text), _skip(_blank(text), 0))
    for depth, key in enumerate(path):
        member = held.find(key)
        if member is None:
            return _add(text, held, key, _nest(path[depth + 1 :], value), unit)
        if depth == len(path) - 1:
            rendered = _render(value, unit, _indent_of(text, member.start))
            return text[: member.value_start] + rendered + text[member.end :]
        held = _read_object(_blank(text), member.value_start)
    raise ValueError("the path is empty")


def remove(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path, and without objects left empty.

    >>> remove('{"a": 1, "b": {"c": 2}}', ["b", "c"])
    '{"a": 1}'

    Raises:
        UnfitTextError: It is no JSON object, or a value on the way is none.
    """
    if not parse(text):
        return text
    bare = _blank(text)
    held, chain = _read_object(bare, _skip(bare, 0)), list[tuple[_Object, _Member]]()
    for depth, key in enumerate(path):
        member = held.find(key)
        if member is None:
            return text
        chain.append((held, member))
        if depth < len(path) - 1:
            held = _read_object(bare, member.value_start)
    while len(chain) > 1 and _is_alone(text, bare, *chain[-1]):
        chain.pop()
    return _cut(text, bare, *chain[-1])


def is_empty(text: str) -> bool:
    """Whether a text says nothing, in no comment either."""
    return "".join(text.split()) in {"", "{}"}


def _blank(text: str) -> str:
    """Return the text with spaces for comments and for commas before a bracket.

    Every other character is where it was. A line end within a comment is none.
    """

    def hide(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else " " * len(found[0])

    if text.startswith(_BYTE_ORDER_MARK):
        text = f" {text[1:]}"
    bare = _COMMENT.sub(hide, text)
    return _LAST_COMMA.sub(hide, bare)


def _skip(bare: str, place: int) -> int:
    """Return the place of the next character that is no space."""
    found = _SPACE.match(bare, place)
    return found.end() if found else place


def _read_object(bare: str, start: int) -> _Object:
    """Find the members of the object that begins at a place of valid JSON."""
    if bare[start] != "{":
        raise UnfitTextError("a value is in the place of an object")
    read = json.JSONDecoder().raw_decode
    members: list[_Member] = []
    place = _skip(bare, start + 1)
    while bare[place] != "}":
        key, after = read(bare, place)
        value_start = _skip(bare, _skip(bare, after) + 1)
        _, end = read(bare, value_start)
        members.append(_Member(key, place, value_start, end))
        place = _skip(bare, end)
        if bare[place] == ",":
            place = _skip(bare, place + 1)
    return _Object(start, place, tuple(members))


def _add(text: str, held: _Object, key: str, value: object, unit: str) -> str:
    """Return the text with one more member, the last of an object."""
    bare = _blank(text)
    eol = "\r\n" if "\r\n" in text else "\n"
    own = _indent_of(text, held.start)
    if not held.members:
        inner = own + unit
        kept = text[held.start + 1 : held.close].rstrip()
        member = f"{json.dumps(key)}: {_render(value, unit, inner, eol)}"
        inside = f"{kept}{eol}{inner}{member}{eol}{own}"
        return text[: held.start + 1] + inside + text[held.close :]
    last = held.members[-1]
    end_of_line = bare.find("\n", last.end, held.close)
    if end_of_line < 0 or not _begins_line(bare, last.start):
        member = f", {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        return text[: last.end] + member + text[last.end :]
    end_of_line -= text[end_of_line - 1] == "\r"
    inner = _indent_of(text, last.start)
    member = f"{eol}{inner}{json.dumps(key)}: {_render(value, unit, inner, eol)}"
    # With a comma behind its last member, an object has one behind the new one, too.
    comma = "," if _find_comma(text, last.end, held.close) is None else ""
    between = text[last.end : end_of_line]
    behind = "" if comma else ","
    return f"{text[: last.end]}{comma}{between}{member}{behind}{text[end_of_line:]}"


def _is_alone(text: str, bare: str, held: _Object, member: _Member) -> bool:
    """Whether an object holds one member, and no comment."""
    rest = text[held.start + 1 : member.start] + text[member.end : held.close]
    return len(held.members) == 1 and not rest.replace(",", "").strip() and bool(bare)


def _cut(text: str, bare: str, held: _Object, member: _Member) -> str:
    """Return the text without a member, as if it had never been inserted."""
    place = held.members.index(member)
    start = member.start
    if _begins_line(bare, start):
        start = bare.rindex("\n", 0, start)
        start -= text[start - 1] == "\r"
    comma = _find_comma(text, member.end, held.close)
    end = member.end if comma is None else comma + 1
    if len(held.members) == 1 and _is_alone(text, bare, held, member):
        return text[: held.start + 1] + text[held.close :]
    if place < len(held.members) - 1:
        if start == member.start:
            end = held.members[place + 1].start
        return text[:start] + text[end:]
    if place and comma is None:
        before = _find_comma(text, held.members[place - 1].end, member.start)
        if before is not None:
            between = text[before + 1 : start] if start != member.start else ""
            return text[:before] + between + text[end:]
    return text[:start] + text[end:]


def _find_comma(text: str, start: int, end: int) -> int | None:
    """Return the place of the first comma between two members, or None."""
    blanked = _COMMENT.sub(lambda found: " " * len(found[0]), text[start:end])
    place = blanked.find(",")
    return None if place < 0 else start + place


def _begins_line(bare: str, place: int) -> bool:
    """Whether only spaces stand before a place on its line."""
    line = bare.rfind("\n", 0, place)
    return line >= 0 and not bare[line:place].strip()


def _indent_of(text: str, place: int) -> str:
    """Return the spaces with which the line of a place begins."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _find_unit(text: str) -> str:
    """Return the spaces of one level; two, where the text shows none."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _render(value: object, unit: str, indent: str, eol: str = "\n") -> str:
    rendered = json.dumps(value, indent=unit, ensure_ascii=False)
    return rendered.replace("\n", f"{eol}{indent}")


def _nest(path: Sequence[str], value: object) -> object:
    """Return objects within objects, the innermost with the value."""
    for key in reversed(path):
        value = {key: value}
    return value
