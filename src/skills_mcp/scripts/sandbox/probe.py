"""Whether a tier holds on this machine, found by running it once."""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from skills_mcp.scripts.sandbox.grants import Grants

_SECONDS = 20  # a hundred times what the slowest tier takes on a busy machine
_ATTEMPT = 'read -r _ < "$1" && ! read -r _ < "$2" && echo held'
_TOLD_CHARACTERS = 200


def find_fault(derive_words: Callable[[Grants], tuple[str, ...]]) -> str:
    """Return what is wrong with a tier; nothing if it holds.  Blocking.

    It has to let a granted file be read, and keep another one away: a program that
    is called bwrap and only starts its arguments does not pass.

    Args:
        derive_words: Returns what stands before the words of a command.
    """
    with tempfile.TemporaryDirectory(prefix="skills-mcp-probe-") as name:
        folder = Path(name).resolve()
        for part in ("home", "open", "closed"):
            (folder / part).mkdir()
            (folder / part / "file").write_text("text\n")
        grants = Grants(home=folder / "home", readable=(folder / "open",))
        files = (str(folder / part / "file") for part in ("open", "closed"))
        command = ("/bin/sh", "-c", _ATTEMPT, "sh", *files)
        return _run((*derive_words(grants), *command), folder / "open")


def _run(words: tuple[str, ...], folder: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a sandbox around our own words
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin"},
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:_TOLD_CHARACTERS]
    if done.returncode == 0 and done.stdout == b"held\n":
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (said[-1] if said else "it does not hold what it should")[:_TOLD_CHARACTERS]
