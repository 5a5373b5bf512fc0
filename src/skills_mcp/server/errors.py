"""The one door through which our errors leave (DESIGN §3.15)."""

from skills_mcp.errors import SkillsError
from skills_mcp.server.replies import Reply


def failure(error: SkillsError) -> Reply:
    """Return an error that a model can act on: a stable code, and what to do."""
    return Reply({"error": {"code": error.code, "message": str(error)}}, is_error=True)
