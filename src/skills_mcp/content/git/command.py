"""Git commands: a running process, its output, limits and termination.

Rule: every wait for a pipe has a deadline.  A background helper of Git may hold it open
long after Git has ended.
"""

import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from skills_mcp.content.git import diagnostics
from skills_mcp.content.git.remote import TOKEN_VARIABLE, USER_VARIABLE, Remote, check_address
from skills_mcp.content.source import SHUTTING_DOWN, ShutdownError, SyncPolicy
from skills_mcp.errors import AccessRefusedError, ConfigError, LimitExceededError, SyncError
from skills_mcp.processes.group import GROUP_OPTIONS, WATCHER, kill_group
from skills_mcp.text.redaction import redact, register_secret

logger = logging.getLogger(__name__)

# How often the limits are checked.
_CHECK_SECONDS = 0.1

# After its group was killed a process that has left the group may hold a pipe.
_DRAIN_SECONDS = 1.0

_PIECE_BYTES = 64 * 1024

# For output that is read as a whole: file names, a commit, a version.
_MAX_OUTPUT_BYTES = 64 * 1024 * 1024

# Enough for a pack of the largest size that is allowed, and less than the memory of a
# laptop, which a decompression bomb would fill.
_MAX_ADDRESS_SPACE_BYTES = 4 * 1024 * 1024 * 1024


