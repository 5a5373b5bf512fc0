"""What lets a running thread of a deep agent list the skills anew."""

from typing import Annotated, Any, NotRequired

from deepagents.middleware.skills import SkillsState
from langchain.agents.middleware.types import AgentMiddleware, PrivateStateAttr

from skills_mcp.api.in_process import Skills, SyncSkills


class _Revision(SkillsState):
    skills_revision: NotRequired[Annotated[str, PrivateStateAttr]]


class SkillsReload(AgentMiddleware):
    """Let a thread list the skills anew, as soon as other ones are served.

    `SkillsMiddleware` lists them once for a thread; put this one in front of it.
    """

    state_schema = _Revision

    def __init__(self, skills: Skills | SyncSkills) -> None:
        super().__init__()
        self._skills = skills.to_sync()

    def before_agent(self, state: _Revision, runtime: object) -> dict[str, Any] | None:  # noqa: ARG002
        """Ask for the list if the skills are not those that the thread knows."""
        revision = self._skills.revision
        if state.get("skills_revision") == revision:
            return None
        return {"skills_revision": revision, "skills_metadata": None}
