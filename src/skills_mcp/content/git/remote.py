"""The address of a repository, with its credentials.

The token reaches Git through a credential helper for one host only, so it is in no URL,
argument, file or message.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from skills_mcp.config.loopback import is_loopback
from skills_mcp.errors import ConfigError
from skills_mcp.text.redaction import REDACTED, redact, register_secret
from skills_mcp.text.rendering import abbreviate_value

TOKEN_VARIABLE = "SKILLS_MCP_GIT_TOKEN"  # noqa: S105 - a name, not a secret
USER_VARIABLE = "SKILLS_MCP_GIT_USER"
"""Variables for the credential helper; set for Git's process alone."""

# GitHub wants this name beside a token (001 §9.2); other forges take any.
_TOKEN_USER = "x-access-token"  # noqa: S105 - a name, not a secret

# Git's other transports are old, unsafe, or run a program.
_TRANSPORTS = frozenset({"https", "http", "ssh", "file"})
_ADDRESSES = (
    "Write https://host/path, ssh://git@host/path or git@host:path, or the path of a "
    "repository on this machine"
)

# `ext::command` and its kind, which Git hands to a program.
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_SECRET = re.compile(r"(?<=://)(?!git@).+(?=@)")
_HOST = re.compile(r"[\w.~:\[\]%-]+")

DEFAULT_BRANCH = "main"
"""The branch if none is named; without it, the remote's own default branch."""

# A branch of this name stands for the default branch.
_REMOTE_HEAD = "HEAD"

_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)

# What `git check-ref-format` refuses, and names that a command could take for an
# option. A colon or an asterisk would make another refspec of it.
_NO_REF_NAME = re.compile(
    r"^$|^[-/]|[/.]$|//|\.\.|@\{|^@$|(?:^|/)\.|\.lock(?:/|$)|[\x00-\x20\x7f~^:?*\[\\]"
)


@dataclass(frozen=True, slots=True)
class Remote:
    """Address and ref of a repository.  Neither `repr` nor `url` holds a secret."""

    url: str
    branch: str
    """Empty for `main`, or the remote's default branch without one."""
    token: str | None = field(default=None, repr=False)
    user: str = _TOKEN_USER
    pin: str = ""
    """A tag, or a full commit id, instead of the branch."""
    token_file: Path | None = None
    """File with the token; read at each fetch, with precedence over `token`."""

    def __str__(self) -> str:
        return f"{self.url} ({self.pin or self.branch or DEFAULT_BRANCH})"

    @classmethod
    def parse(
        cls,
        url: str,
        branch: str,
        token: str | None = None,
        *,
        pin: str = "",
        token_file: Path | None = None,
    ) -> "Remote":
        """Parse a URL, and move embedded credentials out.

        A pair is a user and a password, and a lone name is a token. SSH has no use for
        a password in an address, so it is dropped.

        Raises:
            ConfigError: The branch or tag name is invalid, or the address is not
            allowed.
        """
        branch = branch and _parse_ref_name("branch", branch)
        pin = pin and _parse_ref_name("tag or commit", pin)
        check_address(url)
        parts = urlsplit(url)
        if "@" not in parts.netloc or parts.scheme not in {"http", "https", "ssh"}:
            return cls(url, branch, token, pin=pin, token_file=token_file)
        userinfo, _, host = parts.netloc.rpartition("@")
        if parts.scheme == "ssh":
            name, is_pair, password = userinfo.partition(":")
            register_secret(unquote(password))
            if is_pair:
                url = urlunsplit(parts._replace(netloc=f"{name}@{host}"))
            return cls(url, branch, token, pin=pin, token_file=token_file)
        clean = urlunsplit(parts._replace(netloc=host))
        user, is_pair, password = map(unquote, userinfo.partition(":"))
        register_secret(password if is_pair else user)
        if token or token_file or not is_pair:
            token = token or (None if is_pair else user)
            return cls(clean, branch, token, pin=pin, token_file=token_file)
        return cls(clean, branch, password, user, pin)

    @property
    def commit(self) -> str | None:
        """The pinned commit in lower case; None for a branch or a tag."""
        return self.pin.lower() if _COMMIT.fullmatch(self.pin) else None

    @property
    def requested_ref(self) -> str:
        """The ref or commit requested from Git.

        >>> Remote("/srv/skills", "main").requested_ref
        'refs/heads/main'
        >>> Remote("/srv/skills", "main", pin="v1.2").requested_ref
        'refs/tags/v1.2'
        >>> Remote("/srv/skills", "HEAD").requested_ref
        'HEAD'
        """
        if self.pin:
            return self.commit or f"refs/tags/{self.pin}"
        if self.branch == _REMOTE_HEAD:
            return self.branch
        return f"refs/heads/{self.branch or DEFAULT_BRANCH}"

    @property
    def is_named(self) -> bool:
        """Whether the operator has named a branch, a tag or a commit."""
        return bool(self.pin or self.branch)

    @property
    def host(self) -> str:
        """Host and port for the token; empty without one."""
        return urlsplit(self.url).netloc.lower() if self.sends_token else ""

    @property
    def scheme(self) -> str:
        """Git transport: `https`, `http`, `ssh` or `file`.

        >>> [Remote(url, "main").scheme for url in ("git@host:a/b", "/srv/git/b")]
        ['ssh', 'file']
        """
        scheme = urlsplit(self.url).scheme
        if "://" in self.url:
            return scheme
        is_drive = len(scheme) == 1  # C:/content on Windows
        has_host = ":" in self.url.split("/", 1)[0]
        return "ssh" if has_host and not is_drive else "file"

    @property
    def is_private(self) -> bool:
        """Whether the transport is private: https, or http within this machine."""
        return self.scheme == "https" or (
            self.scheme == "http" and is_loopback(urlsplit(self.url).hostname or "")
        )

    @property
    def sends_token(self) -> bool:
        return self.is_private and bool(self.token or self.token_file)

    @property
    def withholds_token(self) -> bool:
        """Whether a configured token is withheld from this address."""
        return bool(self.token or self.token_file) and not self.is_private

    def credential_settings(self) -> Mapping[str, str]:
        parts = urlsplit(self.url)
        return {
            "credential.helper": "",  # forget every helper configured before
            # Not `echo`, which interprets a backslash in a password.
            f"credential.{parts.scheme}://{parts.netloc}.helper": (
                '!f(){ test "$1" = get && printf "username=%s\\npassword=%s\\n" '
                f'"${USER_VARIABLE}" "${TOKEN_VARIABLE}"; }}; f'
            ),
            "credential.interactive": "false",
        }


