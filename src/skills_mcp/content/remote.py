"""The address of a repository, and the secret that goes with it.

The token reaches Git through a credential helper that answers for one host only
(DESIGN §3.10): it is in no URL, argument, file or message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

TOKEN_VARIABLE = "SKILLS_MCP_GIT_TOKEN"  # noqa: S105 - a name, not a secret
USER_VARIABLE = "SKILLS_MCP_GIT_USER"
"""What the credential helper reads; set in the environment of Git alone."""

# GitHub wants this name beside a token (001 §9.2); other forges take any.
_TOKEN_USER = "x-access-token"  # noqa: S105 - a name, not a secret

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Remote:
    """Where to fetch from.  Neither its `repr` nor its `url` holds a secret."""

    url: str
    branch: str
    token: str | None = field(default=None, repr=False)
    user: str = _TOKEN_USER

    def __str__(self) -> str:
        return f"{self.url} ({self.branch})"

    @classmethod
    def parse(cls, url: str, branch: str, token: str | None = None) -> "Remote":
        """Take a secret out of the URL, where a person may have put it.

        There, a pair is a user and a password, and a lone name is a token.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or "@" not in parts.netloc:
            return cls(url, branch, token)
        userinfo, _, host = parts.netloc.rpartition("@")
        clean = urlunsplit(parts._replace(netloc=host))
        user, is_pair, password = map(unquote, userinfo.partition(":"))
        if token or not is_pair:
            return cls(clean, branch, token or user)
        return cls(clean, branch, password, user)

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
