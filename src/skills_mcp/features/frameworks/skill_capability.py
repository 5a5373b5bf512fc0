"""A prompt, tools and a toolkit for an agent of LangChain, built at once."""

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
    """What an agent needs to use skills."""

    prompt: str
    """For the system prompt; `toolkit.build_prompt()` returns a newer one."""
    tools: "list[BaseTool]"
    toolkit: SkillToolkit


def build_agent_tools(toolkit: SkillToolkit) -> "list[BaseTool]":
    """Return the tools of a toolkit.

    Each answers with a text for the model, and with the same as data: the `artifact`
    of the message has it under `structured_content`, as that of an MCP adapter.
    """
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
    """Open skills, and return a prompt and tools for them.

    The arguments are those of `SkillToolkit`. It waits for the content, so an `async`
    program opens `skills` first, or calls it in a thread.

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
