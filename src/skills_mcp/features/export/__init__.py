"""Skills as folders that hosts read without a server, from the same snapshot.

A lock beside them says which commit they are from, and what each file has to be.
"""

from skills_mcp.features.export.folder import (
    ExportReport,
    export_skills,
    find_changes,
    tell_none,
)
from skills_mcp.features.export.format import FORMATS, FolderFormat, derive_format
from skills_mcp.features.export.lock import LOCK, ExportLock, LockedSettings, read_lock
from skills_mcp.features.export.verification import Difference, verify_folder

__all__ = [
    "FORMATS",
    "LOCK",
    "Difference",
    "ExportLock",
    "ExportReport",
    "FolderFormat",
    "LockedSettings",
    "derive_format",
    "export_skills",
    "find_changes",
    "read_lock",
    "tell_none",
    "verify_folder",
]
