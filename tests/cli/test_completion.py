"""`skills-mcp completion`: what shells complete, in real shells."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.docs.pages import DOCS, code, section, table

PAGE = DOCS / "how-to" / "shell-completion.md"

needs_bash = pytest.mark.skipif(
    sys.platform == "win32" or not shutil.which("bash"), reason="needs Bash"
)


@pytest.fixture(autouse=True)
def _program(shell_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", shell_path)


def complete(script: Path, *words: str) -> list[str]:
    """Return what Bash offers for the last of some words."""
    typed = " ".join(f"'{word}'" for word in words)
    steps = (
        f"source {script}",
        "compopt() { :; }",  # only a real completion has it
        f"COMP_WORDS=({typed})",
        f"COMP_CWORD={len(words) - 1}",
        "_skills_mcp_completion skills-mcp",
        r'printf "%s\n" "${COMPREPLY[@]}"',
    )
    done = subprocess.run(
        ["bash", "-c", "\n".join(steps)],
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stderr == ""
    return done.stdout.split()


@needs_bash
def test_bash_completes_commands_options_and_values(invoke: Run, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(invoke("completion", "bash").stdout)

    assert complete(script, "skills-mcp", "sta") == ["status"]
    assert "rollback" in complete(script, "skills-mcp", "")
    assert complete(script, "skills-mcp", "tree", "--dep") == ["--depth"]
    clients = complete(script, "skills-mcp", "install", "--client", "cl")
    assert clients == ["claude-code"]


@pytest.mark.parametrize("row", table(section(PAGE, "## Install it")), ids=str)
def test_the_script_is_written_where_the_page_says(
    invoke: Run, home: Path, row: dict[str, str]
) -> None:
    shell, file = code(row["Shell"]), home / code(row["File"]).removeprefix("~/")
    clean = {"XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}

    done = invoke("completion", "--install", SHELL=f"/usr/bin/{shell}", **clean)

    assert done.returncode == 0
    assert str(file) in done.stdout
    assert file.read_text() == invoke("completion", shell).stdout


def test_a_shell_that_cannot_do_it_is_told_which_can(invoke: Run) -> None:
    done = invoke("completion", SHELL="/bin/tcsh")

    assert done.returncode == 2
    assert "Name your shell: bash, zsh, fish." in done.stderr
