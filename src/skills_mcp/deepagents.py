"""Skills in deepagents: see `docs/how-to/deepagents.md`."""

from skills_mcp.features.frameworks import require_extra

require_extra("deepagents", "deepagents")

from skills_mcp.features.frameworks.skills_backend import (  # noqa: E402 - says what is missing first
    SkillsBackend,
    SkillsReload,
)

__all__ = ["SkillsBackend", "SkillsReload"]
