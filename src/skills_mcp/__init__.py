"""Serve an organisation's engineering knowledge to every coding agent.

`build(Options(repo=…), os.environ).library` is everything that the server can do,
without the server.
"""

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.bootstrap import Application, Options, build
from skills_mcp.errors import SkillsError
from skills_mcp.library.answers import (
    FoundFiles,
    Guidance,
    LoadedSkill,
    ReadFile,
    ServedFile,
)
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.search import Found, Hit
from skills_mcp.scripts.execution import ScriptResult
from skills_mcp.scripts.policy import CommandRequest, ScriptRequest
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.snapshots.refreshed import Refreshed

__all__ = [
    "DISTRIBUTION",
    "Ambiguous",
    "Application",
    "CommandRequest",
    "Found",
    "FoundFiles",
    "Guidance",
    "Hit",
    "LoadedSkill",
    "NoMatch",
    "Options",
    "Problem",
    "ReadFile",
    "Refreshed",
    "ScriptRequest",
    "ScriptResult",
    "ServedFile",
    "Skill",
    "SkillLibrary",
    "SkillsError",
    "__version__",
    "build",
]
