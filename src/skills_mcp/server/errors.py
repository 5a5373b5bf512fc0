"""The one door through which our errors leave (DESIGN §3.15)."""

from collections.abc import Awaitable

from skills_mcp.errors import SkillsError
from skills_mcp.server.replies import Reply


async def answered(work: Awaitable[Reply]) -> Reply:
    """Await an answer. One of our errors becomes one a model can act on."""
    try:
        return await work
    except SkillsError as error:
        code, message = error.code, str(error)
        return Reply({"error": {"code": code, "message": message}}, is_error=True)
