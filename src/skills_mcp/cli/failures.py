"""Output of a failed command: a line for people, JSON for programs."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from skills_mcp.errors import ConfigError, ContentError, SkillsError

_WORDS = "skills_mcp.words"

USAGE = "WRONG_USAGE"
INTERRUPTED = "INTERRUPTED"
PROMPTS_INVALID = "PROMPTS_INVALID"

CONFIG_EXIT = 3
_SYNC_EXIT = 4


def store_command_line(context: click.Context, words: Sequence[str]) -> None:
    """Store the command line: wrong usage is reported before it is parsed."""
    context.meta[_WORDS] = tuple(words)


def stored_command_line(context: click.Context) -> tuple[str, ...]:
    words: tuple[str, ...] = context.meta.get(_WORDS, ())
    return words


def print_error(error: SkillsError) -> int:
    """Print an error on standard error, and as JSON if requested.

    Returns:
        The exit code.
    """
    print_failure_object(error.code, str(error))
    click.echo(f"skills-mcp: {error}", err=True)
    match error:
        case ConfigError():
            return CONFIG_EXIT
        case ContentError():
            return _SYNC_EXIT
        case _:
            return 1


def print_failure_object(code: str, message: str, **more: Any) -> None:
    """Print an error as JSON to standard output, if JSON was requested.

    Args:
        code: A stable name, in capitals.
        message: The error, and what to do next.
        more: Further fields of the object.
    """
    context = click.get_current_context(silent=True)
    if context is None or not _is_json_wanted(stored_command_line(context)):
        return
    from skills_mcp.cli.terminal import print_json

    print_json({"error": {"code": code, "message": message}, **more})


def _is_json_wanted(words: Sequence[str]) -> bool:
    pairs = pairwise(words)
    is_long = "--format=json" in words or ("--format", "json") in pairs
    return is_long or "--json" in words
