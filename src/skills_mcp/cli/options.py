"""Options that several commands have, each in one place."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click

from skills_mcp.bootstrap import DEFAULT_BRANCH
from skills_mcp.cli.logs import LEVELS
from skills_mcp.config.values import Algorithm

Command = Callable[..., None]

algorithm_option = click.option(
    "--algorithm",
    type=click.Choice(get_args(Algorithm)),
    help="How to route.  [default: matching.algorithm]",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs."
)


class _Switch(click.Option):
    """A flag whose variable says yes or no; to Click 8.2, any value means yes."""

    def value_from_envvar(self, ctx: click.Context) -> str | None:
        return click.Parameter.resolve_envvar_value(self, ctx)


def content_options(*, log_level: str) -> Callable[[Command], Command]:
    """Add the options that say where the skills are (001 §11.1)."""
    options = (
        click.option(
            "--skills-dir",
            envvar="SKILLS_DIR",
            metavar="FOLDER",
            help="A folder with skills.",
        ),
        click.option(
            "--repo",
            envvar="SKILLS_REPO",
            metavar="URL",
            help="A Git repository with skills.",
        ),
        click.option(
            "--branch",
            envvar="SKILLS_BRANCH",
            metavar="NAME",
            default=DEFAULT_BRANCH,
            show_default=True,
            help="The branch to follow; HEAD for whichever is the default.",
        ),
        click.option(
            "--ref",
            "pin",
            envvar="SKILLS_REF",
            metavar="NAME",
            default="",
            help="A tag, or a whole commit, to stay at instead.",
        ),
        click.option(
            "--discover/--no-discover",
            cls=_Switch,
            envvar="SKILLS_MCP_DISCOVER",
            default=None,
            help="Also serve .agents/skills of the project and of your home.",
        ),
        click.option(
            "--offline/--online",
            cls=_Switch,
            envvar="SKILLS_MCP_OFFLINE",
            default=None,
            help="Ask nothing of the network.  [default: sync.offline]",
        ),
        click.option(
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Your settings.  [default: config.yaml in ~/.skills-mcp]",
        ),
        click.option(
            "--log-level",
            envvar="SKILLS_MCP_LOG_LEVEL",
            type=click.Choice(LEVELS, case_sensitive=False),
            default=log_level,
            show_default=True,
            help="What to write to standard error.",
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def evaluation_options(command: Command) -> Command:
    """Add what only `test` has."""
    options = (
        click.argument(
            "file",
            required=False,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
        ),
        algorithm_option,
        json_option,
        click.option(
            "--strict",
            "is_strict",
            is_flag=True,
            help="Fail on an ambiguous answer, too.",
        ),
        click.option(
            "--min-accuracy",
            metavar="X",
            type=click.FloatRange(0, 1),
            help="Fail only if accuracy_at_1 is below this.",
        ),
        click.option(
            "--baseline",
            metavar="REF",
            help="Show what has changed since this commit.",
        ),
        click.option(
            "--no-examples",
            "has_examples",
            is_flag=True,
            flag_value=False,
            default=True,
            help="Leave out the examples of the skills.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def report_options(command: Command) -> Command:
    """Add what only `report` has."""
    options = (
        click.option(
            "--since",
            metavar="WHEN",
            default="30d",
            show_default=True,
            help="The first day: a date, or so many days (30d) or weeks (12w).",
        ),
        click.option(
            "--until",
            metavar="DATE",
            type=click.DateTime(["%Y-%m-%d"]),
            help="The last day.  [default: today]",
        ),
        click.option(
            "--from",
            "collected",
            metavar="PATH",
            multiple=True,
            type=click.Path(exists=True, path_type=Path),
            help="Events that a receiver has written down: a file with one per line, "
            "or a folder; may be repeated.",
        ),
        click.option(
            "--html",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Write a page with charts that needs nothing else.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
