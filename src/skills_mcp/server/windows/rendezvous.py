"""Where forwarders and their server meet: a private folder, a key, a lock and a socket.

Rule: one module of ours and little of the standard library is imported. Each window of
a host waits for these imports, and holds them in memory.

Rule: the key covers everything that changes an answer. One server too many costs memory;
one too few gives a wrong answer.
"""

import fcntl
import hashlib
import os
import socket
import stat
import sys
from collections.abc import Mapping, Sequence

from skills_mcp.files.user_folders import find_user_folders

PROTOCOL = b"1"
"""Version of the greeting; a part of the key, so that two versions never meet."""

ACCEPTED = b"skills-mcp ok\n"
"""Reply of a server to a greeting; then the messages of MCP begin."""

MAX_GREETING_BYTES = 16 * 2**20
"""Linux allows 6 MiB of arguments and environment by default."""

_PRIVATE = 0o700
_MAX_ADDRESS_BYTES = 100  # systems take 104 or 108, with a final NUL
_MAX_CONFIG_BYTES = 4 * 2**20
_KEY_DIGITS = 24
_BACKLOG = 128

FLAGS = {
    *("--everywhere", "--usual-folders", "--discover", "--no-discover"),
    *("--offline", "--online"),
}
PATHS = {"--skills-dir", "--repo", "--config"}
_WORDS = {
    *("--toolsets", "--transport", "--host", "--port", "--operations-host"),
    *("--operations-port", "--base-url", "--branch", "--ref", "--subfolder", "--plugins"),
    "--log-level",
}
OPTIONS = FLAGS | PATHS | _WORDS
"""Options of `serve`; with another word, the program explains what is wrong."""

_PATH_VARIABLES = (
    *("SKILLS_DIR", "SKILLS_REPO", "SKILLS_MCP_HOME", "SKILLS_MCP_TOKEN_FILE"),
    *("SKILLS_MCP_PROJECT_ROOT", "CODELIA_AGENTS_ROOT", "HOME"),
)
# Keys of the settings by which the working directory matters.
_FOLDER_KEYS = (b"discover", b"token_file")

