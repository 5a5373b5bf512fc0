"""`python -m skills_mcp` is the program `skills-mcp`.

A feature may answer a command before the others are imported, see `skills_mcp.hooks`.
"""

import os
import sys
from importlib import import_module

from skills_mcp.hooks import find_modules

_ONE_THREAD = "OPENBLAS_NUM_THREADS"
_INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


def main() -> None:
    """Run the program and exit with its code."""
    # NumPy's library ends the process if its threads do not get their memory, and no
    # product of matrices here is large enough for two.
    os.environ.setdefault(_ONE_THREAD, "1")
    try:
        for module, file in find_modules("early_commands"):
            if sys.argv[1:2] == [file.stem]:
                import_module(module).run(sys.argv[2:], _run)
                return
        _run()
    except KeyboardInterrupt:  # before a command has begun, which says what it was
        raise SystemExit(_INTERRUPTED) from None


def _run() -> None:
    from skills_mcp.cli import run_program as run

    run()


if __name__ == "__main__":
    main()
