"""Every use case, free of any protocol: a library, what is asked, what it answers.

Rule: the rooms above import from here, and not from the rooms that content, snapshots
and scripts are made in.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from skills_mcp.content.push import Push
from skills_mcp.content.source import Hold, Mode, SourceState
from skills_mcp.library.answers import (
    FoundFiles,
    LoadedSkill,
    Match,
    Provenance,
    RanScript,
    ReadFile,
    ServedExamples,
    ServedFile,
    derive_provenance,
    derive_sha256,
    render_error,
    render_state,
)
from skills_mcp.library.listing import MAX_DEPTH, Listing
from skills_mcp.library.skill_library import (
    MAX_EXAMPLES,
    MAX_LISTED_FILES,
    SkillLibrary,
)
from skills_mcp.snapshots.changes import Refreshed, SkillChanges
from skills_mcp.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from skills_mcp.library.edited_copy import (
        EditableText,
        EditedCopy,
        SkillSource,
        UneditableError,
    )
    from skills_mcp.scripts.execution import SandboxName, ScriptResult
    from skills_mcp.scripts.policy import CommandRequest, EntryRequest, ScriptRequest
    from skills_mcp.scripts.sandbox import Choice

_LATE = {
    "Choice": "scripts.sandbox",
    "CommandRequest": "scripts.policy",
    "EditableText": "library.edited_copy",
    "EditedCopy": "library.edited_copy",
    "EntryRequest": "scripts.policy",
    "SandboxName": "scripts.execution",
    "ScriptRequest": "scripts.policy",
    "ScriptResult": "scripts.execution",
    "SkillSource": "library.edited_copy",
    "UneditableError": "library.edited_copy",
}
"""What no first answer needs, by the module that has it."""

__all__ = [
    "MAX_DEPTH",
    "MAX_EXAMPLES",
    "MAX_LISTED_FILES",
    "Choice",
    "CommandRequest",
    "EditableText",
    "EditedCopy",
    "EntryRequest",
    "FoundFiles",
    "Hold",
    "Listing",
    "LoadedSkill",
    "Match",
    "Mode",
    "Provenance",
    "Push",
    "RanScript",
    "ReadFile",
    "Refreshed",
    "SandboxName",
    "ScriptRequest",
    "ScriptResult",
    "ServedExamples",
    "ServedFile",
    "SkillChanges",
    "SkillLibrary",
    "SkillSource",
    "Snapshot",
    "SourceState",
    "UneditableError",
    "derive_provenance",
    "derive_sha256",
    "render_error",
    "render_state",
]


def __getattr__(name: str) -> object:
    """Import what runs scripts with the first script, not before the first answer."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"skills_mcp.{_LATE[name]}"), name)
