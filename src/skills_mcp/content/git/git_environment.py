"""Environment of Git commands: variables, settings and credentials.

Rule 1: a secret is in the variables of the one command that needs it, nowhere else.
Rule 2: settings and variables of a project, a hook or a shell do not count; of the
user's configuration only an allow-list does: credentials, proxies, certificates and
safe folders.
"""

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skills_mcp.content.git.remote import TOKEN_VARIABLE, USER_VARIABLE, Remote
from skills_mcp.errors import AccessRefusedError, SyncError
from skills_mcp.text.redaction import register_secret

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
        settings = (*allowed, ("credential.interactive", "false"))
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


def require_version(printed: bytes) -> None:
    """Refuse an outdated Git; an unparsable version passes.

    Raises:
        SyncError: It is too old.
    """
    version = printed.decode("utf-8", "replace").strip()
    found = re.search(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < _OLDEST_VERSION:
        oldest = ".".join(map(str, _OLDEST_VERSION))
        raise SyncError(
            f"{version} is too old. Install Git {oldest} or newer, or put a newer one first in PATH"
        )


def build_user_environment(environment: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Build the environment of commands on the user's configuration."""
    inherited = {name: environment[name] for name in filter(_is_inherited, environment)}
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
