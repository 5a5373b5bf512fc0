"""Policy of a source: limits and checks before publication."""

from dataclasses import dataclass
from pathlib import Path

from skills_mcp.config import Limits
from skills_mcp.config.values import Verify
from skills_mcp.skills.homes import DEFAULT_SELECTION, Selection

_LIMITS = Limits.model_construct()  # without building what checks values


@dataclass(frozen=True, slots=True, kw_only=True)
class Signers:
    allowed: Path
    """File in the format of `ssh-keygen`: a name and a public key on each line."""
    revoked: Path | None = None
    verify: Verify = "commit"
    """Objects with a required signature: commit, tag, or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPolicy:
    """Limits and checks of one repository.  The defaults are those of `Config`."""

    selections: tuple[Selection, ...] = (DEFAULT_SELECTION,)
    max_files: int = _LIMITS.max_files
    max_file_bytes: int = _LIMITS.max_file_bytes
    max_total_bytes: int = _LIMITS.max_total_bytes
    """The limit of all exported files together."""
    max_download_bytes: int = _LIMITS.max_download_bytes
    """The limit of a fetch, as Git stores it."""
    timeout_seconds: float = 120.0
    """The limit of one sync, from taking the lock to the new pointer."""
    allow_non_fast_forward: bool = True
    signers: Signers | None = None
    is_offline: bool = False
