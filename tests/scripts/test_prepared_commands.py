"""What a command runs in: a copy of the skill, its digest, and a sandbox around it."""

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from skills_mcp.config import Config, Limits
from skills_mcp.errors import (
    ChangedFileError,
    FileTooLargeError,
    RunnerNotFoundError,
    SandboxUnavailableError,
    TemporaryFolderError,
)
from skills_mcp.scripts.execution import (
    CONFINING_TIERS,
    PreparedCommand,
    SandboxName,
    ScriptResult,
)
from skills_mcp.scripts.policy import CommandRequest
from skills_mcp.scripts.prepared_runs import (
    ScriptEnvironment,
    derive_command_line,
    prepare_command_run,
)
from skills_mcp.scripts.script_runner import ScriptRunner
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_files import MAX_COPY_BYTES
from tests.packages import PDF_FILES, contents, write_package, write_pdf
from tests.skills.contents import load_skills
from tests.support import PATIENCE_SECONDS, make_skill, write

PLAIN = {"PATH": os.defpath}

posix = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX")


def a_request(command: str = "cat", *args: str) -> CommandRequest:
    return CommandRequest(skill_name="pdf", command=command, args=args)


@contextmanager
def preparing(
    skill: Skill,
    request: CommandRequest | None = None,
    environment: Mapping[str, str] = PLAIN,
    **settings: Any,
) -> Iterator[PreparedCommand]:
    """Prepare a command under these settings of the operator."""
    rules = Config.model_validate(settings)
    script_environment = ScriptEnvironment.of(environment)
    with prepare_command_run(request or a_request(), skill, rules, script_environment) as ready:
        yield ready.command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pdf(tmp_path / "content")


@pytest.fixture
def skill(folder: Path) -> Skill:
    [skill] = load_skills(folder.parent).skills
    return skill


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies are made."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# What is started


def test_a_program_is_started_as_it_was_asked_for() -> None:
    assert derive_command_line("grep", ("-n", "a b", "$HOME"), {}) == (
        "grep",
        "-n",
        "a b",
        "$HOME",
    )


@posix
@pytest.mark.parametrize("command", ["python", "python3"])
def test_python_is_python3_where_there_is_no_uv(tmp_path: Path, command: str) -> None:
    words = derive_command_line(command, ("scripts/fill.py", "in.pdf"), a_path(tmp_path))

    assert words == ("python3", "scripts/fill.py", "in.pdf")


@posix
@pytest.mark.parametrize("command", ["python", "python3"])
def test_python_runs_through_uv_where_there_is_one(tmp_path: Path, command: str) -> None:
    path = a_path(tmp_path, "uv")

    script = derive_command_line(command, ("scripts/fill.py", "in.pdf"), path)
    code = derive_command_line(command, ("-c", "print(1)"), path)
    alone = derive_command_line(command, (), path)

    # Given to uv itself, a script brings its dependencies (PEP 723).
    assert script == ("uv", "run", "--no-project", "scripts/fill.py", "in.pdf")
    assert code == ("uv", "run", "--no-project", "python", "-c", "print(1)")
    assert alone == ("uv", "run", "--no-project", "python")


@posix
def test_uv_itself_is_started_as_it_was_asked_for(tmp_path: Path) -> None:
    words = derive_command_line("uv", ("run", "x.py"), a_path(tmp_path, "uv"))

    assert words == ("uv", "run", "x.py")


@posix
def test_without_a_path_there_is_no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)

    assert derive_command_line("python", ("x.py",), {}) == ("python3", "x.py")


def a_path(folder: Path, *programs: str) -> dict[str, str]:
    """Return an environment whose PATH has these programs and no others."""
    (folder / "bin").mkdir()
    for name in programs:
        write(folder / "bin" / name, "#!/bin/sh\n").chmod(0o755)
    return {"PATH": str(folder / "bin")}


# Where it runs


def test_a_command_gets_a_copy_of_every_file_of_the_skill(skill: Skill, folder: Path) -> None:
    with preparing(skill) as command:
        copied = contents(command.working_directory)

    assert copied == contents(folder)
    assert copied.keys() == {"SKILL.md", *PDF_FILES}


def test_nothing_but_the_files_of_the_skill_is_copied(folder: Path, tmp_path: Path) -> None:
    write(folder / ".env", "TOKEN=canary")
    (folder / "passwords").symlink_to(write(tmp_path / "secret", "canary"))
    [skill] = load_skills(folder.parent).skills

    with preparing(skill) as command:
        copied = contents(command.working_directory)

    assert copied.keys() == {"SKILL.md", *PDF_FILES}


def test_the_copy_is_gone_afterwards_with_everything_in_it(skill: Skill, copies: Path) -> None:
    with preparing(skill) as command:
        write(command.working_directory / "deep/new.txt", "new")
        (command.working_directory / "deep").chmod(0o500)
        (command.working_directory / "SKILL.md").unlink()

    assert list(copies.iterdir()) == []


def test_the_copy_is_gone_after_an_error_too(skill: Skill, copies: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        preparing(skill),
    ):
        raise ZeroDivisionError

    assert list(copies.iterdir()) == []


