"""An agent of Haystack, with Haystack's own scripted model and our store."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.core.errors import DeserializationError
from haystack.dataclasses import ChatMessage, FileContent, ImageContent, ToolCall
from haystack.utils import Secret

import skills_mcp
from frameworks.content import (
    AUTH_RULE,
    REFERENCE_LINE,
    ROOT_RULE,
    TEMPLATE_LINE,
    UI_RULE,
    GitSkills,
)
from frameworks.recipes import TASK, load_block
from skills_mcp import SyncSkills
from skills_mcp.haystack import ServedSkillStore, ServedSkillToolset

AUTH = "ui-react-auth-x709ad3c"
PIXEL = b"\x89PNG\r\n\x1a\n\0\0"


@pytest.fixture
def opened(skills: Path) -> Iterator[SyncSkills]:
    with skills_mcp.open_sync(directory=skills) as opened:
        yield opened


def load(name: str) -> ToolCall:
    return ToolCall("load_skill", {"name": name})


def read(name: str, path: str) -> ToolCall:
    return ToolCall("read_skill_file", {"name": name, "path": path})


def script(*calls: ToolCall) -> list[ChatMessage]:
    """What the model says: one call after the other, and then the end."""
    called = [ChatMessage.from_assistant(tool_calls=[call]) for call in calls]
    return [*called, ChatMessage.from_assistant("Done.")]


def results(outcome: Mapping[str, Any]) -> list[Any]:
    return [r for message in outcome["messages"] for r in message.tool_call_results]


def ask(store: ServedSkillStore, *calls: ToolCall) -> list[Any]:
    """Run an agent, and return what its model got for each call."""
    model = MockChatGenerator(script(*calls))
    agent = Agent(chat_generator=model, tools=ServedSkillToolset(store))
    return results(agent.run([ChatMessage.from_user("Add a login form.")]))


def listing(toolset: ServedSkillToolset) -> str:
    """Run an agent, and return the list of skills as its model sees it."""
    seen: list[str] = []

    def respond(_: Any, tools: Any) -> str:
        seen.extend(tool.description for tool in tools if tool.name == "load_skill")
        return "Done."

    agent = Agent(chat_generator=MockChatGenerator(response_fn=respond), tools=toolset)
    agent.run([ChatMessage.from_user("What can you do?")])
    return seen[0]


@pytest.mark.usefixtures("skills")
def test_the_program_of_the_page_runs() -> None:
    def answer(messages: list[ChatMessage]) -> ChatMessage:
        if found := messages[-1].tool_call_result:
            return ChatMessage.from_assistant(str(found.result))
        return ChatMessage.from_assistant(tool_calls=[load(AUTH)])

    program = load_block("haystack.md", "agent.py")

    assert AUTH_RULE in program.work(TASK, MockChatGenerator(response_fn=answer))


def test_the_pipeline_of_the_page_is_saved_and_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SKILLS_TOKEN", "hush")
    program = load_block("haystack.md", "pipeline.py")
    saved = Pipeline()
    model = MockChatGenerator("Done.")
    agent = Agent(chat_generator=model, tools=ServedSkillToolset(program.store))
    saved.add_component("agent", agent)

    text = saved.dumps()

    assert "hush" not in text
    assert program.load(text).dumps() == text


def test_the_model_sees_the_list(opened: SyncSkills) -> None:
    seen = listing(ServedSkillToolset(ServedSkillStore(opened)))

    assert "- pdf: Fill in PDF forms and extract their fields." in seen
    assert f"- {AUTH}: Add authentication to React components" in seen


def test_the_model_searches_what_the_list_has_no_room_for(skills: Path) -> None:
    limits = {"catalog": {"max_entries": 1}}
    with skills_mcp.open_sync(directory=skills, config=limits) as opened:
        store = ServedSkillStore(opened)
        seen = listing(ServedSkillToolset(store))
        [found, none] = ask(
            store,
            ToolCall("search_skills", {"query": TASK}),
            ToolCall("search_skills", {"query": "Bake bread"}),
        )

    assert f"- {AUTH}:" not in seen
    assert f"- {AUTH}: Add authentication to React components" in found.result
    assert none.result.startswith("No skill fits this task.")


def test_the_model_gets_a_skill_below_the_rules_that_it_inherits(
    opened: SyncSkills,
) -> None:
    [loaded] = ask(ServedSkillStore(opened), load(AUTH))

    text = loaded.result
    assert text.index(ROOT_RULE) < text.index(UI_RULE) < text.index(AUTH_RULE)
    assert "read_skill_file`):\n- assets/login-form.tsx" in text
    assert not loaded.error


def test_the_model_reads_a_reference_and_a_template(opened: SyncSkills) -> None:
    store = ServedSkillStore(opened)

    [reference, template] = ask(
        store, read("pdf", "references/forms.md"), read(AUTH, "assets/login-form.tsx")
    )

    assert REFERENCE_LINE in reference.result
    assert TEMPLATE_LINE in template.result


def test_a_file_is_read_whole(skills: Path) -> None:
    text = "Line\n" * 50_000
    (skills / "pdf" / "references" / "long.md").write_text(text)

    with skills_mcp.open_sync(directory=skills) as opened:
        [found] = ask(ServedSkillStore(opened), read("pdf", "references/long.md"))

    assert found.result == text


def test_a_picture_and_a_pdf_reach_the_model_as_what_they_are(skills: Path) -> None:
    for name in ("logo.png", "form.pdf", "font.woff2"):
        (skills / "pdf" / name).write_bytes(PIXEL)
    (skills / "pdf" / "logo.svg").write_text("<svg/>")

    with skills_mcp.open_sync(directory=skills) as opened:
        names = ("logo.png", "form.pdf", "font.woff2", "logo.svg")
        files = [read("pdf", name) for name in names]
        [picture, pdf, font, drawing] = ask(ServedSkillStore(opened), *files)

    [shown] = picture.result
    assert isinstance(shown, ImageContent)
    assert base64.b64decode(shown.base64_image) == PIXEL
    assert isinstance(pdf.result[0], FileContent)
    assert drawing.result == "<svg/>"
    assert font.error
    assert "font.woff2 is neither text, an image nor a PDF" in font.result


def test_a_merge_is_seen_by_the_next_run(tmp_path: Path) -> None:
    upstream = GitSkills.create(tmp_path / "git")
    text = "---\ndescription: Write SQL\n---\n\nName each column.\n"

    with skills_mcp.open_sync(repo=upstream.url) as opened:
        store = ServedSkillStore(opened)
        toolset = ServedSkillToolset(store)
        before = listing(toolset)
        upstream.merge({"sql/SKILL.md": text, "ui/_index.md": None})
        assert opened.refresh().error is None
        after = listing(toolset)
        [loaded, auth] = ask(store, load("sql"), load(AUTH))

    assert "- sql:" not in before
    assert "- sql: Write SQL" in after
    assert "Name each column." in loaded.result
    assert ROOT_RULE in auth.result
    assert UI_RULE not in auth.result


@pytest.mark.parametrize(
    "call, advice",
    [
        (load("ui-react-aut"), f"Did you mean {AUTH}?"),
        (load("../../etc/passwd"), "Pass a name from the list."),
        (read("pfd", "references/forms.md"), "Did you mean pdf?"),
        (read("pdf", "references/from.md"), "references/forms.md"),
        (read("pdf", "../ui/_index.md"), "../ui/_index.md"),
    ],
)
def test_the_model_sees_what_is_wrong(opened: SyncSkills, call: ToolCall, advice: str) -> None:
    [refused] = ask(ServedSkillStore(opened), call)

    assert refused.error
    assert advice in refused.result


def test_a_hidden_skill_does_not_exist(opened: SyncSkills) -> None:
    store = ServedSkillStore(opened.narrow(deny=["pdf"]))

    [refused, file] = ask(store, load("pdf"), read("pdf", "references/forms.md"))

    assert "- pdf:" not in listing(ServedSkillToolset(store))
    assert "There is no skill named" in refused.result
    assert "There is no skill named" in file.result


async def test_an_agent_runs_asynchronously(skills: Path) -> None:
    async with skills_mcp.open(directory=skills) as opened:
        model = MockChatGenerator(script(load("pdf")))
        agent = Agent(chat_generator=model, tools=ServedSkillToolset(ServedSkillStore(opened)))
        outcome = await agent.run_async([ChatMessage.from_user("Fill in the form.")])

    assert ROOT_RULE in results(outcome)[0].result


def test_a_pipeline_with_a_store_is_saved_and_loaded(skills: Path) -> None:
    toolset = ServedSkillToolset(ServedSkillStore(directory=str(skills)))
    saved = Pipeline()
    model = MockChatGenerator(script(load(AUTH)))
    saved.add_component("agent", Agent(chat_generator=model, tools=toolset))

    with pytest.raises(DeserializationError, match="allowed_modules"):
        Pipeline.loads(saved.dumps())
    pipeline = Pipeline.loads(saved.dumps(), allowed_modules=["skills_mcp.haystack"])
    outcome = pipeline.run({"agent": {"messages": [ChatMessage.from_user("Go.")]}})

    assert AUTH_RULE in results(outcome["agent"])[0].result
    pipeline.get_component("agent").close()


def test_no_token_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLS_TOKEN", "ghp_hush")
    token = Secret.from_env_var("SKILLS_TOKEN")
    store = ServedSkillStore(repo="https://git.acme.com/skills.git", token=token)

    saved = store.to_dict()

    assert "SKILLS_TOKEN" in repr(saved)
    assert "hush" not in repr(saved)
    assert ServedSkillStore.from_dict(saved).to_dict() == saved
    with pytest.raises(ValueError, match="token-based secret"):
        ServedSkillStore(repo="https://a.b", token=Secret.from_token("hush")).to_dict()


def test_a_store_of_open_skills_says_why_it_cannot_be_saved(opened: SyncSkills) -> None:
    with pytest.raises(ValueError, match="directory= or repo="):
        ServedSkillStore(opened).to_dict()


def test_a_store_takes_open_skills_or_their_place(opened: SyncSkills) -> None:
    with pytest.raises(ValueError, match="not both"):
        ServedSkillStore(opened, directory="skills")


def test_a_store_closes_only_what_it_has_opened(opened: SyncSkills, skills: Path) -> None:
    given, own = ServedSkillStore(opened), ServedSkillStore(directory=str(skills))
    own_skills, _ = own._open()

    for store in (given, own):
        assert store.list_skills()
        store.close()

    assert opened.list()
    with pytest.raises(skills_mcp.SkillsError):
        own_skills.list()
    assert "pdf" in own.list_skills()  # it opens them again
    own.close()
