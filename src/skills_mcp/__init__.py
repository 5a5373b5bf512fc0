"""Serve an organisation's engineering knowledge to every coding agent.

`async with skills_mcp.open(directory="./skills") as skills:` is everything that the
server can do, without the server. `docs/how-to/python.md` tells the rest.

What is imported from here is stable: see "Stability" in `docs/reference/python.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from skills_mcp.about import DISTRIBUTION, __version__

if TYPE_CHECKING:
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
    from skills_mcp.integrations.in_process import Skills, SyncSkills
    from skills_mcp.integrations.open_skills import open, open_sync  # noqa: A004 - on purpose
    from skills_mcp.library import (
        FoundFiles,
        LoadedSkill,
        Match,
        Provenance,
        RanScript,
        ReadFile,
        Refreshed,
        ScriptResult,
        ServedExamples,
        SkillChanges,
        SourceState,
    )
    from skills_mcp.library.catalog import SkillCatalog
    from skills_mcp.library.skill_folder import SkillFolder
    from skills_mcp.routing.decision import Ambiguous, NoMatch
    from skills_mcp.routing.matcher import Candidate
    from skills_mcp.routing.search import Hit, SearchResult
    from skills_mcp.skills.assets import FileContent, FilePart
    from skills_mcp.skills.examples import Example, FittingExample, LoadedExamples
    from skills_mcp.skills.inheritance import Inherited
    from skills_mcp.skills.model import Argument, Asset, Inventory, Script, Skill, Stamp
    from skills_mcp.skills.tree import TreeNode

_HOMES = {
    "integrations.open_skills": ("open", "open_sync"),
    "integrations.in_process": ("Skills", "SyncSkills"),
    "library": (
        "FoundFiles",
        "LoadedSkill",
        "Match",
        "Provenance",
        "RanScript",
        "ReadFile",
        "Refreshed",
        "ScriptResult",
        "ServedExamples",
        "SkillChanges",
        "SourceState",
    ),
    "library.catalog": ("SkillCatalog",),
    "library.skill_folder": ("SkillFolder",),
    "routing.decision": ("Ambiguous", "NoMatch"),
    "routing.matcher": ("Candidate",),
    "routing.search": ("Hit", "SearchResult"),
    "skills.assets": ("FileContent", "FilePart"),
    "skills.examples": ("Example", "FittingExample", "LoadedExamples"),
    "skills.inheritance": ("Inherited",),
    "skills.model": ("Argument", "Asset", "Inventory", "Script", "Skill", "Stamp"),
    "skills.tree": ("TreeNode",),
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
    "ConfigError",
    "ContentUnavailableError",
    "Example",
    "FileContent",
    "FileError",
    "FilePart",
    "FittingExample",
    "FoundFiles",
    "Hit",
    "Inherited",
    "InvalidArgumentsError",
    "Inventory",
    "LoadedExamples",
    "LoadedSkill",
    "Match",
    "NoMatch",
    "Provenance",
    "RanScript",
    "ReadFile",
    "Refreshed",
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


def __getattr__(name: str) -> object:
    """Import what is asked for: a program that needs one name waits for no other."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skills_mcp.processes.memory import garbage_collector_paused

    with garbage_collector_paused():  # it would take a tenth of the time
        found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
