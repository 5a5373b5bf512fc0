"""Skills in Google ADK: see `docs/how-to/adk.md`."""

from skills_mcp.features.frameworks import require_extra

require_extra("adk", "google.adk")

from skills_mcp.features.frameworks.skill_registry import (  # noqa: E402 - says what is missing first
    ServedSkillRegistry,
)

__all__ = ["ServedSkillRegistry"]
