"""`python -m skills_mcp` is the program `skills-mcp`.

A hook is answered before the commands are imported: a person waits for it with every
prompt.
"""

import os
import sys

_HOOK = "hook"
_BLOCKING = 2  # by this exit code hosts tell that a hook refuses the prompt
_ONE_THREAD = "OPENBLAS_NUM_THREADS"
_INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


def main() -> None:
    """Run the program and exit with its code."""
    # NumPy's library ends the process if its threads do not get their memory, and no
    # product of matrices here is large enough for two.
    os.environ.setdefault(_ONE_THREAD, "1")
    try:
        _run(is_hook=sys.argv[1:2] == [_HOOK])
    except KeyboardInterrupt:  # before a command has begun, which says what it was
        raise SystemExit(_INTERRUPTED) from None


def _run(*, is_hook: bool) -> None:
    if is_hook:
        from skills_mcp.features.hosts.prompt_hook import answer_hook

        if answer_hook(sys.argv[2:], os.environ):
            return
    from skills_mcp.processes.memory import gc_frozen

    with gc_frozen():
        from skills_mcp.cli import main as run

    try:
        run()
    except SystemExit as ended:
        if is_hook and ended.code == _BLOCKING:
            raise SystemExit(1) from ended
        raise


if __name__ == "__main__":
    main()
