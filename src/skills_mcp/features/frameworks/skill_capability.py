"""LangChain capability."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.api.open_skills import Place
from skills_mcp.features.frameworks.skill_toolkit import SkillToolkit

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


@dataclass(frozen=True, slots=True)
class SkillCapability:
    prompt: str
    tools: "list[BaseTool]"
    toolkit: SkillToolkit


def build_agent_tools(toolkit: SkillToolkit) -> "list[BaseTool]":
    """LangChain tools of a toolkit; `artifact["structured_content"]` has the data."""
    return toolkit.get_tools()


def build_skill_capability(  # noqa: PLR0913, PLR0917 - the signature that users know
    roots: Place | Sequence[Place] | None = None,
    max_files: int = 25,
    max_chars: int = 12_000,
    read_max_lines: int = 250,
    allow_run_entry: bool = False,  # noqa: FBT001, FBT002 - as above
    command_timeout: int = 60,
    allowed_entry_programs: Sequence[str] | None = None,
    *,
    skills: Skills | SyncSkills | None = None,
    repo: str | None = None,
    extra_tools: Sequence[str] | None = None,
) -> SkillCapability:
    """Open skills and build prompt and tools; see `SkillToolkit` for arguments.

    Blocks until there is content.

    Raises:
        ConfigError: A folder does not exist, or the arguments contradict.
        SyncError: The repository cannot be fetched.
    """
    toolkit = SkillToolkit(
        roots,
        max_files,
        max_chars,
        read_max_lines,
        allow_run_entry,
        command_timeout,
        allowed_entry_programs,
        skills=skills,
        repo=repo,
        extra_tools=extra_tools,
    )
    return SkillCapability(toolkit.build_prompt(), build_agent_tools(toolkit), toolkit)
