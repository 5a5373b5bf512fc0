"""Edit one table of a TOML file, preserving the rest."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from skills_mcp.features.hosts.json_comments import UnparsableTextError


def parse_toml_text(text: str) -> dict[str, Any]:
    """Parse a text.

    Raises:
        UnfitTextError: It is no TOML.
    """
    return _parse_document(text).unwrap()


def insert_toml_table(text: str, section: str, name: str, values: Mapping[str, object]) -> str:
    r"""Set the table `[section.name]`.

    >>> insert_toml_table("a = 1 # b\n", "c", "d", {"e": 2})
    'a = 1 # b\n\n[c.d]\ne = 2\n'

    Raises:
        UnfitTextError: It is no TOML, or `section` is no table.
    """
    document = _parse_document(text)
    tables = document.setdefault(section, tomlkit.table(is_super_table=True))
    if not isinstance(tables, MutableMapping):
        raise UnparsableTextError(f"{section} is no table")
    if name in tables and isinstance(tables[name], MutableMapping):
        _update_table(tables[name], values)
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


def remove_toml_table(text: str, section: str, name: str) -> str:
    r"""Delete a table, and its section if empty.

    >>> remove_toml_table("a = 1 # b\n\n[c.d]\ne = 2\n", "c", "d")
    'a = 1 # b\n'

    Raises:
        UnfitTextError: It is no TOML.
    """
    document = _parse_document(text)
    tables = document.get(section)
    if not isinstance(tables, MutableMapping) or name not in tables:
        return text
    del tables[name]
    if not tables:
        del document[section]
    rest = tomlkit.dumps(document)
    return f"{rest.rstrip()}\n" if rest.strip() else ""


def _update_table(table: MutableMapping[str, Any], values: Mapping[str, object]) -> None:
    """Assign values, preserving the table's comments."""
    for key in [key for key in table if key not in values]:
        del table[key]
    for key, value in values.items():
        if key not in table or table[key] != value:
            table[key] = value


def _parse_document(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UnparsableTextError(str(error)) from error
