"""An agent of Microsoft Agent Framework, with a model that follows a script."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    CachingSkillsSource,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    SkillsProvider,
)

import skills_mcp
from frameworks import content
from skills_mcp.agent_framework import ServedSkillsSource
from skills_mcp.skills.model import to_standard_name

AUTH = to_standard_name("ui/react/auth")

Call = tuple[str, dict[str, Any]]

LOAD = "load_skill"
READ = "read_skill_resource"
RUN = "run_skill_script"


class ScriptedClient(FunctionInvocationLayer, BaseChatClient):
    """Calls the tools of a script, one after the other, and ends."""

    def __init__(self, *calls: Call) -> None:
        super().__init__()
        self.calls = list(calls)
        self.prompt = ""
        """The system prompt of the last request."""

    async def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,  # noqa: ARG002 - as in the framework
        options: Mapping[str, Any],
        **_: Any,
    ) -> ChatResponse:
        system = [each.text for each in messages if each.role == "system"]
        self.prompt = "\n".join([options.get("instructions") or "", *system])
        said = Content.from_text("Done.")
        if self.calls:
            name, args = self.calls.pop(0)
            call = str(len(self.calls))
            said = Content.from_function_call(call, name, arguments=json.dumps(args))
        return ChatResponse(messages=[Message("assistant", [said])])


class Chat:
    """One agent, which is asked several times."""

    def __init__(self, source: Any) -> None:
        self.client = ScriptedClient()
        provider = SkillsProvider(
            source,
            disable_load_skill_approval=True,
            disable_read_skill_resource_approval=True,
            disable_run_skill_script_approval=True,
        )
        self.agent = Agent(self.client, context_providers=[provider])

    async def say(self, *calls: Call) -> list[Any]:
        """Send a message; return what the tools answered to the calls of the model."""
        self.client.calls = list(calls)
        return results(await self.agent.run("Add a login."))

    @property
    def prompt(self) -> str:
        """The system prompt of the last request."""
        return self.client.prompt


def results(response: Any) -> list[Any]:
    parts = [part for message in response.messages for part in message.contents]
    return [part.result for part in parts if part.type == "function_result"]


def load(name: str) -> Call:
    return LOAD, {"skill_name": name}


def read(name: str, file: str) -> Call:
    return READ, {"skill_name": name, "resource_name": file}


def run(name: str, file: str, args: object) -> Call:
    return RUN, {"skill_name": name, "script_name": file, "args": args}


@asynccontextmanager
async def serving(tmp_path: Path, **options: Any) -> AsyncIterator[skills_mcp.Skills]:
    if not options.keys() & {"repo", "config", "directory"}:
        options["directory"] = content.write_skills(tmp_path / "skills")
    async with skills_mcp.open(home=tmp_path / "home", **options) as skills:
        yield skills


async def test_the_model_sees_loads_and_reads_a_skill(tmp_path: Path) -> None:
    async with serving(tmp_path) as skills:
        chat = Chat(ServedSkillsSource(skills))
        loaded, file = await chat.say(load(AUTH), read(AUTH, "assets/login-form.tsx"))

    assert f"<name>{AUTH}</name>" in chat.prompt
    assert "Add authentication to React components" in chat.prompt
    assert content.ROOT_RULE in loaded
    assert content.UI_RULE in loaded
    assert content.AUTH_RULE in loaded
    assert 'name="assets/login-form.tsx" description="A form to begin with"' in loaded
    assert file == f"{content.TEMPLATE_LINE}\n"


async def test_the_model_reads_a_reference_of_a_package(tmp_path: Path) -> None:
    async with serving(tmp_path) as skills:
        loaded, file = await Chat(ServedSkillsSource(skills)).say(
            load("pdf"), read("pdf", "references/forms.md")
        )

    assert '<resource name="references/forms.md"/>' in loaded
    assert content.REFERENCE_LINE in file


async def test_a_picture_is_given_to_the_model_whole(tmp_path: Path) -> None:
    folder = content.write_skills(tmp_path / "skills")
    picture = b"\x89PNG\r\n\x1a\n" + bytes(100_000)  # larger than one reply
    folder.joinpath("pdf/logo.png").write_bytes(picture)

    async with serving(tmp_path, directory=folder) as skills:
        chat = Chat(ServedSkillsSource(skills))
        chat.client.calls = [read("pdf", "logo.png")]
        response = await chat.agent.run("Show the logo.")

    parts = [part for each in response.messages for part in each.contents]
    (result,) = [part for part in parts if part.type == "function_result"]
    (shown,) = [item for item in result.items or [] if item.type == "data"]
    assert shown.media_type == "image/png"
    assert len(shown.uri) > len(picture)


async def test_a_merge_is_seen_in_the_next_run(tmp_path: Path) -> None:
    repository = content.GitSkills.create(tmp_path)

    async with serving(tmp_path, repo=repository.url) as skills:
        chat = Chat(ServedSkillsSource(skills))
        (before,) = await chat.say(load("pdf"))
        _merge(repository)
        await skills.refresh()
        after, new = await chat.say(load("pdf"), load("csv"))

    assert "New." not in before
    assert "New." in after
    assert "Rows." in new
    assert "<name>csv</name>" in chat.prompt


async def test_a_cache_of_the_framework_keeps_the_list_and_not_the_texts(
    tmp_path: Path,
) -> None:
    repository = content.GitSkills.create(tmp_path)

    async with serving(tmp_path, repo=repository.url) as skills:
        chat = Chat(CachingSkillsSource(ServedSkillsSource(skills)))
        await chat.say()
        _merge(repository)
        await skills.refresh()
        after, new = await chat.say(load("pdf"), load("csv"))

    assert "New." in after
    assert new == "Error: Skill 'csv' not found."


def _merge(repository: content.GitSkills) -> None:
    repository.merge(
        {
            "pdf/SKILL.md": "---\nname: pdf\ndescription: Fill in.\n---\n\nNew.\n",
            "csv/SKILL.md": "---\nname: csv\ndescription: Tables.\n---\n\nRows.\n",
        }
    )


async def test_a_skill_that_is_gone_is_told_to_the_model(tmp_path: Path) -> None:
    repository = content.GitSkills.create(tmp_path)

    async with serving(tmp_path, repo=repository.url) as skills:
        chat = Chat(CachingSkillsSource(ServedSkillsSource(skills)))
        await chat.say()
        repository.merge({"pdf/SKILL.md": None, "pdf/references/forms.md": None})
        await skills.refresh()
        loaded, file = await chat.say(load("pdf"), read("pdf", "references/forms.md"))

    assert loaded.startswith("Error: There is no skill 'pdf'.")
    assert file.startswith("Error: There is no skill 'pdf'.")


@pytest.mark.parametrize("name", ["ui-react-auth", "../../etc/passwd", " "])
async def test_a_wrong_name_is_told_to_the_model(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as skills:
        answers = await Chat(ServedSkillsSource(skills)).say(
            load(name), read(name, "a.md"), run(name, "a.py", {})
        )

    assert len(answers) == 3
    assert all(each.startswith("Error: Skill ") for each in answers)


@pytest.mark.parametrize(
    "file, message",
    [
        ("references/no.md", "references/forms.md"),
        ("../ui/react/auth.md", "Error: "),
        ("/etc/passwd", "Error: "),
    ],
)
async def test_a_wrong_file_is_told_to_the_model(tmp_path: Path, file: str, message: str) -> None:
    async with serving(tmp_path) as skills:
        (answer,) = await Chat(ServedSkillsSource(skills)).say(read("pdf", file))

    assert answer.startswith("Error: ")
    assert message in answer


@pytest.mark.parametrize("is_denied", [True, False])
async def test_what_is_hidden_does_not_exist(tmp_path: Path, is_denied: bool) -> None:  # noqa: FBT001
    folder = str(content.write_skills(tmp_path / "skills"))
    rules = {"visibility": {"deny": ["ui/**"]}} if is_denied else {}

    async with serving(tmp_path, config={"sources": [{"folder": folder}], **rules}) as s:
        skills = s if is_denied else s.narrow(deny=["ui/**"])
        chat = Chat(ServedSkillsSource(skills))
        (loaded,) = await chat.say(load(AUTH))

    assert AUTH not in chat.prompt
    assert "<name>pdf</name>" in chat.prompt
    assert loaded == f"Error: Skill '{AUTH}' not found."


async def test_what_the_model_has_loaded_and_read_is_recorded(tmp_path: Path) -> None:
    folder = str(content.write_skills(tmp_path / "skills"))
    config = {"sources": [{"folder": folder}], "analytics": {"enabled": True}}

    async with serving(tmp_path, config=config) as skills:
        await Chat(ServedSkillsSource(skills)).say(load(AUTH), read(AUTH, "assets/login-form.tsx"))

    assert recorded(tmp_path / "home") == [
        ("skill_served", "ui/react/auth"),
        ("asset_served", "ui/react/auth"),
    ]


def recorded(home: Path) -> list[tuple[str, str]]:
    """Return each event: its type, and the skill that it is about."""
    (archive,) = (home / "archive").glob("*.jsonl")
    events = [json.loads(line) for line in archive.read_text().splitlines()]
    return [(each["type"], each["data"]["skill_path"]) for each in events]


SCRIPT = {
    "tools/count.md": "---\ndescription: Count\nkeywords: [count]\nscripts:\n"
    "  - file: scripts/count.py\n    execution: server\n"
    "    args:\n      - name: word\n        required: true\n---\n\nCount.\n",
    "tools/count/scripts/count.py": "import os\nprint(os.environ['SKILL_ARG_WORD'])\n",
}
COUNT = to_standard_name("tools/count")


async def test_a_script_runs_if_the_operator_allows_it(tmp_path: Path) -> None:
    folder = content.write_skills(tmp_path / "skills", SCRIPT)
    config = {"sources": [{"folder": str(folder)}], "scripts": {"enabled": True}}

    async with serving(tmp_path, config=config) as skills:
        loaded, ran, listed, unknown = await Chat(ServedSkillsSource(skills)).say(
            load(COUNT),
            run(COUNT, "scripts/count.py", {"word": "seven"}),
            run(COUNT, "scripts/count.py", ["seven"]),
            run(COUNT, "scripts/no.py", {}),
        )

    assert '<script name="scripts/count.py">' in loaded
    assert '"required": ["word"]' in loaded
    assert json.loads(ran) == {
        "exit_code": 0,
        "stdout": "seven\n",
        "stderr": "",
        "timed_out": False,
    }
    assert listed.startswith("Error: This script takes named arguments")
    assert unknown.startswith("Error: ")


async def test_a_script_does_not_run_if_the_operator_has_switched_scripts_off(
    tmp_path: Path,
) -> None:
    folder = content.write_skills(tmp_path / "skills", SCRIPT)
    config = {"sources": [{"folder": str(folder)}], "scripts": {"enabled": False}}

    async with serving(tmp_path, config=config) as skills:
        (ran,) = await Chat(ServedSkillsSource(skills)).say(
            run(COUNT, "scripts/count.py", {"word": "seven"})
        )

    assert ran.startswith("Error: ")
    assert "scripts.enabled" in ran


async def test_the_list_ends_where_the_limit_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = content.write_skills(tmp_path / "skills", _many(20))

    async with serving(tmp_path, directory=folder) as skills:
        chat = Chat(ServedSkillsSource(skills, max_skills=5))
        await chat.say()
        await chat.say()

    assert chat.prompt.count("<skill>") == 5
    assert caplog.text.count("15 skills are not listed") == 1


async def test_the_limit_of_the_source_counts_and_not_the_bytes(tmp_path: Path) -> None:
    folder = content.write_skills(tmp_path / "skills", _many(300))

    async with serving(tmp_path, directory=folder) as skills:
        every = await ServedSkillsSource(skills, max_skills=300).get_skills(None)
        usual = await ServedSkillsSource(skills).get_skills(None)

    assert len(every) == 300
    assert len(usual) < 300


def _many(count: int) -> dict[str, str]:
    return {
        f"area/rule-{n}.md": f"---\ndescription: Rule {n}\nkeywords: [{n}]\n---\n\nR\n"
        for n in range(count)
    }


@pytest.mark.usefixtures("skills")
async def test_the_agent_of_the_page_works() -> None:
    client = ScriptedClient(load(AUTH))

    agent = load_page("agent.py")
    response = await agent["work"]("Add authentication to a React component", client)

    assert "You build user interfaces." in client.prompt
    assert content.AUTH_RULE in results(response)[0]
    assert response.text == "Done."


async def test_the_search_of_the_page_works(tmp_path: Path) -> None:
    client = ScriptedClient(
        ("get_skill", {"task": "Add authentication to a React component"}),
        ("get_skill", {"task": "Add a login", "skill_path": "no/such"}),
        ("get_skill", {"task": "Bake bread"}),
    )

    async with serving(tmp_path) as skills:
        agent = load_page("search.py")["build_agent"](client, skills)
        found, wrong, none = results(await agent.run("Add a login."))

    assert content.AUTH_RULE in found
    assert wrong.startswith("Error: There is no skill")
    assert none.startswith("No skill fits")


def load_page(title: str) -> dict[str, Any]:
    """Run a block of the page, and return its names."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "agent-framework.md"
    fenced = rf"```python title={re.escape(title)}\n(.*?)```"
    (code,) = re.findall(fenced, page.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": title}
    exec(compile(code, str(page), "exec"), names)  # noqa: S102 - our page
    return names
