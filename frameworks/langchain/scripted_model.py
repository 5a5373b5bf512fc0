"""A chat model that follows a script, and keeps what it was asked."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field


class ScriptedModel(BaseChatModel):
    """Calls the tools of one step after another, and ends with a word."""

    steps: list[list[ToolCall]]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    bound: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "ScriptedModel":
        """Remember which tools there are."""
        self.bound[:] = [tool.name for tool in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.asked.append(list(messages))
        calls = self.steps[len(self.asked) - 1 :][:1]
        answer = AIMessage("" if calls else "Done.", tool_calls=calls[0] if calls else [])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def script(*steps: Sequence[tuple[str, dict[str, Any]]]) -> ScriptedModel:
    """Return a model that makes these calls, those of a step at once."""
    return ScriptedModel(
        steps=[
            [
                ToolCall(name=name, args=args, id=f"{step}-{number}")
                for number, (name, args) in enumerate(calls)
            ]
            for step, calls in enumerate(steps)
        ]
    )
