"""Edits of JSON with comments, of TOML and of YAML, as text.

Rule: an edit changes one member of an object, one table or one block of lines. Comments,
order, indentation and line ends elsewhere stay unchanged.
"""

import json
import re
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from skills_mcp.text.safe_yaml import YamlError, parse_yaml

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_SPACE = re.compile(r"\s*")
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)
_BYTE_ORDER_MARK = "\ufeff"
_EXTENSIONS = {
    "a byte order mark": re.compile(rf"\A{_BYTE_ORDER_MARK}"),
    "comments": _COMMENT,
    "trailing commas": _LAST_COMMA,
}
_ONE_LINE = 10_000  # characters, so that a long URL is not folded


class UnparsableTextError(ValueError):
    """A text cannot be parsed, or a value is no table."""


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    value_start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    start: int
    close: int
    members: tuple[_Member, ...]

    def find(self, key: str) -> _Member | None:
        """Find a member; of duplicate keys the last one counts."""
        return next((member for member in reversed(self.members) if member.key == key), None)


def parse_json_text(text: str, refused: Collection[str] = ()) -> dict[str, Any]:
    """Parse a text without the `refused` extensions of JSON; empty text is an empty object.

    >>> parse_json_text('{"a": 1, /* b */ "c": [2,],} // d')
    {'a': 1, 'c': [2]}

    Raises:
        UnparsableTextError: It is no JSON object.
    """
    bare = _mask_comments(text, refused)
    if not bare.strip():
        return {}
    try:
        parsed = json.loads(bare)
    except ValueError as error:
        raise UnparsableTextError(str(error)) from error
    if not isinstance(parsed, dict):
        raise UnparsableTextError("it is not an object")
    return parsed


def insert_json_member(text: str, path: Sequence[str], value: object) -> str:
    """Set a value at a path, creating parent objects.

    >>> print(insert_json_member('{"a": {}} // b', ["a", "c"], 1))
    {"a": {
      "c": 1
    }} // b

    Raises:
        UnparsableTextError: It is no JSON object, or a parent is none.
    """
    unit = _find_unit(text)
    parse_json_text(text)
    bare = _mask_comments(text)
    if not bare.strip():
        return f"{text}{_render_value(_nest(path, value), unit, '')}\n"
    chain = _find_chain(bare, path)
    parent, member = chain[-1]
    if member is None:
        nested = _nest(path[len(chain) :], value)
        return _append_member(text, bare, parent, path[len(chain) - 1], nested)
    rendered = _render_value(value, unit, _indent_of(text, member.start))
    return text[: member.value_start] + rendered + text[member.end :]


def remove_json_member(text: str, path: Sequence[str]) -> str:
    """Delete the member at a path, and parent objects left empty.

    >>> remove_json_member('{"a": 1, "b": {"c": 2}}', ["b", "c"])
    '{"a": 1}'

    Raises:
        UnparsableTextError: It is no JSON object, or a parent is none.
    """
    if not parse_json_text(text):
        return text
    bare = _mask_comments(text)
    found = [(parent, member) for parent, member in _find_chain(bare, path) if member]
    if len(found) < len(path):
        return text
    while len(found) > 1 and _is_alone(text, *found[-1]):
        found.pop()
    return _delete_member(text, bare, *found[-1])


def is_empty_json(text: str) -> bool:
    """Whether a text holds neither members nor comments."""
    return "".join(text.split()) in {"", "{}"}


