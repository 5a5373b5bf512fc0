"""Pushes announced by a forge, and the sources they may affect.

Rule: only provably unaffected sources are skipped. A superfluous fetch costs little,
and a missing one leaves old skills served.
"""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from skills_mcp.content.git.remote import DEFAULT_BRANCH, Remote


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
