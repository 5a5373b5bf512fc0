"""The program: arguments, exit codes, and what a person reads.

Exit codes: 0 done, 1 `validate` or `test` found something, 2 wrong usage, 3 the
configuration or the content cannot be used, 4 the sync failed and there is nothing
older to show.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.bootstrap import DEFAULT_BRANCH, Application, Options, build
from skills_mcp.cli.logs import configure_logging, shared_level
from skills_mcp.cli.options import (
    algorithm_option,
    content_options,
    evaluation_options,
    json_option,
)
from skills_mcp.config import TOOLSETS
from skills_mcp.content.remote import Remote
from skills_mcp.errors import ConfigError, ContentError, SkillsError
from skills_mcp.skills.index import SCOPES
from skills_mcp.skills.model import Scope
from skills_mcp.skills.scoping import Scoping

_HELLO = (
    "Waiting for an MCP client on standard input; Ctrl-C ends it. To see the skills "
    "yourself: skills-mcp tree"
)

_CONFIG_EXIT = 3
_SYNC_EXIT = 4


class _DefaultToServe(click.Group):
    """`skills-mcp` alone, or with options only, serves."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"--help", "-h", "--version"}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_DefaultToServe, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name=DISTRIBUTION)
def program() -> None:
    """Serve an organisation's engineering knowledge to coding agents over MCP."""


def _parse_toolsets(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[str, ...] | None:
    """Return the names, which stand with commas between them."""
    if text is None:
        return None
    names = tuple(filter(None, map(str.strip, text.split(","))))
    for name in names or [text]:
        if name not in TOOLSETS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(TOOLSETS)}.")
    return names


@program.command()
@click.option(
    "--toolsets",
    envvar="SKILLS_MCP_TOOLSETS",
    metavar="NAMES",
    callback=_parse_toolsets,
    help=f"Which tools there are, with commas: {','.join(TOOLSETS)}.",
)
@content_options(log_level="info")
def serve(**given: Any) -> None:
    """Serve MCP on standard input and output (the default)."""
    application = _build(**given)
    import anyio

    from skills_mcp.server.app import create_server
    from skills_mcp.server.stdio import serve_stdio

    if sys.stdin.isatty():
        click.echo(_HELLO, err=True)
    server = create_server(application.library)
    anyio.run(serve_stdio, server, application.library, application.publisher)


@program.command()
@content_options(log_level="error")
@json_option
@click.option("--problems", is_flag=True, help="Show what is wrong in the content.")
def tree(*, as_json: bool, problems: bool, **given: Any) -> None:
    """Show all skills, as list_skills does."""
    from skills_mcp.cli.tree import print_tree

    application = _build(**given)
    with _readable_errors():
        print_tree(application, as_json=as_json, with_problems=problems)


@program.command()
@content_options(log_level="error")
@click.option(
    "--format",
    "style",
    type=click.Choice(["skills_context", "available_skills"]),
    default="skills_context",
    show_default=True,
    help="Only names and places, or files, too.",
)
@click.option(
    "--scope", type=click.Choice(SCOPES), help="Only the skills of this scope."
)
@click.option(
    "--max-entries",
    metavar="N",
    type=click.IntRange(min=1),
    help="The most skills.  [default: catalog.max_entries]",
)
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    help="The most bytes.  [default: catalog.max_bytes]",
)
def catalog(
    *,
    style: str,
    scope: Scope | None,
    max_entries: int | None,
    max_bytes: int | None,
    **given: Any,
) -> None:
    """Print a list of the skills for a system prompt."""
    from skills_mcp.cli.catalog import Wanted, print_catalog

    wanted = Wanted(
        style=style, scope=scope, max_entries=max_entries, max_bytes=max_bytes
    )
    application = _build(**given)
    with _readable_errors():
        print_catalog(application, wanted)


@program.command()
@click.argument(
    "paths",
    metavar="PATHS...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@json_option
@click.option("--strict", is_flag=True, help="Fail on warnings, too.")
def validate(*, paths: tuple[Path, ...], as_json: bool, strict: bool) -> None:
    """Check skills before anybody is served.

    PATHS are content repositories, folders of skills, packages or single files.
    """
    from skills_mcp.cli.validate import print_validation

    with _readable_errors():
        sys.exit(print_validation(paths, as_json=as_json, strict=strict))


@program.command("test")
@content_options(log_level="error")
@evaluation_options
def run_test(**given: Any) -> None:
    """Check that prompts find the skills that they should.

    FILE has a prompt on each line; without it, the examples of the skills are tried.
    """
    from skills_mcp.cli.test import Wanted, print_test

    wanted = Wanted(**{each.name: given.pop(each.name) for each in fields(Wanted)})
    options, environment = _read_options(**given)
    with _readable_errors():
        sys.exit(print_test(options, environment, wanted))


@program.command()
@click.argument("task")
@content_options(log_level="error")
@algorithm_option
@click.option("--skill", metavar="PATH", help="Why not this skill?")
@click.option(
    "--within", metavar="PATH", default="", help="Only this part of the tree."
)
@click.option("--category", metavar="NAME", default="", help="Only this category.")
@json_option
def explain(
    *,
    task: str,
    skill: str | None,
    within: str,
    category: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Say why a task gets its answer, and what would change it."""
    from skills_mcp.cli.explain import Question, print_explanation

    application = _build(**given)
    question = Question(task, skill, Scoping(within, category))
    with _readable_errors():
        print_explanation(application, question, as_json=as_json)


def main() -> None:
    """Run the program and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a poor terminal costs no traceback
    program(prog_name="skills-mcp")


def _build(**given: Any) -> Application:
    """Wire everything up from the values of `content_options`, and log from now on."""
    options, environment = _read_options(**given)
    with _readable_errors():
        return build(options, environment)


def _read_options(*, log_level: str, **given: Any) -> tuple[Options, Mapping[str, str]]:
    """Return what to build from, and log from now on."""
    environment = dict(os.environ)
    # No child of ours needs these; Git gets the token in its own way (DESIGN §3.10).
    token, _ = os.environ.pop("GITHUB_TOKEN", None), os.environ.pop("SKILLS_REPO", None)
    if not _is_given("log_level"):
        log_level = shared_level(environment) or log_level
    keys = (environment.get(name) for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"))
    secrets = (token, _secret_in(given["repo"]), *keys)
    configure_logging(log_level, secrets=secrets)
    if _only_repo_is_typed():
        given["skills_dir"] = None
    return Options(**given), environment


def _is_given(name: str) -> bool:
    """Whether an option is on the command line, or its variable is set."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not ParameterSource.DEFAULT


def _only_repo_is_typed() -> bool:
    """Whether a repository on the command line beats a folder in the environment."""
    context = click.get_current_context()
    typed = {
        name
        for name in ("skills_dir", "repo")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if len(typed) > 1:
        raise click.UsageError("--skills-dir and --repo: give one of the two.")
    return typed == {"repo"}


def _secret_in(repo: str | None) -> str | None:
    """Return the secret that a person wrote into the URL, if any."""
    return Remote.parse(repo, DEFAULT_BRANCH).token if repo else None


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Turn our errors into a line on standard error and an exit code."""
    try:
        yield
    except SkillsError as error:
        click.echo(f"skills-mcp: {error}", err=True)
        sys.exit(_exit_code(error))


def _exit_code(error: SkillsError) -> int:
    match error:
        case ConfigError():
            return _CONFIG_EXIT
        case ContentError():
            return _SYNC_EXIT
        case _:
            return 1