def _mask_comments(text: str, refused: Collection[str] = ()) -> str:
    """Mask comments and trailing commas with spaces; offsets stay valid.

    Line ends within comments are masked, too.
    """

    def hide(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else " " * len(found[0])

    for name, pattern in _EXTENSIONS.items():
        bare = pattern.sub(hide, text)
        if bare != text and name in refused:
            raise UnparsableTextError(f"it has {name}")
        text = bare
    return text


def _skip_space(bare: str, offset: int) -> int:
    found = _SPACE.match(bare, offset)
    return found.end() if found else offset


def _find_chain(bare: str, path: Sequence[str]) -> list[tuple[_Object, _Member | None]]:
    """Objects along a path with the next member, up to the first one that is missing."""
    chain: list[tuple[_Object, _Member | None]] = []
    start = _skip_space(bare, 0)
    for key in path:
        parent = _read_object(bare, start)
        member = parent.find(key)
        chain.append((parent, member))
        if member is None:
            break
        start = member.value_start
    return chain


def _read_object(bare: str, start: int) -> _Object:
    if bare[start] != "{":
        raise UnparsableTextError("a value is in the place of an object")
    read = json.JSONDecoder().raw_decode
    members: list[_Member] = []
    offset = _skip_space(bare, start + 1)
    while bare[offset] != "}":
        key, after = read(bare, offset)
        value_start = _skip_space(bare, _skip_space(bare, after) + 1)
        _, end = read(bare, value_start)
        members.append(_Member(key, offset, value_start, end))
        offset = _skip_space(bare, end)
        if bare[offset] == ",":
            offset = _skip_space(bare, offset + 1)
    return _Object(start, offset, tuple(members))


def _append_member(text: str, bare: str, parent: _Object, key: str, value: object) -> str:
    unit = _find_unit(text)
    eol = _find_eol(text)
    own = _indent_of(text, parent.start)
    if not parent.members:
        inner = own + unit
        existing = text[parent.start + 1 : parent.close].rstrip()
        member = f"{json.dumps(key)}: {_render_value(value, unit, inner, eol)}"
        inside = f"{existing}{eol}{inner}{member}{eol}{own}"
        return text[: parent.start + 1] + inside + text[parent.close :]
    last = parent.members[-1]
    end_of_line = bare.find("\n", last.end, parent.close)
    if end_of_line < 0 or not _begins_line(bare, last.start):
        member = f", {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        return text[: last.end] + member + text[last.end :]
    end_of_line -= text[end_of_line - 1] == "\r"
    inner = _indent_of(text, last.start)
    member = f"{eol}{inner}{json.dumps(key)}: {_render_value(value, unit, inner, eol)}"
    # With a comma behind its last member, an object has one behind the new one, too.
    comma = "," if _find_comma(text, last.end, parent.close) is None else ""
    between = text[last.end : end_of_line]
    behind = "" if comma else ","
    return f"{text[: last.end]}{comma}{between}{member}{behind}{text[end_of_line:]}"


def _is_alone(text: str, parent: _Object, member: _Member) -> bool:
    """Whether an object holds one member and no comment."""
    rest = text[parent.start + 1 : member.start] + text[member.end : parent.close]
    return len(parent.members) == 1 and not rest.replace(",", "").strip()


def _delete_member(text: str, bare: str, parent: _Object, member: _Member) -> str:
    position = parent.members.index(member)
    start = member.start
    if _begins_line(bare, start):
        start = bare.rindex("\n", 0, start)
        start -= text[start - 1] == "\r"
    comma = _find_comma(text, member.end, parent.close)
    end = member.end if comma is None else comma + 1
    if _is_alone(text, parent, member):
        return text[: parent.start + 1] + text[parent.close :]
    if position < len(parent.members) - 1:
        if start == member.start:
            end = parent.members[position + 1].start
        return text[:start] + text[end:]
    if position and comma is None:
        before = _find_comma(text, parent.members[position - 1].end, member.start)
        if before is not None:
            between = text[before + 1 : start] if start != member.start else ""
            return text[:before] + between + text[end:]
    return text[:start] + text[end:]


def _find_comma(text: str, start: int, end: int) -> int | None:
    position = _COMMENT.sub(lambda found: " " * len(found[0]), text[start:end]).find(",")
    return None if position < 0 else start + position


def _begins_line(bare: str, offset: int) -> bool:
    line = bare.rfind("\n", 0, offset)
    return line >= 0 and not bare[line:offset].strip()


def _indent_of(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _find_unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _find_eol(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _render_value(value: object, unit: str, indent: str, eol: str = "\n") -> str:
    rendered = json.dumps(value, indent=unit, ensure_ascii=False)
    return rendered.replace("\n", f"{eol}{indent}")


def _nest(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def parse_toml_text(text: str) -> dict[str, Any]:
    """Parse a text.

    Raises:
        UnparsableTextError: It is no TOML.
    """
    return _parse_document(text).unwrap()


def insert_toml_table(text: str, section: str, name: str, values: Mapping[str, object]) -> str:
    r"""Set the table `[section.name]`.

    >>> insert_toml_table("a = 1 # b\n", "c", "d", {"e": 2})
    'a = 1 # b\n\n[c.d]\ne = 2\n'

    Raises:
        UnparsableTextError: It is no TOML, or `section` is no table.
    """
    document = _parse_document(text)
    tables = document.get(section, {})
    if not isinstance(tables, MutableMapping):
        raise UnparsableTextError(f"{section} is no table")
    if isinstance(tables.get(name), MutableMapping):
        _update_table(tables[name], values)
    elif name in tables or isinstance(tables, InlineTable):
        tables[name] = dict(values)
    else:
        # At the end: keys of the root below a header would become keys of its table.
        between = _find_eol(text) * (2 - text.endswith("\n")) if text else ""
        added = tomlkit.dumps({section: {name: dict(values)}})
        return text + between + added.replace("\n", _find_eol(text))
    return _dump_document(document, text)


def remove_toml_table(text: str, section: str, name: str) -> str:
    r"""Delete a table, and its section if empty.

    >>> remove_toml_table("a = 1 # b\n\n[c.d]\ne = 2\n", "c", "d")
    'a = 1 # b\n'

    Raises:
        UnparsableTextError: It is no TOML.
    """
    document = _parse_document(text)
    tables = document.get(section)
    if not isinstance(tables, MutableMapping) or name not in tables:
        return text
    del tables[name]
    if not tables:
        del document[section]
    rest = _dump_document(document, text).rstrip()
    return rest + _find_eol(text) if rest.strip(_BYTE_ORDER_MARK) else ""


def _update_table(table: MutableMapping[str, Any], values: Mapping[str, object]) -> None:
    """Assign values, preserving the table's comments."""
    for key in [key for key in table if key not in values]:
        del table[key]
    for key, value in values.items():
        known = table.get(key)
        if isinstance(known, MutableMapping) and isinstance(value, Mapping):
            _update_table(known, value)
        elif known != value:
            table[key] = value


def _parse_document(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text.removeprefix(_BYTE_ORDER_MARK))
    except TOMLKitError as error:
        raise UnparsableTextError(str(error)) from error


def _dump_document(document: tomlkit.TOMLDocument, text: str) -> str:
    """Text of an edited document, with the byte order mark of the one before."""
    return _BYTE_ORDER_MARK * text.startswith(_BYTE_ORDER_MARK) + tomlkit.dumps(document)


_BLOCK_BEGIN = "# Written by skills-mcp install; skills-mcp install --remove deletes it."
_BLOCK_END = "# The end of what skills-mcp install has written."
_BLOCK = re.compile(
    # A block without a line end closes a text that had none.
    rf"(?:\r?\n)?^{re.escape(_BLOCK_BEGIN)}.*^{re.escape(_BLOCK_END)}\Z"
    rf"|^{re.escape(_BLOCK_BEGIN)}.*^{re.escape(_BLOCK_END)}\r?\n",
    re.DOTALL | re.MULTILINE,
)


def parse_yaml_text(text: str) -> dict[str, Any]:
    """Parse a text; empty text is an empty mapping.

    Raises:
        UnparsableTextError: It is no mapping.
    """
    try:
        values = parse_yaml(text.removeprefix(_BYTE_ORDER_MARK))
    except YamlError as error:
        raise UnparsableTextError(str(error)) from error
    if not isinstance(values or {}, dict):
        raise UnparsableTextError("it does not hold `section: {key: value}` pairs")
    return values or {}


def find_yaml_block(text: str) -> str:
    """Our block of lines; empty if there is none."""
    found = _BLOCK.search(text)
    return found[0] if found else ""


def set_yaml_block(text: str, values: Mapping[str, object]) -> str:
    r"""Write our block of lines anew, at the end if there is none.

    >>> before = "a: 1 # b\n"
    >>> remove_yaml_block(set_yaml_block(before, {"c": 2})) == before
    True

    Raises:
        UnparsableTextError: The text is no mapping of lines, or has one of the keys.
    """
    import yaml  # for this command only

    rest = remove_yaml_block(text)
    eol = _find_eol(text)
    dumped = yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True, width=_ONE_LINE)
    is_open = bool(rest) and not rest.endswith("\n")
    lines = f"{_BLOCK_BEGIN}\n{dumped}{_BLOCK_END}\n".replace("\n", eol)
    block = f"{eol}{lines.removesuffix(eol)}" if is_open else lines
    known = find_yaml_block(text)
    after = text.replace(known, block) if known else text + block
    if parse_yaml_text(after) != {**parse_yaml_text(rest), **values}:
        raise UnparsableTextError("lines cannot be added to it")
    return after


def remove_yaml_block(text: str) -> str:
    """Delete our block of lines."""
    return _BLOCK.sub("", text, count=1)
