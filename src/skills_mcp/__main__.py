"""`python -m skills_mcp` is the program `skills-mcp`.

A window of a host forwards to a server, see `skills_mcp.server.windows.forwarder`, and
a feature may answer a command before the others are imported, see `skills_mcp.hooks`.

Rule: what a window does not need is imported after it has been forwarded.
"""

import os
import sys

_ONE_THREAD = "OPENBLAS_NUM_THREADS"
_SHOWN_AT_ONCE = {"--help", "-h", "--version", "-v"}
# They only read, and need nothing of their process but its terminal.
_ANSWERED = {"ask", "explain", "search", "show", "status", "tree"}
_INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


def main() -> None:
    """Run the program and exit with its code."""
    # NumPy's library ends the process if its threads do not get their memory, and no
    # product of matrices here is large enough for two.
    os.environ.setdefault(_ONE_THREAD, "1")
    # Without a standard stream, what is opened next would have its number, such as a lock.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - standard error
        pass
    os.close(number)
    try:
        exit_code = _forward(sys.argv[1:])
        if exit_code is not None:
            # A signal that arrives while the interpreter shuts down would end it.
            os._exit(exit_code)
        _run_command()
    except KeyboardInterrupt:  # before a command has begun, which says what it was
        raise SystemExit(_INTERRUPTED) from None


def _forward(words: list[str]) -> int | None:
    """Forward to a server for all windows; None if this process does the work."""
    first = words[0] if words else "serve"
    if (first != "serve" and not first.startswith("-")) or first in _SHOWN_AT_ONCE:
        return None
    try:
        from skills_mcp.server.windows.forwarder import forward, take_claim
    except (ImportError, AttributeError):  # neither Unix sockets nor locks
        return None
    return None if take_claim(os.environ) else forward(words, os.environ, _run)


def _run_command() -> None:
    words = sys.argv[1:]
    if words[:1] and words[0] in _ANSWERED:
        _run_answered(words)
        return
    from importlib import import_module

    from skills_mcp.hooks import find_modules

    for module, file in find_modules("early_commands"):
        if sys.argv[1:2] == [file.stem]:
            import_module(module).run(sys.argv[2:], _run)
            return
    _run()


def _run_answered(words: list[str]) -> None:
    """Run a command that a running server may answer."""
    exit_code, is_interrupted = None, False
    try:
        from skills_mcp.server.windows.command_client import ask_server

        exit_code = ask_server(words, os.environ)
    except (ImportError, AttributeError):  # neither Unix sockets nor locks
        pass
    except KeyboardInterrupt:
        is_interrupted = True
    if exit_code is not None:
        raise SystemExit(exit_code)
    _run(is_interrupted=is_interrupted)


def _run(*, is_interrupted: bool = False) -> None:
    from skills_mcp.cli import run_program as run

    run(is_interrupted=is_interrupted)


if __name__ == "__main__":
    main()
