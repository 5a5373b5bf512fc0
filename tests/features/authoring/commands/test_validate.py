"""`skills-mcp validate`: lines for people, JSON for programs, codes for both."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.packages import write_package
from tests.support import PROJECT, run_python, write, write_skill


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with an error and a warning in `skills`."""
    write_package(tmp_path, "skills/good")
    write_package(tmp_path, "skills/bad", description="x" * 1025, body="[x](gone.md)")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_finding_is_a_line_that_a_terminal_can_open(invoke: Run, content: Path) -> None:
    done = invoke("validate", "skills")

    error, warning, summary = done.stdout.splitlines()
    file = Path("skills/bad/SKILL.md")
    assert error.startswith(f"{file}:3: error[description-length] has a description of")
    assert "Keep what it does" in error
    assert warning.startswith(f"{file}:6: warning[link-broken] links to 'gone.md'")
    assert summary == "2 skills, 1 error, 1 warning"
    assert done.stderr == ""
    assert content.is_dir()


def test_a_file_elsewhere_is_shown_with_its_whole_path(
    invoke: Run, content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)

    done = invoke("validate", str(content))

    assert done.stdout.startswith(str(content / "skills" / "bad" / "SKILL.md"))


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize(
    "arguments, code",
    [
        (["skills/good"], 0),
        (["skills/good", "--strict"], 0),
        (["skills/bad"], 1),
        (["skills"], 1),
        (["skills", "--json"], 1),
        (["nothing"], 2),
        ([], 1),
    ],
)
def test_the_exit_code_says_how_it_ended(invoke: Run, arguments: list[str], code: int) -> None:
    assert invoke("validate", *arguments).returncode == code


def test_warnings_fail_only_if_somebody_is_strict(invoke: Run, tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", body="[x](gone.md)")

    assert invoke("validate", str(tmp_path / "pdf")).returncode == 0
    assert invoke("validate", "--strict", str(tmp_path / "pdf")).returncode == 1


@pytest.mark.usefixtures("content")
def test_a_path_that_does_not_exist_is_named(invoke: Run) -> None:
    done = invoke("validate", "skills", "nothing")

    assert "Path 'nothing' does not exist" in done.stderr
    assert done.stdout == ""


@pytest.mark.usefixtures("content")
def test_programs_get_one_object(invoke: Run) -> None:
    done = invoke("validate", "--json", "skills", "skills/good/SKILL.md")

    data = json.loads(done.stdout)
    keys = ["problems", "skills", "errors", "warnings", "rules", "known", "gone"]
    keys += ["fixed"]
    assert list(data) == keys
    assert data["rules"] == {"description-length": 1, "link-broken": 1}
    assert (data["skills"], data["errors"], data["warnings"]) == (2, 1, 1)
    first, _ = data["problems"]
    assert list(first) == ["file", "line", "rule", "level", "reason", "hint"]
    assert (first["file"], first["line"]) == (os.fspath(Path("skills/bad/SKILL.md")), 3)
    assert (first["rule"], first["level"]) == ("description-length", "error")


def test_rule_files_are_checked_too(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "good.md")
    write(tmp_path / "bad.md", "no [bold]frontmatter")

    done = invoke("validate", str(tmp_path))

    assert "bad.md:1: error[no-frontmatter] has no frontmatter" in done.stdout
    assert "1 skill, 1 error, 0 warnings" in done.stdout


def test_what_a_file_says_cannot_steer_the_terminal(invoke: Run, tmp_path: Path) -> None:
    text = '---\nname: pdf\ndescription: x\n"a\\e[2Jb": 1\n---\n[x](<\x1b[2J.md>)\n'
    write(tmp_path / "pdf/SKILL.md", text)

    done = invoke("validate", str(tmp_path / "pdf"))

    assert "unknown-key" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.usefixtures("started_anew")
def test_nothing_of_mcp_or_the_network_is_loaded(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf")
    code = """
import sys
from skills_mcp.cli import program
try:
    program(["validate", sys.argv[1]])
finally:
    print(sorted({"mcp", "httpx", "git"} & set(sys.modules)))
"""

    assert run_python(code, tmp_path / "pdf").endswith("[]")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_terminal_gets_colours_and_whole_lines(content: Path) -> None:
    shown = in_terminal("validate", "skills")

    assert "\x1b[1;31merror[description-length]" in shown
    assert "\x1b[33mwarning[link-broken]" in shown
    assert "SKILL.md:3: " in shown
    *_, printed = shown.rpartition("\x1b[2K")  # on a busy machine a bar comes first
    assert len(printed.splitlines()) == 3
    assert content.is_dir()


def in_terminal(*arguments: str) -> str:
    """Return what the program prints in a narrow terminal of its own."""
    import pty  # not on Windows

    program = [sys.executable, "-m", "skills_mcp", *arguments]
    process, terminal = pty.fork()
    if process == 0:
        settings = {"TERM": "xterm", "COLUMNS": "40"}
        os.execve(sys.executable, program, os.environ | settings)  # noqa: S606 - no shell is wanted
    shown = b""
    while part := _read(terminal):
        shown += part
    os.waitpid(process, 0)
    os.close(terminal)
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so when the other end is closed
        return b""


def test_what_belongs_to_stale_skills_is_refused_without_them(invoke: Run, content: Path) -> None:
    due = write_skill(content, "skills/due.md", review_by="2020-01-31")

    done = invoke("validate", str(due))
    stale = invoke("validate", str(due), "--stale")
    refused = invoke("validate", str(due), "--project", str(content))
    unknown = invoke("validate", str(due), "--stale", "--project", str(content))

    assert "review-overdue" not in done.stdout
    assert "warning[review-overdue] was to be read again by 2020-01-31 (owner: none" in stale.stdout
    assert refused.returncode == 2
    assert "--stale" in refused.stderr
    assert unknown.returncode
    assert "no work tree of Git" in unknown.stderr
