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

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

from skills_mcp import errors
from skills_mcp.config import Scripts
from skills_mcp.config.values import SandboxDemand
from skills_mcp.files.paths import expand_home_folder
from skills_mcp.scripts.execution import (
    CONFINING_TIERS,
    Grants,
    PreparedCommand,
    ProcessLimits,
    SandboxName,
)
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
        raise errors.RunnerNotFoundError(
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


BUBBLEWRAP = "bwrap"

_ISOLATION_OPTIONS = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL"),
    *("--hostname", "sandbox", "--die-with-parent", "--new-session"),
)
_MAX_SHARED_BYTES = 64 * 1024 * 1024  # of /tmp and of /dev/shm: memory, not disk

_FILTER_DESCRIPTOR = "9"  # the highest that every shell can open
_OPEN_FILTER = f'exec "$@" {_FILTER_DESCRIPTOR}<"$0"'

_LANDLOCK_PROGRAM = Path(__file__).with_name("landlock_program.py")

# In /proc, memory and environment of other processes stay closed: Landlock sees to it.
_READABLE_DEVICES = ("/proc", "/dev/urandom", "/dev/random", "/dev/zero", "/dev/full")
_WRITABLE_DEVICES = ("/dev/null",)


def prepare_bubblewrap_prefix(program: Path, grants: Grants) -> tuple[str, ...]:
    """Command prefix of bubblewrap; writes the seccomp filter.

    Raises:
        NotImplementedError: There is no filter for this architecture.
        OSError: The filter cannot be written.
    """
    from skills_mcp.scripts.landlock_program import compose_call_filter

    file = grants.home.parent / "calls.filter"
    file.write_bytes(
        compose_call_filter(os.uname().machine, has_network=grants.network, has_namespaces=True)
    )
    filtered = derive_bubblewrap_prefix(program, grants, ("--seccomp", _FILTER_DESCRIPTOR))
    return ("/bin/sh", "-c", _OPEN_FILTER, str(file), *filtered)


def derive_bubblewrap_prefix(
    program: Path, grants: Grants, more: Sequence[str] = ()
) -> tuple[str, ...]:
    network = () if grants.network else ("--unshare-net",)
    mounts = _mount_options(grants)
    # A folder has to be there before what lies in it.
    ordered = sorted(mounts, key=lambda path: len(path.parts))
    placed = [word for path in ordered for word in mounts[path]]
    # What bwrap makes up for the places above would be writable, and without limits.
    sealed = [word for top in ("/", "/dev", "/proc") for word in ("--remount-ro", top)]
    return (str(program), *_ISOLATION_OPTIONS, *network, *more, *placed, *sealed, "--")


def _mount_options(grants: Grants) -> dict[Path, tuple[str, ...]]:
    """Options for each mount point; the last rule for a path wins."""
    return {
        **dict(_system_mounts()),
        Path("/proc"): ("--proc", "/proc"),
        Path("/dev"): ("--dev", "/dev"),
        Path("/dev/shm"): _tmpfs_mount(Path("/dev/shm"), _MAX_SHARED_BYTES),  # noqa: S108
        Path("/tmp"): _tmpfs_mount(Path("/tmp"), _MAX_SHARED_BYTES),  # noqa: S108
        **{path: ("--bind", str(path), str(path)) for path in grants.writable},
        **{path: _read_only_mount(path) for path in grants.readable},
        grants.home: _tmpfs_mount(grants.home, grants.home_bytes),
    }


def _system_mounts() -> Iterator[tuple[Path, tuple[str, ...]]]:
    for folder in find_system_folders():
        if folder.is_symlink():
            yield folder, ("--symlink", str(folder.readlink()), str(folder))
        else:
            yield folder, _read_only_mount(folder)
    for file in find_system_files():
        yield file, _read_only_mount(file)


def _read_only_mount(path: Path) -> tuple[str, ...]:
    return ("--ro-bind", str(path), str(path))


