"""What Git gets to prove who asks: our token, or what the user has set up.

Rule 1: a secret is in the environment of the one command that needs it, nowhere else.
Rule 2: of the user's configuration only what is named here counts: who asks, how to
get through a proxy, whose certificates to believe, which folders are safe.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skills_mcp.content.git.remote import TOKEN_VARIABLE, USER_VARIABLE, Remote
from skills_mcp.errors import AccessRefusedError
from skills_mcp.text.redaction import remember_secret

Setting = tuple[str, str]
"""A key of Git's configuration, as Git writes it, and a value."""

TOKEN_FILE_VARIABLE = "SKILLS_MCP_TOKEN_FILE"  # noqa: S105 - a name, not a secret

_MAX_TOKEN_BYTES = 64 * 1024  # a file of certificates is smaller, and no token

_HTTP_KEPT = frozenset(
    {
        *("proxy", "proxyauthmethod", "emptyauth", "delegation", "version"),
        *("sslcainfo", "sslcapath", "sslcert", "sslkey", "sslbackend", "sslcerttype"),
        *("sslkeytype", "sslcertpasswordprotected"),
    }
)
_HTTP_KEPT_BEGINNINGS = ("proxyssl", "schannel")

# A header may be a token for everybody; beside ours it could only do harm.
_HTTP_SECRET = "extraheader"  # noqa: S105 - a name, not a secret

# The project that the server was started in is not the user.
_FOREIGN_SCOPES = frozenset({"local", "worktree", "command"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one command may show to the remote, to be let in."""

    is_open: bool = False
    """Whether the remote is asked at all."""
    settings: tuple[Setting, ...] = field(default=(), repr=False)
    """Of Git's configuration; some are secret, so they never are arguments."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: tuple[str, ...] = ()
    """Of `git fetch` and `git ls-remote`."""
    starts_helpers: bool = False
    """Whether programs of the user's choice may run."""


def open_access(remote: Remote, user_settings: Iterable[Setting]) -> Access:
    """Return what goes with a command that asks the remote.

    Args:
        remote: What is asked.
        user_settings: All of the user's configuration, in Git's order.

    Raises:
        AccessRefusedError: The file with the token cannot be used.
    """
    token = read_token(remote)
    kept = choose_settings(user_settings, has_token=token is not None)
    options = _serve_safely(remote, kept)
    if token is None:
        names = {key.rpartition(".")[2] for key, _ in kept}
        # Helpers that are graphical must not ask in a process that nobody watches.
        settings = (*kept, ("credential.interactive", "false"))
        return Access(
            is_open=True,
            settings=settings,
            options=options,
            starts_helpers="helper" in names,
        )
    if remote.scheme == "http":  # to this machine: any proxy would read the token
        direct = (pair for pair in kept if not pair[0].endswith(".proxy"))
        kept = (*direct, ("http.proxy", ""))
    settings = (*kept, *remote.credential_settings().items())
    variables = {TOKEN_VARIABLE: token, USER_VARIABLE: remote.user}
    return Access(is_open=True, settings=settings, variables=variables, options=options)


def read_token(remote: Remote) -> str | None:
    """Return the token of this moment, if there is one and the address may have it.

    Raises:
        AccessRefusedError: It stands in a file that has none, or it is no token.
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
    remember_secret(token)
    return token or None


def parse_user_settings(raw: bytes) -> tuple[Setting, ...]:
    r"""Return what `git config --list --null --show-scope` prints, without projects'.

    >>> parse_user_settings(b"global\0http.proxy\nproxy:3128\0local\0http.proxy\nx\0")
    (('http.proxy', 'proxy:3128'),)
    """
    words = raw.decode("utf-8", "surrogateescape").split("\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    return tuple(
        _parse_setting(text) for scope, text in pairs if scope not in _FOREIGN_SCOPES
    )


def choose_settings(
    settings: Iterable[Setting], *, has_token: bool
) -> tuple[Setting, ...]:
    """Return those that count, in their order."""
    return tuple(
        (key, value) for key, value in settings if _is_kept(key, has_token=has_token)
    )


def render_settings(settings: Iterable[Setting]) -> Iterator[tuple[str, str]]:
    """Yield the variables that tell Git these settings."""
    count = 0
    for key, value in settings:
        yield f"GIT_CONFIG_KEY_{count}", key
        yield f"GIT_CONFIG_VALUE_{count}", value
        count += 1
    yield "GIT_CONFIG_COUNT", str(count)


def _parse_setting(text: str) -> Setting:
    key, has_value, value = text.partition("\n")
    return key, value if has_value else "true"  # a key alone switches something on


def _is_kept(key: str, *, has_token: bool) -> bool:
    section, _, rest = key.partition(".")
    name = rest.rpartition(".")[2]
    match section:
        case "credential":
            return not has_token
        case "http":
            is_kept = name in _HTTP_KEPT or name.startswith(_HTTP_KEPT_BEGINNINGS)
            return is_kept or (name == _HTTP_SECRET and not has_token)
        case _:
            return key == "safe.directory"


def _serve_safely(remote: Remote, settings: Iterable[Setting]) -> tuple[str, ...]:
    """Tell the Git that serves a folder, which reads no configuration of ours, too."""
    safe = [value for key, value in settings if key == "safe.directory"]
    if remote.scheme != "file" or not safe:
        return ()
    told = [word for value in safe for word in ("-c", f"safe.directory={value}")]
    return (f"--upload-pack={shlex.join(('git', *told, 'upload-pack'))}",)


def _read_first_line(file: Path) -> str:
    if file.exists() and not file.is_file():  # opening a pipe could take for ever
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
