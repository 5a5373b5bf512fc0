"""The programs of docs/how-to/langchain.md, as they stand there."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from frameworks.content import REFERENCE_LINE, ROOT_RULE, GitSkills
from frameworks.langchain.scripted_model import script
from skills_mcp.langchain import SkillToolkit

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "langchain.md"
BLOCK = re.compile(r"^```python title=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = PAGE.read_text(encoding="utf-8")
PROGRAMS = dict(BLOCK.findall(TEXT))

READ = {"skill_name": "pdf", "relative_path": "references/forms.md"}


def load(name: str) -> Any:
    """Run a program of the page, and return what it defines."""
    module = ModuleType(name)
    exec(compile(PROGRAMS[name], name, "exec"), module.__dict__)  # noqa: S102
    return module


@pytest.mark.usefixtures("skills")
@pytest.mark.toolkit_spec("usage")
def test_the_first_agent_loads_a_skill_and_reads_a_file() -> None:
    model = script([("load_skill", {"skill_name": "pdf"}), ("read_skill_file", READ)])

    assert load("agent.py").work("Fill in a form", model) == "Done."

    *_, loaded, read = model.asked[-1]
    assert ROOT_RULE in str(loaded.content)
    assert REFERENCE_LINE in str(read.content)


async def test_the_agent_with_a_repository_sees_a_part_of_it(tmp_path: Path) -> None:
    repository = GitSkills.create(tmp_path)
    model = script([("get_skill", {"context": "add authentication to react"})])

    answer = await load("repository.py").work("Add a login", repository.url, model)

    assert answer == "Done."
    prompt, *_, found = model.asked[-1]
    assert "- pdf: " in str(prompt.content)
    assert 'path="ui/react/auth"' in str(found.content)
    assert ROOT_RULE not in str(found.content)


def test_the_fresh_agent_lists_what_has_come(skills: Path) -> None:
    model = script([("refresh_skills", {})])
    agent = load("fresh.py").build_agent(model)
    text = "---\nname: csv\ndescription: Read tables.\n---\nMind the separator.\n"
    request = {"messages": [{"role": "user", "content": "Go"}]}

    agent.invoke(request)
    (skills / "csv").mkdir()
    (skills / "csv" / "SKILL.md").write_text(text)
    model.asked.clear()
    agent.invoke(request)

    prompts = [str(messages[0].content) for messages in model.asked]
    assert [("- csv: Read tables." in prompt) for prompt in prompts] == [False, True]
    assert all(prompt.startswith("You are a careful") for prompt in prompts)


@pytest.mark.usefixtures("skills")
def test_the_records_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    load("records.py")

    printed = capsys.readouterr().out
    assert "pdf/SKILL.md None 0" in printed
    assert "['references/forms.md']" in printed


def test_the_error_of_the_page_is_what_a_model_sees(skills: Path) -> None:
    with SkillToolkit(skills) as toolkit:
        tools = {tool.name: tool for tool in toolkit.get_tools()}
        said = tools["load_skill"].invoke({"skill_name": "pfd"})

    assert f"```text\n{said}\n```" in TEXT


def test_every_program_of_the_page_is_run() -> None:
    assert set(PROGRAMS) == {"agent.py", "repository.py", "fresh.py", "records.py"}
