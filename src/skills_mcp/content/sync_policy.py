"""What the operator demands of a repository before its content is served."""

from dataclasses import dataclass
from pathlib import Path

from skills_mcp.config import Limits
from skills_mcp.config.values import Verify
from skills_mcp.skills.homes import WHOLE, Selection

_LIMITS = Limits.model_construct()  # without building what checks values


@dataclass(frozen=True, slots=True, kw_only=True)
class Signers:
    """The keys that may sign."""

    allowed: Path
    """A file as `ssh-keygen` knows it: a name and a public key on each line."""
    revoked: Path | None = None
    """A file of keys that never count, as `ssh-keygen` knows it."""
    verify: Verify = "commit"
    """What has to be signed: the commit, the tag that marks it, or each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPolicy:
    """Limits and gates of one repository.  The defaults are those of `Config`."""

    selections: tuple[Selection, ...] = (WHOLE,)
    """The parts of the repository that are served."""
    max_files: int = _LIMITS.max_files
    max_file_bytes: int = _LIMITS.max_file_bytes
    """Larger files are left out."""
    max_total_bytes: int = _LIMITS.max_total_bytes
    """The limit of all files together, as they are written."""
    max_download_bytes: int = _LIMITS.max_download_bytes
    """The limit of a fetch, as Git stores it."""
    timeout_seconds: float = 120.0
    """The limit of one sync, from taking the lock to the new pointer."""
    allow_non_fast_forward: bool = True
    signers: Signers | None = None
    is_offline: bool = False
