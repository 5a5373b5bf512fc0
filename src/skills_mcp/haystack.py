"""Skills in Haystack: see `docs/how-to/haystack.md`."""

from skills_mcp.features.frameworks import require_extra

require_extra("haystack", "haystack")

from skills_mcp.features.frameworks.skill_store import (  # noqa: E402 - says what is missing first
    ServedSkillStore,
    ServedSkillToolset,
)

__all__ = ["ServedSkillStore", "ServedSkillToolset"]
