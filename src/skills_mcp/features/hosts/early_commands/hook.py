"""`skills-mcp hook`, answered by a running server: it runs before each prompt."""

import os
from collections.abc import Callable, Sequence

from skills_mcp.features.hosts.prompt_hook import answer_hook

_BLOCKING = 2  # by this exit code hosts tell that a hook refuses the prompt


def run(words: Sequence[str], run_program: Callable[[], None]) -> None:
    """Answer a prompt, or run the command if no server does."""
    if answer_hook(words, os.environ):
        return
    try:
        run_program()
    except SystemExit as ended:
        if ended.code == _BLOCKING:
            raise SystemExit(1) from ended
        raise
