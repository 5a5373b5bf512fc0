"""How every command begins and ends: what it is given, the log, and exit codes."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from click.core import ParameterSource

from skills_mcp.bootstrap import DEFAULT_BRANCH, Application, Options, build
from skills_mcp.cli.logs import configure_logging, shared_level
from skills_mcp.content.git.remote import Remote
from skills_mcp.errors import ConfigError, ContentError, SkillsError

_CONFIG_EXIT = 3
_SYNC_EXIT = 4

# No child of ours needs these; Git gets a secret in its own way (DESIGN §3.10).
_TAKEN = ("GITHUB_TOKEN", "SKILLS_REPO", "SKILLS_MCP_TOKEN_FILE")


def build_application(**given: Any) -> Application:
    """Wire everything up from the values of `content_options`, and log from now on."""
    with readable_errors():
        options, environment = read_options(**given)
        return build(options, environment)


def read_options(*, log_level: str, **given: Any) -> tuple[Options, Mapping[str, str]]:
    """Return what to build from, and log from now on.

    Raises:
        ConfigError: Nothing could be fetched from such an address.
    """
    environment = dict(os.environ)
    for name in _TAKEN:
        os.environ.pop(name, None)
    if not _is_given("log_level"):
        log_level = shared_level(environment) or log_level
    keys = (environment.get(name) for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"))
    secrets = (environment.get("GITHUB_TOKEN"), _secret_in(given["repo"]), *keys)
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
    folder, repo, ref = (
        context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        for name in ("skills_dir", "repo", "pin")
    )
    if folder and repo:
        raise click.UsageError("--skills-dir and --repo: give one of the two.")
    if folder and ref:
        raise click.UsageError(
            "--skills-dir and --ref: a folder has no commit to stay at. Leave --ref "
            "out, or give --repo."
        )
    return repo


def _secret_in(repo: str | None) -> str | None:
    """Return the secret that a person wrote into the URL, if any."""
    return Remote.parse(repo, DEFAULT_BRANCH).token if repo else None


@contextmanager
def readable_errors() -> Iterator[None]:
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
