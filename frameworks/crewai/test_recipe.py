"""An agent of CrewAI, with a model that follows a script."""

import json
import sys
from asyncio import CancelledError
from pathlib import Path
from typing import Any

import pytest
from crewai import BaseLLM

from frameworks.content import AUTH_RULE, ROOT_RULE, UI_RULE
from frameworks.recipes import TASK, load_recipe

HERE = Path(__file__).parent


class ScriptedModel(BaseLLM):
    """Calls get_skill once, and answers with what came back."""

    model: str = "scripted"
    skill_path: str = ""

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, tools: Any = None, **_: Any) -> Any:
        if told := [each["content"] for each in messages if each["role"] == "tool"]:
            return told[-1]
        [name] = [
            tool["function"]["name"]
            for tool in tools
            if tool["function"]["name"].endswith("get_skill")
        ]
        assert name == "skills_mcp_get_skill" or "127_0_0_1" in name
        arguments = {"context": TASK}
        if self.skill_path:
            arguments["skill_path"] = self.skill_path
        function = {"name": name, "arguments": json.dumps(arguments)}
        return [{"id": "1", "type": "function", "function": function}]


def work(model: ScriptedModel, url: str = "") -> str:
    """Work by the recipe; again if crewai has cancelled itself.

    Its client does so in a scope of its own, as it closes the connection: seen once, on
    Python 3.11 and a busy machine.
    """
    recipe = load_recipe(HERE, url)
    try:
        return str(recipe.work(TASK, model))
    except CancelledError:
        return str(recipe.work(TASK, model))


def test_the_agent_gets_the_rules_from_the_root_down(url: str) -> None:
    answer = work(ScriptedModel(model="scripted"), url)

    if url and sys.version_info < (3, 12):  # with any server, as the page says
        assert "no running event loop" in answer
        return
    assert answer.index(ROOT_RULE) < answer.index(UI_RULE) < answer.index(AUTH_RULE)


@pytest.mark.usefixtures("skills")
def test_the_agent_sees_the_error_of_an_unknown_skill() -> None:
    model = ScriptedModel(model="scripted", skill_path="ui/vue/auth")

    answer = work(model)

    assert "SKILL_NOT_FOUND" in answer