def check_address(url: str) -> None:
    """Refuse an unsafe address or one without a repository, before Git sees it.

    Raises:
        ConfigError: Its kind is not allowed, or it would run a program.
    """
    if fault := _find_fault(url):
        # If a secret holds a slash, `redact` sees its beginning only.
        redacted = _SECRET.sub(REDACTED, redact(url))
        raise ConfigError(f"{abbreviate_value(redacted)} {fault}. {_ADDRESSES}")


def _find_fault(url: str) -> str:
    if not url or _CONTROLS.search(url):
        return "is no address: it is empty, or holds control characters"
    if _HELPER.match(url):
        return "would have Git run a program"
    if "://" in url:
        return _find_url_fault(url)
    # Git and ssh take a name with a hyphen in front for an option.
    host = url.partition(":")[0]
    if url.startswith("-") or ("/" not in host and "@-" in host):
        return "could be taken for an option"
    return ""


def _find_url_fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it raises for what is no number
    except ValueError:
        return (
            "is no address: its host or port cannot be read. In a password write / ? # "
            "as %2F %3F %23"
        )
    if parts.scheme not in _TRANSPORTS:
        return f"would be fetched over {parts.scheme or 'nothing'!r}, which is not allowed"
    if parts.scheme == "file":
        return ""
    host = parts.hostname or ""
    if not _HOST.fullmatch(parts.netloc.rpartition("@")[2]) or not host:
        return "has no host, or none that could be one"
    if host.startswith("-") or parts.netloc.startswith("-"):
        return "could be taken for an option"
    return "holds control characters" if _CONTROLS.search(unquote(host)) else ""


def is_ref_name(name: str) -> bool:
    """Whether Git allows this branch or tag name, and cannot take it for an option."""
    return _NO_REF_NAME.search(name) is None


def _parse_ref_name(kind: str, name: str) -> str:
    if not is_ref_name(name):
        raise ConfigError(
            f"{abbreviate_value(name)} is no name of a {kind}. It may not begin with - / or a "
            "dot, end with / or a dot or .lock, or hold a space, .., //, @{ or any of "
            "~ ^ : ? * [ \\"
        )
    return name
