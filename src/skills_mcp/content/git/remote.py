"""The address of a repository, with its credentials.

The token reaches Git through a credential helper for one host only, so it is in no URL,
argument, file or message.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from skills_mcp.config.values import ForgeKind, is_private_url
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
    user: str = field(default=_TOKEN_USER, repr=False)
    """The user beside the token, or the one for a credential helper."""
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

        A pair is a user and a password. A lone name is a user, unless it looks like a
        token. SSH has no use for a password in an address, so it is dropped.

        Raises:
            ConfigError: The branch or tag name is invalid, or the address is not
                allowed.
        """
        branch = branch and _parse_ref_name("branch", branch)
        pin = pin and _parse_ref_name("tag or commit", pin)
        check_address(url)
        parts = urlsplit(url)
        if "://" in url:  # Git knows no `HTTPS://`
            url = parts.scheme + url[len(parts.scheme) :]
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
        # Late: its patterns are many, and few addresses have a user.
        from skills_mcp.text.secret_detection import is_likely_token

        user, _, password = map(unquote, userinfo.partition(":"))
        is_token = is_likely_token(user)
        if not password and not is_token:
            return cls(clean, branch, token, user, pin, token_file)
        for secret in filter(None, (password, user if is_token else "")):
            register_secret(secret)
        if token or token_file:
            return cls(clean, branch, token, pin=pin, token_file=token_file)
        return cls(clean, branch, password or user, user if password else _TOKEN_USER, pin)

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
        return "://" in self.url and is_private_url(self.url)

    @property
    def sends_token(self) -> bool:
        return self.is_private and bool(self.token or self.token_file)

    @property
    def withholds_token(self) -> bool:
        """Whether a configured token is withheld from this address."""
        return bool(self.token or self.token_file) and not self.is_private

    def user_settings(self) -> Mapping[str, str]:
        """Name the user to the credential helpers of Git's own configuration."""
        parts = urlsplit(self.url)
        key = f"credential.{parts.scheme}://{parts.netloc}.username"
        return {key: self.user} if self.user != _TOKEN_USER else {}

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
            "~ ^ : ? * [ \\ (HEAD~1 and the like need a folder inside of a clone: --skills-dir)"
        )
    return name


_PAGES: Mapping[ForgeKind, str] = {
    "github": "{repository}/blob/{commit}/{path}",
    "gitlab": "{repository}/-/blob/{commit}/{path}",
    "gitea": "{repository}/src/commit/{commit}/{path}",
    "bitbucket": "{repository}/src/{commit}/{path}",
    "azure": "{repository}?path=/{path}&version=GC{commit}",
}

_COMMITS: Mapping[ForgeKind, str] = {
    "github": "{repository}/commit/{commit}",
    "gitlab": "{repository}/-/commit/{commit}",
    "gitea": "{repository}/commit/{commit}",
    "bitbucket": "{repository}/commits/{commit}",
    "azure": "{repository}/commit/{commit}",
}

_PULL_REQUESTS: Mapping[ForgeKind, str] = {
    "github": "{repository}/pull/{number}",
    "gitlab": "{repository}/-/merge_requests/{number}",
    "gitea": "{repository}/pulls/{number}",
    "bitbucket": "{repository}/pull-requests/{number}",
    "azure": "{repository}/pullrequest/{number}",
}

_REVIEWS: Mapping[ForgeKind, str] = {
    "github": "{repository}/compare/{base}...{branch}?expand=1",
    "gitlab": "{repository}/-/merge_requests/new?merge_request%5Bsource_branch%5D={branch}",
    "gitea": "{repository}/compare/{base}...{branch}",
    "bitbucket": "{repository}/pull-requests/new?source={branch}",
    "azure": "{repository}/pullrequestcreate?sourceRef={branch}",
}

_EDITORS: Mapping[ForgeKind, str] = {
    "github": "{repository}/edit/{branch}/{path}",
    "gitlab": "{repository}/-/edit/{branch}/{path}",
    "gitea": "{repository}/_edit/{branch}/{path}",
    "bitbucket": "{repository}/src/{branch}/{path}?mode=edit",
    "azure": "{repository}?path=/{path}&version=GB{branch}&_a=contents",
}

_HOSTS: Mapping[str, ForgeKind] = {
    "bitbucket.org": "bitbucket",
    "codeberg.org": "gitea",
    "dev.azure.com": "azure",
    "gitea.com": "gitea",
    "github.com": "github",
    "gitlab.com": "gitlab",
}

# An own server is often called like its program: gitlab.acme.com.
_FIRST_NAMES: Mapping[str, ForgeKind] = {
    "codeberg": "gitea",
    "forgejo": "gitea",
    "gitea": "gitea",
    "github": "github",
    "gitlab": "gitlab",
}

_SHORT_SSH = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[^/].*)")


def derive_page_url(
    remote_url: str, commit: str, path: str, forges: Mapping[str, ForgeKind]
) -> str:
    """Derive the URL of a file's page; empty for an unknown forge.

    >>> derive_page_url("git@github.com:acme/skills.git", "c0ffee", "a b.md", {})
    'https://github.com/acme/skills/blob/c0ffee/a%20b.md'
    """
    if not commit:
        return ""
    return _format_url(_PAGES, remote_url, forges, commit=commit, path=path)