_PREFIXES = (
    *("SKILL", "CODELIA_", "ANALYTICS_", "REFRESH_", "SEARCH_", "EXEC_", "EMBEDDING_"),
    *("GIT_", "GCM_", "GPG_", "KRB5", "LC_", "OTEL_", "PYTHON", "LD_", "DYLD_", "MALLOC_"),
    *("GH_", "AWS_", "AZURE_", "CLOUDSDK_", "TIKTOKEN_"),
)
_NAMES = {
    *("HOME", "USER", "USERNAME", "LOGNAME", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
    *("TEMP", "TMP", "LOG_LEVEL", "DO_NOT_TRACK", "ALLOWED_COMMANDS", "MAX_FILE_BYTES"),
    *("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "GNUPGHOME"),
    *("DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "NETRC"),
    *("XDG_CACHE_HOME", "XDG_STATE_HOME"),
}
# What Git or one of its credential helpers may send.
_PARTS = (
    *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "PROXY"),
    *("CERT", "CA_BUNDLE"),
)

# Codex puts two folders in front: a new one for each session, and one with its search.
_OF_HOSTS = ("codex-arg0", "codex-path")

# Hosts pass variables on, and with no value those that are not set.
_EMPTY_IS_UNSET = {
    *("GITHUB_TOKEN", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"),
    *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
}

# Shorter names are parts of other words, and change with each process.
_SHORTEST_NAME = 4

# A host may confine some of its windows: what serves them may do no more than they.
_NAMESPACES = ("mnt", "net", "pid", "user", "ipc", "uts")
_RIGHTS = (b"Umask:", b"Groups:", b"Cap", b"NoNewPrivs:", b"Seccomp")

_NO = {"0", "false", "no", "off"}


def shapes_server(name: str) -> bool:
    """Whether a variable of the environment is a part of the key."""
    return (
        name in _NAMES or name.startswith(_PREFIXES) or any(part in name.upper() for part in _PARTS)
    )


class Rendezvous:
    """Place of the server of one key; plain slots, as `dataclasses` would be imported."""

    __slots__ = ("address", "folder", "keeps_folder", "key")

    def __init__(self, folder: str, key: str, *, keeps_folder: bool) -> None:
        self.folder = folder
        self.key = key
        self.address = f"{folder}/{key}.sock"
        self.keeps_folder = keeps_folder
        """Whether the server stays in the working directory of its first window."""

    def claim(self) -> int | None:
        """Lock the place for a server; None while there is one.

        The lock belongs to a file descriptor, which a forked server inherits: it is
        held from the decision to start a server until that has ended.
        """
        path = f"{self.folder}/{self.key}.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except OSError:  # locked, or deleted by a server that has retired
            pass
        os.close(descriptor)
        return None

    def connect(self, timeout_seconds: float) -> socket.socket | None:
        """Connect to the server; None if none listens, or another user's does."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_seconds)
            connection.connect(self.address)
            if read_peer_user(connection) == os.getuid():
                return connection
        except OSError:
            pass
        connection.close()
        return None

    def listen(self) -> socket.socket:
        """Open the socket of the server that holds the lock."""
        _remove(self.address)  # of a server that was killed
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(self.address)
        os.chmod(self.address, 0o600)
        listener.listen(_BACKLOG)
        listener.settimeout(0)
        return listener

    def leave(self, descriptor: int) -> None:
        """Give the place up: the next forwarder starts another server."""
        lock = f"{self.folder}/{self.key}.lock"
        # Unless something has deleted the lock, and another server was started.
        if read_inode(lock) == os.fstat(descriptor).st_ino:
            _remove(self.address)
            _remove(lock)
        os.close(descriptor)


def read_inode(path: str) -> int:
    """Identity of a file; -1 if it is gone."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def read_peer_user(connection: socket.socket) -> int:
    """User id of the process at the other end; -1 if the system does not tell it."""
    if hasattr(socket, "SO_PEERCRED"):
        level, option = socket.SOL_SOCKET, socket.SO_PEERCRED
    else:
        level, option = 0, 1  # SOL_LOCAL and LOCAL_PEERCRED of macOS and the BSDs
    try:
        raw = connection.getsockopt(level, option, 12)
    except OSError:
        return -1
    # `struct ucred` has the process first, `struct xucred` a version.
    return int.from_bytes(raw[4:8], sys.byteorder)


def find_rendezvous(
    words: Sequence[str], environment: Mapping[str, str], *, is_window: bool = True
) -> Rendezvous | None:
    """Find the place for a command line; None if its process has to serve by itself.

    Args:
        words: The command line, with or without `serve`.
        environment: All variables.
        is_window: Whether a server is started if there is none, which needs a folder.

    Raises:
        OSError: A folder cannot be looked into.
    """
    words = words[1:] if list(words[:1]) == ["serve"] else words
    options = _parse_options(words)
    if options is None or not _may_share(options, environment):
        return None
    open_folder = _open_folder if is_window else _find_folder
    folder = next(filter(None, map(open_folder, list_folders(environment))), None)
    config_file = options.get("--config") or find_user_folders(environment)[0] + "/config.yaml"
    config = _read_config(config_file)
    if folder is None or config is None or _is_switched_off(config):
        return None
    keeps_folder = _needs_folder(options, environment, config)
    key = _derive_key(words, environment, config_file, config, keeps_folder=keeps_folder)
    return Rendezvous(folder, key, keeps_folder=keeps_folder)


def _parse_options(words: Sequence[str]) -> dict[str, str] | None:
    """Options of `serve` with their values; None for everything else."""
    rest = iter(words)
    options: dict[str, str] = {}
    for word in rest:
        name, has_value, value = word.partition("=")
        if name in FLAGS and not has_value:
            options[name] = ""
        elif name in OPTIONS - FLAGS:
            found = value if has_value else next(rest, None)
            if found is None:
                return None
            options[name] = found
        else:
            return None
    return options


def _may_share(options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    transport = options.get("--transport") or environment.get("SKILLS_MCP_TRANSPORT") or "stdio"
    is_refused = environment.get("SKILLS_MCP_SHARE", "").strip().lower() in _NO
    # The first process of a container, or the child of one that only forwards signals:
    # what it leaves behind would be killed with it.
    is_alone = os.getpid() == 1 or os.getppid() == 1
    return transport == "stdio" and not is_refused and not is_alone


def list_folders(environment: Mapping[str, str]) -> list[str]:
    """Folders in which servers of this user may have their sockets, the best first."""
    if named := environment.get("SKILLS_MCP_RUNTIME_DIR"):
        return [named] if named.startswith("/") else []
    user = os.getuid()
    runtime = environment.get("XDG_RUNTIME_DIR")
    temporary = environment.get("TMPDIR") or "/tmp"  # noqa: S108 - the mode and the owner are checked
    places = [f"{runtime}/skills-mcp"] if runtime else []
    folders = [*places, f"{temporary}/skills-mcp-{user}", f"/tmp/skills-mcp-{user}"]  # noqa: S108 - likewise
    return list(dict.fromkeys(folder for folder in folders if folder.startswith("/")))


def _open_folder(folder: str) -> str:
    """Make a folder that only this user can enter; empty if it is anything else."""
    try:
        os.mkdir(folder, _PRIVATE)
    except FileExistsError:
        pass
    except OSError:
        return ""
    return _find_folder(folder)


def _find_folder(folder: str) -> str:
    if len(os.fsencode(folder)) + len("/.sock") + _KEY_DIGITS > _MAX_ADDRESS_BYTES:
        return ""
    return folder if is_private(folder) and os.access(folder, os.W_OK | os.X_OK) else ""


def is_private(folder: str) -> bool:
    """Whether a folder belongs to this user, with access for no other; never a link."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_closed = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    return is_closed and status.st_uid == os.getuid()


def _read_config(path: str) -> bytes | None:
    """Bytes of the settings, empty without a file; None if they cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError:
        return None
    return data if len(data) <= _MAX_CONFIG_BYTES else None


def _is_switched_off(config: bytes) -> bool:
    """Whether `share` is false in the usual spelling; the server knows the others."""
    lines = (line.partition(b"#")[0] for line in config.splitlines())
    bare = {line.translate(None, b" \t'\"{},").lower() for line in lines}
    return not bare.isdisjoint({b"share:false", b"share:off", b"share:no", b"share:enabled:false"})


def _needs_folder(
    options: Mapping[str, str], environment: Mapping[str, str], config: bytes
) -> bool:
    """Whether the served skills may depend on the working directory."""
    if "--discover" in options or any(key in config for key in _FOLDER_KEYS):
        return True
    if any("DISCOVER" in name or name in {"GIT_DIR", "GIT_WORK_TREE"} for name in environment):
        return True
    typed = (options.get(name, "") for name in PATHS)
    named = (environment.get(name, "") for name in _PATH_VARIABLES)
    return any(_is_relative(path) for path in (*typed, *named))


def _is_relative(path: str) -> bool:
    is_remote = "://" in path or ("@" in path.partition(":")[0] and ":" in path)
    return bool(path) and not path.startswith(("/", "~")) and not is_remote


def _derive_key(
    words: Sequence[str],
    environment: Mapping[str, str],
    config_file: str,
    config: bytes,
    *,
    keeps_folder: bool,
) -> str:
    """Digest of all that shapes a server.

    Raises:
        OSError: The working directory, which counts, is gone.
    """
    parts = [PROTOCOL, *map(os.fsencode, words), b""]
    for name in sorted(environment):
        # A variable that the settings name may be a key of a provider.
        is_named = len(name) >= _SHORTEST_NAME and os.fsencode(name) in config
        value = _drop_own_folders(environment[name]) if name == "PATH" else environment[name]
        if (is_named or shapes_server(name)) and (value or name not in _EMPTY_IS_UNSET):
            parts.append(os.fsencode(f"{name}={value}"))
    root, source = os.stat("/"), os.stat(__file__)
    parts += [
        *map(os.fsencode, (sys.executable, sys.prefix, __file__, os.uname().nodename)),
        repr((os.getuid(), os.getgid(), root.st_dev, root.st_ino)).encode(),
        repr((source.st_mtime_ns, source.st_size, source.st_ino)).encode(),
        os.fsencode(config_file),
        _describe_file(config_file),
        config,
        *_describe_rights(),
        os.fsencode(os.getcwd()) if keeps_folder else b"",
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:_KEY_DIGITS]


def _drop_own_folders(path: str) -> str:
    """The folders of `PATH` without those that a host has for its own programs."""
    folders = path.split(":")
    return ":".join(
        folder for folder in folders if not os.path.basename(folder).startswith(_OF_HOSTS)
    )


def _describe_rights() -> list[bytes]:
    """Namespaces and restrictions of this process, where the system tells them.

    Landlock is not told, but a process without privileges needs NoNewPrivs for it.
    """
    try:
        with open("/proc/self/status", "rb") as file:
            rights = [line for line in file if line.startswith(_RIGHTS)]
        links = [os.fsencode(os.readlink(f"/proc/self/ns/{name}")) for name in _NAMESPACES]
    except OSError:
        mask = os.umask(0o077)
        os.umask(mask)
        return [repr((mask, sorted(os.getgroups()))).encode()]
    return rights + links


def _describe_file(path: str) -> bytes:
    try:
        status = os.stat(path)
    except OSError:
        return b""
    return repr((status.st_mtime_ns, status.st_size, status.st_ino)).encode()


def describe_process(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Fields of a greeting: folder, command line and environment of this process."""
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return [str(os.getpid()), folder, str(len(words)), *words, *variables]


def compose_greeting(kind: str, fields: Sequence[str]) -> bytes:
    """Message that opens a connection: its kind, its length, and fields without NUL."""
    body = b"\0".join(map(os.fsencode, fields))
    return b"skills-mcp %s %s %d\n%s" % (PROTOCOL, kind.encode(), len(body), body)