class GitProcess:
    """A Git process group; it ends with this process, even a killed one."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        WATCHER.add(process.pid)
        self.transcript = diagnostics.Transcript()
        self.printed = bytearray()
        self.has_timed_out = False
        """Whether it was killed at its deadline."""
        self._threads: list[threading.Thread] = []
        self._timer: threading.Timer | None = None
        self._drain(process.stderr, self.transcript.feed)

    @property
    def has_exceeded_output(self) -> bool:
        return len(self.printed) > _MAX_OUTPUT_BYTES

    def wait(self, timeout_seconds: float, on_tick: Callable[[], object]) -> None:
        """Read all output until the process ends or reaches a limit."""
        deadline = time.monotonic() + timeout_seconds
        reader = self._drain(self.process.stdout, self._append_output)
        while self.process.poll() is None:
            # At the end of its output it ends at once, so the wait is short.
            reader.join(_CHECK_SECONDS)
            if not reader.is_alive():
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(_CHECK_SECONDS)
            on_tick()
            if time.monotonic() > deadline:
                self.has_timed_out = True
                return
            if self.has_exceeded_output:
                return

    def end_after(self, timeout_seconds: float) -> None:
        self._timer = threading.Timer(timeout_seconds, self._end_late)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Kill the process group and close both pipes.

        Needed even after its end: its transport or a helper may hold the inherited
        lock.
        """
        if self._timer:
            self._timer.cancel()
        kill_group(self.process.pid)
        WATCHER.remove(self.process.pid)
        self.process.wait()
        for thread in self._threads:
            thread.join(_DRAIN_SECONDS)
        if not any(thread.is_alive() for thread in self._threads):
            self.transcript.finish()
            for pipe in filter(None, (self.process.stdout, self.process.stderr)):
                pipe.close()

    def _end_late(self) -> None:
        self.has_timed_out = True
        kill_group(self.process.pid)

    def _append_output(self, data: bytes) -> None:
        if not self.has_exceeded_output:
            self.printed += data

    def _drain(
        self, stream: IO[bytes] | None, consume: Callable[[bytes], object]
    ) -> threading.Thread:
        def read() -> None:
            while stream and (data := _read_some(stream)):
                consume(data)

        thread = threading.Thread(target=read, name="git-output", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread


def _read_some(stream: IO[bytes]) -> bytes:
    """Read from a pipe without waiting for a full buffer."""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read(_PIECE_BYTES)


class CommandMonitor:
    """Progress and store growth of a running command."""

    def __init__(
        self,
        directory: Path,
        on_progress: Callable[[str, float], None] | None = None,
        max_growth_bytes: int | None = None,
    ) -> None:
        self._directory = directory
        self._on_progress = on_progress
        self._last_progress: tuple[str, float] | None = None
        self._before_bytes = measure_objects(directory) if max_growth_bytes else 0
        self._max_growth_bytes = max_growth_bytes

    def check(self, command: GitProcess) -> None:
        """Report progress and check the growth limit.

        Raises:
            LimitExceededError: The store has grown too much.
        """
        progress = command.transcript.progress
        if self._on_progress and progress and progress != self._last_progress:
            self._last_progress = progress
            self._on_progress(*progress)
        if self._max_growth_bytes is None:
            return
        growth_bytes = measure_objects(self._directory) - self._before_bytes
        if growth_bytes > self._max_growth_bytes:
            raise LimitExceededError(
                "the repository is larger than twice limits.max_total_bytes. Follow a "
                "smaller one, or raise that limit"
            )


def limit_memory(pid: int) -> None:
    """Limit the address space of a process, if the system supports it."""
    # Windows has no such module, macOS no such function; and the process may have
    # ended, or have a lower limit already.
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        limit = (_MAX_ADDRESS_SPACE_BYTES, _MAX_ADDRESS_SPACE_BYTES)
        resource.prlimit(pid, resource.RLIMIT_AS, limit)


def measure_objects(store: Path) -> int:
    """Total size of the files in Git's object folder, in bytes."""
    return sum(size for _, size in find_objects(store))


def find_objects(store: Path) -> Iterator[tuple[str, int]]:
    for folder, _, names in os.walk(store / "objects"):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - there may be thousands
            with suppress(OSError):  # Git renames its files meanwhile
                yield path, os.stat(path).st_size  # noqa: PTH116


Setting = tuple[str, str]
"""Key and value of Git's configuration, spelled as Git prints it."""

TOKEN_FILE_VARIABLE = "SKILLS_MCP_TOKEN_FILE"  # noqa: S105 - a name, not a secret

_MAX_TOKEN_BYTES = 64 * 1024  # a file of certificates is smaller, and no token

_HTTP_ALLOWED = frozenset(
    {
        *("proxy", "proxyauthmethod", "emptyauth", "delegation", "version"),
        *("sslcainfo", "sslcapath", "sslcert", "sslkey", "sslbackend", "sslcerttype"),
        *("sslkeytype", "sslcertpasswordprotected"),
    }
)
_HTTP_ALLOWED_PREFIXES = ("proxyssl", "schannel")

# A header may be a token; beside ours it could only do harm.
_HTTP_SECRET = "extraheader"  # noqa: S105 - a name, not a secret

# The project in the working directory is not the user.
_FOREIGN_SCOPES = frozenset({"local", "worktree", "command"})


SETTINGS = (
    "protocol.allow=never",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "log.showSignature=false",  # or the log of a project runs its gpg.program
    "core.fsync=committed",
    "core.bigFileThreshold=8m",  # larger files are never in memory as a whole
    "core.commitGraph=false",  # one fewer file that may be damaged
    "core.multiPackIndex=false",
    "fetch.fsckObjects=true",
    "fetch.unpackLimit=1",  # a pack is there as a whole or not at all
    "transfer.bundleURI=false",
    "submodule.recurse=false",
    "http.followRedirects=false",
    # A transfer that has stopped ends by itself; one that moves, however slowly, may
    # take until the deadline.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=15",
    # Git 2.55 asks again without end, at once, if a host that has signed us in answers
    # 429 and no retries are set.
    "http.maxRetries=1",
    "http.maxRetryTime=1",
    "pack.threads=2",  # each has a window of its own in memory
    "gc.auto=0",
    "maintenance.auto=false",
    "credential.interactive=false",
)
"""Settings of every command; none is secret, so they may be arguments."""

# Certificates concern the machine, not a repository.
_ALLOWED_VARIABLES = frozenset({"GIT_SSL_CAINFO", "GIT_SSL_CAPATH"})

# Variables of this server, which Git does not need.
_OWN_VARIABLES = frozenset({"GITHUB_TOKEN", TOKEN_FILE_VARIABLE, TOKEN_VARIABLE})

_SEALED = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

_FIXED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set, so that no other variable has a window opened either
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
    "LC_ALL": "C",  # `failures` knows Git's words in English
    "LANGUAGE": "C",
}