def test_a_command_that_deletes_its_folder_does_no_harm(skill: Skill, folder: Path) -> None:
    before = contents(folder)

    with preparing(skill) as command:
        for file in (*PDF_FILES, "SKILL.md"):
            (command.working_directory / file).unlink()

    assert contents(folder) == before


def test_a_file_that_has_changed_is_not_copied_and_nothing_is_left(
    skill: Skill, folder: Path, copies: Path
) -> None:
    write(folder / "scripts/fill.py", "print('something else')\n")

    with (
        pytest.raises(ChangedFileError, match="refresh_skills"),
        preparing(skill),
    ):
        pass

    assert list(copies.iterdir()) == []


def test_a_skill_without_files_runs_in_an_empty_folder() -> None:
    with preparing(make_skill("git")) as command:
        assert list(command.working_directory.iterdir()) == []


def test_a_command_sees_no_secret_of_ours(skill: Skill) -> None:
    ours = {"PATH": "/bin", "GITHUB_TOKEN": "x", "ANTHROPIC_API_KEY": "x"}

    with preparing(skill, environment=ours) as command:
        seen = set(command.environment)

    assert seen.isdisjoint({"GITHUB_TOKEN", "ANTHROPIC_API_KEY"})
    assert "PATH" in seen


def test_a_command_has_the_limits_of_the_operator(skill: Skill) -> None:
    limits: dict[str, Any] = {"timeout_seconds": 7, "max_output_bytes": 99}

    with preparing(skill, commands=limits) as command:
        assert (command.timeout_seconds, command.max_output_bytes) == (7, 99)


def test_the_limits_are_those_of_skillhub_by_default(skill: Skill) -> None:
    with preparing(skill) as command:
        assert (command.timeout_seconds, command.max_output_bytes) == (60, 65_536)


@posix
def test_a_program_in_the_copy_stays_executable(
    tmp_path: Path,
) -> None:
    write(tmp_path / "x/SKILL.md", "---\nname: x\ndescription: It runs\n---\n")
    write(tmp_path / "x/scripts/run.sh", "#!/bin/sh\n").chmod(0o755)
    [skill] = load_skills(tmp_path).skills
    request = CommandRequest(skill_name="x", command="ls")

    with preparing(skill, request) as command:
        mode = (command.working_directory / "scripts/run.sh").stat().st_mode

    assert stat.S_IMODE(mode) == 0o755


def test_a_package_that_is_too_large_is_not_copied(tmp_path: Path) -> None:
    write(tmp_path / "x/SKILL.md", "---\nname: x\ndescription: It is large\n---\n")
    with write(tmp_path / "x/data.bin").open("wb") as handle:
        handle.truncate(MAX_COPY_BYTES)
    limits = Limits(max_file_bytes=MAX_COPY_BYTES)
    [skill] = load_skills(tmp_path, limits=limits).skills
    request = CommandRequest(skill_name="x", command="ls")

    with (
        pytest.raises(FileTooLargeError, match="in your own shell"),
        preparing(skill, request),
    ):
        pass


def test_no_room_for_a_copy_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "x/SKILL.md", "---\nname: x\ndescription: It runs\n---\n")
    [skill] = load_skills(tmp_path).skills
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not-there"))
    request = CommandRequest(skill_name="x", command="ls")

    with (
        pytest.raises(TemporaryFolderError, match="TMPDIR"),
        preparing(skill, request),
    ):
        pass


def test_a_file_that_the_words_name_has_its_digest_told(skill: Skill) -> None:
    named = a_request("python3", "-I", "./scripts/fill.py", "references/forms.md")
    fill = (skill.directory or Path()) / "scripts/fill.py"
    script_environment = ScriptEnvironment.of(PLAIN)

    with prepare_command_run(named, skill, Config(), script_environment) as ready:
        digest = ready.sha256
    with prepare_command_run(a_request(), skill, Config(), script_environment) as ready:
        none = ready.sha256

    assert (digest, none) == (sha256(fill.read_bytes()).hexdigest(), None)


