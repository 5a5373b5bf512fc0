"""`skills-mcp catalog`: the list of skills for a system prompt."""

import sys
from dataclasses import dataclass
from typing import Any

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.sync import sync_and_load
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import ConfigError
from skills_mcp.library.catalog import CatalogStyle, SkillCatalog
from skills_mcp.skills.model import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """None takes the limit of the settings."""

    style: CatalogStyle
    scope: Scope | None = None
    max_entries: int | None = None
    max_bytes: int | None = None
    as_json: bool = False


def print_catalog(application: Application, request: CatalogOptions) -> None:
    """Sync, then print the list to standard output, and a truncation to standard error.

    Raises:
        SyncError: There is no content, old or new.
        ConfigError: The limit is too low even for an empty list.
    """
    sync_and_load(application)
    library = application.library.view()
    catalog = library.compose_catalog(
        request.style,
        scope=request.scope,
        max_entries=request.max_entries,
        max_bytes=request.max_bytes,
    )
    text = catalog.text
    max_bytes = request.max_bytes or library.config.catalog.max_bytes
    _require_room(len(text.encode("utf-8")), max_bytes)
    if request.as_json:
        print_json(_render(catalog))
        return
    # XML may escape what this output cannot carry; it stays the same XML.
    encoding = sys.stdout.encoding or "utf-8"
    encoded = text.encode(encoding, "xmlcharrefreplace").decode(encoding)
    click.echo(encoded, nl=False)
    if catalog.truncated:
        click.echo(_describe(catalog), err=True)


def _render(catalog: SkillCatalog) -> dict[str, Any]:
    return {
        "text": catalog.text,
        "size_bytes": len(catalog.text.encode("utf-8")),
        "skills": [entry.skill.path for entry in catalog.entries],
        "total": catalog.total,
        "truncated": catalog.truncated,
    }


def _require_room(size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise ConfigError(
            f"catalog.max_bytes is {max_bytes:,}, and an empty list has {size_bytes:,} "
            "bytes already. Set it to more, or pass --max-bytes."
        )


def _describe(catalog: SkillCatalog) -> str:
    return (
        f"The list has {len(catalog.entries)} of {catalog.total} skills. For more, "
        "raise --max-entries or --max-bytes."
    )