def _tmpfs_mount(path: Path, max_bytes: int) -> tuple[str, ...]:
    return ("--size", str(max_bytes), "--tmpfs", str(path))


def derive_landlock_prefix(grants: Grants) -> tuple[str, ...]:
    system = (*find_system_folders(), *find_system_files())
    readable = (*system, *grants.readable, *_READABLE_DEVICES)
    writable = (*grants.writable, grants.home, *_WRITABLE_DEVICES)
    # -I and -S: nothing of the user's or the project's is imported.
    return (
        sys.executable,
        "-I",
        "-S",
        str(_LANDLOCK_PROGRAM),
        *(f"readable={path}" for path in readable),
        *(f"writable={path}" for path in writable),
        *(("network=all",) if grants.network else ()),
        "--",
    )


SANDBOX_EXEC = Path("/usr/bin/sandbox-exec")
"""Never resolved in PATH, open to replacement."""

_HOME_PARAMETER = "HOME"

# The services of launchd that start programs, hold keys or read settings stay closed:
# one of them would do outside what is forbidden inside.
_BASE_PROFILE = """\
(version 1)
(deny default)
(deny process-info*)
(deny nvram*)

; Processes of this run, and no others.
(allow process-fork)
(allow process-exec)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))

; What the machine is. Arguments and variables of other processes have another name.
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))

; The names of users and groups.
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))

; Whether a file exists: without it no path can be followed.
(allow file-read-metadata file-test-existence)
(allow file-read-data (literal "/"))

; Devices without a user's data, and descriptors that are open anyway.
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-read-data file-write-data (subpath "/dev/fd"))

; Which shell /bin/sh is, and which developer tools are meant.
(allow file-read* (subpath "/private/var/select"))
(allow file-read* (literal "/private/var/db/xcode_select_link"))
(allow file-read* (subpath "/private/var/db/timezone"))
"""

_NETWORK_RULES = """
; Addresses of the internet, their names and certificates. The keychain stays closed.
(allow network-outbound (remote ip))
(allow network-inbound (local ip))
(allow network-bind (local ip))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow file-read* (literal "/private/var/run/resolv.conf"))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow sysctl-read (sysctl-name-prefix "net.routetable"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd")
  (global-name "com.apple.trustd.agent"))
"""

# A second name of a file would lie where writing is allowed.
_FINAL_RULES = "\n(deny file-link)\n"


def derive_seatbelt_prefix(grants: Grants) -> tuple[str, ...]:
    system = _resolve_all((*find_system_folders(), *find_system_files()))
    readable = _resolve_all(grants.readable)
    writable = _resolve_all(grants.writable)
    parameters = {
        **_name_parameters("SYSTEM", system),
        **_name_parameters("READABLE", readable),
        **_name_parameters("WRITABLE", writable),
        _HOME_PARAMETER: os.path.realpath(grants.home),
    }
    definitions = (f"-D{name}={path}" for name, path in parameters.items())
    profile = compose_seatbelt_profile(parameters, has_network=grants.network)
    return (str(SANDBOX_EXEC), "-p", profile, *definitions, "--")


def compose_seatbelt_profile(paths: dict[str, str], *, has_network: bool) -> str:
    """Seatbelt profile of a run.

    No path is a part of the profile.  Each is a parameter (`-DNAME=path`), so no
    character in a name can end a rule.  The kernel compares paths without links, and
    the last matching rule wins.  Source: Apple's own profiles in
    /System/Library/Sandbox/Profiles.
    """
    rules = "\n".join(_compose_rules(paths))
    return f"{_BASE_PROFILE}{_NETWORK_RULES if has_network else ''}\n{rules}\n{_FINAL_RULES}"