@posix
def test_a_program_of_the_skill_or_of_the_project_is_never_found(
    skill: Skill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (skill.directory or Path(), tmp_path):
        write(folder / "mine", "#!/bin/sh\necho caught\n").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    paths = {"PATH": os.pathsep.join([".", "", "scripts", os.defpath.lstrip(":")])}

    with (
        pytest.raises(RunnerNotFoundError, match="'mine' is not installed"),
        preparing(make_skill("x"), a_request("mine"), paths),
    ):
        pass


@posix
@pytest.mark.parametrize(
    "text, said",
    [
        ("#!/nowhere/x\n", "its first line names '/nowhere/x', which is not there"),
        ("#!/bin/sh\r\n", "its first line ends with CR LF, as on Windows"),
    ],
)
def test_a_program_that_cannot_be_started_says_why(
    skill: Skill, tmp_path: Path, text: str, said: str
) -> None:
    write(tmp_path / "bin/broken", text).chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin"}

    with (
        pytest.raises(RunnerNotFoundError, match=f"'broken' cannot be started: {said}"),
        preparing(skill, a_request("broken"), environment),
    ):
        pass


# What holds it


def a_tier(name: SandboxName, home: Path, **more: str) -> ScriptEnvironment:
    """Return an environment in which only this tier is offered."""
    environment = {**PLAIN, "HOME": str(home), **more}
    script_environment = ScriptEnvironment.of(environment, (name,))
    if script_environment.sandbox.choose("best_effort").name != name:
        pytest.skip(f"this machine has no {name}")
    return script_environment


async def run(
    script_environment: ScriptEnvironment, skill: Skill, *words: str, **scripts: Any
) -> ScriptResult:
    command, *args = words
    rules = Config.model_validate({"scripts": scripts})
    request = a_request(command, *args)
    with (
        anyio.fail_after(PATIENCE_SECONDS),
        prepare_command_run(request, skill, rules, script_environment) as ready,
    ):
        return await ScriptRunner().run(ready.command)


@posix
@pytest.mark.parametrize("tier", CONFINING_TIERS)
async def test_a_command_writes_into_its_copy_and_its_home_only(
    skill: Skill, tmp_path: Path, tier: SandboxName
) -> None:
    (tmp_path / "outside").mkdir()
    there = (tmp_path / "outside/new", (skill.directory or Path()) / "new")
    script = 'touch here "$HOME/here" "$TMPDIR/there" && echo done; touch "$@"'
    words = ("sh", "-c", script, "sh", *map(str, there))
    script_environment = a_tier(tier, tmp_path)

    held = await run(script_environment, skill, *words)
    escaped = [path.name for path in there if path.exists()]
    free = await run(script_environment, skill, *words, sandbox="off")

    assert (held.sandbox, free.sandbox) == (tier, "none")
    assert held.stdout == free.stdout == "done\n"
    assert escaped == []
    assert held.exit_code != 0 == free.exit_code
    assert all(path.exists() for path in there)


@posix
@pytest.mark.parametrize("tier", CONFINING_TIERS)
async def test_a_command_reads_nothing_of_the_home(
    skill: Skill, tmp_path: Path, tier: SandboxName
) -> None:
    key = write(tmp_path / "home/.ssh/id", "canary")
    script_environment = a_tier(tier, tmp_path / "home")

    held = await run(script_environment, skill, "cat", str(key))
    free = await run(script_environment, skill, "cat", str(key), sandbox="off")

    assert (held.stdout, free.stdout) == ("", "canary")


@posix
@pytest.mark.parametrize("tier", CONFINING_TIERS)
async def test_a_command_has_a_network_only_if_the_operator_says_so(
    skill: Skill, tmp_path: Path, tier: SandboxName
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        script_environment = a_tier(tier, tmp_path)

        held = await run(script_environment, skill, "python3", "-c", code)
        free = await run(script_environment, skill, "python3", "-c", code, network=True)

    assert (held.exit_code, free.exit_code) == (1, 0)
    assert held.sandbox == free.sandbox == tier


@posix
@pytest.mark.parametrize("tier", CONFINING_TIERS)
async def test_uv_finds_the_python_of_the_path(tmp_path: Path, tier: SandboxName) -> None:
    write(tmp_path / "one/uv", '#!/bin/sh\nshift 2; exec python3 "$@"\n').chmod(0o755)
    (tmp_path / "two").mkdir()
    (tmp_path / "two/python3").symlink_to(sys.executable)
    files = {"run.py": "import sys; print(sys.executable)\n"}
    write_package(tmp_path / "content", "say", files)
    [skill] = load_skills(tmp_path / "content").skills
    paths = (tmp_path / "one", tmp_path / "two", *os.defpath.split(os.pathsep))
    script_environment = a_tier(tier, tmp_path, PATH=os.pathsep.join(map(str, paths)))

    result = await run(script_environment, skill, "python", "run.py")

    assert (result.stdout, result.stderr) == (f"{tmp_path}/two/python3\n", "")
    assert result.sandbox == tier


def test_where_a_sandbox_is_required_and_there_is_none_nothing_runs(
    skill: Skill, copies: Path
) -> None:
    rules = Config.model_validate({"scripts": {"sandbox": "required"}})
    script_environment = ScriptEnvironment.of(PLAIN, ())

    with (
        pytest.raises(SandboxUnavailableError, match=r"scripts\.sandbox"),
        prepare_command_run(a_request(), skill, rules, script_environment),
    ):
        pass

    assert list(copies.iterdir()) == []


@pytest.mark.parametrize("network", [False, True])
def test_uv_is_told_whether_there_is_a_network(skill: Skill, *, network: bool) -> None:
    with preparing(skill, scripts={"network": network}) as command:
        assert command.environment.get("UV_OFFLINE") == (None if network else "1")


@posix
def test_the_operator_lets_variables_through(skill: Skill) -> None:
    ours = {**PLAIN, "UV_INDEX_URL": "https://packages.example", "TOKEN": "x"}
    let = {"environment": ("UV_INDEX_URL",)}

    with preparing(skill, environment=ours, scripts=let) as command:
        assert command.environment["UV_INDEX_URL"] == "https://packages.example"
        assert "TOKEN" not in command.environment
