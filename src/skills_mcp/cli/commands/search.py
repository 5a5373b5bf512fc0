"""List the skills that fit some words best, as search_skills does."""

from typing import Any

import click

from skills_mcp.cli import options
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.commands.ask import call_tool, tabulate_skills
from skills_mcp.cli.terminal import open_console, print_json


@click.command(
    cls=SectionedCommand, examples=('skills-mcp search "customs form" --skills-dir ./skills',)
)
@click.argument("query")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="The most skills to show.  [default: search.limit]",
)
@options.narrowing_options
@options.json_option
@options.content_options()
def command(
    *, query: str, limit: int | None, within: str, category: str, as_json: bool, **values: Any
) -> None:
    library = options.build_application(is_recorded=False, **values).library
    arguments = {"query": query, "limit": limit, "within": within, "category": category}
    data = call_tool(library, "search_skills", **arguments).data
    if as_json:
        print_json(data)
    elif data["skills"]:
        open_console().print(tabulate_skills(data["skills"]))
        if data["truncated"]:
            click.echo("There are more: raise --limit.")
    else:
        click.echo(data["message"])
