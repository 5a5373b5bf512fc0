"""What a forge says was pushed, and whether a source could have moved with it.

Rule: only what is certain to be elsewhere is left out. A fetch too many costs little,
and one too few leaves old skills served.
"""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from skills_mcp.content.git.remote import DEFAULT_BRANCH, Remote


@dataclass(frozen=True, slots=True)
class Push:
    """A branch or tag of a repository that has moved; what is not known is empty."""

    addresses: tuple[str, ...] = ()
    """Every URL of the repository."""
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
        followed = _parse_place(url)
        if followed is None:
            return True
        host, path = followed
        pushed = {
            each[1]
            for each in map(_parse_place, self.addresses)
            if each and each[0] == host
        }
        return not pushed or path in pushed

    def _is_of_branch(self, remote: Remote) -> bool:
        if not self.ref:
            return True
        if remote.is_named and remote.wanted.startswith("refs/"):
            return self.ref == remote.wanted
        if not self.default_branch:
            return True
        return self.ref in {
            f"refs/heads/{DEFAULT_BRANCH}",
            f"refs/heads/{self.default_branch}",
        }


def _parse_place(address: str) -> tuple[str, str] | None:
    """Return the host and path of a repository; None if it is on this machine.

    >>> _parse_place("https://ada@Git.acme.com:8443/Platform/skills.git/")
    ('git.acme.com', 'platform/skills')
    >>> _parse_place("git@git.acme.com:platform/skills.git")
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
