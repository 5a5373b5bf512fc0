"""A deep agent with a model that follows a script, and what it sees of the skills."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend
from deepagents.middleware.skills import SkillsMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

import skills_mcp
from frameworks.content import (
    AUTH_RULE,
    REFERENCE_LINE,
    ROOT_RULE,
    TEMPLATE_LINE,
    UI_RULE,
    GitSkills,
    write_skills,
)
from skills_mcp import Skills, SyncSkills
from skills_mcp.deepagents import SkillsBackend, SkillsReload

AUTH = "ui-react-auth-x709ad3c"
MAIN = f"/skills/{AUTH}/SKILL.md"
TEAM = {"team/deploy.md": "---\ndescription: Deploy\nkeywords: [deploy]\n---\nSlowly.\n"}


class ScriptedModel(GenericFakeChatModel):
    """Follows a script, and keeps what it was shown."""

    seen: list[list[BaseMessage]] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:  # noqa: ARG002 - it has its script
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Any:
        self.seen.append(messages)
        return super()._generate(messages, *args, **options)

    @property
    def prompts(self) -> list[str]:
        """The system prompt of each call."""
        return [str(messages[0].text) for messages in self.seen]


def script(*calls: tuple[str, dict[str, Any]] | str) -> ScriptedModel:
    """A model that makes these tool calls, or says these words, one after another."""
    return ScriptedModel(
        messages=iter(
            [
                AIMessage(call)
                if isinstance(call, str)
                else AIMessage("", tool_calls=[_call(*call, f"call-{number}")])
                for number, call in enumerate(calls)
            ]
        )
    )


def _call(name: str, arguments: dict[str, Any], key: str) -> Any:
    return {"name": name, "args": arguments, "id": key}


def read(path: str, **options: Any) -> tuple[str, dict[str, Any]]:
    return "read_file", {"file_path": path, **options}


def create(model: ScriptedModel, skills: Skills | SyncSkills) -> Any:
    """Return an agent that sees the skills below `/skills/`."""
    return create_deep_agent(
        model,
        backend=CompositeBackend(
            default=StateBackend(), routes={"/skills/": SkillsBackend(skills)}
        ),
        skills=["/skills/"],
        middleware=[SkillsReload(skills)],
        checkpointer=InMemorySaver(),
    )


def ask(agent: Any, thread: str = "one") -> list[ToolMessage]:
    """Run a turn of a thread, and return what the tools have answered so far."""
    settings = {"configurable": {"thread_id": thread}}
    state = agent.invoke({"messages": [("user", "Go on.")]}, settings)
    return [each for each in state["messages"] if isinstance(each, ToolMessage)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SyncSkills]:
    content = write_skills(tmp_path / "skills")
    with skills_mcp.open_sync(directory=content, home=tmp_path / "home") as skills:
        yield skills


def test_the_agent_sees_the_list_loads_a_skill_and_reads_its_files(
    served: SyncSkills,
) -> None:
    model = script(
        read(MAIN, limit=1000),
        read(f"/skills/{AUTH}/assets/login-form.tsx"),
        read("/skills/pdf/references/forms.md"),
        "Done.",
    )

    loaded, template, reference = ask(create(model, served))

    [prompt, *_] = model.prompts
    assert f"**{AUTH}**: Add authentication to React components" in prompt
    assert f"Read `{MAIN}` for full instructions" in prompt
    text = str(loaded.text)
    assert text.index(ROOT_RULE) < text.index(UI_RULE) < text.index(AUTH_RULE)
    assert "ui/react/auth" in text
    assert TEMPLATE_LINE in str(template.text)
    assert REFERENCE_LINE in str(reference.text)


async def test_the_same_is_awaited(tmp_path: Path) -> None:
    content = write_skills(tmp_path / "skills")
    model = script(read(MAIN), "Done.", "Done.")

    async with skills_mcp.open(directory=content, home=tmp_path / "home") as skills:
        agent = create(model, skills)
        settings: Any = {"configurable": {"thread_id": "one"}}
        state = await agent.ainvoke({"messages": [("user", "Go on.")]}, settings)
        write_skills(content, TEAM)
        await skills.refresh()
        await agent.ainvoke({"messages": [("user", "Go on.")]}, settings)

    [loaded] = [each for each in state["messages"] if isinstance(each, ToolMessage)]
    assert AUTH_RULE in str(loaded.text)
    assert "**team-deploy" in model.prompts[-1]


def test_a_skill_brings_the_tools_that_its_package_names(tmp_path: Path) -> None:
    text = "---\nname: desk\ndescription: Answer customers\nlicense: MIT\n"
    text += "metadata:\n  include_tools: open_ticket\n---\n\nOpen a ticket.\n"
    content = write_skills(tmp_path / "skills", {"desk/SKILL.md": text})

    def open_ticket() -> str:
        """Open a ticket."""
        return "Ticket 7"

    model = script(("open_ticket", {}), read("/desk/SKILL.md"), ("open_ticket", {}), "Done.")
    with skills_mcp.open_sync(directory=content, home=tmp_path / "home") as skills:
        backend = SkillsBackend(skills)
        listing: Any = SkillsMiddleware(backend=backend, sources=["/"], tools=[open_ticket])
        agent = create_deep_agent(
            model, backend=backend, middleware=[SkillsReload(skills), listing]
        )
        refused, _, opened = ask(agent)

    assert "(License: MIT)" in model.prompts[0]
    assert "Ticket 7" not in str(refused.text)
    assert "Ticket 7" in str(opened.text)


def test_tools_list_find_and_search(served: SyncSkills) -> None:
    model = script(
        ("ls", {"path": "/skills/pdf"}),
        ("glob", {"pattern": "/skills/**/*.tsx"}),
        ("grep", {"pattern": "keyboard", "output_mode": "content"}),
        ("ls", {"path": "/"}),
        "Done.",
    )

    listed, globbed, grepped, top = (str(a.text) for a in ask(create(model, served)))

    assert "/skills/pdf/SKILL.md" in listed
    assert "/skills/pdf/references/" in listed
    assert f"/skills/{AUTH}/assets/login-form.tsx" in globbed
    assert UI_RULE in grepped
    assert MAIN in grepped
    assert "/skills/" in top


def test_the_agent_keeps_files_of_its_own(served: SyncSkills) -> None:
    model = script(
        ("write_file", {"file_path": "/notes.md", "content": "Mine."}),
        read("/notes.md"),
        ("write_file", {"file_path": MAIN, "content": "Mine."}),
        (
            "edit_file",
            {"file_path": MAIN, "old_string": AUTH_RULE, "new_string": "No."},
        ),
        ("delete", {"file_path": MAIN}),
        read(MAIN),
        ("execute", {"command": "true"}),
        "Done.",
    )

    _, notes, written, edited, deleted, after, run = ask(create(model, served))

    assert "Mine." in str(notes.text)
    assert "skills are read-only here" in str(written.text)
    assert "skills are read-only here" in str(edited.text)
    assert "not supported" in str(deleted.text)
    assert AUTH_RULE in str(after.text)
    assert run.status == "error"


def test_a_merge_is_seen_by_a_running_thread(tmp_path: Path) -> None:
    repository = GitSkills.create(tmp_path)
    model = script("Done.", "Done.", read(MAIN), "Done.", "Done.")

    with skills_mcp.open_sync(repo=repository.url, home=tmp_path / "home") as skills:
        agent = create(model, skills)
        ask(agent)
        text = (repository.work / "ui/react/auth.md").read_text("utf-8")
        changed = text.replace(AUTH_RULE, "Use passkeys.").replace("React", "Vue")
        merged = {**TEAM, "ui/react/auth.md": changed, "pdf/SKILL.md": None}
        repository.merge({**merged, "pdf/references/forms.md": None})
        ask(agent)
        assert skills.refresh().error is None
        [loaded] = ask(agent)
        ask(agent)

    before, waiting, after, _, last = model.prompts
    assert "**pdf**" in before
    assert "**team-deploy" not in before
    assert waiting == before
    assert "**team-deploy" in after
    assert "Add authentication to Vue components" in after
    assert "**pdf**" not in after
    assert "Use passkeys." in str(loaded.text)
    assert last == after


def test_a_thread_lists_again_only_after_a_change(
    served: SyncSkills, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[str] = []
    listing = SkillsBackend.ls

    def counted(self: SkillsBackend, path: str) -> Any:
        lists.append(path)
        return listing(self, path)

    monkeypatch.setattr(SkillsBackend, "ls", counted)
    agent = create(script("Done.", "Done.", "Done."), served)

    for thread in ("one", "one", "two"):
        ask(agent, thread)

    assert lists == ["/", "/"]


def test_a_subagent_sees_what_is_served_now(tmp_path: Path) -> None:
    content = write_skills(tmp_path / "skills")
    task = {"description": "Read.", "subagent_type": "general-purpose"}
    model = script(
        *(("task", task), "The helper is done.", "Done."),
        *(("task", task), read("/skills/pdf/SKILL.md"), "The helper is done.", "Done."),
    )

    with skills_mcp.open_sync(directory=content, home=tmp_path / "home") as skills:
        agent = create(model, skills)
        ask(agent)
        write_skills(content, TEAM)
        skills.refresh()
        ask(agent)

    main, helper, _, again, helper_again, helper_then, _ = model.prompts
    assert "**pdf**" in main
    assert "**pdf**" in helper
    assert "**team-deploy" not in helper
    assert "**team-deploy" in again
    assert "**team-deploy" in helper_again
    assert "forms.md" in str(model.seen[5][-1].text)
    assert helper_then == helper_again


def test_errors_are_those_of_files_and_hidden_skills_do_not_exist(
    served: SyncSkills,
) -> None:
    model = script(
        read(MAIN),
        read("/skills/nope/SKILL.md"),
        read("/skills/pdf/nope.md"),
        read("/skills/../etc/passwd"),
        ("ls", {"path": f"/skills/{AUTH}"}),
        ("grep", {"pattern": AUTH_RULE}),
        read("/skills/pdf/SKILL.md"),
        "Done.",
    )

    answers = ask(create(model, served.narrow("pdf")))

    hidden, missing, no_file, outside, folder, grepped, pdf = answers
    assert AUTH not in model.prompts[0]
    assert str(missing.text) == "Error: File '/nope/SKILL.md' not found"
    for refused in (hidden, missing, no_file):
        assert "not found" in str(refused.text)
        assert refused.status == "error"
    assert "traversal" in str(outside.text)
    assert "path_not_found" in str(folder.text)
    assert "No matches" in str(grepped.text)
    assert "forms.md" in str(pdf.text)
    assert ROOT_RULE not in str(pdf.text)


def test_each_part_of_the_skills_has_its_own_folder(served: SyncSkills) -> None:
    model = script("Done.")
    routes: dict[str, Any] = {
        "/skills/ui/": SkillsBackend(served.narrow("_root", "ui/**")),
        "/skills/documents/": SkillsBackend(served.narrow("pdf")),
    }
    backend = CompositeBackend(default=StateBackend(), routes=routes)
    middleware: list[Any] = [
        SkillsReload(served),
        SkillsMiddleware(backend=backend, sources=[("/skills/documents/", "Acme")]),
    ]
    agent = create_deep_agent(model, backend=backend, middleware=middleware)

    ask(agent)

    [prompt] = model.prompts
    assert "**Acme Skills**: `/skills/documents/`" in prompt
    assert "**pdf**" in prompt
    assert AUTH not in prompt
    ui = backend.read(f"/skills/ui/{AUTH}/SKILL.md").file_data
    assert ui is not None
    assert ROOT_RULE in ui["content"]


def test_only_what_the_agent_reads_counts(tmp_path: Path) -> None:
    content = write_skills(tmp_path / "skills")
    home = tmp_path / "home"
    settings = {"analytics": {"enabled": True, "context": "full"}}
    model = script(
        ("ls", {"path": "/skills"}),
        ("grep", {"pattern": "form"}),
        ("glob", {"pattern": "**/*.md"}),
        read(MAIN, limit=5),
        read(MAIN, offset=5),
        read("/skills/pdf/references/forms.md"),
        "Done.",
        "Done.",
    )

    with skills_mcp.open_sync(directory=content, home=home, config=settings) as skills:
        agent = create(model, skills)
        ask(agent)
        pinned: Any = {"messages": [("user", "Go on.")], "pinned_skills": ["pdf"]}
        agent.invoke(pinned, {"configurable": {"thread_id": "two"}})

    events = [
        json.loads(line)
        for file in sorted(home.rglob("*.jsonl*"))
        for line in file.read_text("utf-8").splitlines()
    ]
    counted = [
        (each["type"], each["data"]["skill_path"])
        for each in events
        if "skill_path" in each.get("data", {})
    ]
    assert counted == [
        ("skill_served", "ui/react/auth"),
        ("asset_served", "pdf"),
        ("skill_served", "pdf"),
    ]
    [_, message] = model.seen[-1][-2:]
    assert '<skill name="pdf"' in str(message.text)


def run_block(title: str) -> dict[str, Any]:
    """Run a module of the page, and return what it defines."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "deepagents.md"
    fenced = rf"```python title={title}\n(.*?)```"
    (code,) = re.findall(fenced, page.read_text(encoding="utf-8"), re.DOTALL)
    module: dict[str, Any] = {"__name__": title}
    exec(compile(code, str(page), "exec"), module)  # noqa: S102 - our page
    return module


@pytest.mark.usefixtures("skills")
async def test_the_agent_of_the_page_works() -> None:
    model = script(read(MAIN, limit=1000), "Done.")

    messages = await run_block("agent.py")["work"]("Add authentication", model)

    assert AUTH_RULE in str(messages[-2].text)
    assert messages[-1].text == "Done."


def test_the_agent_of_the_page_for_many_skills_works(served: SyncSkills) -> None:
    model = script(
        ("get_skill", {"context": "Add authentication to a React component"}),
        ("get_skill", {"context": "Add authentication", "skill_path": "nope"}),
        read(MAIN),
        "Done.",
    )

    agent = run_block("many.py")["create"](model, served)
    state = agent.invoke({"messages": [("user", "Go on.")]})
    found, wrong, file = (m for m in state["messages"] if isinstance(m, ToolMessage))

    [prompt, *_] = model.prompts
    assert "Rules for all work" in prompt
    assert "**pdf**" not in prompt
    text = str(found.text)
    assert text.index(ROOT_RULE) < text.index(UI_RULE) < text.index(AUTH_RULE)
    assert "There is no skill 'nope'" in str(wrong.text)
    assert AUTH_RULE in str(file.text)
