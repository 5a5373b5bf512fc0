"""Web pages of a repository at its forge.

The addresses are the documented permalinks of each forge.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from skills_mcp.config.values import ForgeKind

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

_REVIEWS: Mapping[ForgeKind, str] = {
    "github": "{repository}/compare/{base}...{branch}?expand=1",
    "gitlab": "{repository}/-/merge_requests/new?merge_request%5Bsource_branch%5D={branch}",
    "gitea": "{repository}/compare/{base}...{branch}",
    "bitbucket": "{repository}/pull-requests/new?source={branch}",
    "azure": "{repository}/pullrequestcreate?sourceRef={branch}",
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


def derive_commit_url(remote_url: str, commit: str, forges: Mapping[str, ForgeKind]) -> str:
    """Derive the URL of a commit's page; empty for an unknown forge.

    >>> derive_commit_url("https://gitlab.com/acme/skills.git", "c0ffee", {})
    'https://gitlab.com/acme/skills/-/commit/c0ffee'
    """
    return _format_url(_COMMITS, remote_url, forges, commit=commit)


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
