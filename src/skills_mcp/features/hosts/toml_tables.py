"""TOML, edited as a text: one table, with everything else as it was written."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from skills_mcp.features.hosts.json_comments import UnfitTextError


def parse(text: str) -> dict[str, Any]:
    """Return what a text says.

    Raises:
        UnfitTextError: It is no TOML.
    """
    return _read(text).unwrap()


def insert(text: str, section: str, name: str, values: Mapping[str, object]) -> str:
    r"""Return the text with the table `[section.name]`.

    >>> insert("a = 1 # b\n", "c", "d", {"e": 2})
    'a = 1 # b\n\n[c.d]\ne = 2\n'

    Raises:
        UnfitTextError: It is no TOML, or `section` is no table.
    """
    document = _read(text)
    tables = document.setdefault(section, tomlkit.table(is_super_table=True))
    if not isinstance(tables, MutableMapping):
        raise UnfitTextError(f"{section} is no table")
    if name in tables and isinstance(tables[name], MutableMapping):
        _update(tables[name], values)
        return tomlkit.dumps(document)
    if isinstance(tables, InlineTable):
        tables[name] = dict(values)
        return tomlkit.dumps(document)
    table = tomlkit.table()
    table.update(values)
    if section != list(document)[-1]:
        table.add(tomlkit.nl())  # or the next table would follow without a blank line
    tables[name] = table
    return tomlkit.dumps(document)


def remove(text: str, section: str, name: str) -> str:
    r"""Return the text without a table, and without its section if that is empty.

    >>> remove("a = 1 # b\n\n[c.d]\ne = 2\n", "c", "d")
    'a = 1 # b\n'

    Raises:
        UnfitTextError: It is no TOML.
    """
    document = _read(text)
    tables = document.get(section)
    if not isinstance(tables, MutableMapping) or name not in tables:
        return text
    del tables[name]
    if not tables:
        del document[section]
    rest = tomlkit.dumps(document)
    return f"{rest.rstrip()}\n" if rest.strip() else ""


def _update(table: MutableMapping[str, Any], values: Mapping[str, object]) -> None:
    """Make a table say the same as the values, and keep its own comments."""
    for key in [key for key in table if key not in values]:
        del table[key]
    for key, value in values.items():
        if key not in table or table[key] != value:
            table[key] = value


def _read(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UnfitTextError(str(error)) from error
