"""Skills in LangChain and LangGraph: see `docs/how-to/langchain.md`."""

from skills_mcp.features.frameworks import require_extra

require_extra("langchain", "langchain_core")

from skills_mcp.features.frameworks.skill_toolkit import (  # noqa: E402 - says what is missing first  # noqa: E402
    EXTRA_TOOLS,
    SkillCapability,
    SkillExample,
    SkillRecord,
    SkillToolkit,
    build_agent_tools,
    build_skill_capability,
    discover_skills,
)

__all__ = [
    "EXTRA_TOOLS",
    "SkillCapability",
    "SkillExample",
    "SkillRecord",
    "SkillToolkit",
    "build_agent_tools",
    "build_skill_capability",
    "discover_skills",
]
