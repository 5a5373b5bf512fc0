"""An agent of Google ADK, with a model that follows a script, uses our skills."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.code_executors.unsafe_local_code_executor import (
    UnsafeLocalCodeExecutor,
)
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.skills.models import Frontmatter
from google.adk.tools.skill_toolset import SkillLifecycleConfig, SkillToolset
from google.genai import types
from pydantic import Field

import skills_mcp
from frameworks import content
from skills_mcp.adk import ServedSkillRegistry
from skills_mcp.skills.model import to_standard_name

AUTH = to_standard_name("ui/react/auth")

Call = tuple[str, dict[str, Any]]


class ScriptedModel(BaseLlm):
    """Calls the tools of a script, one after the other, and ends."""

    calls: list[Call] = Field(default_factory=list)
    requests: list[Any] = Field(default_factory=list)

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002 - as in ADK
    ) -> AsyncIterator[LlmResponse]:
        self.requests.append(llm_request)
        if self.calls:
            name, args = self.calls.pop(0)
            part = types.Part.from_function_call(name=name, args=args)
        else:
            part = types.Part.from_text(text="Done.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class Chat:
    """A session with one agent."""

    def __init__(self, registry: ServedSkillRegistry, **options: Any) -> None:
        self.model = ScriptedModel(model="scripted")
        agent = LlmAgent(
            name="builder",
            model=self.model,
            instruction=registry.compose_instruction,
            tools=[SkillToolset(registry=registry, **options), registry.run_script],
        )
        self.runner = Runner(
            app_name="app",
            agent=agent,
            session_service=InMemorySessionService(),
            auto_create_session=True,
        )

    async def say(self, *calls: Call) -> list[Any]:
        """Send a message; return what the tools answered to the calls of the model."""
        self.model.calls[:] = calls
        message = types.Content(role="user", parts=[types.Part(text="Add a login.")])
        answers = []
        async for event in self.runner.run_async(
            user_id="ada", session_id="one", new_message=message
        ):
            answers += [each.response for each in event.get_function_responses()]
        return answers

    @property
    def prompt(self) -> str:
        """The system instruction of the last request."""
        return str(self.model.requests[-1].config.system_instruction)

    @property
    def tools(self) -> dict[str, types.FunctionDeclaration]:
        """What the model could call at its last request."""
        declared = self.model.requests[-1].config.tools[0].function_declarations
        return {each.name: each for each in declared}


@asynccontextmanager
async def serving(tmp_path: Path, **options: Any) -> AsyncIterator[skills_mcp.Skills]:
    if not options.keys() & {"repo", "config", "directory"}:
        options["directory"] = content.write_skills(tmp_path / "skills")
    async with skills_mcp.open(home=tmp_path / "home", **options) as skills:
        yield skills


async def test_the_model_finds_loads_and_reads_a_skill(tmp_path: Path) -> None:
    async with serving(tmp_path) as skills:
        chat = Chat(ServedSkillRegistry(skills))
        found, loaded, read = await chat.say(
            ("search_skills", {"query": "add a login to a react component"}),
            ("load_skill", {"skill_name": AUTH}),
            (
                "load_skill_resource",
                {"skill_name": AUTH, "file_path": "assets/login-form.tsx"},
            ),
        )

    assert found["result"][0]["name"] == AUTH
    assert content.ROOT_RULE in loaded["instructions"]
    assert content.UI_RULE in loaded["instructions"]
    assert content.AUTH_RULE in loaded["instructions"]
    assert "assets/login-form.tsx: A form to begin with" in loaded["instructions"]
    assert read["content"] == f"{content.TEMPLATE_LINE}\n"


async def test_the_model_reads_a_reference_of_a_package(tmp_path: Path) -> None:
    async with serving(tmp_path) as skills:
        loaded, read = await Chat(ServedSkillRegistry(skills)).say(
            ("load_skill", {"skill_name": "pdf"}),
            (
                "load_skill_resource",
                {"skill_name": "pdf", "file_path": "references/forms.md"},
            ),
        )

    assert "- references/forms.md" in loaded["instructions"]
    assert content.REFERENCE_LINE in read["content"]


async def test_every_request_has_the_list_of_skills(tmp_path: Path) -> None:
    async with serving(tmp_path) as skills:
        chat = Chat(ServedSkillRegistry(skills))
        await chat.say()

    assert f"<name>\n{AUTH}\n</name>" in chat.prompt
    assert "Add authentication to React components" in chat.prompt
    assert "Describe the task" in str(chat.tools["search_skills"].description)


async def test_an_image_is_given_to_the_model_as_an_image(tmp_path: Path) -> None:
    folder = content.write_skills(tmp_path / "skills")
    picture = b"\x89PNG\r\n\x1a\n" + bytes(100_000)  # larger than one reply
    folder.joinpath("pdf/logo.png").write_bytes(picture)

    async with serving(tmp_path, directory=folder) as skills:
        chat = Chat(ServedSkillRegistry(skills))
        await chat.say(
            (
                "load_skill_resource",
                {"skill_name": "pdf", "file_path": "assets/logo.png"},
            )
        )

    shown = chat.model.requests[-1].contents[-1].parts[-1].inline_data
    assert (shown.data, shown.mime_type) == (picture, "image/png")


async def test_a_merge_is_seen_in_the_next_turn(tmp_path: Path) -> None:
    repository = content.GitSkills.create(tmp_path)
    load = ("load_skill", {"skill_name": "pdf"})

    async with serving(tmp_path, repo=repository.url) as skills:
        chat = Chat(ServedSkillRegistry(skills))
        (before,) = await chat.say(load)
        repository.merge(
            {
                "pdf/SKILL.md": "---\nname: pdf\ndescription: Fill in.\n---\n\nNew.\n",
                "csv/SKILL.md": "---\nname: csv\ndescription: Tables.\n---\n\nRows.\n",
            }
        )
        await skills.refresh()
        after, new = await chat.say(load, ("load_skill", {"skill_name": "csv"}))

    assert "New." not in before["instructions"]
    assert "New." in after["instructions"]
    assert new["instructions"].endswith("Rows.")
    assert "<name>\ncsv\n</name>" in chat.prompt


async def test_a_skill_that_has_changed_is_told_to_the_model_if_adk_is_asked_to(
    tmp_path: Path,
) -> None:
    repository = content.GitSkills.create(tmp_path)

    async with serving(tmp_path, repo=repository.url) as skills:
        config = SkillLifecycleConfig(revalidate_skills=True)
        chat = Chat(ServedSkillRegistry(skills), lifecycle_config=config)
        await chat.say(("load_skill", {"skill_name": "pdf"}))
        rule = "---\ndescription: All\nkeywords: [rules]\n---\n\nWrite Welsh.\n"
        repository.merge({"_root.md": rule})
        await skills.refresh()
        await chat.say()

    assert "The skill `pdf` has changed" in chat.prompt
    assert "Write Welsh." in chat.prompt


@pytest.mark.parametrize(
    "name, message",
    [
        ("ui-react-auth", f"Did you mean {AUTH}?"),
        ("no-such-skill", "There is no skill named 'no-such-skill'."),
        ("../../etc/passwd", "There is no skill named"),
    ],
)
async def test_a_wrong_name_is_told_to_the_model(tmp_path: Path, name: str, message: str) -> None:
    async with serving(tmp_path) as skills:
        loaded, read, ran = await Chat(ServedSkillRegistry(skills)).say(
            ("load_skill", {"skill_name": name}),
            ("load_skill_resource", {"skill_name": name, "file_path": "assets/a.md"}),
            ("run_script", {"skill_name": name, "file_path": "a.py", "args": {}}),
        )

    assert message in loaded["error"]
    assert message in read["error"]
    assert message in ran["error"]
    assert ran["error_code"] == "SKILL_NOT_FOUND"


@pytest.mark.parametrize("file", ["references/no.md", "assets/../../pdf/SKILL.md", "scripts/no.py"])
async def test_a_file_that_is_not_there_is_told_to_the_model(tmp_path: Path, file: str) -> None:
    async with serving(tmp_path) as skills:
        (read,) = await Chat(ServedSkillRegistry(skills)).say(
            ("load_skill_resource", {"skill_name": "pdf", "file_path": file})
        )

    assert read["error_code"] == "RESOURCE_NOT_FOUND"


async def test_a_file_that_cannot_be_handed_out_is_answered_with_the_reason(
    tmp_path: Path,
) -> None:
    folder = content.write_skills(tmp_path / "skills")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    folder.joinpath("pdf/font.ttf").write_text(pointer)
    call = (
        "load_skill_resource",
        {"skill_name": "pdf", "file_path": "assets/font.ttf"},
    )

    async with serving(tmp_path, directory=folder) as skills:
        (read,) = await Chat(ServedSkillRegistry(skills)).say(call)

    assert "LFS" in read["content"]


@pytest.mark.parametrize("is_denied", [True, False])
async def test_what_is_hidden_does_not_exist(tmp_path: Path, is_denied: bool) -> None:  # noqa: FBT001
    folder = str(content.write_skills(tmp_path / "skills"))
    rules = {"visibility": {"deny": ["ui/**"]}} if is_denied else {}

    async with serving(tmp_path, config={"sources": [{"folder": folder}], **rules}) as s:
        skills = s if is_denied else s.narrow(deny=["ui/**"])
        chat = Chat(ServedSkillRegistry(skills))
        found, loaded = await chat.say(
            ("search_skills", {"query": "add a login to a react component"}),
            ("load_skill", {"skill_name": AUTH}),
        )

    assert AUTH not in chat.prompt
    assert AUTH not in [each["name"] for each in found["result"]]
    assert "There is no skill named" in loaded["error"]
    assert "Did you mean" not in loaded["error"]


async def test_what_the_model_has_loaded_and_read_is_recorded(tmp_path: Path) -> None:
    folder = str(content.write_skills(tmp_path / "skills"))
    config = {"sources": [{"folder": folder}], "analytics": {"enabled": True}}
    file = {"skill_name": AUTH, "file_path": "assets/login-form.tsx"}

    async with serving(tmp_path, config=config) as skills:
        await Chat(ServedSkillRegistry(skills)).say(
            ("load_skill", {"skill_name": AUTH}), ("load_skill_resource", file)
        )

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
RUN = (
    "run_script",
    {
        "skill_name": to_standard_name("tools/count"),
        "file_path": "scripts/count.py",
        "args": {"word": "seven"},
    },
)


async def test_a_script_runs_if_the_operator_allows_it(tmp_path: Path) -> None:
    folder = content.write_skills(tmp_path / "skills", SCRIPT)
    config = {"sources": [{"folder": str(folder)}], "scripts": {"enabled": True}}

    async with serving(tmp_path, config=config) as skills:
        (ran,) = await Chat(ServedSkillRegistry(skills)).say(RUN)

    assert (ran["exit_code"], ran["stdout"]) == (0, "seven\n")


async def test_a_script_does_not_run_if_the_operator_has_switched_scripts_off(
    tmp_path: Path,
) -> None:
    folder = content.write_skills(tmp_path / "skills", SCRIPT)
    config = {"sources": [{"folder": str(folder)}], "scripts": {"enabled": False}}

    async with serving(tmp_path, config=config) as skills:
        (ran,) = await Chat(ServedSkillRegistry(skills)).say(RUN)

    assert ran["error_code"] == "SCRIPTS_DISABLED"


async def test_adk_runs_a_script_where_it_is_told_to(tmp_path: Path) -> None:
    folder = content.write_skills(tmp_path / "skills")
    content.write_skills(folder, {"pdf/scripts/count.py": "print(6 * 7)\n"})
    call = ("run_skill_script", {"skill_name": "pdf", "file_path": "scripts/count.py"})

    async with serving(tmp_path, directory=folder) as skills:
        executor = UnsafeLocalCodeExecutor()
        chat = Chat(ServedSkillRegistry(skills), code_executor=executor)
        (ran,) = await chat.say(call)

    assert (ran["status"], ran["stdout"]) == ("success", "42\n")


async def test_ten_thousand_skills_are_searched_and_not_listed(tmp_path: Path) -> None:
    folder = content.write_skills(tmp_path / "skills", _many(10_000))

    async with serving(tmp_path, directory=folder) as skills:
        registry = ServedSkillRegistry(skills, max_results=5)
        found = await registry.search_skills(query="rotate the keys of vault 4321")
        prompt = await registry.compose_instruction()
        loaded = await registry.get_skill(name=found[0].name)

    assert _names(found)[0] == to_standard_name("area-21/vault-4321")
    assert len(found) <= 5
    assert len(prompt) < 100_000
    assert "more: search_skills finds them." in prompt
    assert loaded.instructions.endswith("Rotate key 4321.")


def _many(count: int) -> dict[str, str]:
    return {
        f"area-{n % 100}/vault-{n}.md": f"---\ndescription: Rotate keys of vault {n}\n"
        f"keywords: [vault {n}, keys]\n---\n\nRotate key {n}.\n"
        for n in range(count)
    }


def _names(found: Sequence[Frontmatter]) -> list[str]:
    return [each.name for each in found]


@pytest.mark.usefixtures("skills")
async def test_the_agent_of_the_page_works() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "adk.md"
    fenced = r"```python title=agent.py\n(.*?)```"
    (code,) = re.findall(fenced, page.read_text(encoding="utf-8"), re.DOTALL)
    agent: dict[str, Any] = {"__name__": "agent"}
    exec(compile(code, str(page), "exec"), agent)  # noqa: S102 - our page
    model = ScriptedModel(model="scripted")
    model.calls = [("load_skill", {"skill_name": AUTH})]

    events = await agent["work"]("Add authentication to a React component", model)

    (loaded,) = [r.response for each in events for r in each.get_function_responses()]
    assert content.AUTH_RULE in loaded["instructions"]
    assert events[-1].content.parts[0].text == "Done."
