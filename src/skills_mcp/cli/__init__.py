"""The program and its commands; each runs in a module of its own.

Exit codes: 0 success, 1 `validate`, `test`, `status` or `doctor` found something, 2
wrong
usage, 3 the settings or the content cannot be used, 4 the sync failed without older
content, or in `sync` itself, or `status` sees failing syncs, 130 Ctrl-C.
"""

import logging
import os
import sys
from dataclasses import fields
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.bootstrap import Application, build
from skills_mcp.cli.options import (
    CONFIG_EXIT,
    add_options,
    algorithm_option,
    build_application,
    content_options,
    export_options,
    http_options,
    install_options,
    json_option,
    narrowing_options,
    new_options,
    pager_option,
    print_error,
    prompt_test_options,
    read_options,
    readable_errors,
    report_options,
    self_check_options,
    show_options,
    tree_options,
    validate_options,
)
from skills_mcp.cli.verb import VerbGroup
from skills_mcp.config import TOOLSETS
from skills_mcp.errors import ConfigError
from skills_mcp.features.hosts.host_names import HookHost
from skills_mcp.processes.memory import (
    gc_frozen,
    limit_malloc_arenas,
)
from skills_mcp.skills.model import Scope
from skills_mcp.skills.skill_index import SCOPES, SkillFilter

if TYPE_CHECKING:
    from skills_mcp.cli.completion import Shell
    from skills_mcp.library.catalog import CatalogStyle
    from skills_mcp.server.wire import Wire

_HELLO = (
    "Waiting for an MCP client on standard input; Ctrl-C ends it. To see the skills "
    "yourself: skills-mcp tree"
)

logger = logging.getLogger(__name__)


@click.group(
    cls=VerbGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": sys.maxsize,  # as wide as the terminal
    },
)
@click.version_option(__version__, prog_name=DISTRIBUTION)
def program() -> None:
    """Serve an organisation's engineering knowledge to coding agents over MCP."""


def _parse_toolsets(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(filter(None, map(str.strip, text.split(","))))
    for name in names or [text]:
        if name not in TOOLSETS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(TOOLSETS)}.")
    return names


@program.command(context_settings={"allow_extra_args": True})
@click.option(
    "--toolsets",
    envvar="SKILLS_MCP_TOOLSETS",
    metavar="NAMES",
    callback=_parse_toolsets,
    help=f"Which tools to offer, separated by commas: {','.join(TOOLSETS)}.",
)
@http_options
@content_options(log_level="info")
@click.pass_context
def serve(context: click.Context, /, *, transport: str, **values: Any) -> None:
    """Serve MCP, on standard input and output or over HTTP (the default)."""
    if context.args:
        raise click.UsageError(program.describe_unknown(context.args))
    if transport == "http":
        from skills_mcp.cli.serve_http import run_http

        run_http(build_application(**values))
        return
    from skills_mcp.server.wire import claimed_wire

    is_typed_at = sys.stdin.isatty()
    variables = dict(os.environ)  # before a secret is taken out of the environment
    with claimed_wire() as wire:
        with gc_frozen():
            application = _build_for(wire, is_typed_at=is_typed_at, **values)
            import anyio

            from skills_mcp.server.app import create_server
            from skills_mcp.server.parts import Serving, open_parts
            from skills_mcp.server.stdio import serve_stdio

            serving = Serving(
                server=create_server(application.library),
                library=application.library,
                publisher=application.publisher,
                transport="pipe",
                arguments=sys.argv[1:],
                environment=variables,
            )
            parts = open_parts(serving)
        limit_malloc_arenas()
        if is_typed_at:
            click.echo(_HELLO, err=True)
        anyio.run(serve_stdio, serving, wire, parts)


