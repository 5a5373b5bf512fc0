"""Print a list of the skills for a system prompt."""

import sys
from typing import Any

import click

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import build_application, content_options, json_option
from skills_mcp.cli.terminal import print_json, sync_and_load
from skills_mcp.errors import ConfigError
from skills_mcp.library.catalog import CatalogStyle, SkillCatalog
from skills_mcp.skills.model import Scope
from skills_mcp.skills.skill_index import SCOPES
from skills_mcp.text.tokens import count_tokens


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp catalog --skills-dir ./skills > skills.xml",
        "skills-mcp catalog --format available_skills --max-entries 50",
    ),
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["skills_context", "available_skills"]),
    default="skills_context",
    show_default=True,
    help="List each skill with its path, or with its files.",
)
@click.option("--scope", type=click.Choice(SCOPES), help="List only the skills of this scope.")
@click.option(
    "--max-entries",
    metavar="N",
    type=click.IntRange(min=1),
    help="The maximum number of skills.  [default: catalog.max_entries]",
)
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    help="The maximum size.  [default: catalog.max_bytes]",
)
@json_option
@content_options()
def command(
    *,
    style: CatalogStyle,
    scope: Scope | None,
    max_entries: int | None,
    max_bytes: int | None,
    as_json: bool,
    **values: Any,
) -> None:
    library = build_application(**values).library
    sync_and_load(library)
    catalog = library.view().compose_catalog(
        style, scope=scope, max_entries=max_entries, max_bytes=max_bytes
    )
    size_bytes = len(catalog.text.encode("utf-8"))
    limit = max_bytes or library.config.catalog.max_bytes
    if size_bytes > limit:
        raise ConfigError(
            f"catalog.max_bytes is {limit:,}, and an empty list has {size_bytes:,} "
            "bytes already. Set it to more, or pass --max-bytes."
        )
    if as_json:
        print_json(_render(catalog, size_bytes))
        return
    # XML may escape what this output cannot carry; it stays the same XML.
    encoding = sys.stdout.encoding or "utf-8"
    encoded = catalog.text.encode(encoding, "xmlcharrefreplace").decode(encoding)
    click.echo(encoded, nl=False)
    if catalog.truncated:
        message = (
            f"The list has {len(catalog.entries)} of {catalog.total} skills. For more, "
            "raise --max-entries or --max-bytes."
        )
        click.echo(message, err=True)


def _render(catalog: SkillCatalog, size_bytes: int) -> dict[str, Any]:
    return {
        "text": catalog.text,
        "size_bytes": size_bytes,
        "tokens": count_tokens(catalog.text),
        "skills": [entry.skill.path for entry in catalog.entries],
        "total": catalog.total,
        "truncated": catalog.truncated,
    }
