"""The prompt for a task, and the completion of paths, in both eras."""

from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CompleteResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)

from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server import callers
from skills_mcp.server.resources import TEMPLATES
from tests.clients import SlowSource, connected
from tests.support import SKILLS_CONTENT, open_library, write_skill

_SKILL_FILE = TEMPLATES[1].uri_template


async def fill(client: Client, task: str) -> list[str]:
    """Return the texts of the prompt."""
    result = await client.get_prompt("skill", {"task": task})
    assert {message.role for message in result.messages} == {"user"}
    return [
        message.content.text
        for message in result.messages
        if isinstance(message.content, TextContent)
    ]


async def complete(client: Client, ref: Any, **given: str) -> CompleteResult:
    """Complete the last of some arguments; the others are given already."""
    name, value = given.popitem()
    argument = {"name": name, "value": value}
    return await client.complete(ref, argument, context_arguments=given)


async def test_there_is_one_prompt_with_one_argument(library: SkillLibrary, era: str) -> None:
    async with connected(library, era) as client:
        [prompt] = (await client.list_prompts()).prompts

    assert prompt.name == "skill"
    assert [(each.name, each.required) for each in prompt.arguments or ()] == [("task", True)]


async def test_a_task_becomes_the_task_and_the_rules_for_it(library: SkillLibrary) -> None:
    async with connected(library) as client:
        said, facts, rules = await fill(client, "add login to the React app")

    assert said.startswith("add login to the React app")
    assert '"skill_path":"ui/react/auth"' in facts
    assert rules == library.view().load_skill("ui/react/auth").instructions


async def test_a_path_becomes_the_rules_of_that_skill(library: SkillLibrary) -> None:
    async with connected(library) as client:
        said, _, rules = await fill(client, "ui/react/auth")

    assert said.endswith(": ui/react/auth")
    assert rules == library.view().load_skill("ui/react/auth").instructions


async def test_a_task_without_a_skill_says_so(library: SkillLibrary) -> None:
    async with connected(library, "auto") as client:
        _, reply = await fill(client, "bake a chocolate cake")

    assert "No skill matches" in reply


@pytest.mark.parametrize(
    "name, task, said",
    [
        ("skil", "x", "Unknown prompt: 'skil'. There is: skill"),
        ("skill", "  ", "task is missing"),
    ],
)
async def test_a_wrong_request_is_told_what_to_write(
    library: SkillLibrary, name: str, task: str, said: str
) -> None:
    async with connected(library) as client:
        with pytest.raises(MCPError, match=said) as raised:
            await client.get_prompt(name, {"task": task})

    assert raised.value.error.code == -32602


async def test_paths_are_completed_for_the_prompt_and_for_resources(library: SkillLibrary) -> None:
    prompt = PromptReference(name="skill")
    template = ResourceTemplateReference(uri=_SKILL_FILE)
    async with connected(library) as client:
        typed = await complete(client, prompt, task="ui/rea")
        inside = await complete(client, template, skill_path="AUTH")
        files = await complete(client, template, skill_path="ui/react/auth", file="assets/")
        other = await complete(client, PromptReference(name="x"), task="ui")

    paths = [row.path for row in library.view().snapshot.index.listed]
    assert typed.completion.values == [p for p in paths if p.startswith("ui/rea")]
    assert "ui/react/auth" in inside.completion.values
    assert "assets/auth-flow.svg" in files.completion.values
    assert other.completion.values == []


async def test_a_long_list_of_values_is_cut_and_counted(tmp_path: Path) -> None:
    for number in range(120):
        write_skill(tmp_path, f"area/skill-{number:03}.md")
    library = open_library(tmp_path)
    async with connected(library) as client:
        done = await complete(client, PromptReference(name="skill"), task="skill")

    assert len(done.completion.values) == 100
    assert (done.completion.total, done.completion.has_more) == (120, True)


async def test_completion_never_waits_for_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callers, "_STORED_CONTENT_SECONDS", 0.05)
    source = SlowSource(SKILLS_CONTENT)
    library = open_library(source, load=False)
    async with connected(library, "auto") as client:
        done = await complete(client, PromptReference(name="skill"), task="ui")
        source.close()

    assert done.completion.values == []