def _build_for(wire: "Wire", *, is_typed_at: bool, **values: Any) -> Application:
    """Build the application, or answer the client with the error until it disconnects.

    A host shows nothing of a server that ends at once; a person reads standard error.
    """
    with readable_errors():
        try:
            options, environment = read_options(**values)
            return build(options, environment)
        except ConfigError as error:
            if is_typed_at:
                raise
            import anyio

            from skills_mcp.server.app import create_unconfigured_server
            from skills_mcp.server.stdio import serve_unconfigured

            print_error(error)
            server = create_unconfigured_server(error)
            anyio.run(serve_unconfigured, server, wire, CONFIG_EXIT)
            raise


@program.command()
@tree_options
@content_options(log_level="error")
def tree(**values: Any) -> None:
    """Show all skills, as list_skills does."""
    from skills_mcp.cli.tree import TreeOptions, print_tree

    request = TreeOptions(**{field.name: values.pop(field.name) for field in fields(TreeOptions)})
    application = build_application(**values)
    with readable_errors():
        print_tree(application, request)


@program.command()
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
@content_options(log_level="error")
def catalog(
    *,
    style: "CatalogStyle",
    scope: Scope | None,
    max_entries: int | None,
    max_bytes: int | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Print a list of the skills for a system prompt."""
    from skills_mcp.cli.catalog import CatalogOptions, print_catalog

    request = CatalogOptions(
        style=style,
        scope=scope,
        max_entries=max_entries,
        max_bytes=max_bytes,
        as_json=as_json,
    )
    application = build_application(**values)
    with readable_errors():
        print_catalog(application, request)


@program.command("open")
@click.option(
    "--browser/--no-browser",
    "is_shown",
    default=True,
    help="Open a browser, or only print the address.",
)
@json_option
@content_options(log_level="error")
def run_open(*, is_shown: bool, as_json: bool, **values: Any) -> None:
    """Look at your skills in a browser, on this machine alone."""
    from skills_mcp.cli.open_pages import open_pages

    open_pages(is_shown=is_shown, as_json=as_json, **values)


@program.command()
@json_option
@click.option(
    "--allow-rewrite",
    "allows_rewrite",
    is_flag=True,
    help="Accept a rewritten history (force-push) this once.",
)
@content_options(log_level="error")
def sync(*, as_json: bool, **values: Any) -> None:
    """Fetch the newest skills once, for cron jobs and image builds."""
    from skills_mcp.cli.sync import print_sync

    application = build_application(**values)
    with readable_errors():
        sys.exit(print_sync(application, as_json=as_json))


@program.command()
@json_option
@content_options(log_level="error")
def status(*, as_json: bool, **values: Any) -> None:
    """Show the served commit, its age and errors (offline)."""
    from skills_mcp.cli.status import print_status

    application = build_application(**values)
    with readable_errors():
        sys.exit(print_status(application, as_json=as_json))


@program.command()
@click.option(
    "--mount",
    metavar="PLACE",
    help="The mount of the repository, if there are several.",
)
@click.option(
    "--to",
    metavar="COMMIT",
    default="",
    help="Go back to this commit instead of the previous one.",
)
@click.option("--resume", is_flag=True, help="Follow the repository again.")
@json_option
@content_options(log_level="error")
def rollback(*, mount: str | None, to: str, resume: bool, as_json: bool, **values: Any) -> None:
    """Go back to the previous commit (undo with --resume).

    Every server on this machine switches within seconds, and does not fetch this
    repository until you --resume.
    """
    from skills_mcp.cli.rollback import RollbackOptions, print_rollback

    if to and resume:
        raise click.UsageError("--to and --resume exclude each other.")
    application = build_application(**values)
    request = RollbackOptions(mount=mount, to=to, is_resumed=resume)
    with readable_errors():
        print_rollback(application, request, as_json=as_json)


@program.command()
@validate_options
def validate(*, as_json: bool, **values: Any) -> None:
    """Check skills before they are merged.

    PATHS are content repositories, folders of skills, packages or single files.
    """
    from skills_mcp.cli.validate import ValidateOptions, print_validation

    if as_json:
        values["report_format"] = "json"
    with readable_errors():
        sys.exit(print_validation(ValidateOptions(**values)))


@program.command()
@report_options
@json_option
@content_options(log_level="error")
def report(**values: Any) -> None:
    """Report what agents asked for, what they got, and what to change.

    The events are those recorded on this machine, or with --from collected ones.
    """
    from skills_mcp.cli.report import ReportOptions, print_report

    request = ReportOptions(
        **{field.name: values.pop(field.name) for field in fields(ReportOptions)}
    )
    with readable_errors():
        options, environment = read_options(**values)
        if request.is_suggesting:
            from skills_mcp.cli.suggest import print_suggestions

            print_suggestions(options, environment, request)
        else:
            print_report(options, environment, request)


@program.command()
@add_options
def add(**values: Any) -> None:
    """Add a skill from an archive to a folder of skills.

    PACKAGE is a .zip or .tar.gz with SKILL.md at its top or in its one folder. It is
    checked and shown before anything is written; the version before is kept.
    """
    from skills_mcp.cli.add import AddOptions, run_add

    with readable_errors():
        run_add(AddOptions(**values))


@program.command()
@install_options
@content_options(log_level="error")
def install(**values: Any) -> None:
    """Connect your coding agent: add this server to the file that it reads.

    What changes is shown, and you are asked first. The options that say where the
    skills are become part of the entry.
    """
    from skills_mcp.cli.install import InstallOptions, run_install

    request = InstallOptions(
        **{field.name: values.pop(field.name) for field in fields(InstallOptions)}
    )
    with readable_errors():
        options, environment = read_options(**values)
        run_install(options, environment, request)


@program.command()
@json_option
@content_options(log_level="error")
@click.pass_context
def doctor(context: click.Context, /, *, as_json: bool, **values: Any) -> None:
    """Check everything, and say what repairs what is broken.

    Git, the network, the token, the repository, the cache, the disk, the sandbox, the
    clock, and the entry of each agent, which is started as the agent does it.
    """
    from skills_mcp.cli.doctor import print_diagnosis

    with readable_errors():
        options, environment = read_options(**values)
        code = print_diagnosis(options, environment, context.command, as_json=as_json)
        sys.exit(code)


@program.command()
@export_options
@content_options(log_level="error")
def export(**values: Any) -> None:
    """Write the skills as folders that agents read without a server.

    Only what differs is written, and nothing that an export did not write is touched.
    """
    from skills_mcp.cli.export import ExportOptions, run_export

    request = ExportOptions(
        **{field.name: values.pop(field.name) for field in fields(ExportOptions)}
    )
    if request.is_watching and (request.is_check or request.is_frozen):
        raise click.UsageError("--watch excludes --check and --frozen.")
    with readable_errors():
        options, environment = read_options(**values)
        sys.exit(run_export(options, environment, request))


@program.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def verify(*, folder: Path, as_json: bool) -> None:
    """Compare an exported folder with its lock.

    FOLDER has a skills.lock. No repository is needed, and nothing is written.
    """
    from skills_mcp.cli.verify import print_verification

    with readable_errors():
        sys.exit(print_verification(folder, as_json=as_json))


@program.command("self-check")
@self_check_options
@content_options(log_level="error")
def self_check(*, max_age_hours: float | None, program_version: str | None, **values: Any) -> None:
    """Check this machine for a management tool: one line, and an exit status.

    It asks no network and starts no agent; doctor does both.
    """
    from skills_mcp.cli.self_check import SelfCheckOptions, run_self_check

    request = SelfCheckOptions(
        max_age_hours=max_age_hours,
        program_version=program_version,
        as_json=values.pop("as_json"),
    )
    with readable_errors():
        options, environment = read_options(**values)
        sys.exit(run_self_check(options, environment, request))


@program.command()
@click.argument("host", type=click.Choice(get_args(HookHost)))
@content_options(log_level="error")
def hook(*, host: str, **values: Any) -> None:
    """Name the skill for a prompt, as a hook of your agent.

    The agent starts it with each prompt, as JSON on standard input. It is silent if no
    skill fits.
    """
    from skills_mcp.cli.hook import print_cached_hint

    print_cached_hint(host, values)


@program.command("test")
@prompt_test_options
@content_options(log_level="error")
def run_test(*, as_json: bool, **values: Any) -> None:
    """Test that prompts match the skills that they should.

    FILE has one prompt per line, or is the evals.json or trigger_eval.json of a skill;
    those of the skills, and their examples, are tested without it.
    """
    from skills_mcp.cli.test import PromptTestOptions, print_test

    if as_json:
        values["report_format"] = "json"
    request = PromptTestOptions(
        **{field.name: values.pop(field.name) for field in fields(PromptTestOptions)}
    )
    with readable_errors():
        options, environment = read_options(**values)
        sys.exit(print_test(options, environment, request))


@program.command()
@click.argument("task")
@algorithm_option
@click.option(
    "--skill",
    metavar="PATH",
    help="Explain this skill, too, such as why it is not the answer.",
)
@narrowing_options
@json_option
@content_options(log_level="error")
def explain(
    *,
    task: str,
    skill: str | None,
    within: str,
    category: str,
    as_json: bool,
    **values: Any,
) -> None:
    """Explain which skill a task matches, and why."""
    from skills_mcp.cli.explain import ExplainOptions, print_explanation

    application = build_application(**values)
    question = ExplainOptions(task, skill, SkillFilter(within, category))
    with readable_errors():
        print_explanation(application, question, as_json=as_json)


@program.command()
@new_options
def new(*, path: str, folder: Path, **values: Any) -> None:
    """Write a new skill: a rule file, or a package with a SKILL.md.

    PATH is its place in the tree, such as ui/react/forms. Nothing that exists is
    changed.
    """
    from skills_mcp.cli.new import NewOptions, run_new

    with readable_errors():
        run_new(NewOptions(path=path, folder=folder, **values))


@program.command()
@show_options
@content_options(log_level="error")
def show(**values: Any) -> None:
    """Show the text of a skill exactly as an agent gets it.

    PATH is a path or a name, as tree shows it.
    """
    from skills_mcp.cli.show import ShowOptions, print_skill

    request = ShowOptions(**{field.name: values.pop(field.name) for field in fields(ShowOptions)})
    if request.is_raw and request.with_files:
        raise click.UsageError("--raw and --files exclude each other.")
    application = build_application(is_recorded=False, **values)
    with readable_errors():
        print_skill(application, request)


@program.command()
@click.argument("task")
@click.option("--skill", metavar="PATH", help="Take this skill, as an agent that has chosen it.")
@narrowing_options
@json_option
@pager_option
@content_options(log_level="error")
def ask(**values: Any) -> None:
    """Show what an agent gets for a task, as get_skill answers it.

    It is not recorded as a use of the skill.
    """
    from skills_mcp.cli.ask import AskOptions, print_answer

    request = AskOptions(**{field.name: values.pop(field.name) for field in fields(AskOptions)})
    application = build_application(is_recorded=False, **values)
    with readable_errors():
        print_answer(application, request)


@program.command()
@click.argument("query")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="The most skills to show.  [default: search.limit]",
)
@narrowing_options
@json_option
@content_options(log_level="error")
def search(**values: Any) -> None:
    """List the skills that fit some words best, as search_skills does."""
    from skills_mcp.cli.ask import SearchOptions, print_found

    request = SearchOptions(
        **{field.name: values.pop(field.name) for field in fields(SearchOptions)}
    )
    application = build_application(is_recorded=False, **values)
    with readable_errors():
        print_found(application, request)


@program.command()
@click.argument("shell", required=False, type=click.Choice(["bash", "zsh", "fish"]))
@click.option(
    "--install",
    "is_installed",
    is_flag=True,
    help="Write it where the shell looks for it, in your home.",
)
def completion(*, shell: "Shell | None", is_installed: bool) -> None:
    """Complete commands and options in your shell.

    The script for SHELL is printed; without SHELL, it is for the one that you use.
    """
    from skills_mcp.cli.completion import print_completion

    print_completion(program, shell, os.environ, is_installed=is_installed)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a poor terminal costs no traceback
    program(prog_name="skills-mcp")
