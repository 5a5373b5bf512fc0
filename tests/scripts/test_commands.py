import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Commands
from skills_mcp.errors import (
    ChangedFileError,
    CommandError,
    CommandsDisabledError,
    FileTooLargeError,
    InvalidArgumentsError,
    MissingFileError,
)
from skills_mcp.scripts.commands import (
    CommandRequest,
    derive_words,
    prepared,
    require_allowed,
    require_enabled,
)
from skills_mcp.skills.assets import MAX_COPY_BYTES
from skills_mcp.skills.discovery import load_skills
from skills_mcp.skills.model import Skill
from tests.packages import PDF_FILES, contents, write_pdf
from tests.support import make_skill, write

posix = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX")


def a_request(command: str = "cat", *args: str) -> CommandRequest:
    return CommandRequest(skill_name="pdf", command=command, args=args)


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


# May it run


def test_commands_are_switched_off_until_the_operator_switches_them_on() -> None:
    with pytest.raises(CommandsDisabledError, match=r"your own shell.*load_skill"):
        require_enabled(Commands())

    require_enabled(Commands(enabled=True))


@pytest.mark.parametrize(
    "command", ["python", "python3", "uv", "node", "cat", "ls", "grep"]
)
def test_the_programs_of_skillhub_are_allowed_by_default(command: str) -> None:
    require_allowed(a_request(command), Commands())


@pytest.mark.parametrize(
    "command",
    ["bash", "", "cat ", "/bin/cat", "./cat", "../bin/cat", "Cat", "cat\0", "cat;ls"],
)
def test_any_other_program_is_refused_and_those_that_may_run_are_named(
    command: str,
) -> None:
    with pytest.raises(CommandError) as raised:
        require_allowed(a_request(command), Commands(allowed=("cat", "ls")))

    assert f"{command!r} may not run here" in str(raised.value)
    assert "cat, ls (commands.allowed)" in str(raised.value)


def test_a_long_command_is_shortened_in_the_message() -> None:
    with pytest.raises(CommandError) as raised:
        require_allowed(a_request("x" * 9000), Commands())

    assert len(str(raised.value)) < 250


def test_an_operator_may_allow_nothing() -> None:
    with pytest.raises(CommandError, match="allows: nothing"):
        require_allowed(a_request(), Commands(allowed=()))


@pytest.mark.parametrize("argument", ["\0", "a\0b", "\ud800", "a\udfffb"])
def test_an_argument_that_no_process_can_be_given_is_refused(argument: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="NUL character or half"):
        require_allowed(a_request("cat", "fine", argument), Commands())


# What is started


def test_a_program_is_started_as_it_was_asked_for() -> None:
    assert derive_words("grep", ("-n", "a b", "$HOME"), {}) == (
        "grep",
        "-n",
        "a b",
        "$HOME",
    )


@posix
@pytest.mark.parametrize("command", ["python", "python3"])
def test_python_is_python3_where_there_is_no_uv(tmp_path: Path, command: str) -> None:
    words = derive_words(command, ("scripts/fill.py", "in.pdf"), a_path(tmp_path))

    assert words == ("python3", "scripts/fill.py", "in.pdf")


@posix
@pytest.mark.parametrize("command", ["python", "python3"])
def test_python_runs_through_uv_where_there_is_one(
    tmp_path: Path, command: str
) -> None:
    path = a_path(tmp_path, "uv")

    script = derive_words(command, ("scripts/fill.py", "in.pdf"), path)
    code = derive_words(command, ("-c", "print(1)"), path)
    alone = derive_words(command, (), path)

    # Given to uv itself, a script brings its dependencies (PEP 723).
    assert script == ("uv", "run", "--no-project", "scripts/fill.py", "in.pdf")
    assert code == ("uv", "run", "--no-project", "python", "-c", "print(1)")
    assert alone == ("uv", "run", "--no-project", "python")


@posix
def test_uv_itself_is_started_as_it_was_asked_for(tmp_path: Path) -> None:
    words = derive_words("uv", ("run", "x.py"), a_path(tmp_path, "uv"))

    assert words == ("uv", "run", "x.py")


def a_path(folder: Path, *programs: str) -> dict[str, str]:
    """Return an environment whose PATH has these programs and no others."""
    (folder / "bin").mkdir()
    for name in programs:
        write(folder / "bin" / name, "#!/bin/sh\n").chmod(0o755)
    return {"PATH": str(folder / "bin")}


# Where it runs


