"""The ten outcomes of 001 §8.4: nine refusals, in their order, and a command."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Scripts
from skills_mcp.errors import (
    AgentScriptError,
    ExtensionError,
    InvalidArgumentsError,
    InvalidPathError,
    MissingArgumentsError,
    MissingFileError,
    RunnerError,
    ScriptsDisabledError,
    SkillNotFoundError,
    SkillsError,
    UndeclaredScriptError,
)
from skills_mcp.scripts.permission import Permitted, ScriptRequest, permit
from skills_mcp.skills.discovery import load_skills
from skills_mcp.skills.index import SkillIndex
from tests.support import write, write_skill

RULES = Scripts(allowed_extensions=(".sh", ".rb"))  # .rb may run, and has no runner


def declared(file: str, execution: str = "server") -> dict[str, object]:
    """Return a script as frontmatter has it."""
    arguments = [
        {"name": "target", "description": "What to check", "required": True},
        {"name": "verbose", "required": False},
    ]
    return {
        "file": file,
        "description": "Checks",
        "execution": execution,
        "args": arguments,
    }


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """Return content with one skill that declares every kind of script."""
    root = tmp_path / "content"
    write_skill(
        root,
        "ui/auth.md",
        scripts=[
            declared("scripts/check.sh"),
            declared("scripts/check.exe"),
            declared("scripts/check.rb"),
            declared("scripts/missing.sh"),
            declared("scripts/missing.rb"),
            declared("scripts/scaffold.sh", "claude"),
            declared("scripts/agent.exe", "claude"),
        ],
        assets=[{"file": "assets/note.md", "description": "A note"}],
    )
    for name in ("check.sh", "scaffold.sh", "check.exe", "agent.exe", "check.rb"):
        write(root / "ui/auth/scripts" / name, "echo hello\n")
    write(root / "ui/auth/assets/note.md", "A note")
    write(root / "ui/auth/scripts/undeclared.sh", "echo hello\n")
    return root


def ask(
    content: Path,
    file: str = "scripts/check.sh",
    *,
    rules: Scripts = RULES,
    environment: Mapping[str, str] | None = None,
    **fields: Any,
) -> Permitted:
    values = {"skill_path": "ui/auth", "args": {"target": "x"}, **fields}
    request = ScriptRequest(file=file, **values)
    return permit(
        request, SkillIndex(load_skills(content).skills), rules, environment or {}
    )


@pytest.mark.spec("8.4")
def test_a_request_that_every_rule_allows_becomes_a_command(content: Path) -> None:
    permitted = ask(content, environment={"PATH": "/bin", "AWS_SECRET_KEY": "x"})

    assert permitted.skill.path == "ui/auth"
    assert permitted.script.file == "scripts/check.sh"
    command = permitted.command
    assert command.words == ("bash", str(content / "ui/auth/scripts/check.sh"))
    assert command.environment == {"PATH": "/bin", "SKILL_ARG_TARGET": "x"}
    assert command.timeout_seconds == 60
    assert command.max_output_bytes == 1_048_576


DISABLED = Scripts(enabled=False)
WRONG_ARGS: dict[str, str] = {}


@pytest.mark.spec("8.4")
@pytest.mark.parametrize(
    "error, fields",
    [
        # Each request is wrong in its own way and in every later one that can be
        # wrong at the same time: the order of the cascade decides.
        pytest.param(
            ScriptsDisabledError,
            {"rules": DISABLED, "skill_path": "no", "file": "../x", "args": WRONG_ARGS},
            id="1-disabled",
        ),
        pytest.param(
            SkillNotFoundError,
            {"skill_path": "no", "file": "../x", "args": WRONG_ARGS, "cwd": "no"},
            id="2-no-skill",
        ),
        pytest.param(
            InvalidPathError,
            {"file": "../auth/scripts/scaffold.exe", "args": WRONG_ARGS, "cwd": "no"},
            id="3-traversal",
        ),
        pytest.param(
            UndeclaredScriptError,
            {"file": "scripts/undeclared.exe", "args": WRONG_ARGS, "cwd": "no"},
            id="4-undeclared",
        ),
        pytest.param(
            AgentScriptError,
            {"file": "scripts/agent.exe", "args": WRONG_ARGS, "cwd": "no"},
            id="5-for-the-agent",
        ),
        pytest.param(
            MissingArgumentsError,
            {"file": "scripts/check.exe", "args": WRONG_ARGS, "cwd": "no"},
            id="6-arguments",
        ),
        pytest.param(
            ExtensionError,
            {
                "file": "scripts/missing.rb",
                "rules": Scripts(allowed_extensions=(".sh",), runners={}),
                "cwd": "no",
            },
            id="7-extension",
        ),
        pytest.param(
            MissingFileError,
            {"file": "scripts/missing.rb", "cwd": "no"},
            id="8-file",
        ),
        pytest.param(
            RunnerError,
            {"file": "scripts/check.rb", "cwd": "no"},
            id="9-runner",
        ),
        pytest.param(InvalidArgumentsError, {"cwd": "no"}, id="10-cwd"),
    ],
)
def test_a_request_that_is_wrong_in_several_ways_gets_the_earliest_error(
    error: type[SkillsError], fields: dict[str, Any], content: Path
) -> None:
    with pytest.raises(SkillsError) as refused:
        ask(content, **fields)

    assert type(refused.value) is error


@pytest.mark.spec("8.4")
@pytest.mark.parametrize(
    "error, file",
    [
        (UndeclaredScriptError, "scripts/undeclared.sh"),
        (UndeclaredScriptError, "assets/note.md"),
        (AgentScriptError, "scripts/scaffold.sh"),
        (ExtensionError, "scripts/check.exe"),
        (MissingFileError, "scripts/missing.sh"),
        (RunnerError, "scripts/check.rb"),
    ],
)
def test_a_request_that_is_wrong_in_one_way_gets_its_error(
    error: type[SkillsError], file: str, content: Path
) -> None:
    with pytest.raises(error):
        ask(content, file)


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.1")
@pytest.mark.spec("13")
@pytest.mark.parametrize(
    "file",
    [
        "../secrets.sh",
        "scripts/../../auth/scripts/check.sh",
        "/etc/passwd",
        "scripts\\check.sh",
        "scripts/check.sh\0",
        "./scripts/check.sh",
        "",
    ],
)
def test_a_path_that_could_leave_the_folder_is_refused(
    file: str, content: Path
) -> None:
    with pytest.raises(InvalidPathError):
        ask(content, file)


@pytest.mark.spec("12.1")
@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_a_script_that_is_a_link_to_elsewhere_is_not_there(content: Path) -> None:
    outside = write(content.parent / "outside.sh", "echo stolen\n")
    script = content / "ui/auth/scripts/check.sh"
    script.unlink()
    script.symlink_to(outside)

    with pytest.raises(MissingFileError):
        ask(content)


@pytest.mark.spec("7.5")
@pytest.mark.spec("8.4")
def test_an_inherited_script_runs_from_the_folder_that_has_it(content: Path) -> None:
    write_skill(content, "ui/_index.md", scripts=[declared("scripts/shared.sh")])
    path = write(content / "ui/_index/scripts/shared.sh", "echo hello\n")

    permitted = ask(content, "scripts/shared.sh")

    assert permitted.command.words == ("bash", str(path))
    assert permitted.skill.path == "ui/auth"


@pytest.mark.spec("8.4")
def test_a_skill_that_does_not_inherit_has_no_scripts_of_others(content: Path) -> None:
    write_skill(content, "ui/_index.md", scripts=[declared("scripts/shared.sh")])
    write(content / "ui/_index/scripts/shared.sh", "echo hello\n")
    write_skill(content, "ui/alone.md", inherit=False)

    with pytest.raises(UndeclaredScriptError):
        ask(content, "scripts/shared.sh", skill_path="ui/alone")


@pytest.mark.spec("8.4")
def test_the_caller_picks_the_working_directory(content: Path, tmp_path: Path) -> None:
    assert ask(content, cwd=str(tmp_path)).command.working_directory == tmp_path


@pytest.mark.spec("8.4")
def test_without_a_working_directory_it_is_the_servers(
    content: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert ask(content).command.working_directory == Path.cwd()


@pytest.mark.parametrize(
    "cwd", ["", ".", "relative", "/no/such/folder", "/\0", "/\ud800", "/" + "a" * 9999]
)
def test_a_working_directory_that_is_no_absolute_folder_is_refused(
    cwd: str, content: Path
) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"^cwd: "):
        ask(content, cwd=cwd)


def test_a_file_is_no_working_directory(content: Path) -> None:
    with pytest.raises(InvalidArgumentsError):
        ask(content, cwd=os.fspath(content / "ui/auth.md"))


@pytest.mark.spec("12.2")
def test_a_value_that_no_environment_can_carry_is_refused(content: Path) -> None:
    with pytest.raises(InvalidArgumentsError):
        ask(content, args={"target": "a\0b"})


def test_a_working_directory_that_is_gone_is_said(
    content: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(InvalidArgumentsError, match="is gone"):
        ask(content)
