"""Options of several commands, and the application that they configure."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from skills_mcp.bootstrap import Application, Options, build, find_url_secret
from skills_mcp.cli.command_group import GENERAL, WHERE, Decorator, SectionOption, add_options
from skills_mcp.cli.invocation import find_invocation, find_working_folder, read_environment
from skills_mcp.cli.logs import LEVELS, configure_logging, shared_level
from skills_mcp.config.values import AlgorithmSetting
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.errors import ConfigError, InvalidPathError
from skills_mcp.files.paths import parse_relative
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.source_layout import TOP_SUBFOLDER, Selection
from skills_mcp.text.rendering import abbreviate_value

algorithm_option = click.option(
    "--algorithm",
    type=click.Choice(get_args(AlgorithmSetting)),
    help="The matching algorithm.  [default: matching.algorithm]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

project_option = click.option(
    "--project",
    metavar="FOLDER",
    default="",
    help="The project that the agent works on.  [default: the working directory]",
)

pager_option = click.option(
    "--pager/--no-pager",
    "is_paged",
    default=True,
    help="Show what is longer than the terminal page by page.",
)


narrowing_options = add_options(
    click.option("--within", metavar="PATH", default="", help="Search only this part of the tree."),
    click.option(
        "--category", metavar="NAME", default="", help="Search only the skills of this category."
    ),
)


def complete_folder(
    _context: click.Context, _option: click.Parameter, incomplete: str
) -> "list[click.shell_completion.CompletionItem]":
    from click.shell_completion import CompletionItem  # late: completion alone needs it

    return [CompletionItem(incomplete, type="dir")]


_where_option = partial(click.option, cls=SectionOption, section=WHERE)
_general_option = partial(click.option, cls=SectionOption, section=GENERAL)

_PART_OPTIONS = (
    _where_option(
        "--subfolder",
        envvar="SKILLS_SUBFOLDER",
        metavar="FOLDER",
        default="",
        help="Serve only this folder of it; . for all of it as one tree.",
    ),
    _where_option(
        "--plugins",
        envvar="SKILLS_PLUGINS",
        metavar="NAMES",
        default="",
        help="Serve only these of its plugins, with commas between the names.",
    ),
    _where_option(
        "--everywhere/--usual-folders",
        envvar="SKILLS_EVERYWHERE",
        default=False,
        help="Serve skills outside of the usual folders, too.",
    ),
)
"""The served part of a source."""


def content_options(*, log_level: str = "error") -> Decorator:
    """Options for sources."""
    return add_options(
        _where_option(
            "--skills-dir",
            shell_complete=complete_folder,
            envvar="SKILLS_DIR",
            metavar="FOLDER",
            help="A folder with skills.",
        ),
        _where_option(
            "--repo", envvar="SKILLS_REPO", metavar="URL", help="A Git repository with skills."
        ),
        _where_option(
            "--branch",
            envvar="SKILLS_BRANCH",
            metavar="NAME",
            default="",
            help="The branch to follow; HEAD for the default branch.  "
            "[default: main, or else the default branch]",
        ),
        _where_option(
            "--ref",
            "pin",
            envvar="SKILLS_REF",
            metavar="NAME",
            default="",
            help="Pin to a tag or full commit SHA.",
        ),
        *_PART_OPTIONS,
        _where_option(
            "--discover/--no-discover",
            envvar="SKILLS_MCP_DISCOVER",
            default=None,
            help="Serve .agents/skills of the project and of your home, too.",
        ),
        _general_option(
            "--offline/--online",
            envvar="SKILLS_MCP_OFFLINE",
            default=None,
            help="Make no network request.  [default: sync.offline]",
        ),
        _general_option(
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Your settings file.  [default: config.yaml in ~/.config/skills-mcp]",
        ),
        _general_option(
            "--log-level",
            envvar="SKILLS_MCP_LOG_LEVEL",
            type=click.Choice(LEVELS, case_sensitive=False),
            default=log_level,
            show_default=True,
            help="What to log to standard error.",
        ),
    )


def choose_project(library: SkillLibrary, folder: str) -> None:
    """Compare skills with the project of `project_option`.

    Raises:
        UsageError: There is no such folder.
    """
    working = find_working_folder()
    named = (working or Path("/")) / folder
    if folder and not named.is_dir():
        raise click.UsageError(f"--project: {abbreviate_value(folder)} is no folder.")
    environment = {} if folder else read_environment()
    library.open_project(environment, named if folder else working)


_OWNER_AND_NAME = re.compile(r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*")

# No child process needs these; Git gets a secret in another way (DESIGN §3.10).
_TAKEN = ("GITHUB_TOKEN", "SKILLS_REPO", "SKILLS_MCP_TOKEN_FILE")


def build_application(
    *, is_recorded: bool = True, serves_groups: bool = False, **values: Any
) -> Application:
    """Build the application from the values of `content_options`, and start the log.

    Args:
        is_recorded: Whether answers are recorded as events.
        serves_groups: See `Options`.
        values: The values of the options.
    """
    options, environment = read_options(**values)
    options = replace(options, serves_groups=serves_groups)
    if not is_recorded:
        options = replace(options, settings={"analytics": {"enabled": False}})
    application = build(options, environment)
    if invocation := find_invocation():
        invocation.applications.append(application)
    return application


def read_options(*, log_level: str, **values: Any) -> tuple[Options, Mapping[str, str]]:
    """Parse the options and the environment, and start the log.

    Raises:
        ConfigError: The URL of the repository is invalid.
    """
    environment = dict(read_environment())
    log_source = click.get_current_context().get_parameter_source("log_level")
    if log_source is ParameterSource.DEFAULT:
        _warn_of_variables(environment)
        log_level = shared_level(environment) or log_level
    if find_invocation() is None:  # a server has its own, with the same secrets
        for name in _TAKEN:
            os.environ.pop(name, None)
        keys = (environment.get(name) for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"))
        secrets = (environment.get("GITHUB_TOKEN"), find_url_secret(values["repo"]), *keys)
        configure_logging(log_level, secrets=secrets)
    if _only_repo_is_typed():
        values["skills_dir"] = None
    _hint_at_url(values["repo"])
    selection = _parse_selection(**{name: values.pop(name) for name in _SELECTION})
    return Options(selection=selection, **values), environment


_SELECTION = ("subfolder", "plugins", "everywhere")


def _parse_selection(*, subfolder: str, plugins: str, everywhere: bool) -> Selection:
    folder = subfolder.strip().rstrip("/")
    try:
        parts = () if folder in {"", TOP_SUBFOLDER} else parse_relative(folder)
    except InvalidPathError as error:
        raise ConfigError(
            f"SKILLS_SUBFOLDER is {abbreviate_value(subfolder)}, which is no folder inside of a "
            "source. Write a relative path with forward slashes, such as teams/web"
        ) from error
    names = (name.strip() for name in plugins.split(","))
    picked = tuple(name for name in names if name)
    return Selection("/".join(parts) or folder, everywhere, picked)


def _warn_of_variables(environment: Mapping[str, str]) -> None:
    """Print suggestions for mistyped variables.

    The log has them, too, but most commands do not print it.
    """
    if getattr(click.get_current_context().command, "reports_variables", False):
        return
    for unknown in find_unknown_variables(environment):
        click.echo(f"skills-mcp: {unknown}", err=True)


def _only_repo_is_typed() -> bool:
    """Whether a typed repository overrides a folder in the environment."""
    context = click.get_current_context()
    folder, repo, ref = (
        context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        for name in ("skills_dir", "repo", "pin")
    )
    if folder and repo:
        raise click.UsageError("--skills-dir and --repo: give one of the two.")
    if folder and ref:
        raise click.UsageError(
            "--skills-dir and --ref: a folder has no commits to pin. Leave --ref out, "
            "or give --repo."
        )
    return repo


def _hint_at_url(repo: str | None) -> None:
    """Explain `owner/name`: it is a path here, not a GitHub repository."""
    if repo and _OWNER_AND_NAME.fullmatch(repo) and not Path(repo).exists():
        click.echo(
            f"skills-mcp: {repo} is a path, and does not exist. "
            f"Did you mean https://github.com/{repo}.git?",
            err=True,
        )