def test_a_command_gets_a_copy_of_every_file_of_the_skill(
    skill: Skill, folder: Path
) -> None:
    with prepared(a_request(), skill, Commands(), {}) as command:
        copied = contents(command.working_directory)

    assert copied == contents(folder)
    assert copied.keys() == {"SKILL.md", *PDF_FILES}


def test_nothing_but_the_files_of_the_skill_is_copied(
    folder: Path, tmp_path: Path
) -> None:
    write(folder / ".env", "TOKEN=canary")
    (folder / "passwords").symlink_to(write(tmp_path / "secret", "canary"))
    [skill] = load_skills(folder.parent).skills

    with prepared(a_request(), skill, Commands(), {}) as command:
        copied = contents(command.working_directory)

    assert copied.keys() == {"SKILL.md", *PDF_FILES}


def test_the_copy_is_gone_afterwards_with_everything_in_it(
    skill: Skill, copies: Path
) -> None:
    with prepared(a_request(), skill, Commands(), {}) as command:
        write(command.working_directory / "deep/new.txt", "new")
        (command.working_directory / "deep").chmod(0o500)
        (command.working_directory / "SKILL.md").unlink()

    assert list(copies.iterdir()) == []


def test_the_copy_is_gone_after_an_error_too(skill: Skill, copies: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        prepared(a_request(), skill, Commands(), {}),
    ):
        raise ZeroDivisionError

    assert list(copies.iterdir()) == []


def test_a_command_that_deletes_its_folder_does_no_harm(
    skill: Skill, folder: Path
) -> None:
    before = contents(folder)

    with prepared(a_request(), skill, Commands(), {}) as command:
        for file in (*PDF_FILES, "SKILL.md"):
            (command.working_directory / file).unlink()

    assert contents(folder) == before


def test_a_file_that_has_changed_is_not_copied_and_nothing_is_left(
    skill: Skill, folder: Path, copies: Path
) -> None:
    write(folder / "scripts/fill.py", "print('something else')\n")

    with (
        pytest.raises(ChangedFileError, match="refresh_skills"),
        prepared(a_request(), skill, Commands(), {}),
    ):
        pass

    assert list(copies.iterdir()) == []


def test_a_skill_without_files_runs_in_an_empty_folder() -> None:
    with prepared(a_request(), make_skill("git"), Commands(), {}) as command:
        assert list(command.working_directory.iterdir()) == []


def test_a_command_sees_no_secret_of_ours(skill: Skill) -> None:
    ours = {"PATH": "/bin", "GITHUB_TOKEN": "x", "ANTHROPIC_API_KEY": "x"}

    with prepared(a_request(), skill, Commands(), ours) as command:
        assert command.environment == {"PATH": "/bin"}


def test_a_command_has_the_limits_of_the_operator(skill: Skill) -> None:
    limits: dict[str, Any] = {"timeout_seconds": 7, "max_output_bytes": 99}

    with prepared(a_request(), skill, Commands(**limits), {}) as command:
        assert (command.timeout_seconds, command.max_output_bytes) == (7, 99)


def test_the_limits_are_those_of_skillhub_by_default(skill: Skill) -> None:
    with prepared(a_request(), skill, Commands(), {}) as command:
        assert (command.timeout_seconds, command.max_output_bytes) == (60, 65_536)


@posix
def test_a_program_in_the_copy_stays_executable(
    tmp_path: Path,
) -> None:
    write(tmp_path / "x/SKILL.md", "---\nname: x\ndescription: It runs\n---\n")
    write(tmp_path / "x/scripts/run.sh", "#!/bin/sh\n").chmod(0o755)
    [skill] = load_skills(tmp_path).skills
    request = CommandRequest(skill_name="x", command="ls")

    with prepared(request, skill, Commands(enabled=True), {}) as command:
        mode = (command.working_directory / "scripts/run.sh").stat().st_mode

    assert stat.S_IMODE(mode) == 0o755


def test_a_package_that_is_too_large_is_not_copied(tmp_path: Path) -> None:
    write(tmp_path / "x/SKILL.md", "---\nname: x\ndescription: It is large\n---\n")
    with write(tmp_path / "x/data.bin").open("wb") as handle:
        handle.truncate(MAX_COPY_BYTES)
    [skill] = load_skills(tmp_path).skills
    request = CommandRequest(skill_name="x", command="ls")

    with (
        pytest.raises(FileTooLargeError, match="in your own shell"),
        prepared(request, skill, Commands(enabled=True), {}),
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
        pytest.raises(MissingFileError, match="TMPDIR"),
        prepared(request, skill, Commands(enabled=True), {}),
    ):
        pass
