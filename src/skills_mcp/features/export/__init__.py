"""Export skills as folders for hosts without a server."""

from skills_mcp.features.export.folder import (
    Difference,
    ExportReport,
    discard_progress,
    export_skills,
    plan_export,
    verify_folder,
)
from skills_mcp.features.export.layout import (
    EXPORT_LOCK_FILE,
    FORMATS,
    ExportLock,
    FolderFormat,
    LockedSettings,
    detect_format,
    read_lock,
)

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
