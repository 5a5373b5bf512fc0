"""An agent of LlamaIndex, with a model that follows a script."""

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import ToolSelection

from frameworks.content import AUTH_RULE, ROOT_RULE, UI_RULE
from frameworks.recipes import TASK, load_recipe

HERE = Path(__file__).parent


class ScriptedModel(MockLLM, FunctionCallingLLM):
    """Calls get_skill once, and answers with what came back."""

    skill_path: str = ""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(
        self, tools: Any, chat_history: Any = None, **_: Any
    ) -> dict[str, Any]:
        assert "list_skills" in [tool.metadata.name for tool in tools]
        return {"messages": chat_history}

    async def astream_chat_with_tools(self, tools: Any, chat_history: Any = None, **_: Any) -> Any:
        self._prepare_chat_with_tools(tools, chat_history)

        async def stream() -> Any:
            last = chat_history[-1]
            text = str(last.content) if last.role == "tool" else ""
            message = ChatMessage(role="assistant", content=text)
            yield ChatResponse(message=message, delta=text)

        return stream()

    def get_tool_calls_from_response(
        self, response: ChatResponse, *_: Any, **__: Any
    ) -> list[ToolSelection]:
        if response.message.content:
            return []
        arguments = {"context": TASK}
        if self.skill_path:
            arguments["skill_path"] = self.skill_path
        return [ToolSelection(tool_id="1", tool_name="get_skill", tool_kwargs=arguments)]


async def test_the_agent_gets_the_rules_from_the_root_down(url: str) -> None:
    answer = await load_recipe(HERE, url).work(TASK, ScriptedModel())

    assert answer.index(ROOT_RULE) < answer.index(UI_RULE) < answer.index(AUTH_RULE)


@pytest.mark.usefixtures("skills")
async def test_the_agent_sees_the_error_of_an_unknown_skill() -> None:
    model = ScriptedModel()
    model.skill_path = "ui/vue/auth"

    answer = await load_recipe(HERE).work(TASK, model)

    assert "SKILL_NOT_FOUND" in answer
