"""`new`, `show`, `ask` and `search`, as an author uses them one after the other."""

import json
import shlex
from pathlib import Path

import anyio
import pytest
from mcp.client.client import Client

from skills_mcp.server.app import create_server
from tests.cli.conftest import Run
from tests.clients import ask
from tests.support import SKILLS_CONTENT, open_library, running, write, write_skill

SAMPLE = ("--skills-dir", str(SKILLS_CONTENT))


def call(folder: Path, tool: str, **arguments: object) -> dict[str, object]:
    """Return the reply of a server to a client of the SDK."""

    async def work() -> dict[str, object]:
        library = open_library(folder, settings={"toolsets": ["core", "packages"]})
        async with running(library), Client(create_server(library)) as client:
            reply: dict[str, object] = await ask(client, tool, **arguments)
            return reply

    return anyio.run(work)


@pytest.mark.parametrize("options", [(), ("--package",)])
def test_a_new_skill_is_valid_found_by_its_example_and_shown(
    invoke: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    where = ("--skills-dir", str(tmp_path / "skills"))

    done = invoke("new", "ui/react/forms", *where, *options, "--json")
    written = json.loads(done.stdout)
    draft = invoke("validate", "--strict", SKILLS_DIR=str(tmp_path / "skills"))
    file = Path(written["file"])
    file.write_text(file.read_text().replace("Write here what", "Label each input. This is what"))
    validated = invoke("validate", str(tmp_path / "skills"), "--strict")
    tested = invoke("test", *where, "--strict")
    shown = invoke("show", "ui/react/forms", *where)

    assert "draft-line" in draft.stdout
    assert draft.returncode == 1
    assert written["skill_path"] == "ui/react/forms"
    assert validated.returncode == 0, validated.stdout
    assert tested.returncode == 0, tested.stdout
    assert "Label each input." in shown.stdout


def test_the_commands_that_a_new_skill_names_work(invoke: Run, tmp_path: Path) -> None:
    done = invoke("new", "ui/react/forms", "--skills-dir", str(tmp_path), "--json")
    for command in json.loads(done.stdout)["next"]:
        program, *arguments = shlex.split(command)
        assert program == "skills-mcp"
        assert invoke(*arguments).returncode == 0, command


def test_what_the_author_says_is_written(invoke: Run, tmp_path: Path) -> None:
    said = ("--description", "Forms: the house rules", "--keywords", "form, input")

    invoke("new", "ui/forms", "--skills-dir", str(tmp_path), *said)

    text = (tmp_path / "ui/forms.md").read_text()
    assert "description: 'Forms: the house rules'\nkeywords: [form, input]" in text


def test_a_folder_that_keeps_its_skills_in_skills_gets_it_there(
    invoke: Run, tmp_path: Path
) -> None:
    write(tmp_path / "README.md", "A repository.")
    write_skill(tmp_path / "skills", "api.md")

    invoke("new", "ui/forms", "--skills-dir", str(tmp_path))

    assert (tmp_path / "skills/ui/forms.md").is_file()


@pytest.mark.parametrize(
    "path, options, reason",
    [
        ("api", (), "exists already. Edit it"),
        ("API", (), "exists already. Edit it"),
        ("api/errors", (), "is the folder of the files of"),
        ("tool/more", (), "is a package, and what is in it are its files"),
        ("UI/forms", (), "differs only in its spelling"),
        ("ui", (), "holds skills, which would be hidden"),
        ("ui", ("--package",), "exists already. Take another path"),
        ("../out", (), "Write it like ui/react/forms"),
        ("ui/Two Words", ("--package",), "Call it two-words"),
        ("ui/_index", ("--package",), "Leave --package out"),
    ],
)
def test_a_skill_that_would_not_be_served_is_not_written(
    invoke: Run, tmp_path: Path, path: str, options: tuple[str, ...], reason: str
) -> None:
    write_skill(tmp_path, "api.md")
    write_skill(tmp_path, "ui/_index.md")
    write(tmp_path / "tool/SKILL.md", "---\nname: tool\ndescription: A tool\n---\n")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}

    done = invoke("new", path, "--skills-dir", str(tmp_path), *options)

    assert done.returncode == 1
    assert reason in done.stderr
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


def test_the_text_that_show_prints_is_that_of_get_skill_to_the_byte(
    invoke: Run,
) -> None:
    reply = call(SKILLS_CONTENT, "get_skill", context="x", skill_path="ui/react/auth")

    done = invoke("show", "ui/react/auth", *SAMPLE)
    data = json.loads(invoke("show", "ui/react/auth", *SAMPLE, "--json").stdout)

    assert done.stdout == f"{reply['content']}\n"
    assert (data["content"], data["sha256"]) == (reply["content"], reply["sha256"])
    assert [part["skill_path"] for part in data["parts"]][-1] == "ui/react/auth"


