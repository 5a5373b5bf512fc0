"""Skills in Microsoft Agent Framework: see `docs/how-to/agent-framework.md`."""

from skills_mcp.features.frameworks import require_extra

require_extra("agent-framework", "agent_framework")

from skills_mcp.features.frameworks.skills_source import (  # noqa: E402 - says what is missing first
    ServedSkillsSource,
)

__all__ = ["ServedSkillsSource"]
