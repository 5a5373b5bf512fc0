"""Options of the commands, and exit codes of errors."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.core import ParameterSource

from skills_mcp.bootstrap import (
    Application,
    Options,
    build,
    find_url_secret,
)
from skills_mcp.cli.failures import print_failure_object
from skills_mcp.cli.logs import LEVELS, configure_logging, shared_level
from skills_mcp.cli.verb import GENERAL, OVER_HTTP, WHERE, SectionOption
from skills_mcp.config.values import AlgorithmSetting
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.errors import (
    ConfigError,
    ContentError,
    InvalidPathError,
    SkillsError,
)
from skills_mcp.features.hosts.host_names import (
    DEFAULT_NAME,
    HostName,
    HostScope,
    PluginHost,
)
from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.source_layout import TOP_SUBFOLDER, Selection
from skills_mcp.text.rendering import abbreviate_value

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = Callable[..., None]

algorithm_option = click.option(
    "--algorithm",
    type=click.Choice(get_args(AlgorithmSetting)),
    help="The matching algorithm.  [default: matching.algorithm]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

pager_option = click.option(
    "--pager/--no-pager",
    "is_paged",
    default=True,
    help="Show what is longer than the terminal page by page.",
)


class _Switch(SectionOption):
    """A boolean flag and variable; in Click 8.2, any value of a variable means true."""

    def value_from_envvar(self, ctx: click.Context) -> str | None:
        return click.Parameter.resolve_envvar_value(self, ctx)


def _complete_folder(
    _context: click.Context, _option: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


_where_option = partial(click.option, cls=SectionOption, section=WHERE)
_general_option = partial(click.option, cls=SectionOption, section=GENERAL)
_http_option = partial(click.option, cls=SectionOption, section=OVER_HTTP)

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
        cls=_Switch,
        envvar="SKILLS_EVERYWHERE",
        default=False,
        help="Serve skills outside of the usual folders, too.",
    ),
)
"""The served part of a source."""


def content_options(*, log_level: str) -> Callable[[Command], Command]:
    """Add the options for sources."""
    options = (
        _where_option(
            "--skills-dir",
            shell_complete=_complete_folder,
            envvar="SKILLS_DIR",
            metavar="FOLDER",
            help="A folder with skills.",
        ),
        _where_option(
            "--repo",
            envvar="SKILLS_REPO",
            metavar="URL",
            help="A Git repository with skills.",
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
            cls=_Switch,
            envvar="SKILLS_MCP_DISCOVER",
            default=None,
            help="Serve .agents/skills of the project and of your home, too.",
        ),
        _general_option(
            "--offline/--online",
            cls=_Switch,
            envvar="SKILLS_MCP_OFFLINE",
            default=None,
            help="Make no network request.  [default: sync.offline]",
        ),
        _general_option(
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Your settings file.  [default: config.yaml in ~/.skills-mcp]",
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

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_HTTP_OPTIONS = ("host", "port", "operations_host", "operations_port", "base_url")


def http_options(command: Command) -> Command:
    options = (
        click.option(
            "--transport",
            envvar="SKILLS_MCP_TRANSPORT",
            type=click.Choice(["stdio", "http"]),
            default="stdio",
            show_default=True,
            help="How clients reach the server.",
        ),
        _http_option(
            "--host",
            metavar="ADDRESS",
            help="Listen here.  [default: http.host]",
        ),
        _http_option(
            "--port",
            metavar="N",
            type=int,
            help="The port.  [default: http.port]",
        ),
        _http_option(
            "--operations-host",
            metavar="ADDRESS",
            help="Listen here for health and metrics.  [default: http.operations_host]",
        ),
        _http_option(
            "--operations-port",
            metavar="N",
            type=int,
            help="The port of these.  [default: http.operations_port]",
        ),
        _http_option(
            "--base-url",
            metavar="URL",
            help="The URL that clients use, without /mcp.  [default: http.base_url]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def tree_options(command: Command) -> Command:
    options = (
        click.option(
            "--depth",
            metavar="N",
            type=click.IntRange(min=1),
            help="Show only this many levels.",
        ),
        click.option(
            "--search",
            metavar="WORDS",
            default="",
            help="Show only skills that have all these words in their path, "
            "description or keywords.",
        ),
        json_option,
        click.option(
            "--problems",
            "with_problems",
            is_flag=True,
            help="Show the problems of the content.",
        ),
        pager_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def narrowing_options(command: Command) -> Command:
    """Add the options to filter skills."""
    options = (
        click.option(
            "--within",
            metavar="PATH",
            default="",
            help="Search only this part of the tree.",
        ),
        click.option(
            "--category",
            metavar="NAME",
            default="",
            help="Search only the skills of this category.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def show_options(command: Command) -> Command:
    options = (
        click.argument("name", metavar="PATH"),
        click.option(
            "--raw",
            "is_raw",
            is_flag=True,
            help="Show the file alone, as its author wrote it.",
        ),
        click.option(
            "--files",
            "with_files",
            is_flag=True,
            help="List the files that come with it instead of the text.",
        ),
        json_option,
        pager_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def new_options(command: Command) -> Command:
    options = (
        click.argument("path"),
        click.option(
            "--skills-dir",
            "folder",
            cls=SectionOption,
            section=WHERE,
            envvar="SKILLS_DIR",
            metavar="FOLDER",
            required=True,
            type=click.Path(path_type=Path),
            shell_complete=_complete_folder,
            help="The folder with the skills; it is made if there is none.",
        ),
        click.option(
            "--package",
            "is_package",
            is_flag=True,
            help="Write a package: a folder with a SKILL.md.",
        ),
        click.option(
            "--description",
            metavar="TEXT",
            default="",
            help="What it is for, and when to use it.  [default: made of PATH]",
        ),
        click.option(
            "--keywords",
            metavar="WORDS",
            default="",
            help="What a developer would type, separated by commas.  [default: made of PATH]",
        ),
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


# As `skills_mcp.features.export` has them, which takes a while to import.
_EXPORT_FORMATS = (
    *("claude", "agents", "gemini", "copilot", "plain", "marketplace", "well-known"),
)

_EXPORT_MODES = (
    click.option(
        "--check",
        "is_check",
        is_flag=True,
        help="Write nothing; fail if the folder is behind.",
    ),
    click.option(
        "--frozen",
        "is_frozen",
        is_flag=True,
        help="Write exactly the commit and settings of skills.lock.",
    ),
    click.option(
        "--watch",
        "is_watching",
        is_flag=True,
        help="Follow the skills until Ctrl-C.",
    ),
)


def export_options(command: Command) -> Command:
    options = (
        click.option(
            "--to",
            "target",
            metavar="FOLDER",
            required=True,
            type=click.Path(path_type=Path),
            shell_complete=_complete_folder,
            help="The folder to write, such as .claude/skills.",
        ),
        click.option(
            "--format",
            "folder_format",
            type=click.Choice(_EXPORT_FORMATS),
            help="For whom.  [default: by the name of the folder]",
        ),
        click.option(
            "--select",
            metavar="PATTERN",
            multiple=True,
            help="Only skills whose path or name fits, such as ui/**; may be repeated.",
        ),
        click.option("--raw", "is_raw", is_flag=True, help="Without the rules above each skill."),
        *_EXPORT_MODES,
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def self_check_options(command: Command) -> Command:
    options = (
        click.option(
            "--max-age",
            "max_age_hours",
            metavar="HOURS",
            type=click.FloatRange(min=0),
            help="The most hours since the last sync.  [default: three intervals]",
        ),
        click.option(
            "--program-version",
            metavar="VERSION",
            help="The version that has to be installed.  [default: any]",
        ),
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def add_options(command: Command) -> Command:
    options = (
        click.argument(
            "package",
            required=False,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
        ),
        click.option(
            "--to",
            "target",
            metavar="FOLDER",
            required=True,
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="The folder of skills that takes it.",
        ),
        click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask."),
        click.option(
            "--keep",
            "kept",
            metavar="N",
            type=click.IntRange(min=1, max=1000),
            default=10,
            show_default=True,
            help="How many earlier versions of the skill to keep.",
        ),
        click.option("--list", "listed", metavar="NAME", help="Print the versions of a skill."),
        click.option(
            "--restore",
            "restored",
            metavar="NAME",
            help="Put an earlier version of this skill in place again.",
        ),
        click.option(
            "--version",
            metavar="VERSION",
            help="The version to restore.  [default: the newest]",
        ),
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


_PLUGIN_OPTIONS = (
    click.option(
        "--plugin",
        type=click.Choice(get_args(PluginHost)),
        help="Make a plugin of the server, a hook and a command.",
    ),
    click.option(
        "--to",
        "folder",
        metavar="FOLDER",
        type=click.Path(file_okay=False, path_type=Path),
        help="The folder of the plugin.",
    ),
)


def install_options(command: Command) -> Command:
    options = (
        click.option(
            "--client",
            "clients",
            type=click.Choice(get_args(HostName)),
            multiple=True,
            help="Which host; may be repeated.  [default: all that are found here]",
        ),
        click.option(
            "--scope",
            type=click.Choice(get_args(HostScope)),
            default="user",
            show_default=True,
            help="For you, or for everyone who works in this folder.",
        ),
        click.option("--print", "is_printed", is_flag=True, help="Only show what to add."),
        click.option("--remove", "is_removed", is_flag=True, help="Take the entry out again."),
        click.option("--http", "url", metavar="URL", help="Connect to a server at this URL."),
        click.option(
            "--name",
            metavar="NAME",
            default=DEFAULT_NAME,
            show_default=True,
            help="What the server is called there.",
        ),
        *_PLUGIN_OPTIONS,
        click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask."),
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


_RULE_OPTIONS = (
    click.option(
        "--select",
        metavar="RULES",
        multiple=True,
        help="Report only these rules, with commas between them; link-* stands for "
        "all that begin so.",
    ),
    click.option(
        "--ignore",
        metavar="RULES",
        multiple=True,
        help="Do not report these rules.",
    ),
    click.option(
        "--baseline",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Do not report the findings that this file knows.",
    ),
    click.option(
        "--write-baseline",
        "is_baseline_written",
        is_flag=True,
        help="Write all findings to the baseline.",
    ),
)


def validate_options(command: Command) -> Command:
    options = (
        click.argument(
            "paths",
            nargs=-1,
            required=True,
            type=click.Path(exists=True, path_type=Path),
        ),
        *_RULE_OPTIONS,
        click.option(
            "--fix",
            "is_repairing",
            is_flag=True,
            help="Repair what needs no thought, and report the rest.",
        ),
        click.option(
            "--format",
            "report_format",
            type=click.Choice(["text", "json", "sarif", "github", "junit"]),
            default="text",
            show_default=True,
            help="For people, programs, code scanning, annotations or test reports.",
        ),
        click.option("--json", "as_json", is_flag=True, help="As --format json."),
        click.option("--strict", "is_strict", is_flag=True, help="Fail on warnings, too."),
    )
    for option in reversed(options):
        command = option(command)
    return command


_TEST_FORMATS = (
    click.option(
        "--format",
        "report_format",
        type=click.Choice(["text", "json", "markdown"]),
        default="text",
        show_default=True,
        help="For people, programs, or a comment on a pull request.",
    ),
    click.option("--json", "as_json", is_flag=True, help="As --format json."),
)


def prompt_test_options(command: Command) -> Command:
    options = (
        click.argument(
            "file",
            required=False,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
        ),
        algorithm_option,
        *_TEST_FORMATS,
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
            help="Fail only if accuracy_at_1 is below X.",
        ),
        click.option(
            "--baseline",
            metavar="REF",
            help="Compare with the skills of this commit, or of this folder: ./before.",
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


_DATABASE_OPTIONS = (
    click.option(
        "--database",
        metavar="URL",
        help="The database in which a server keeps the events of all machines, "
        "such as sqlite:////srv/events.db.",
    ),
    click.option(
        "--around",
        metavar="COMMIT",
        help="Compare the days before and after this commit was first used; needs --database.",
    ),
)

_by_option = click.option(
    "--by",
    type=click.Choice(["group", "source"]),
    help="Print the main figures of each group of people, or of each source.",
)


_SUGGEST_OPTIONS = (
    click.option(
        "--suggest",
        "is_suggesting",
        is_flag=True,
        help="Print keywords and example tasks to add, by what agents picked, as a "
        "diff for git apply, with its effect on all example tasks.",
    ),
    click.option(
        "--source",
        metavar="NAME",
        help="The source whose diff --suggest prints, if several have one: its place "
        "in the tree, or its address.",
    ),
)


def report_options(command: Command) -> Command:
    options = (
        click.option(
            "--since",
            metavar="WHEN",
            default="30d",
            show_default=True,
            help="The first day: a date, or a number of days (30d) or weeks (12w).",
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
            help="Events that a receiver collected: a file with one event per line, or "
            "a folder; may be repeated.",
        ),
        *_DATABASE_OPTIONS,
        _by_option,
        click.option(
            "--html",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Write a self-contained page with charts.",
        ),
        *_SUGGEST_OPTIONS,
    )
    for option in reversed(options):
        command = option(command)
    return command


CONFIG_EXIT = 3
_SYNC_EXIT = 4

_OWNER_AND_NAME = re.compile(r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*")

# No child process needs these; Git gets a secret in another way (DESIGN §3.10).
_TAKEN = ("GITHUB_TOKEN", "SKILLS_REPO", "SKILLS_MCP_TOKEN_FILE")


def build_application(*, is_recorded: bool = True, **values: Any) -> Application:
    """Build the application from the values of `content_options`, and start the log.

    Args:
        is_recorded: Whether answers are recorded as events.
        values: The values of the options.
    """
    with readable_errors():
        options, environment = read_options(**values)
        if not is_recorded:
            options = replace(options, settings={"analytics": {"enabled": False}})
        return build(options, environment)


def read_options(*, log_level: str, **values: Any) -> tuple[Options, Mapping[str, str]]:
    """Parse the options and the environment, and start the log.

    Raises:
        ConfigError: The URL of the repository is invalid.
    """
    environment = dict(os.environ)
    for name in _TAKEN:
        os.environ.pop(name, None)
    if not _is_given("log_level"):
        _warn_of_variables(environment)
        log_level = shared_level(environment) or log_level
    keys = (environment.get(name) for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"))
    secrets = (environment.get("GITHUB_TOKEN"), find_url_secret(values["repo"]), *keys)
    configure_logging(log_level, secrets=secrets)
    if _only_repo_is_typed():
        values["skills_dir"] = None
    _hint_at_url(values["repo"])
    selection = _parse_selection(**{name: values.pop(name) for name in _SELECTION})
    http = {name: values.pop(name, None) for name in _HTTP_OPTIONS}
    typed = {name: value for name, value in http.items() if value is not None}
    return Options(selection=selection, http=typed, **values), environment


_TELLING = ("doctor", "hook", "serve", "status")

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

    The log has them, too, but most commands do not print it; the others warn
    themselves, and
    a hook prints nothing.
    """
    if click.get_current_context().info_name in _TELLING:
        return
    for unknown in find_unknown_variables(environment):
        click.echo(f"skills-mcp: {unknown}", err=True)


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not ParameterSource.DEFAULT


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


@contextmanager
def readable_errors() -> Iterator[None]:
    """Translate errors to a line on standard error and an exit code."""
    try:
        yield
    except SkillsError as error:
        print_error(error)
        sys.exit(_exit_code(error))


def print_error(error: SkillsError) -> None:
    """Print an error on standard error, and as JSON if requested."""
    print_failure_object(error.code, str(error))
    click.echo(f"skills-mcp: {error}", err=True)


def _exit_code(error: SkillsError) -> int:
    match error:
        case ConfigError():
            return CONFIG_EXIT
        case ContentError():
            return _SYNC_EXIT
        case _:
            return 1