def derive_edit_url(
    remote_url: str, branch: str, path: str, forges: Mapping[str, ForgeKind]
) -> str:
    """Derive the URL of the forge's editor of a file; empty for an unknown forge.

    >>> derive_edit_url("git@github.com:acme/skills.git", "main", "ui/auth.md", {})
    'https://github.com/acme/skills/edit/main/ui/auth.md'
    """
    if not branch:
        return ""
    return _format_url(_EDITORS, remote_url, forges, branch=branch, path=path)


def derive_commit_url(remote_url: str, commit: str, forges: Mapping[str, ForgeKind]) -> str:
    """Derive the URL of a commit's page; empty for an unknown forge.

    >>> derive_commit_url("https://gitlab.com/acme/skills.git", "c0ffee", {})
    'https://gitlab.com/acme/skills/-/commit/c0ffee'
    """
    return _format_url(_COMMITS, remote_url, forges, commit=commit)


def derive_pull_request_url(remote_url: str, number: str, forges: Mapping[str, ForgeKind]) -> str:
    """Derive the URL of a pull request's page; empty for an unknown forge.

    >>> derive_pull_request_url("https://gitlab.com/acme/skills.git", "!12", {})
    'https://gitlab.com/acme/skills/-/merge_requests/12'
    """
    return _format_url(_PULL_REQUESTS, remote_url, forges, number=number.lstrip("#!"))


def derive_review_url(
    remote_url: str, base: str, branch: str, forges: Mapping[str, ForgeKind]
) -> str:
    """Derive the URL for opening a review of a branch; empty for an unknown forge.

    >>> derive_review_url("git@github.com:acme/skills.git", "main", "add/pdf", {})
    'https://github.com/acme/skills/compare/main...add/pdf?expand=1'
    """
    return _format_url(_REVIEWS, remote_url, forges, base=base, branch=branch)


def _format_url(
    pages: Mapping[ForgeKind, str],
    remote_url: str,
    forges: Mapping[str, ForgeKind],
    **parts: str,
) -> str:
    scheme, host, repository_path = _split(remote_url)
    name = host.partition(":")[0].lower()
    kind = forges.get(name) or _HOSTS.get(name) or _FIRST_NAMES.get(name.partition(".")[0])
    if not (kind and repository_path):
        return ""
    page = pages[kind].format(
        repository=quote(repository_path.strip("/").removesuffix(".git"), safe="/~%"),
        **{part: quote(value) for part, value in parts.items()},
    )
    return f"{scheme}://{host}/{page}"


def _split(remote_url: str) -> tuple[str, str, str]:
    if "://" not in remote_url:
        found = _SHORT_SSH.fullmatch(remote_url)
        return ("https", found["host"], found["path"]) if found else ("", "", "")
    parts = urlsplit(remote_url)
    if parts.scheme in {"http", "https"}:
        return parts.scheme, parts.netloc.rpartition("@")[2], parts.path
    if parts.scheme == "ssh":  # its port is not that of the pages
        return "https", parts.hostname or "", parts.path
    return "", "", ""


@dataclass(frozen=True, slots=True)
class Push:
    """A pushed branch or tag of a repository; unknown fields are empty."""

    addresses: tuple[str, ...] = ()
    ref: str = ""
    """Such as `refs/heads/main`."""
    default_branch: str = ""

    def may_move(self, remote: Remote) -> bool:
        """Whether a fetch of this remote could bring something new.

        >>> push = Push(("https://git.acme.com/a/skills",), "refs/heads/main")
        >>> push.may_move(Remote("git@git.acme.com:a/skills.git", "main"))
        True
        >>> push.may_move(Remote("git@git.acme.com:a/other.git", "main"))
        False
        """
        if remote.commit:
            return False  # a commit never becomes another
        return self._is_of_repository(remote.url) and self._is_of_branch(remote)

    def _is_of_repository(self, url: str) -> bool:
        """Compare within one host: a mirror or an alias has another one."""
        followed = _parse_location(url)
        if followed is None:
            return True
        host, path = followed
        pushed = {
            location[1]
            for location in map(_parse_location, self.addresses)
            if location and location[0] == host
        }
        return not pushed or path in pushed

    def _is_of_branch(self, remote: Remote) -> bool:
        if not self.ref:
            return True
        if remote.is_named and remote.requested_ref.startswith("refs/"):
            return self.ref == remote.requested_ref
        if not self.default_branch:
            return True
        return self.ref in {
            f"refs/heads/{DEFAULT_BRANCH}",
            f"refs/heads/{self.default_branch}",
        }


def _parse_location(address: str) -> tuple[str, str] | None:
    """Parse host and path of a repository; None for this machine.

    >>> _parse_location("https://ada@Git.acme.com:8443/Platform/skills.git/")
    ('git.acme.com', 'platform/skills')
    >>> _parse_location("git@git.acme.com:platform/skills.git")
    ('git.acme.com', 'platform/skills')
    """
    try:
        scheme, parts = Remote(address, "").scheme, urlsplit(address)
    except ValueError:
        return None
    if scheme == "file":
        return None
    host, path = parts.hostname or "", parts.path
    if "://" not in address:  # git@host:path
        host, _, path = address.partition(":")
        host = host.rpartition("@")[2]
    path = unquote(path).strip("/").removesuffix(".git")
    return host.casefold(), path.casefold()
