"""`skills-mcp install --hook`: the hooks of hosts, and what else is in their files."""

import json
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.features.hosts.host import find_host
from tests.cli.conftest import Run
from tests.support import SKILLS_CONTENT, write

CONTENT = ("--skills-dir", str(SKILLS_CONTENT))

USER_FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "copilot": ".copilot/hooks/skills.json",
}
PROJECT_FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "copilot": ".github/hooks/skills.json",
}
EVENTS = {
    "claude-code": ["UserPromptSubmit", "PreCompact", "SessionStart"],
    "codex": ["UserPromptSubmit", "SessionStart"],
    "gemini": ["BeforeAgent", "PreCompress"],
    "copilot": ["userPromptSubmitted", "preCompact"],
}

every_host = pytest.mark.parametrize("host", EVENTS)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project to work in, without a host that is configured elsewhere."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def install(invoke: Run, *words: str) -> str:
    done = invoke("install", *words, "--yes")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def read_hooks(file: Path) -> dict[str, Any]:
    hooks: dict[str, Any] = json.loads(file.read_text())["hooks"]
    return hooks


@every_host
@pytest.mark.parametrize("scope", ["user", "project"])
def test_each_host_gets_its_events_and_loses_them_again(
    invoke: Run, home: Path, project: Path, host: str, scope: str
) -> None:
    words = ("--client", host, "--scope", scope, *CONTENT)
    file = home / USER_FILES[host] if scope == "user" else project / PROJECT_FILES[host]

    said = install(invoke, *words, "--hook")
    hooks = read_hooks(file)
    again = install(invoke, *words, "--hook")
    install(invoke, "--client", host, "--scope", scope, "--remove")

    assert list(hooks) == EVENTS[host]
    assert "the hooks." in said
    assert ("Trust them in /hooks" in said) is (host == "codex")
    text = json.dumps(hooks)
    assert text.count(f"hook {host}") == len(EVENTS[host])
    assert ("--skills-dir" in text) is (scope == "project")  # as its entry has it
    assert "already" in again
    assert not file.exists()


@every_host
def test_the_hooks_of_a_person_stay_as_they_are(invoke: Run, home: Path, host: str) -> None:
    theirs: dict[str, Any]
    theirs = {"hooks": {EVENTS[host][0]: [{"hooks": [{"type": "command", "command": "lint"}]}]}}
    theirs = {"version": 1, **theirs} if host == "copilot" else theirs
    before = json.dumps(theirs, indent=2) + "\n"
    file = write(home / USER_FILES[host], before)

    install(invoke, "--client", host, *CONTENT, "--hook")
    both = read_hooks(file)[EVENTS[host][0]]
    install(invoke, "--client", host, "--remove")

    assert [f"hook {host}" in json.dumps(entry) for entry in both] == [False, True]
    assert json.loads(file.read_text()) == theirs


def test_another_source_replaces_the_hooks(invoke: Run, project: Path, tmp_path: Path) -> None:
    other = ("--skills-dir", str(write(tmp_path / "other/a.md", "x").parent))
    shared = ("--client", "claude-code", "--scope", "project", "--hook")

    install(invoke, *shared, *CONTENT)
    install(invoke, *shared, *other)

    text = json.dumps(read_hooks(project / ".claude/settings.json"))
    assert text.count("hook claude-code") == text.count(other[1]) == 3


def test_a_host_without_such_hooks_gets_the_entry_and_is_named(invoke: Run, home: Path) -> None:
    said = install(invoke, "--client", "cursor", *CONTENT, "--hook")

    assert "Cursor has no hook that can add to its context" in said
    assert (home / ".cursor/mcp.json").is_file()


def test_print_shows_the_hooks_and_writes_nothing(invoke: Run, home: Path) -> None:
    done = invoke("install", "--client", "claude-code", *CONTENT, "--hook", "--print")

    assert '"PreCompact"' in done.stdout
    assert f"add to {home / '.claude/settings.json'}" in done.stderr
    assert not (home / ".claude/settings.json").exists()


def test_a_moved_folder_of_claude_code_has_the_hooks(home: Path) -> None:
    host, moved = find_host("claude-code"), {"CLAUDE_CONFIG_DIR": str(home / "moved")}

    assert host.find_hook_file("user", moved, home) == home / "moved/settings.json"


@pytest.mark.parametrize(
    "words", [("--remove",), ("--http", "https://h/mcp"), ("--plugin", "gemini", "--to", "p")]
)
def test_hooks_need_an_entry_on_this_machine(invoke: Run, words: tuple[str, ...]) -> None:
    done = invoke("install", "--client", "gemini", "--hook", *words)

    assert done.returncode == 2
    assert "--hook excludes" in done.stderr


def test_a_file_that_is_not_fit_stays_as_it_is(invoke: Run, home: Path) -> None:
    file = write(home / ".claude/settings.json", '{"hooks": ["odd"]}')

    refused = invoke("install", "--client", "claude-code", *CONTENT, "--hook", "--yes")
    removed = invoke("install", "--client", "claude-code", "--remove", "--yes")

    assert refused.returncode == 1
    assert "cannot be edited" in refused.stderr
    assert removed.returncode == 0
    assert file.read_text() == '{"hooks": ["odd"]}'
