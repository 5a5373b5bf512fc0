"""Use cases of skills-mcp, independent of any protocol.

Rule: higher layers import from here, not from `content`, `snapshots` or `scripts`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Push, derive_commit_url, derive_pull_request_url
from skills_mcp.content.source import Hold, Loss, Mode, SourceState
from skills_mcp.library.answers import (
    FoundFiles,
    LoadedSkill,
    Match,
    Provenance,
    RanScript,
    ReadFile,
    ServedExamples,
    ServedFile,
    derive_file_provenance,
    derive_provenance,
    find_repository,
    render_applies,
    render_error,
    render_relations,
    render_state,
    render_status,
    sha256_of,
)
from skills_mcp.library.listing import MAX_DEPTH, Listing
from skills_mcp.library.skill_library import (
    DEFAULT_EXAMPLES,
    DEFAULT_LINES,
    FIRST_CONTENT_SECONDS,
    MAX_LISTED_FILES,
    NO_SKILLS_YET,
    LibraryView,
    SkillLibrary,
)
from skills_mcp.scripts.policy import CommandRequest, EntryRequest, ScriptRequest
from skills_mcp.snapshots.skill_snapshot import Refreshed, SkillChanges, Snapshot, derive_loss

if TYPE_CHECKING:
    from skills_mcp.content.exported_files import WorkTree
    from skills_mcp.content.git.proposal import FolderChange, TextReplacement
    from skills_mcp.content.git.repository import ListedCommit, PastCommit
    from skills_mcp.library.source_edits import (
        EditableText,
        SkillSource,
        UneditableError,
        WorkingCopy,
    )
    from skills_mcp.scripts.execution import SandboxName, ScriptResult
    from skills_mcp.scripts.sandbox import Choice

_LATE = {
    "Choice": "scripts.sandbox",
    "EditableText": "library.source_edits",
    "FolderChange": "content.git.proposal",
    "ListedCommit": "content.git.repository",
    "PastCommit": "content.git.repository",
    "SandboxName": "scripts.execution",
    "ScriptResult": "scripts.execution",
    "SkillSource": "library.source_edits",
    "TextReplacement": "content.git.proposal",
    "UneditableError": "library.source_edits",
    "WorkTree": "content.exported_files",
    "WorkingCopy": "library.source_edits",
}
"""Names imported on first use, by module: the first answer needs none."""


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"skills_mcp.{_LATE[name]}"), name)
