"""The address of a repository, and the secret that goes with it.

The token reaches Git through a credential helper that answers for one host only
(DESIGN §3.10): it is in no URL, argument, file or message.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from skills_mcp.errors import ConfigError, shorten

TOKEN_VARIABLE = "SKILLS_MCP_GIT_TOKEN"  # noqa: S105 - a name, not a secret
USER_VARIABLE = "SKILLS_MCP_GIT_USER"
"""What the credential helper reads; set in the environment of Git alone."""

# GitHub wants this name beside a token (001 §9.2); other forges take any.
_TOKEN_USER = "x-access-token"  # noqa: S105 - a name, not a secret

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)

# What `git check-ref-format` refuses, and names that a command could take for an
# option. A colon or an asterisk would make another refspec of it.
_NO_REF_NAME = re.compile(
    r"^$|^[-/]|[/.]$|//|\.\.|@\{|^@$|(?:^|/)\.|\.lock(?:/|$)|[\x00-\x20\x7f~^:?*\[\\]"
)


@dataclass(frozen=True, slots=True)
class Remote:
    """Where to fetch from.  Neither its `repr` nor its `url` holds a secret."""

    url: str
    branch: str
    token: str | None = field(default=None, repr=False)
    user: str = _TOKEN_USER
    pin: str = ""
    """A tag, or a commit in full, instead of the branch."""

    def __str__(self) -> str:
        return f"{self.url} ({self.pin or self.branch})"

    @classmethod
    def parse(
        cls, url: str, branch: str, token: str | None = None, *, pin: str = ""
    ) -> "Remote":
        """Take a secret out of the URL, where a person may have put it.

        There, a pair is a user and a password, and a lone name is a token.

        Raises:
            ConfigError: Git allows no branch or tag of this name.
        """
        branch = _parse_ref_name("branch", branch)
        pin = pin and _parse_ref_name("tag or commit", pin)
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or "@" not in parts.netloc:
            return cls(url, branch, token, pin=pin)
        userinfo, _, host = parts.netloc.rpartition("@")
        clean = urlunsplit(parts._replace(netloc=host))
        user, is_pair, password = map(unquote, userinfo.partition(":"))
        if token or not is_pair:
            return cls(clean, branch, token or user, pin=pin)
        return cls(clean, branch, password, user, pin)

    @property
    def commit(self) -> str | None:
        """The commit that is pinned, if one is: it can never become another."""
        return self.pin.lower() if _COMMIT.fullmatch(self.pin) else None

    @property
    def wanted(self) -> str:
        """What Git is asked for.

        >>> Remote("/srv/skills", "main").wanted
        'refs/heads/main'
        >>> Remote("/srv/skills", "main", pin="v1.2").wanted
        'refs/tags/v1.2'
        """
        if self.pin:
            return self.commit or f"refs/tags/{self.pin}"
        return f"refs/heads/{self.branch}"

    @property
    def host(self) -> str:
        """The host and port that a token would be sent to; empty if there is none."""
        return urlsplit(self.url).netloc.lower() if self.usable_token else ""

    @property
    def scheme(self) -> str:
        """The transport that Git uses: `https`, `http`, `ssh` or `file`.

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
    def usable_token(self) -> str | None:
        """The token, if this address may have it: never over plain HTTP."""
        is_private = self.scheme == "https" or (
            self.scheme == "http" and urlsplit(self.url).hostname in _LOOPBACK
        )
        return self.token if is_private else None

    def credential_settings(self) -> Mapping[str, str]:
        """Return Git settings that answer with the token for this host alone."""
        parts = urlsplit(self.url)
        return {
            "credential.helper": "",  # forget every helper configured before
            f"credential.{parts.scheme}://{parts.netloc}.helper": (
                f'!f(){{ test "$1" = get && echo "username=${USER_VARIABLE}" && '
                f'echo "password=${TOKEN_VARIABLE}"; }}; f'
            ),
            "credential.interactive": "false",
        }

    def redact(self, text: str) -> str:
        """Return the text without the token."""
        return text.replace(self.token, "***") if self.token else text


def _parse_ref_name(kind: str, name: str) -> str:
    """Return a name as it stands in a repository, or refuse it."""
    if _NO_REF_NAME.search(name):
        raise ConfigError(
            f"{shorten(name)} is no name of a {kind}. It may not begin with - / or a "
            "dot, end with / or a dot or .lock, or hold a space, .., //, @{ or any of "
            "~ ^ : ? * [ \\"
        )
    return name
