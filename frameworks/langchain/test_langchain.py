"""Agents of LangChain and LangGraph, with a model that follows a script."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import skills_mcp
import skills_mcp.langchain
from frameworks.content import (
    AUTH_RULE,
    REFERENCE_LINE,
    ROOT_RULE,
    TEMPLATE_LINE,
    UI_RULE,
    GitSkills,
    write_skills,
)
from frameworks.langchain.scripted_model import script
from skills_mcp.langchain import (
    SkillCapability,
    SkillToolkit,
    build_agent_tools,
    build_skill_capability,
)

TASK = {"messages": [{"role": "user", "content": "Add a login"}]}

NAMES = [
    "list_available_skills",
    "load_skill",
    "find_skill_files",
    "read_skill_file",
    "load_skill_examples",
]


@pytest.fixture
def capability(skills: Path) -> Iterator[SkillCapability]:
    built = build_skill_capability(roots=skills)
    yield built
    built.toolkit.close()


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    """Return what the tools have answered, in the order of the calls."""
    return [each for each in state["messages"] if isinstance(each, ToolMessage)]


def text_of(messages: list[BaseMessage]) -> str:
    return "\n".join(str(message.content) for message in messages)


@pytest.mark.toolkit_spec("modules")
def test_the_module_has_the_names_of_the_document() -> None:
    assert set(skills_mcp.langchain.__all__) >= {
        "SkillCapability",
        "SkillToolkit",
        "build_agent_tools",
        "build_skill_capability",
        "discover_skills",
    }


@pytest.mark.toolkit_spec("usage")
def test_an_agent_sees_the_list_loads_a_skill_and_reads_a_reference(
    capability: SkillCapability,
) -> None:
    model = script(
        [("load_skill", {"skill_name": "pdf"})],
        [
            (
                "read_skill_file",
                {"skill_name": "pdf", "relative_path": "references/forms.md"},
            )
        ],
    )
    agent = create_agent(model, capability.tools, system_prompt=capability.prompt)

    loaded, read = answers(agent.invoke(TASK))

    prompt = str(model.asked[0][0].content)
    assert "- pdf: Fill in PDF forms and extract their fields." in prompt
    assert "- auth: Add authentication to React components" in prompt
    assert ROOT_RULE not in prompt
    assert loaded.text.startswith('<skill_content name="pdf"')
    assert ROOT_RULE in loaded.text
    assert f"3: {REFERENCE_LINE}" in read.text
    assert REFERENCE_LINE in text_of(model.asked[-1])


async def test_the_same_works_in_async_code_with_all_rules_above(
    skills: Path,
) -> None:
    async with skills_mcp.open(directory=skills) as opened:
        capability = build_skill_capability(skills=opened, extra_tools=["get_skill"])
        model = script(
            [("get_skill", {"context": "add authentication to react"})],
            [
                (
                    "read_skill_file",
                    {"skill_name": "auth", "relative_path": "assets/login-form.tsx"},
                )
            ],
        )
        agent = create_agent(model, capability.tools, system_prompt=capability.prompt)

        found, read = answers(await agent.ainvoke(TASK))

    rules = [found.text.index(rule) for rule in (ROOT_RULE, UI_RULE, AUTH_RULE)]
    assert rules == sorted(rules)
    assert read.content == f"1: {TEMPLATE_LINE}"
    assert model.bound == [*NAMES, "get_skill"]


def test_a_graph_of_langgraph_calls_tools_at_once(capability: SkillCapability) -> None:
    paths = ["pdf", "ui/react/auth", "auth", "nothing"] * 5
    model = script([("load_skill", {"skill_name": path}) for path in paths])

    def call_model(state: MessagesState) -> dict[str, Any]:
        return {"messages": model.invoke(state["messages"])}

    graph = StateGraph(MessagesState)
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode(capability.tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    found = answers(graph.compile().invoke(TASK))

    assert [each.status for each in found] == [*["success"] * 3, "error"] * 5
    assert len({each.text for each in found}) == 3


def test_a_merge_is_seen_after_a_refresh(tmp_path: Path) -> None:
    repository = GitSkills.create(tmp_path)
    capability = build_skill_capability(repo=repository.url, extra_tools=["refresh_skills"])
    toolkit = capability.toolkit

    @dynamic_prompt
    def list_skills(_: ModelRequest) -> str:
        return toolkit.build_prompt()

    model = script(
        [("refresh_skills", {})],
        [("load_skill", {"skill_name": "csv"})],
    )
    agent = create_agent(model, capability.tools, middleware=[list_skills])
    text = "---\nname: csv\ndescription: Read tables.\n---\nMind the separator.\n"
    commit = repository.merge({"csv/SKILL.md": text})

    refreshed, loaded = answers(agent.invoke(TASK))
    toolkit.close()

    assert refreshed.content == "added: csv"
    assert "Mind the separator." in loaded.text
    assert loaded.artifact["structured_content"]["commit"] == commit
    assert "- csv" not in str(model.asked[0][0].content)
    assert "- csv: Read tables." in str(model.asked[1][0].content)


@pytest.mark.parametrize("is_async", [False, True])
def test_errors_are_shown_to_the_model(skills: Path, *, is_async: bool) -> None:
    config = {"visibility": {"deny": ["pdf"]}}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("load_skill", {"skill_name": "aut"}),
        ("load_skill", {"skill_name": "pdf"}),
        ("read_skill_file", {"skill_name": "auth", "relative_path": "../../_root.md"}),
        ("read_skill_file", {"skill_name": "auth", "relative_path": "no.md"}),
        ("load_skill", {}),
        ("run_skill_entry", {"skill_name": "auth"}),
        ("refresh_skills", {"unknown": 1}),
    ]
    with skills_mcp.open_sync(directory=skills, config=config) as opened:
        tools = build_agent_tools(
            SkillToolkit(skills=opened, allow_run_entry=True, extra_tools=["refresh_skills"])
        )
        model = script(wrong)
        agent = create_agent(model, tools)
        state = asyncio.run(agent.ainvoke(TASK)) if is_async else agent.invoke(TASK)

    *found, unknown = answers(state)
    assert [each.text.partition(":")[0] for each in found] == [
        "SKILL_NOT_FOUND",
        "SKILL_DISABLED",
        "INVALID_PATH",
        "FILE_NOT_FOUND",
        "INVALID_ARGUMENTS",
        "COMMANDS_DISABLED",
    ]
    assert {each.status for each in found} == {"error"}
    assert "list_available_skills" in found[0].text
    assert found[4].content == "INVALID_ARGUMENTS: skill_name: Field required"
    assert (unknown.status, unknown.content) == ("success", "Nothing has changed.")
    assert str(skills) not in text_of(model.asked[-1])


@pytest.mark.toolkit_spec("tools")
def test_the_tools_are_those_of_the_document(skills: Path) -> None:
    capability = build_skill_capability(skills)
    running = build_skill_capability(skills, allow_run_entry=True)
    arguments = {tool.name: list(tool.args) for tool in running.tools}

    assert [tool.name for tool in capability.tools] == NAMES
    assert arguments == {
        "list_available_skills": [],
        "load_skill": ["skill_name"],
        "find_skill_files": ["skill_name", "pattern", "contains"],
        "read_skill_file": ["skill_name", "relative_path", "start_line", "max_lines"],
        "load_skill_examples": ["skill_name", "query", "top_k"],
        "run_skill_entry": ["skill_name", "args"],
    }
    assert capability.prompt == capability.toolkit.build_prompt()
    capability.toolkit.close()
    running.toolkit.close()


@pytest.mark.parametrize("extra", [(), ("refresh_skills",)])
def test_a_changed_file_names_only_a_tool_that_is_offered(
    skills: Path, extra: tuple[str, ...]
) -> None:
    with SkillToolkit(skills, extra_tools=extra) as toolkit:
        tools = {tool.name: tool for tool in toolkit.get_tools()}
        for file in skills.glob("**/*.md"):
            file.write_text(f"{file.read_text()}\nMore.\n")
        arguments = {"skill_name": "pdf", "relative_path": "SKILL.md"}

        said = tools["read_skill_file"].invoke(arguments)

    assert "has changed since the skills were read" in said
    assert ("refresh_skills" in said) is ("refresh_skills" in tools)


def test_a_list_that_outgrows_its_limit_names_no_tool_that_is_not_offered(skills: Path) -> None:
    with SkillToolkit(skills, max_chars=2_000) as toolkit:
        [listing, *others] = toolkit.get_tools()
        for number in range(100):
            folder = skills / f"more-{number}"
            folder.mkdir()
            (folder / "SKILL.md").write_text(
                f"---\nname: more-{number}\ndescription: More of it.\n---\n"
            )
        toolkit.refresh()

        said = listing.invoke({})
        later = [tool.name for tool in toolkit.get_tools()]

    assert "search_skills" not in [tool.name for tool in others]
    assert said.endswith(" skills.")
    assert "search_skills" in later


@pytest.mark.toolkit_spec("tools")
def test_every_tool_tells_a_model_what_it_does(skills: Path) -> None:
    extra = skills_mcp.langchain.EXTRA_TOOLS
    with SkillToolkit(skills, allow_run_entry=True, extra_tools=extra) as toolkit:
        tools = toolkit.get_tools()

    assert [tool.name for tool in tools] == list(toolkit.tool_names)
    # What may take long is awaited, so that a caller can end it.
    awaited = [tool.name for tool in tools if getattr(tool, "coroutine", None)]
    assert awaited == ["run_skill_entry", "refresh_skills"]
    for tool in tools:
        assert len(tool.description) > 20
        assert all(each["description"] for each in tool.args.values())


def test_every_answer_is_data_for_a_program_too(capability: SkillCapability) -> None:
    calls = {
        "list_available_skills": {},
        "load_skill": {"skill_name": "pdf"},
        "find_skill_files": {"skill_name": "pdf"},
        "read_skill_file": {"skill_name": "pdf", "relative_path": "SKILL.md"},
        "load_skill_examples": {"skill_name": "pdf", "query": "a form"},
    }
    for tool in capability.tools:
        call = {"type": "tool_call", "id": "1", "name": tool.name}
        message = tool.invoke({**call, "args": calls[tool.name]})

        assert isinstance(message, ToolMessage)
        assert type(message.content) is str
        assert message.artifact.keys() == {"structured_content"}
        assert message.artifact["structured_content"]
        assert message.model_dump_json()


@pytest.mark.toolkit_spec("parameters")
def test_every_parameter_of_the_document_is_one_here(skills: Path) -> None:
    write_skills(
        skills,
        {
            "say/SKILL.md": "---\nname: say\ndescription: Says it.\n"
            "entry: python3 say.py\n---\n" + "A line of it.\n" * 60,
            "say/say.py": "import sys; print('said', *sys.argv[1:])\n",
            "say/long.md": "One line.\n" * 90,
        },
    )
    built = build_skill_capability(
        roots=[str(skills)],
        max_files=1,
        max_chars=300,
        read_max_lines=5,
        allow_run_entry=True,
        command_timeout=30,
        allowed_entry_programs=["python3"],
    )
    tools: dict[str, BaseTool] = {tool.name: tool for tool in built.tools}

    loaded = tools["load_skill"].invoke({"skill_name": "say"})
    arguments = {"skill_name": "say", "relative_path": "long.md", "max_lines": 80}
    read = tools["read_skill_file"].invoke(arguments)
    said = tools["run_skill_entry"].invoke({"skill_name": "say", "args": "'a b' c"})
    built.toolkit.close()

    assert "(Truncated)" in loaded
    assert loaded.count("A line of it.") < 60
    assert "(1 more: find_skill_files lists them)" in loaded
    assert read.count("One line.") == 5
    assert "exit_code: 0" in said
    assert "said a b c" in said
