"""An agent of the OpenAI Agents SDK, with a model that follows a script."""

import json
from pathlib import Path
from typing import Any

import pytest
from agents import Model, ModelResponse, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from frameworks.content import AUTH_RULE, ROOT_RULE, UI_RULE
from frameworks.recipes import TASK, load_recipe

HERE = Path(__file__).parent


class ScriptedModel(Model):
    """Calls get_skill once, and answers with what came back."""

    def __init__(self, **arguments: str) -> None:
        self.arguments = {"context": TASK, **arguments}
        self.tools: list[str] = []

    async def get_response(self, *_: Any, **given: Any) -> ModelResponse:
        self.tools = [tool.name for tool in given["tools"]]
        last = given["input"][-1]
        item: Any
        if last.get("type") == "function_call_output":
            item = _message(json.dumps(last["output"]))
        else:
            item = ResponseFunctionToolCall(
                type="function_call",
                call_id="1",
                name="get_skill",
                arguments=json.dumps(self.arguments),
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="1", type="message", role="assistant", status="completed", content=[content]
    )


async def test_the_agent_gets_the_rules_from_the_root_down(url: str) -> None:
    model = ScriptedModel()

    answer = await load_recipe(HERE, url).work(TASK, model)

    assert "list_skills" in model.tools
    assert answer.index(ROOT_RULE) < answer.index(UI_RULE) < answer.index(AUTH_RULE)


@pytest.mark.usefixtures("skills")
async def test_the_agent_sees_the_error_of_an_unknown_skill() -> None:
    model = ScriptedModel(skill_path="ui/vue/auth")

    answer = await load_recipe(HERE).work(TASK, model)

    assert "SKILL_NOT_FOUND" in answer
