"""Nine refusals of a script, in their order, and what runs if there is none."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Limits, Scripts
from skills_mcp.errors import (
    AgentScriptError,
    ExtensionError,
    FileTooLargeError,
    FolderNotAllowedError,
    InvalidPathError,
    MissingArgumentsError,
    MissingFileError,
    RunnerError,
    RunnerNotFoundError,
    ScriptsDisabledError,
    SkillNotFoundError,
    SkillsError,
    TemporaryFolderError,
    UndeclaredScriptError,
)
from skills_mcp.files.locks import acquire_lock, remove_stale_folders
from skills_mcp.scripts.policy import ScriptRequest
from skills_mcp.scripts.prepared_runs import (
    MAX_SCRIPT_BYTES,
    PermittedScript,
    PreparedRun,
    ScriptEnvironment,
    make_private_folder,
    permit_script,
    prepare_script_run,
)
from skills_mcp.skills.skill_index import SkillIndex
from tests.skills.contents import load_skills
from tests.support import write, write_skill

OPEN = Scripts(sandbox="off")
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
    **fields: Any,
) -> PermittedScript:
    limits = Limits(max_file_bytes=2 * MAX_SCRIPT_BYTES)
    index = SkillIndex(load_skills(content, limits=limits).skills)
    return permit_script(request(file, **fields), index, rules, ScriptEnvironment.of(os.environ))


def request(file: str = "scripts/check.sh", **fields: Any) -> ScriptRequest:
    values = {"skill_path": "ui/auth", "args": {"target": "x"}, **fields}
    return ScriptRequest(file=file, **values)


def prepare(
    permitted: PermittedScript, *, rules: Scripts = OPEN, **environment: str
) -> AbstractContextManager[PreparedRun]:
    script_environment = ScriptEnvironment.of({"PATH": os.environ["PATH"], **environment})
    return prepare_script_run(permitted, rules, script_environment)


@pytest.mark.spec("8.4")
def test_a_request_that_every_rule_allows_is_permitted(content: Path) -> None:
    permitted = ask(content)

    assert permitted.skill.path == permitted.owner.path == "ui/auth"
    assert permitted.script.file == "scripts/check.sh"
    assert permitted.runner == ("bash",)
    assert permitted.data == b"echo hello\n"
    assert permitted.cwd is None


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
        pytest.param(FolderNotAllowedError, {"cwd": os.sep}, id="10-cwd"),
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
def test_a_path_that_could_leave_the_folder_is_refused(file: str, content: Path) -> None:
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
    write(content / "ui/_index/scripts/shared.sh", "echo shared\n")

    permitted = ask(content, "scripts/shared.sh")

    assert permitted.skill.path == "ui/auth"
    assert permitted.owner.path == "ui/_index"
    assert permitted.data == b"echo shared\n"


@pytest.mark.spec("8.4")
def test_a_skill_that_does_not_inherit_has_no_scripts_of_others(content: Path) -> None:
    write_skill(content, "ui/_index.md", scripts=[declared("scripts/shared.sh")])
    write(content / "ui/_index/scripts/shared.sh", "echo hello\n")
    write_skill(content, "ui/alone.md", inherit=False)

    with pytest.raises(UndeclaredScriptError):
        ask(content, "scripts/shared.sh", skill_path="ui/alone")


def test_a_file_that_is_too_long_to_be_a_script_is_refused(content: Path) -> None:
    script = content / "ui/auth/scripts/check.sh"
    os.truncate(script, MAX_SCRIPT_BYTES + 1)

    with pytest.raises(FileTooLargeError, match="16,777,216"):
        ask(content)


@pytest.mark.spec("8.4")
def test_the_caller_picks_the_working_directory(content: Path, tmp_path: Path) -> None:
    rules = Scripts(roots=(str(tmp_path),))

    permitted = ask(content, cwd=str(content), rules=rules)

    assert permitted.cwd == content
    with prepare(permitted) as ready:
        assert ready.command.working_directory == content


# --- what is prepared ----------------------------------------------------------


@pytest.mark.spec("8.4")
def test_a_script_is_run_from_a_private_folder_that_is_gone_afterwards(
    content: Path,
) -> None:
    with prepare(ask(content), SSH_AUTH_SOCK="/agent", LANG="C") as ready:
        command = ready.command
        script = Path(command.words[-1])

        assert script.read_text() == "echo hello\n"
        assert script.parts[-3:] == ("skill", "scripts", "check.sh")
        home = command.working_directory
        assert home.is_dir()
        assert list(home.iterdir()) == []

    assert command.words[:-1] == (shutil.which("bash"),)
    assert command.timeout_seconds == 60
    assert command.max_output_bytes == 1_048_576
    names = {"HOME", "TMPDIR", "TEMP", "TMP", "USERPROFILE"}
    assert command.environment == {
        **dict.fromkeys(names, str(home)),
        "PATH": os.environ["PATH"],
        "LANG": "C",
        "UV_OFFLINE": "1",
        "NPM_CONFIG_OFFLINE": "true",
        "SKILL_ARG_TARGET": "x",
        "SKILL_DIR": str(content / "ui/auth"),
    }
    assert not home.parent.exists()


def test_the_folder_is_for_our_account_alone(content: Path) -> None:
    with prepare(ask(content)) as ready:
        folder = ready.command.working_directory.parent

        assert folder.stat().st_mode & 0o777 == 0o700


def test_the_folder_is_gone_also_if_a_script_has_closed_it(content: Path) -> None:
    with prepare(ask(content)) as ready:
        home = ready.command.working_directory
        write(home / "closed/deep/file")
        (home / "closed/deep").chmod(0)
        (home / "closed").chmod(0)

    assert not home.parent.exists()


def test_the_digest_is_that_of_the_bytes_that_run(content: Path) -> None:
    permitted = ask(content)
    write(content / "ui/auth/scripts/check.sh", "echo changed\n")

    with prepare(permitted) as ready:
        data = Path(ready.command.words[-1]).read_bytes()

    assert data == b"echo hello\n"
    assert ready.sha256 == hashlib.sha256(data).hexdigest()


def test_a_script_finds_its_neighbours_beside_itself(content: Path) -> None:
    write(content / "ui/auth/scripts/lib/tool.sh", "tool")
    write(content / "ui/auth/data.txt", "data")
    outside = write(content.parent / "outside.txt", "secret")
    (content / "ui/auth/scripts/link.txt").symlink_to(outside)

    with prepare(ask(content)) as ready:
        folder = Path(ready.command.words[-1]).parent

        assert (folder / "lib/tool.sh").read_text() == "tool"
        assert (folder / "../data.txt").read_text() == "data"
        assert (folder / "../assets/note.md").read_text() == "A note"
        assert not (folder / "link.txt").exists()
        assert not (folder / "check.sh").is_symlink()


def test_a_runner_that_is_not_installed_is_said(content: Path) -> None:
    with (
        pytest.raises(RunnerNotFoundError, match="'bash' is not installed"),
        prepare(ask(content), PATH="/nowhere"),
    ):
        pass


def test_a_folder_that_cannot_be_made_is_said(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(content / "gone"))

    with pytest.raises(TemporaryFolderError, match="TMPDIR"), prepare(ask(content)):
        pass


def test_a_machine_without_any_temporary_folder_has_a_code_of_its_own(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])

    with pytest.raises(TemporaryFolderError) as raised, prepare(ask(content)):
        pass

    assert raised.value.code == "NO_TEMPORARY_FOLDER"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no tier elsewhere")
def test_what_a_run_may_reach_is_what_it_was_granted(content: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    rules = Scripts(roots=(str(tmp_path),), roots_writable=True)

    for cwd, is_writable in ((project, True), (content / "ui/auth", False)):
        permitted = ask(content, cwd=str(cwd), rules=rules)
        with prepare(permitted, rules=rules) as ready:
            told = " ".join(ready.command.words)

        if ready.command.sandbox == "bubblewrap":
            assert (f"--bind {cwd} {cwd}" in told) == is_writable
            assert (f"--ro-bind {cwd} {cwd}" in told) != is_writable


# --- what killed servers leave behind ---------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a temporary folder of the system in which this server is new."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    remove_stale_folders.cache_clear()
    yield folder
    remove_stale_folders.cache_clear()


def left(temporary: Path, name: str, *, is_old: bool = True) -> Path:
    """Return a folder as a run has it."""
    folder = temporary / name
    write(folder / "lock")
    write(folder / "home/deep/file")
    if is_old:
        os.utime(folder, (0, 0))
    return folder


def test_what_a_killed_server_has_left_is_removed(temporary: Path) -> None:
    folder = left(temporary, "skills-mcp-run-abc")

    with make_private_folder():
        pass

    assert not folder.exists()


def test_what_another_server_uses_stays(temporary: Path) -> None:
    folder = left(temporary, "skills-mcp-run-abc")

    with acquire_lock(folder / "lock"), make_private_folder():
        pass

    assert folder.exists()


def test_what_is_new_or_not_ours_stays(temporary: Path) -> None:
    new = left(temporary, "skills-mcp-run-new", is_old=False)
    other = left(temporary, "of-another-program")
    (other / "lock").unlink()
    os.utime(other, (0, 0))
    link = temporary / "skills-mcp-run-link"
    link.symlink_to(other)

    with make_private_folder():
        pass

    assert new.exists()
    assert other.exists()


def test_a_run_holds_its_folder_until_it_is_over(temporary: Path) -> None:
    with make_private_folder() as folder:
        assert folder.path.parent == temporary
        os.utime(folder.path, (0, 0))
        remove_stale_folders.cache_clear()
        with make_private_folder() as other:
            assert folder.home.is_dir()
            assert other.path != folder.path

    assert list(temporary.iterdir()) == []
