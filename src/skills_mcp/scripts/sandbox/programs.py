"""Sandbox of a run: bubblewrap, Landlock, Seatbelt, plain limits, or none.

Every tier is a command prefix, so the runner is independent of tiers.  The strongest
working tier is found by running each once.  A tier breaking later is an error, never a
silent step down to a weaker one.

Bubblewrap gives a run namespaces for files, processes, users and the network; a seccomp
filter removes resources outside of namespaces: kernel keyrings, sockets of virtual
machines, and sockets in visible folders.  Source: bwrap(1); versions before 0.8 lack
`--disable-userns`, so their probe fails.  Landlock needs no privilege, and no namespace
forbidden by a container.  Seatbelt is macOS's `sandbox-exec`.

Rule: a home is never granted as a whole.  People keep interpreters there (pyenv, nvm,
uv, virtual environments), so only known parts of an installation prefix are granted.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from skills_mcp.errors import RunnerNotFoundError
from skills_mcp.text.rendering import abbreviate_value

_SYSTEM_FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/current-system", "/home/linuxbrew/.linuxbrew"),
    # macOS. Not all of /System: below /System/Volumes/Data lie the homes again.
    *("/System/Library", "/System/Cryptexes", "/System/Volumes/Preboot/Cryptexes"),
    *("/Library/Apple", "/Library/Frameworks", "/Library/Developer/CommandLineTools"),
    "/Applications/Xcode.app/Contents",
    *("/opt/homebrew/bin", "/opt/homebrew/sbin", "/opt/homebrew/lib"),
    *("/opt/homebrew/libexec", "/opt/homebrew/share", "/opt/homebrew/include"),
    *("/opt/homebrew/opt", "/opt/homebrew/Cellar", "/opt/homebrew/Frameworks"),
)

_SYSTEM_SETTINGS = (
    # The loader, and which of several programs a name means.
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives"),
    # Names of users, hosts, services, places.
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf"),
    *("gai.conf", "services", "protocols", "localtime", "timezone", "locale.alias"),
    # Which certificates to trust; their private keys lie beside them.
    *("ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "pki/tls/certs"),
    *("pki/tls/cert.pem", "pki/ca-trust", "ca-certificates", "crypto-policies"),
    *("os-release", "mime.types", "magic", "terminfo", "fonts", "perl"),
    "java-*-openjdk",  # a part of the program, which only Debian keeps here
)
"""Parts of /etc without keys and passwords."""

_PROGRAM_PARTS = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", "ssl"),
    *("pyvenv.cfg", "package.json", "node_modules"),
    # pyenv, rbenv, asdf, mise and volta: the installed versions, and which one a
    # shim stands for.
    *("shims", "versions", "installs", "plugins", "tools", "version", "completions"),
    # A framework of macOS: its library, and the program that a Python starts as.
    *("Python", "Resources"),
)
"""Granted parts of an installation prefix: never the prefix itself."""

_PROGRAM_FOLDERS = ("bin", "sbin", "shims", "Scripts")
_SHARED_FOLDERS = (".local", ".config", ".cache")  # of a home: all programs use them
_MAX_LINKS = 40  # as many as Linux follows

_MAX_FIRST_LINE_BYTES = 256  # Linux reads no more of it (BINPRM_BUF_SIZE)
_BY_ENV = re.compile(r"\S*/env(?:[ \t]+-S)?[ \t]+(?P<name>[^\s=-][^\s=]*)(?:\s|$)")


def find_system_folders() -> Iterator[Path]:
    return (folder for folder in map(Path, _SYSTEM_FOLDERS) if folder.exists())


def find_system_files() -> Iterator[Path]:
    etc = Path("/etc")
    return (f for name in _SYSTEM_SETTINGS for f in etc.glob(name) if f.exists())


def _is_in_system(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _SYSTEM_FOLDERS)


def find_executable(name: str, search_path: str) -> Path | None:
    found = shutil.which(name, path=search_path)
    return Path(os.path.abspath(found)) if found else None  # noqa: PTH100 - links stay


def require_executable(name: str, search_path: str) -> Path:
    """Absolute path of a program, links not resolved.

    Raises:
        RunnerNotFoundError: No program in `search_path` has this name.
    """
    found = find_executable(name, search_path)
    if found is None:
        raise RunnerNotFoundError(
            f"{name!r} is not installed on this machine, or not in PATH. The operator "
            "can install it, or configure another program."
        )
    return found


def find_shebang_fault(program: Path, search_path: str) -> str:
    """Fault in a shebang line, or ""; the system blames the wrong file."""
    line = _read_interpreter_line(program)
    if line is None:
        return ""
    if line.endswith("\r"):
        return "its first line ends with CR LF, as on Windows"
    by_env = _BY_ENV.match(line)
    if by_env and find_executable(by_env["name"], search_path) is None:
        return f"its first line names {abbreviate_value(by_env['name'])}, which is not in PATH"
    interpreter = (line.split(maxsplit=1) or [""])[0]
    if not Path(interpreter).is_file():
        return f"its first line names {abbreviate_value(interpreter)}, which is not there"
    return ""


def _find_interpreter(program: Path, search_path: str) -> Path | None:
    line = _read_interpreter_line(program) or ""
    by_env = _BY_ENV.match(line)
    words = [by_env["name"]] if by_env else line.split(maxsplit=1)
    return find_executable(words[0], search_path) if words else None


def _read_interpreter_line(program: Path) -> str | None:
    try:
        with program.open("rb") as handle:
            line, _, _ = handle.read(_MAX_FIRST_LINE_BYTES).partition(b"\n")
    except OSError:  # a program may be executable and not readable
        return None
    if not line.startswith(b"#!"):
        return None
    return os.fsdecode(line.removeprefix(b"#!")).lstrip(" \t")


def find_program_folders(program: Path, search_path: str, home: Path) -> Iterator[Path]:
    """Paths outside of the system needed to start a program."""
    interpreter = _find_interpreter(program, search_path)
    for path in filter(None, (program, interpreter)):
        for step in _follow_links(path):
            if not _is_in_system(step):
                yield from _find_installation(step, home)


def _follow_links(path: Path) -> Iterator[Path]:
    yield path
    for _ in range(_MAX_LINKS):
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path
    yield Path(os.path.realpath(path))


def _find_installation(program: Path, home: Path) -> Iterator[Path]:
    top = program.parent.parent
    real = top.resolve()  # a home may be a link, and is given without
    is_shared = home.is_relative_to(real) or real in map(home.joinpath, _SHARED_FOLDERS)
    if program.parent.name not in _PROGRAM_FOLDERS or is_shared:
        yield program
    else:
        yield from (top / part for part in _PROGRAM_PARTS if (top / part).exists())


def filter_search_path(search_path: str, readable: Sequence[Path]) -> str:
    """Entries of a PATH readable in part: Landlock stops at unstartable programs."""
    folders = search_path.split(os.pathsep)
    return os.pathsep.join(f for f in folders if _is_readable(f, readable))


def _is_readable(folder: str, readable: Sequence[Path]) -> bool:
    path, real = Path(folder), Path(os.path.realpath(folder))
    return _is_in_system(real) or any(
        path.is_relative_to(granted) or real.is_relative_to(granted) or granted.is_relative_to(path)
        for granted in readable
    )