# The headers of answers, which say what Git leaves out. Git redacts secrets in them;
# `transcript` reads no header of a request.
_TRACED = {"GIT_TRACE_CURL": "1", "GIT_TRACE_CURL_NO_DATA": "1"}

# The first version that reads settings from variables, which a token needs.
_OLDEST_VERSION = (2, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAccess:
    """Credentials of one command."""

    is_open: bool = False
    settings: tuple[Setting, ...] = field(default=(), repr=False)
    """Git settings; some are secret, so they are never arguments."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: tuple[str, ...] = ()
    starts_helpers: bool = False
    """Whether the user's credential helpers may run."""

    @property
    def push_options(self) -> tuple[str, ...]:
        return tuple(option.replace("upload-pack", "receive-pack") for option in self.options)


def open_access(remote: Remote, user_settings: Iterable[Setting]) -> RemoteAccess:
    """Prepare the credentials of a command for the remote.

    Raises:
        AccessRefusedError: The file with the token cannot be used.
    """
    token = read_token(remote)
    allowed = filter_settings(user_settings, has_token=token is not None)
    options = _derive_upload_pack_options(remote, allowed)
    if token is None:
        names = {key.rpartition(".")[2] for key, _ in allowed}
        # A graphical helper must not open a window for a process in the background.
        user = remote.user_settings().items()
        settings = (*allowed, *user, ("credential.interactive", "false"))
        return RemoteAccess(
            is_open=True,
            settings=settings,
            options=options,
            starts_helpers="helper" in names,
        )
    if remote.scheme == "http":  # to this machine: any proxy would read the token
        direct = (pair for pair in allowed if not pair[0].endswith(".proxy"))
        allowed = (*direct, ("http.proxy", ""))
    settings = (*allowed, *remote.credential_settings().items())
    variables = {TOKEN_VARIABLE: token, USER_VARIABLE: remote.user}
    return RemoteAccess(is_open=True, settings=settings, variables=variables, options=options)


def read_token(remote: Remote) -> str | None:
    """Read the current token; None without one, or if the address may not receive it.

    Raises:
        AccessRefusedError: The file is empty or cannot be read, or it holds no token.
    """
    if not remote.sends_token:
        return None
    file = remote.token_file
    token = _read_first_line(file) if file else (remote.token or "").strip()
    if not token.isprintable():
        raise AccessRefusedError(
            f"the token of {_describe(file)} holds characters that no token has. Write "
            "the token there, and nothing else"
        )
    register_secret(token)
    return token or None


def parse_user_settings(raw: bytes) -> tuple[Setting, ...]:
    r"""Parse `git config --list --null --show-scope`, without the project's settings.

    >>> parse_user_settings(b"global\0http.proxy\nproxy:3128\0local\0http.proxy\nx\0")
    (('http.proxy', 'proxy:3128'),)
    """
    words = raw.decode("utf-8", "surrogateescape").split("\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    return tuple(_parse_setting(text) for scope, text in pairs if scope not in _FOREIGN_SCOPES)


def filter_settings(settings: Iterable[Setting], *, has_token: bool) -> tuple[Setting, ...]:
    """Filter the user's settings by the allow-list, in their order."""
    return tuple((key, value) for key, value in settings if _is_allowed(key, has_token=has_token))


def render_settings(settings: Iterable[Setting]) -> Iterator[tuple[str, str]]:
    """Encode settings as environment variables (`GIT_CONFIG_KEY_n`)."""
    count = 0
    for key, value in settings:
        yield f"GIT_CONFIG_KEY_{count}", key
        yield f"GIT_CONFIG_VALUE_{count}", value
        count += 1
    yield "GIT_CONFIG_COUNT", str(count)


def is_older(printed: str, oldest: tuple[int, int]) -> bool:
    """Whether the output of `git version` names an older one; an unparsable one is not.

    >>> is_older("git version 2.30.9", (2, 31)), is_older("git version 2.43.0", (2, 31))
    (True, False)
    """
    found = re.search(r"(\d+)\.(\d+)", printed)
    return found is not None and (int(found[1]), int(found[2])) < oldest


def build_user_environment(environment: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Build the environment of commands on the user's configuration."""
    inherited = {name: value for name, value in environment.items() if _is_inherited(name)}
    if inherited.get("HOME"):  # Git runs elsewhere
        inherited["HOME"] = os.path.abspath(inherited["HOME"])  # noqa: PTH100 - a link stays one
    return inherited | _FIXED | {"GIT_CEILING_DIRECTORIES": str(directory.parent)}


def build_environment(
    environment: Mapping[str, str],
    directory: Path,
    remote: Remote,
    access: RemoteAccess,
) -> dict[str, str]:
    """Build the environment of all other commands."""
    traced = _TRACED if access.is_open and remote.scheme.startswith("http") else {}
    return {
        **build_user_environment(environment, directory),
        **_SEALED,
        **traced,
        **dict(render_settings(access.settings)),
        **access.variables,
    }


_LOADING = threading.Lock()


def load_popen() -> Any:
    """Load `Popen`, or on Windows GitPython's, for no `git` in the current folder.

    Importing GitPython takes 3 MB and runs `git version`. Meanwhile the `GIT_`
    variables are hidden: one may be meant for another repository, or have Git write
    files.
    """
    if os.name != "nt":
        return subprocess.Popen
    with _LOADING:
        if "git.cmd" in sys.modules:
            return sys.modules["git.cmd"].safer_popen
        names = [name for name in os.environ if name.startswith("GIT_")]
        hidden = {name: os.environ.pop(name) for name in names}
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"  # we report a missing Git
        try:
            from git.cmd import safer_popen
        finally:
            os.environ.update(hidden)
        return safer_popen


def _is_inherited(name: str) -> bool:
    name = name.upper()  # on Windows it does not matter how it is written
    return name not in _OWN_VARIABLES and (
        not name.startswith("GIT_") or name in _ALLOWED_VARIABLES
    )


def _parse_setting(text: str) -> Setting:
    key, has_value, value = text.partition("\n")
    return key, value if has_value else "true"  # a key alone switches something on


def _is_allowed(key: str, *, has_token: bool) -> bool:
    section, _, rest = key.partition(".")
    name = rest.rpartition(".")[2]
    match section:
        case "credential":
            return not has_token
        case "http":
            is_allowed = name in _HTTP_ALLOWED or name.startswith(_HTTP_ALLOWED_PREFIXES)
            return is_allowed or (name == _HTTP_SECRET and not has_token)
        case _:
            return key == "safe.directory"


def _derive_upload_pack_options(remote: Remote, settings: Iterable[Setting]) -> tuple[str, ...]:
    """Pass `safe.directory` to the serving Git of a folder, as an argument."""
    safe = [value for key, value in settings if key == "safe.directory"]
    if remote.scheme != "file" or not safe:
        return ()
    options = [word for value in safe for word in ("-c", f"safe.directory={value}")]
    return (f"--upload-pack={shlex.join(('git', *options, 'upload-pack'))}",)


def _read_first_line(file: Path) -> str:
    if file.exists() and not file.is_file():  # opening a pipe could block for ever
        raise AccessRefusedError(f"{file} is no file. {_advise(file)}")
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MAX_TOKEN_BYTES)
        line = raw.decode("utf-8").strip().partition("\n")[0].strip()
    except OSError as error:
        raise AccessRefusedError(
            f"the token cannot be read: {error.strerror or error}. {_advise(file)}"
        ) from error
    except UnicodeDecodeError:
        raise AccessRefusedError(
            f"{_describe(file)} holds no text, so no token. {_advise(file)}"
        ) from None
    if not line:
        raise AccessRefusedError(f"{_describe(file)} is empty. {_advise(file)}")
    return line


def _describe(file: Path | None) -> str:
    return f"the file {file}" if file else "GITHUB_TOKEN or the address"


def _advise(file: Path) -> str:
    return f"Write the token into {file}, which {TOKEN_FILE_VARIABLE} names"


_FETCH_OPTIONS = (
    "--progress",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
)

# A plain folder of files over HTTP can do neither, and knows no filter.
_PARTIAL_OPTIONS = ("--depth=", "--filter=")

# In the words of Git and of what servers relay through it, and not of an address.
_REFUSED_DEPTH = re.compile(r"\b(?:shallow|depth|deepen)\b", re.IGNORECASE)
_ADDRESS = re.compile(r"\S*/\S*")

_CAN_PASS_FILES = hasattr(os, "killpg")  # systems with process groups pass files on

_STORE_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"

_NEW_ENOUGH: set[str | None] = set()
"""Paths of Git whose version was read; each source would ask again."""

_SETTINGS_SECONDS = 30.0  # a home on a network may be slow


@dataclass(frozen=True, slots=True)
class CommandOutput:
    stdout: bytes
    stderr: str
    returncode: int
    response: diagnostics.Response | None = None

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "surrogateescape").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCall:
    """Credentials, deadline and progress of commands that ask the remote."""

    access: RemoteAccess
    deadline: float
    """On the monotonic clock."""
    lock: IO[Any] | None = None
    on_progress: Callable[[str, float], None] | None = None

    @property
    def remaining_seconds(self) -> float:
        return max(self.deadline - time.monotonic(), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandInput:
    lock: IO[Any] | None = None
    settings: tuple[str, ...] = ()
    access: RemoteAccess = field(default_factory=RemoteAccess)
    stdin: bytes | int = b""
    """The bytes, or a descriptor that is closed after the start."""
    reads_user: bool = False


class Git:
    """Git with one bare store and one remote."""

    def __init__(self, directory: Path, remote: Remote, policy: SyncPolicy) -> None:
        self.directory = directory
        self._remote = remote
        self.policy = policy
        self._closed = threading.Event()
        self._running: set[int] = set()
        self._gate = threading.Lock()  # nothing starts while `close` runs

    def with_directory(self, directory: Path) -> "Git":
        """Copy with another store and the same remote; `close` ends both."""
        other = copy(self)
        other.directory = directory
        return other

    def run(  # noqa: PLR0913 - each of them is a fact about the one command
        self,
        *arguments: str,
        lock: IO[Any] | None = None,
        timeout_seconds: float = 60.0,
        settings: tuple[str, ...] = (),
        access: RemoteAccess | None = None,
        stdin: bytes = b"",
        on_progress: Callable[[str, float], None] | None = None,
        max_growth_bytes: int | None = None,
        is_ok: tuple[int, ...] = (0,),
    ) -> CommandOutput:
        """Run one command to completion.

        Args:
            arguments: Subcommand and arguments.
            lock: A locked file; it stays locked until the last child has ended.
            timeout_seconds: Deadline for the process group.
            settings: Git settings as `key=value`, without secrets.
            access: Credentials for the remote; None for a local command.
            stdin: Standard input.
            on_progress: Called with Git's step and the completed share, 0 to 1.
            max_growth_bytes: Growth limit of the store.
            is_ok: Exit statuses of a success.

        Raises:
            SyncError: It failed; the message has advice.
            ShutdownError: The process is ending.
            DamagedStoreError: It failed, and the cause is not the remote.
            LimitExceededError: The store became too large.
        """
        setup = _CommandInput(
            lock=lock, settings=settings, access=access or RemoteAccess(), stdin=stdin
        )
        watch = CommandMonitor(self.directory, on_progress, max_growth_bytes)
        command = self._run_to_end(arguments, setup, timeout_seconds, watch)
        status = command.process.returncode
        if status not in is_ok:
            raise self._derive_error(command, arguments[0], setup)
        transcript = command.transcript
        printed = bytes(command.printed)
        return CommandOutput(printed, transcript.text, status, transcript.response)

    def init(self) -> None:
        """Make the bare store, as `git init` would: that takes a process for each fetch.

        Raises:
            OSError: There is no room, or no permission.
        """
        for folder in ("objects/info", "objects/pack", "refs"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        (self.directory / "config").write_text(_STORE_CONFIG, "ascii")
        (self.directory / "HEAD").write_text("ref: refs/heads/main\n", "ascii")

    def fetch(
        self,
        call: RemoteCall,
        refspec: str,
        *options: str,
        stdin: bytes = b"",
        settings: tuple[str, ...] = (),
        is_ok: tuple[int, ...] = (0,),
    ) -> CommandOutput:
        """Fetch from the remote, within the policy's limit of a download; see `run`.

        A remote that has no shallow clones is fetched as a whole.
        """

        def fetch(options: tuple[str, ...]) -> CommandOutput:
            return self.run(
                *("fetch", *_FETCH_OPTIONS, *options, *call.access.options),
                *("--end-of-options", self._remote.url, *filter(None, (refspec,))),
                lock=call.lock,
                access=call.access,
                timeout_seconds=call.remaining_seconds,
                stdin=stdin,
                settings=settings,
                on_progress=call.on_progress,
                max_growth_bytes=self.policy.max_download_bytes,
                is_ok=is_ok,
            )

        try:
            return fetch(options)
        except SyncError as error:
            whole = tuple(word for word in options if not word.startswith(_PARTIAL_OPTIONS))
            said = _ADDRESS.sub("", str(error))
            if whole == options or not _REFUSED_DEPTH.search(said):
                raise
        logger.warning("%s has no shallow clones: all of its history is fetched", self._remote)
        if call.on_progress:
            call.on_progress("Fetching all of the history", 0.0)
        return fetch(whole)

    @contextmanager
    def stream(self, *arguments: str, stdin: bytes | int = b"") -> Iterator[IO[bytes]]:
        """Stream the output of a command until a sync's deadline; leaving kills it.

        Raises:
            SyncError: It took too long.
            ShutdownError: The process is ending.
            DamagedStoreError: It failed.
        """
        setup = _CommandInput(stdin=stdin)
        timeout_seconds = self.policy.timeout_seconds
        is_done = False
        with self._started(arguments, setup) as command:
            command.end_after(timeout_seconds)
            output = cast("IO[bytes]", command.process.stdout)
            try:
                yield output
            except Exception:
                # Output that was cut off looks like a damaged store.
                self._require_normal_exit(command, arguments[0], timeout_seconds)
                raise
            is_done = not output.read(1)
            if is_done:
                command.process.wait()
        self._require_normal_exit(command, arguments[0], timeout_seconds)
        if is_done and command.process.returncode != 0:
            raise self._derive_error(command, arguments[0], setup)

    def open_access(self) -> RemoteAccess:
        """Prepare credentials for the remote, with the current token.

        Raises:
            AccessRefusedError: The token cannot be read.
            SyncError: Nothing is fetched from such an address, or Git cannot be used.
        """
        try:
            check_address(self._remote.url)
        except ConfigError as error:
            raise SyncError(str(error)) from error
        program = shutil.which("git")
        if program not in _NEW_ENOUGH:
            self.read_version()
            _NEW_ENOUGH.add(program)
        return open_access(self._remote, self._read_user_settings())

    def close(self) -> None:
        """Kill the running commands; later ones fail."""
        with self._gate:
            self._closed.set()
            for pid in self._running:
                kill_group(pid)

    def read_version(self) -> str:
        """Read the output of `git version`.

        Raises:
            SyncError: There is no Git, or it is too old.
        """
        version = self._run_user_command("version").printed.decode("utf-8", "replace").strip()
        if is_older(version, _OLDEST_VERSION):
            oldest = ".".join(map(str, _OLDEST_VERSION))
            raise SyncError(
                f"{version} is too old. Install Git {oldest} or newer, or put a newer one first "
                "in PATH"
            )
        return version

    def _read_user_settings(self) -> tuple[Setting, ...]:
        words = ("config", "--list", "--null", "--show-scope", "--includes")
        command = self._run_user_command(*words)
        if command.process.returncode != 0:
            raise SyncError(
                "your Git configuration cannot be read. Repair it until `git config "
                f"--list` works. Git said: {redact(command.transcript.summary)}"
            )
        return parse_user_settings(bytes(command.printed))

    def _run_user_command(self, *words: str) -> GitProcess:
        """Run a command without the possibly damaged store."""
        return self._run_to_end(
            words,
            _CommandInput(reads_user=True),
            _SETTINGS_SECONDS,
            CommandMonitor(self.directory),
        )

    def _run_to_end(
        self,
        arguments: tuple[str, ...],
        setup: _CommandInput,
        timeout_seconds: float,
        watch: CommandMonitor,
    ) -> GitProcess:
        with self._started(arguments, setup) as command:
            command.wait(timeout_seconds, lambda: watch.check(command))
        self._require_normal_exit(command, arguments[0], timeout_seconds)
        watch.check(command)
        return command

    @contextmanager
    def _started(self, arguments: tuple[str, ...], setup: _CommandInput) -> Iterator[GitProcess]:
        command = GitProcess(self._start(arguments, setup))
        try:
            yield command
        finally:
            with self._gate:
                self._running.discard(command.process.pid)
            command.end()

    def _start(self, arguments: tuple[str, ...], setup: _CommandInput) -> "subprocess.Popen[bytes]":
        # Without --git-dir, Git would search for a project in the folders above.
        store = self.directory / "none" if setup.reads_user else self.directory
        words = ("git", f"--git-dir={store}", *self._flags(setup), *arguments)
        lock = setup.lock if _CAN_PASS_FILES else None
        start = load_popen()
        with _open_input(setup.stdin) as stdin, self._gate:
            if self._closed.is_set():
                raise ShutdownError(SHUTTING_DOWN)
            try:
                process: subprocess.Popen[bytes] = start(
                    words,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=self._working_directory(),
                    env=self._variables(setup),
                    pass_fds=(lock.fileno(),) if lock else (),
                    **GROUP_OPTIONS,
                )
            except FileNotFoundError as error:
                raise SyncError("Git is not installed, or not in PATH") from error
            except (OSError, ValueError) as error:
                raise SyncError(redact(f"Git cannot be started: {error}")) from error
            self._running.add(process.pid)
        if not setup.access.starts_helpers:  # theirs may need more than Git does
            limit_memory(process.pid)
        return process

    def _flags(self, setup: _CommandInput) -> Iterator[str]:
        scheme = self._remote.scheme
        for setting in (*SETTINGS, f"protocol.{scheme}.allow=always", *setup.settings):
            yield from ("-c", setting)

    def _variables(self, setup: _CommandInput) -> dict[str, str]:
        if setup.reads_user:
            return build_user_environment(os.environ, self.directory)
        return build_environment(os.environ, self.directory, self._remote, setup.access)

    def _working_directory(self) -> Path:
        folders = (self.directory, *self.directory.parents)
        return next(folder for folder in folders if folder.is_dir())

    def _require_normal_exit(self, command: GitProcess, name: str, timeout_seconds: float) -> None:
        if self._closed.is_set():
            raise ShutdownError(SHUTTING_DOWN)
        if command.has_timed_out:
            raise SyncError(
                f"git {name} took longer than {timeout_seconds:.0f} seconds. If the "
                "network is slow, raise sync.timeout_seconds"
            )
        if command.has_exceeded_output:
            raise SyncError(f"git {name} printed too much: more than 64 MiB")

    def _derive_error(self, command: GitProcess, name: str, setup: _CommandInput) -> SyncError:
        transcript, status = command.transcript, command.process.returncode
        if status < 0:
            return SyncError(f"git {name} was killed by signal {-status}. Try again")
        if not setup.access.is_open:
            advice = diagnostics.find_local_advice(transcript.summary)
            otherwise = f"git {name} cannot use its store"
            return diagnostics.compose_error(advice, transcript.summary, otherwise)
        advice = diagnostics.find_advice(transcript, self._remote, datetime.now(UTC))
        return diagnostics.compose_error(advice, transcript.summary, "Git failed", self._remote)


def _open_input(data: bytes | int) -> IO[bytes]:
    """Write the input to a temporary file: a pipe would need a feeding thread."""
    if isinstance(data, int):
        return os.fdopen(data, "rb")
    if not data:
        return open(os.devnull, "rb")  # noqa: PTH123 - the caller closes it
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        file.write(data)
        file.seek(0)
    except OSError as error:
        raise SyncError(f"no temporary file can be written: {error}") from error
    return file