def _compose_rules(paths: dict[str, str]) -> Iterator[str]:
    readable = [name for name in paths if name.startswith(("SYSTEM", "READABLE"))]
    writable = [name for name in paths if name.startswith("WRITABLE")]
    for name in readable:
        yield f"(allow file-read* {_subpath_filter(name)})"
    for name in writable:
        yield f"(allow file-read* file-write* {_subpath_filter(name)})"
    for inner in readable:
        # What is granted for reading stays as it is in a folder to write into.
        if any(Path(paths[inner]).is_relative_to(paths[outer]) for outer in writable):
            yield f"(deny file-write* {_subpath_filter(inner)})"
    yield f"(allow file-read* file-write* {_subpath_filter(_HOME_PARAMETER)})"
    # The only sockets with a path.
    yield f"(allow network-bind (local unix-socket {_subpath_filter(_HOME_PARAMETER)}))"
    yield f"(allow network-outbound (remote unix-socket {_subpath_filter(_HOME_PARAMETER)}))"


def _subpath_filter(name: str) -> str:
    return f'(subpath (param "{name}"))'


def _resolve_all(paths: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _name_parameters(kind: str, paths: list[str]) -> dict[str, str]:
    return {f"{kind}_{number}": path for number, path in enumerate(paths)}


Tier = Callable[[Grants], tuple[str, ...]]

_PROBE_SECONDS = 20  # a hundred times what the slowest tier takes on a busy machine
_PROBE = 'read -r _ < "$1" && ! read -r _ < "$2" && echo held'
_MAX_FAULT_CHARACTERS = 200
_UNPREPARED = "The sandbox cannot be prepared", errors.SandboxUnavailableError


@dataclass(frozen=True, slots=True)
class Choice:
    """Selected tier, with the faults of stronger ones."""

    name: SandboxName
    missing: tuple[str, ...] = ()
    refusal: str = ""
    """Reason for refusing every run: a required sandbox is missing. Else empty."""

    @property
    def confines(self) -> bool:
        return self.name in CONFINING_TIERS


class Sandbox:
    """Sandbox of this machine, probed once, with the first run.  Thread-safe."""

    def __init__(
        self,
        home: Path,
        search_path: str,
        offered: Sequence[SandboxName] = CONFINING_TIERS,
    ) -> None:
        self._home = home
        self._search_path = search_path
        self._offered = offered
        self._lock = Lock()
        self._best: Choice | None = None
        self._tiers: dict[SandboxName, Tier] = {}

    def choose(self, demand: SandboxDemand) -> Choice:
        """Tier of the runs.  Blocking, the first time.

        Raises:
            SandboxUnavailableError: `demand` is `required`, and no tier works here; or
            the
                files of a probe cannot be written.
        """
        if demand == "off":
            return Choice("none")
        with self._lock, translate_preparation_errors(*_UNPREPARED):
            self._best = best = self._best or self._probe()
        if demand == "required" and not best.confines:
            raise errors.SandboxUnavailableError(
                "This machine has no sandbox that works, and the operator requires "
                f"one (scripts.sandbox). {_explain_faults(best)} With best_effort, scripts "
                "run and are not confined."
            )
        return best

    def wrap(self, command: PreparedCommand, grants: Grants, rules: Scripts) -> PreparedCommand:
        """Add sandbox and limits to a command, resolved in its own PATH.  Blocking.

        Raises:
            SandboxUnavailableError: A required sandbox does not work here, or its files
                cannot be written.
            RunnerNotFoundError: The program or its interpreter is not installed.
        """
        search_path = command.environment.get("PATH", "")
        program = require_executable(command.words[0], search_path)
        if fault := find_shebang_fault(program, search_path):
            raise errors.RunnerNotFoundError(
                f"{command.words[0]!r} cannot be started: {fault}. The operator can "
                "repair it, or configure another program."
            )
        choice = self.choose(rules.sandbox)
        words = (str(program), *command.words[1:])
        if choice.name == "none":
            return replace(command, words=words, sandbox="none", limits=None)
        if choice.confines:
            own = find_program_folders(program, search_path, self._home)
            named = (expand_home_folder(path, self._home) for path in rules.readable)
            existing = (path.resolve() for path in named if path.exists())
            grants = replace(
                grants,
                readable=(*grants.readable, *own, *existing),
                home_bytes=rules.max_file_bytes,
            )
            with translate_preparation_errors(*_UNPREPARED):
                words = (*self._tiers[choice.name](grants), *words)
            readable = (*grants.readable, *grants.writable)
            search_path = filter_search_path(search_path, readable)
        return replace(
            command,
            words=words,
            environment={**command.environment, "PATH": search_path},
            sandbox=choice.name,
            limits=ProcessLimits(
                memory_bytes=rules.max_memory_bytes,
                file_bytes=rules.max_file_bytes,
                processes=rules.max_processes,
            ),
        )

    def _probe(self) -> Choice:
        missing: list[str] = []
        for name, tier in self._find_tiers():
            if name not in self._offered:
                continue
            fault = probe_tier(tier) if tier else "it is not installed"
            if tier and not fault:
                self._tiers[name] = tier
                return Choice(name, tuple(missing))
            missing.append(f"{name}: {fault}")
        has_limits = importlib.util.find_spec("resource") is not None
        return Choice("limits" if has_limits else "none", tuple(missing))

    def _find_tiers(self) -> Iterator[tuple[SandboxName, Tier | None]]:
        if SANDBOX_EXEC.exists():  # then the kernel has nothing else
            yield "seatbelt", derive_seatbelt_prefix
            return
        bwrap = find_executable(BUBBLEWRAP, self._search_path)
        found = partial(prepare_bubblewrap_prefix, bwrap) if bwrap else None
        yield "bubblewrap", found
        # Only where a kernel has it is there a descriptor that does nothing but name.
        yield "landlock", derive_landlock_prefix if hasattr(os, "O_PATH") else None


def _explain_faults(best: Choice) -> str:
    faults = f"{'; '.join(best.missing)}. " if best.missing else ""
    if SANDBOX_EXEC.exists():
        return (
            f"{faults}No sandbox of macOS can be made inside of another one, such as "
            "that of an agent's host: start the server outside of it."
        )
    if os.name == "nt":
        return "Windows has none: run the server in WSL 2 or in a container."
    return f"{faults}Install bubblewrap 0.8 or newer, or use Linux 6.2 or newer."


@contextmanager
def translate_preparation_errors(
    what_failed: str, kind: type[errors.SkillsError] = errors.TemporaryFolderError
) -> Iterator[None]:
    """Raise a full, missing or closed disk as an error of a kind."""
    try:
        yield
    except OSError as error:
        raise kind(
            f"{what_failed}: {error.strerror}. Run it in your own shell, or ask the "
            "operator to look at TMPDIR."
        ) from error


def probe_tier(tier: Tier) -> str:
    """Probe a tier by running it once; the fault, or "".  Blocking.

    It must allow a granted file and deny another: a program called bwrap and merely
    starting its arguments does not pass.
    """
    with tempfile.TemporaryDirectory(prefix="skills-mcp-probe-") as name:
        folder = Path(name).resolve()
        for part in ("home", "open", "closed"):
            (folder / part).mkdir()
            (folder / part / "file").write_text("text\n")
        grants = Grants(home=folder / "home", readable=(folder / "open",))
        files = (str(folder / part / "file") for part in ("open", "closed"))
        try:
            words = (*tier(grants), "/bin/sh", "-c", _PROBE, "sh", *files)
        except NotImplementedError as missing:
            return str(missing)
        return _run_probe(words, folder / "open")


def _run_probe(words: tuple[str, ...], folder: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a sandbox around our own words
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin"},
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:_MAX_FAULT_CHARACTERS]
    if done.returncode == 0 and done.stdout == b"held\n":
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    fault = lines[-1] if lines else "it does not restrict access to files"
    return fault[:_MAX_FAULT_CHARACTERS]
