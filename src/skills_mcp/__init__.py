"""Serve an organisation's engineering knowledge to every coding agent.

`build(Options(repo=…), os.environ).library` is everything that the server can do,
without the server.
"""

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.bootstrap import Application, Options, build
from skills_mcp.errors import SkillsError
from skills_mcp.library import (
    CommandRequest,
    FoundFiles,
    LoadedSkill,
    Match,
    ReadFile,
    Refreshed,
    ScriptRequest,
    ScriptResult,
    ServedFile,
    SkillLibrary,
)
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.search import Hit, SearchResult
from skills_mcp.skills.model import Problem, Skill

__all__ = [
    "DISTRIBUTION",
    "Ambiguous",
    "Application",
    "CommandRequest",
    "FoundFiles",
    "Hit",
    "LoadedSkill",
    "Match",
    "NoMatch",
    "Options",
    "Problem",
    "ReadFile",
    "Refreshed",
    "ScriptRequest",
    "ScriptResult",
    "SearchResult",
    "ServedFile",
    "Skill",
    "SkillLibrary",
    "SkillsError",
    "__version__",
    "build",
]
