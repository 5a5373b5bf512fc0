"""Where the program of a run lies, and which folders it needs to be readable.

People keep interpreters in their homes (pyenv, nvm, uv, virtual environments).
A home is never opened as a whole: of the folder around a program only those parts
are, in which every such tool keeps programs and libraries.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from skills_mcp.errors import RunnerNotFoundError
from skills_mcp.scripts.sandbox.system import is_in_system

_PARTS = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", "ssl"),
    *("pyvenv.cfg", "package.json", "node_modules"),
    # Of pyenv, rbenv, asdf, mise, volta: which version a shim stands for, and all.
    *("shims", "versions", "installs", "plugins", "tools", "version", "completions"),
)
"""What is opened of the folder above `bin`: never the folder itself."""

_OF_PROGRAMS = ("bin", "sbin", "shims", "Scripts")
_SHARED = (".local", ".config", ".cache")  # folders of a home with everybody's data
_MAX_LINKS = 40  # as many as Linux follows
_SHEBANG = re.compile(rb"#!\s*(\S+)(?:[ \t]+(?:-S[ \t]+)?(\S+))?")


def find_program(name: str, search_path: str) -> Path | None:
    """Return the absolute path of a program, links included."""
    found = shutil.which(name, path=search_path)
    return Path(os.path.abspath(found)) if found else None  # noqa: PTH100 - links stay


def require_program(name: str, search_path: str) -> Path:
    """Return the absolute path of a program, links included.

    Raises:
        RunnerNotFoundError: There is none of this name.
    """
    found = find_program(name, search_path)
    if found is None:
        raise RunnerNotFoundError(
            f"{name!r} is not installed on this machine, or not in PATH. The operator "
            "can install it, or configure another program."
        )
    return found


def keep_open(search_path: str, opened: Sequence[Path]) -> str:
    """Return the folders of a PATH of which a run sees something.

    Landlock lets a run find a program that it may not start, and then nothing looks
    for the next one of that name.

    Args:
        search_path: As in PATH.
        opened: What can be read besides the system.
    """
    return os.pathsep.join(
        folder for folder in search_path.split(os.pathsep) if _is_open(folder, opened)
    )


def _is_open(folder: str, opened: Sequence[Path]) -> bool:
    path, real = Path(folder), Path(os.path.realpath(folder))
    return is_in_system(real) or any(
        path.is_relative_to(place)
        or real.is_relative_to(place)
        or place.is_relative_to(path)
        for place in opened
    )


def find_folders(program: Path, search_path: str, home: Path) -> Iterator[Path]:
    """Yield what has to be readable, outside of the system, to start a program.

    Args:
        program: Its absolute path.
        search_path: Where the interpreter is looked for that its first line names.
        home: Of the user.
    """
    for path in (program, *_interpreter(program, search_path)):
        for step in _follow(path):
            if not is_in_system(step):
                yield from _around(step, home)


def _follow(path: Path) -> Iterator[Path]:
    """Yield a path and what it is a link to, link by link."""
    yield path
    for _ in range(_MAX_LINKS):
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path
    yield Path(os.path.realpath(path))


def _around(program: Path, home: Path) -> Iterator[Path]:
    """Yield the parts of what was installed together with a program."""
    top = program.parent.parent
    real = top.resolve()  # a home may be a link, and is given without
    is_shared = home.is_relative_to(real) or real in map(home.joinpath, _SHARED)
    if program.parent.name not in _OF_PROGRAMS or is_shared:
        yield program
    else:
        yield from (top / part for part in _PARTS if (top / part).exists())


def _interpreter(program: Path, search_path: str) -> Iterator[Path]:
    """Yield the program that the first line of a script names, if it is one."""
    try:
        with program.open("rb") as handle:
            found = _SHEBANG.match(next(islice(handle, 1), b"")[:256])
    except OSError:
        return
    words = [os.fsdecode(word) for word in found.groups() if word] if found else []
    if words and Path(words[0]).name == "env":
        words = words[1:]
    interpreter = find_program(words[0], search_path) if words else None
    if interpreter:
        yield interpreter
