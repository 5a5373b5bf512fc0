"""Specification of a tool."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from mcp_types import Tool, ToolAnnotations

from skills_mcp.library import SkillLibrary
from skills_mcp.server.arguments import Arguments, input_schema
from skills_mcp.server.replies import Reply
from skills_mcp.skills.principal import READ

LARGE_RESULT = {"anthropic/maxResultSizeChars": 500_000}

ONLY_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

RUNS_ANYTHING = ToolAnnotations(
    read_only_hint=False,
    destructive_hint=True,
    idempotent_hint=False,
    open_world_hint=True,
)

Handler = Callable[[SkillLibrary, Any], Awaitable[Reply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool: texts for the model, arguments, handler."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    handler: Handler
    annotations: ToolAnnotations
    meta: dict[str, Any] = field(default_factory=dict)
    scope: str = READ
    """OAuth scope required from the caller."""
    needs_content: bool = True
    """The call waits for the first snapshot."""
    is_slow: bool = False
    shared_description: str = ""
    """Description on a shared server, if it differs."""
    runs_code: bool = False
    """Runs a program on the machine of the server."""

    def advertise(self, *, is_shared: bool = False) -> Tool:
        description = self.shared_description if is_shared else ""
        return Tool(
            name=self.name,
            title=self.title,
            description=description or self.description,
            input_schema=input_schema(self.arguments),
            annotations=self.annotations.model_copy(update={"title": self.title}),
            _meta=self.meta or None,
        )
