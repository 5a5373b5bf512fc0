"""Serve an organisation's engineering knowledge to every coding agent.

`async with skills_mcp.open(directory="./skills") as skills:` does all that the server
does, in process. See `docs/how-to/python.md`.

All names exported here are stable: see "Stability" in `docs/reference/python.md`.
"""

import sys

from skills_mcp.about import DISTRIBUTION, __version__

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than a forwarder starts

if TYPE_CHECKING:
    from skills_mcp.api.in_process import Place, Skills, SyncSkills, open, open_sync  # noqa: A004 - on purpose
    from skills_mcp.errors import (
        AmbiguousNameError,
        ConfigError,
        ContentUnavailableError,
        FileError,
        InvalidArgumentsError,
        ScriptRefusedError,
        SkillDisabledError,
        SkillNotFoundError,
        SkillsError,
        SyncError,
    )
    from skills_mcp.library import (
        FoundFiles,
        Hold,
        LoadedSkill,
        Match,
        Mode,
        Provenance,
        RanScript,
        ReadFile,
        Refreshed,
        SandboxName,
        ScriptResult,
        ServedExamples,
        SkillChanges,
        SourceState,
    )
    from skills_mcp.library.catalog import (
        CatalogEntry,
        CatalogStyle,
        SkillCatalog,
    )
    from skills_mcp.library.skill_folder import SkillFolder
    from skills_mcp.routing.decision import Ambiguous, NoMatch
    from skills_mcp.routing.matcher import Candidate
    from skills_mcp.routing.search import (
        Hit,
        Reason,
        SearchResult,
    )
    from skills_mcp.skills.inheritance import Inherited
    from skills_mcp.skills.model import (
        Argument,
        Asset,
        Execution,
        Inventory,
        Level,
        Problem,
        Scope,
        Script,
        Skill,
        SkillPath,
        Stamp,
    )
    from skills_mcp.skills.skill_examples import Example, FittingExample, LoadedExamples
    from skills_mcp.skills.skill_files import FileContent, FilePart
    from skills_mcp.skills.tree_node import TreeNode

_HOMES = {
    "api.in_process": ("Place", "Skills", "SyncSkills", "open", "open_sync"),
    "library": (
        "FoundFiles",
        "Hold",
        "LoadedSkill",
        "Match",
        "Mode",
        "Provenance",
        "RanScript",
        "ReadFile",
        "Refreshed",
        "SandboxName",
        "ScriptResult",
        "ServedExamples",
        "SkillChanges",
        "SourceState",
    ),
    "library.catalog": ("CatalogEntry", "CatalogStyle", "SkillCatalog"),
    "library.skill_folder": ("SkillFolder",),
    "routing.decision": ("Ambiguous", "NoMatch"),
    "routing.matcher": ("Candidate",),
    "routing.search": ("Hit", "Reason", "SearchResult"),
    "skills.skill_files": ("FileContent", "FilePart"),
    "skills.skill_examples": ("Example", "FittingExample", "LoadedExamples"),
    "skills.inheritance": ("Inherited",),
    "skills.model": (
        "Argument",
        "Asset",
        "Execution",
        "Inventory",
        "Level",
        "Problem",
        "Scope",
        "Script",
        "Skill",
        "SkillPath",
        "Stamp",
    ),
    "skills.tree_node": ("TreeNode",),
    "errors": (
        "AmbiguousNameError",
        "ConfigError",
        "ContentUnavailableError",
        "FileError",
        "InvalidArgumentsError",
        "ScriptRefusedError",
        "SkillDisabledError",
        "SkillNotFoundError",
        "SkillsError",
        "SyncError",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "DISTRIBUTION",
    "Ambiguous",
    "AmbiguousNameError",
    "Argument",
    "Asset",
    "Candidate",
    "CatalogEntry",
    "CatalogStyle",
    "ConfigError",
    "ContentUnavailableError",
    "Example",
    "Execution",
    "FileContent",
    "FileError",
    "FilePart",
    "FittingExample",
    "FoundFiles",
    "Hit",
    "Hold",
    "Inherited",
    "InvalidArgumentsError",
    "Inventory",
    "Level",
    "LoadedExamples",
    "LoadedSkill",
    "Match",
    "Mode",
    "NoMatch",
    "Place",
    "Problem",
    "Provenance",
    "RanScript",
    "ReadFile",
    "Reason",
    "Refreshed",
    "SandboxName",
    "Scope",
    "Script",
    "ScriptRefusedError",
    "ScriptResult",
    "SearchResult",
    "ServedExamples",
    "Skill",
    "SkillCatalog",
    "SkillChanges",
    "SkillDisabledError",
    "SkillFolder",
    "SkillNotFoundError",
    "SkillPath",
    "Skills",
    "SkillsError",
    "SourceState",
    "Stamp",
    "SyncError",
    "SyncSkills",
    "TreeNode",
    "__version__",
    "open",
    "open_sync",
]


if not TYPE_CHECKING:  # a wrong name is an error for a type checker

    def __getattr__(name: str) -> object:
        """Import a public name lazily, for a fast start."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        from skills_mcp.processes.memory import gc_promoted

        home = f"{__name__}.{_HOME_OF[name]}"
        if home not in sys.modules:
            with gc_promoted():  # the collector would take a tenth of the time
                import_module(home)
        # Not from `sys.modules`: another thread may be in the middle of importing it.
        found = globals()[name] = getattr(import_module(home), name)
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
