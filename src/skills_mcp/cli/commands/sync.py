"""Fetch the newest skills once, for cron jobs and image builds."""

import sys
from dataclasses import replace
from typing import Any

import click

from skills_mcp.cli.command_group import SYNC_EXIT, SectionedCommand, repeat_options
from skills_mcp.cli.commands.status import describe_state, render_source
from skills_mcp.cli.options import build_application, content_options, json_option
from skills_mcp.cli.terminal import print_json, sync_progress


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp sync --repo https://github.com/acme/skills.git",
        "skills-mcp sync --json",
    ),
)
@json_option
@click.option(
    "--allow-rewrite",
    "allows_rewrite",
    is_flag=True,
    help="Accept a rewritten history (force-push) this once.",
)
@click.option(
    "--allow-removal",
    "allows_removal",
    is_flag=True,
    help="Accept the removal of skills despite sync.max_removed, this once.",
)
@content_options()
def command(*, as_json: bool, allows_removal: bool, **values: Any) -> None:
    library = build_application(**values).library
    with sync_progress(library):
        error = library.sync_or_load_stored(allows_removal=allows_removal)
    view = library.view()
    count = len(view.snapshot.index) if view.served else 0
    states = view.states()
    if as_json:
        if error and not any(state.error for state in states):
            # Not every error is stored: offline nothing was tried.
            states = tuple(replace(state, error=error) for state in states)
        print_json({"skills": count, "sources": list(map(render_source, states))})
    else:
        for state in states:
            click.echo(describe_state(state))
        click.echo("1 skill" if count == 1 else f"{count} skills")
    if error:
        click.echo(repeat_options(f"skills-mcp: {error}"), err=True)
        sys.exit(SYNC_EXIT)
