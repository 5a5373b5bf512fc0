"""Export skills as folders for hosts without a server."""

from skills_mcp.features.export.folder import (
    ExportReport,
    discard_progress,
    export_skills,
    plan_export,
)
from skills_mcp.features.export.format import FORMATS, FolderFormat, detect_format
from skills_mcp.features.export.lock import (
    EXPORT_LOCK_FILE,
    ExportLock,
    LockedSettings,
    read_lock,
)
from skills_mcp.features.export.verification import Difference, verify_folder

__all__ = [
    "EXPORT_LOCK_FILE",
    "FORMATS",
    "Difference",
    "ExportLock",
    "ExportReport",
    "FolderFormat",
    "LockedSettings",
    "detect_format",
    "discard_progress",
    "export_skills",
    "plan_export",
    "read_lock",
    "verify_folder",
]
