"""What is printed when a command fails: a line for people, an object for programs."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

_WORDS = "skills_mcp.words"

USAGE = "WRONG_USAGE"
INTERRUPTED = "INTERRUPTED"
PROMPTS_INVALID = "PROMPTS_INVALID"


def remember_words(context: click.Context, words: Sequence[str]) -> None:
    """Keep what was typed: wrong usage has to be told before it is parsed."""
    context.meta[_WORDS] = tuple(words)


def recall_words(context: click.Context) -> tuple[str, ...]:
    """Return what was typed after the name of the program."""
    words: tuple[str, ...] = context.meta.get(_WORDS, ())
    return words


def print_failure_object(code: str, message: str, **more: Any) -> None:
    """Print an error to standard output if JSON was asked for.

    Args:
        code: A stable name, in capitals.
        message: What is wrong, and what to do next.
        more: What else the object holds, beside `error`.
    """
    context = click.get_current_context(silent=True)
    if context is None or not _is_json_wanted(recall_words(context)):
        return
    from skills_mcp.cli.terminal import print_json

    print_json({"error": {"code": code, "message": message}, **more})


def _is_json_wanted(words: Sequence[str]) -> bool:
    pairs = pairwise(words)
    is_long = "--format=json" in words or ("--format", "json") in pairs
    return is_long or "--json" in words
