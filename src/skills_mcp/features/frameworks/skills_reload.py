"""Middleware."""

from typing import Annotated, Any, NotRequired

from deepagents.middleware.skills import SkillsState
from langchain.agents.middleware.types import AgentMiddleware, PrivateStateAttr

from skills_mcp.api.in_process import Skills, SyncSkills


class _Revision(SkillsState):
    skills_revision: NotRequired[Annotated[str, PrivateStateAttr]]


class SkillsReload(AgentMiddleware):
    """Relist the skills in a thread after a change.

    `SkillsMiddleware` lists them once per thread; put this middleware in front.
    """

    state_schema = _Revision

    def __init__(self, skills: Skills | SyncSkills) -> None:
        super().__init__()
        self._skills = skills.to_sync()

    def before_agent(self, state: _Revision, runtime: object) -> dict[str, Any] | None:  # noqa: ARG002
        """Reset the list if the revision differs from the thread's."""
        revision = self._skills.revision
        if state.get("skills_revision") == revision:
            return None
        return {"skills_revision": revision, "skills_metadata": None}