def test_the_file_of_a_skill_is_shown_as_its_author_wrote_it(invoke: Run) -> None:
    done = invoke("show", "ui/react/auth", *SAMPLE, "--raw")

    file = SKILLS_CONTENT / "skills/ui/react/auth.md"
    assert done.stdout == file.read_text(encoding="utf-8")


def test_the_files_of_a_skill_are_listed(invoke: Run) -> None:
    done = invoke("show", "ui/react/auth", *SAMPLE, "--files")
    data = json.loads(invoke("show", "ui/react/auth", *SAMPLE, "--json").stdout)

    assert len(data["files"]) >= 3
    assert all(each["file"].split("/")[-1] in done.stdout for each in data["files"])


def test_an_unknown_skill_names_what_may_be_meant(invoke: Run) -> None:
    done = invoke("show", "ui/react/aut", *SAMPLE, "--json")

    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "SKILL_NOT_FOUND"
    assert f"skills-mcp tree {' '.join(SAMPLE)} shows what there is" in done.stderr


def test_an_author_without_options_is_told_how_to_serve_the_folder_here(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = invoke("tree").stderr
    write_skill(tmp_path, "skills/one.md")

    here = invoke("tree").stderr

    assert "--skills-dir skills serves" in here
    assert "serves the folder" not in nowhere


def test_a_skill_that_is_broken_is_no_unknown_one(invoke: Run, tmp_path: Path) -> None:
    write(tmp_path / "ui/auth.md", "---\ndescription: Auth: a\nkeywords: [auth]\n---\nText\n")

    done = invoke("show", "ui/auth", "--skills-dir", str(tmp_path))

    assert "ui/auth.md:2 has a frontmatter that is no valid YAML" in done.stderr
    assert "Quote values" in done.stderr


@pytest.mark.parametrize("task", ["add login to the React app", "add a React page", "bake bread"])
def test_ask_answers_as_a_server_does(invoke: Run, task: str) -> None:
    reply = call(SKILLS_CONTENT, "get_skill", context=task)

    data = json.loads(invoke("ask", task, *SAMPLE, "--json").stdout)

    changing = ("match_id", "session_id", "request_id")
    assert data | dict.fromkeys(changing) == reply | dict.fromkeys(changing)


@pytest.mark.parametrize(
    "command, said",
    [("ask", "No skill matches the given context."), ("search", "Describe the task, or a name.")],
)
def test_an_empty_task_is_answered_and_not_taken_for_a_missing_one(
    invoke: Run, command: str, said: str
) -> None:
    done = invoke(command, "", *SAMPLE)

    assert said in done.stdout + done.stderr
    assert "is missing" not in done.stderr


def test_a_folder_that_is_none_is_answered_with_a_command(invoke: Run) -> None:
    done = invoke("ask", "add a page", "--within", "web", *SAMPLE)

    place = " ".join(SAMPLE)
    assert done.stderr.endswith(f". skills-mcp tree {place} shows what there is.\n")


def test_ask_prints_the_match_and_the_text(invoke: Run) -> None:
    done = invoke("ask", "add login to the React app", *SAMPLE)
    shown = invoke("show", "ui/react/auth", *SAMPLE)

    assert done.stdout.startswith("ui/react/auth  score 0.40  ")
    assert done.stdout.endswith(shown.stdout)


def test_ask_lists_candidates_and_says_that_none_fits(invoke: Run) -> None:
    several = invoke("ask", "add a React page", *SAMPLE)
    none = invoke("ask", "bake bread", *SAMPLE)

    place = " ".join(SAMPLE)
    assert f"skills-mcp ask {place} 'add a React page' --skill ui/react/" in several.stdout
    assert none.stdout.endswith(f"skills-mcp explain {place} 'bake bread'\n")
    assert none.returncode == 0
    assert "ui/react" not in none.stdout


def test_search_answers_as_a_server_does(invoke: Run) -> None:
    reply = call(SKILLS_CONTENT, "search_skills", query="react login")

    data = json.loads(invoke("search", "react login", *SAMPLE, "--json").stdout)
    few = invoke("search", "react login", *SAMPLE, "--limit", "1")

    changing = ("match_id", "session_id", "request_id")
    assert data | dict.fromkeys(changing) == reply | dict.fromkeys(changing)
    assert "ui/react/auth" in few.stdout
    assert "There are more: raise --limit." in few.stdout


@pytest.mark.parametrize("command", ["ask", "search"])
def test_an_authors_test_is_no_use_of_a_skill(invoke: Run, tmp_path: Path, command: str) -> None:
    home = tmp_path / "home"
    config = write(tmp_path / "config.yaml", "analytics: {enabled: true}\n")
    done = invoke(
        command, "react login", *SAMPLE, "--config", str(config),
        SKILLS_MCP_HOME=str(home),
    )  # fmt: skip

    assert done.returncode == 0
    assert not [*home.rglob("*.jsonl")]
