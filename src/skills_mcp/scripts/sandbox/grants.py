"""What one run may reach."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """The places that a run may reach besides the system's programs.

    Every path is absolute, exists, and holds no link. The folder in which the
    command starts has to lie in one of them.
    """

    home: Path
    """For HOME and TMPDIR: writable, empty at the start, in a private folder."""
    readable: tuple[Path, ...] = ()
    """Files and folders that it may read, and run programs from."""
    writable: tuple[Path, ...] = ()
    """Folders in which it may do all that the account may do."""
    network: bool = False
    """Whether it may open connections."""
    home_bytes: int = 64 * 1024 * 1024
    """What `home` may hold at most, where the tier can say so."""


def expand(path: str, home: Path) -> Path:
    """Return a path of the operator's, who may write `~` for the home.

    >>> str(expand("~/src", Path("/home/ada")))
    '/home/ada/src'
    """
    first, _, rest = path.partition("/")
    return home / rest if first == "~" else Path(path)
