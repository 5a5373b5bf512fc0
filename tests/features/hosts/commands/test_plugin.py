"""`skills-mcp install --plugin`: a folder with the server, the hook and the command."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support import write

REPO = "https://github.com/acme/skills.git"
HOSTS = ("claude-code", "gemini")


def make(invoke: Run, host: str, folder: Path, *options: str) -> None:
    options = options or ("--repo", REPO)
    done = invoke("install", "--plugin", host, "--to", str(folder), *options)
    assert done.returncode == 0, done.stderr


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def read_command(folder: Path) -> list[str]:
    """Return the words of the hook."""
    events = read(folder, "hooks/hooks.json")["hooks"].values()
    [command] = {event[0]["hooks"][0]["command"] for event in events}
    return shlex.split(command)


def test_a_plugin_of_claude_code(invoke: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plugin"

    make(invoke, "claude-code", folder)

    manifest = read(folder, ".claude-plugin/plugin.json")
    [listed] = read(folder, ".claude-plugin/marketplace.json")["plugins"]
    server = read(folder, ".mcp.json")["mcpServers"]["skills"]
    command = (folder / "commands/skill.md").read_text()
    assert manifest["name"] == listed["name"] == "skills"
    assert manifest["version"] == listed["version"]
    assert server["command"] == "skills-mcp"
    assert server["args"] == ["--repo", REPO]
    assert read_command(folder) == ["skills-mcp", "hook", "claude-code", "--repo", REPO]
    assert list(read(folder, "hooks/hooks.json")["hooks"]) == [
        "UserPromptSubmit",
        "PreCompact",
        "SessionStart",
    ]
    assert command.startswith("---\ndescription: ")
    assert "get_skill" in command
    assert "$ARGUMENTS" in command


def test_an_extension_of_gemini_cli(invoke: Run, tmp_path: Path) -> None:
    folder = tmp_path / "skills"

    make(invoke, "gemini", folder)

    manifest = read(folder, "gemini-extension.json")
    command = tomllib.loads((folder / "commands/skill.toml").read_text())
    assert manifest["name"] == "skills"
    assert manifest["mcpServers"]["skills"]["args"] == ["--repo", REPO]
    assert read_command(folder) == ["skills-mcp", "hook", "gemini", "--repo", REPO]
    assert list(read(folder, "hooks/hooks.json")["hooks"]) == ["BeforeAgent", "PreCompress"]
    assert "{{args}}" in command["prompt"]
    assert command["description"]


def test_an_extension_names_the_variables_that_it_needs(invoke: Run, tmp_path: Path) -> None:
    done = invoke(
        *("install", "--plugin=gemini", f"--to={tmp_path / 'e'}", "--repo", REPO),
        GITHUB_TOKEN="x" * 9,
    )

    [setting] = read(tmp_path / "e", "gemini-extension.json")["settings"]
    assert done.returncode == 0
    assert (setting["envVar"], setting["sensitive"]) == ("GITHUB_TOKEN", True)
    assert "x" * 9 not in (tmp_path / "e/gemini-extension.json").read_text()


@pytest.mark.parametrize("host", HOSTS)
def test_it_says_how_to_use_the_plugin(invoke: Run, tmp_path: Path, host: str) -> None:
    folder = tmp_path / "my plugin"
    done = invoke("install", "--plugin", host, "--to", str(folder), "--repo", REPO)

    assert str(folder / "hooks/hooks.json") in done.stdout
    assert f"'{folder}'" in done.stdout
    assert "install" in done.stdout


@pytest.mark.parametrize("host", HOSTS)
def test_a_relative_folder_is_no_repository_to_its_host(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.chdir(tmp_path)

    done = invoke("install", "--plugin", host, "--to", "acme/skills", "--repo", REPO)

    assert f" {shlex.quote(str(tmp_path / 'acme/skills'))}\n" in done.stdout


@pytest.mark.parametrize("host", HOSTS)
def test_another_version_replaces_the_one_before_if_it_may(
    invoke: Run, tmp_path: Path, host: str
) -> None:
    folder = tmp_path / "plugin"
    make(invoke, host, folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    make(invoke, host, folder)  # the same again is no change
    words = ("install", "--plugin", host, "--to", str(folder), "--repo", f"{REPO}2")

    refused = invoke(*words)
    unchanged = {file: file.read_bytes() for file in before}
    replaced = invoke(*words, "--yes")

    assert refused.returncode == 1
    assert "Call it again with --yes" in refused.stderr
    assert unchanged == before
    assert replaced.returncode == 0
    assert read_command(folder)[-1] == f"{REPO}2"


def test_the_version_is_another_one_if_the_server_is(invoke: Run, tmp_path: Path) -> None:
    make(invoke, "gemini", tmp_path / "a")
    make(invoke, "gemini", tmp_path / "b", "--repo", f"{REPO}2")

    versions = {read(tmp_path / n, "gemini-extension.json")["version"] for n in "ab"}
    assert len(versions) == 2


@pytest.mark.parametrize("host", HOSTS)
def test_a_folder_with_other_files_is_left_alone(invoke: Run, tmp_path: Path, host: str) -> None:
    write(tmp_path / "mine/README.md", "mine")

    done = invoke(
        *("install", "--plugin", host, "--to", str(tmp_path / "mine")),
        *("--repo", REPO, "--yes"),
    )

    assert done.returncode == 1
    assert "holds other files" in done.stderr
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["README.md"]


@pytest.mark.parametrize("host", HOSTS)
def test_a_plugin_of_a_server_at_a_url_has_no_hook(invoke: Run, tmp_path: Path, host: str) -> None:
    folder = tmp_path / "plugin"
    url = "https://skills.acme.com/mcp"
    make(invoke, host, folder)

    make(invoke, host, folder, "--http", url, "--yes")

    texts = "".join(f.read_text() for f in folder.rglob("*.json"))
    assert url in texts
    assert not (folder / "hooks/hooks.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--plugin", "gemini"),
        ("--to", "x"),
        ("--plugin", "gemini", "--to", "x", "--client", "codex"),
        ("--plugin", "gemini", "--to", "x", "--print"),
    ],
)
def test_a_plugin_needs_a_folder_and_no_client(invoke: Run, arguments: tuple[str, ...]) -> None:
    assert invoke("install", *arguments, "--repo", REPO).returncode == 2


def test_programs_get_the_files_and_how_to_use_them(invoke: Run, tmp_path: Path) -> None:
    options = ("--to", str(tmp_path / "plugin"), "--repo", REPO, "--json")

    done = invoke("install", "--plugin", "gemini", *options)

    told = json.loads(done.stdout)
    assert [Path(file).is_file() for file in told["files"]] == [True] * 3
    assert told["commands"]
