"""An agent of smolagents, with a model that follows a script."""

from pathlib import Path
from typing import Any

import pytest
from smolagents import ChatMessage, MessageRole, Model
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from frameworks.content import AUTH_RULE, ROOT_RULE, UI_RULE
from frameworks.recipes import TASK, load_recipe

HERE = Path(__file__).parent


class ScriptedModel(Model):
    """Calls get_skill once, and answers with what came back."""

    def __init__(self, **arguments: str) -> None:
        super().__init__()
        self.arguments = {"context": TASK, **arguments}

    def generate(self, messages: Any, tools_to_call_from: Any = None, **_: Any) -> ChatMessage:
        assert "list_skills" in [tool.name for tool in tools_to_call_from]
        told = [m for m in messages if m.role == MessageRole.TOOL_RESPONSE]
        if told:
            return _call("final_answer", {"answer": str(told[-1].content)})
        return _call("get_skill", self.arguments)


def _call(name: str, arguments: dict[str, str]) -> ChatMessage:
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    call = ChatMessageToolCall(id="1", type="function", function=function)
    return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def test_the_agent_gets_the_rules_from_the_root_down(url: str) -> None:
    answer = load_recipe(HERE, url).work(TASK, ScriptedModel())

    assert answer.index(ROOT_RULE) < answer.index(UI_RULE) < answer.index(AUTH_RULE)


@pytest.mark.usefixtures("skills")
def test_the_agent_sees_the_error_of_an_unknown_skill() -> None:
    answer = load_recipe(HERE).work(TASK, ScriptedModel(skill_path="ui/vue/auth"))

    assert "SKILL_NOT_FOUND" in answer
