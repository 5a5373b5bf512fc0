"""An agent of Pydantic AI, with a model that follows a script."""

from pathlib import Path

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from frameworks.content import AUTH_RULE, ROOT_RULE, UI_RULE
from frameworks.recipes import TASK, load_recipe

HERE = Path(__file__).parent


def script(**arguments: str) -> FunctionModel:
    """A model that calls get_skill once, and answers with what came back."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert "list_skills" in [tool.name for tool in info.function_tools]
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart(last.model_response_str())])
        return ModelResponse([ToolCallPart("get_skill", {"context": TASK, **arguments})])

    return FunctionModel(respond)


async def test_the_agent_gets_the_rules_from_the_root_down(url: str) -> None:
    answer = await load_recipe(HERE, url).work(TASK, script())

    assert answer.index(ROOT_RULE) < answer.index(UI_RULE) < answer.index(AUTH_RULE)


@pytest.mark.usefixtures("skills")
async def test_the_agent_sees_the_error_of_an_unknown_skill() -> None:
    answer = await load_recipe(HERE).work(TASK, script(skill_path="ui/vue/auth"))

    assert "SKILL_NOT_FOUND" in answer
