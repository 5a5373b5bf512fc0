"""`skills-mcp status`: what is here, and how new it is."""

import click

from skills_mcp.answers import render_state
from skills_mcp.bootstrap import Application
from skills_mcp.cli.printing import print_json
from skills_mcp.cli.states import compose_facts

_NEEDS_CARE = 1

# Only what discovery looks for may be missing: a source that is named is said anyway.
_NOTHING = "There is no source: no .agents/skills was found here."


def print_status(application: Application, *, as_json: bool) -> int:
    """Say how each source is doing, without asking the network.

    Returns:
        The exit code: 1 if the content of a source is missing or stale.
    """
    states = application.library.shelf.look()
    if as_json:
        print_json({"sources": [render_state(state) for state in states]})
    else:
        click.echo(compose_facts(states) or _NOTHING)
    is_wanting = any(state.is_stale for state in states)
    return _NEEDS_CARE if is_wanting else 0
