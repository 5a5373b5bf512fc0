"""`skills-mcp install`: the files of hosts, and what else is in them."""

import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from skills_mcp.about import compose_requirement
from skills_mcp.features.hosts import config_edits
from skills_mcp.features.hosts.host import HOSTS, Host
from tests.cli.conftest import Run
from tests.http_server import served
from tests.support import PATIENCE_SECONDS, SKILLS_CONTENT, Upstream, skill_text, write

REPO = "https://github.com/acme/skills.git"

every_host = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)

USER_FILES = {
    "claude-code": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "opencode": ".config/opencode/opencode.jsonc",
    "copilot": ".copilot/mcp-config.json",
}
PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "opencode": "opencode.jsonc",
    "copilot": ".github/mcp.json",
}
SECTIONS = {"codex": "mcp_servers", "vscode": "servers", "opencode": "mcp"}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project to work in, and a PATH without any host."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("SKILLS_MCP_OFFLINE", "1")  # no test waits for a host that is not there
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def read_entries(file: Path, host: str) -> dict[str, Any]:
    text = file.read_text()
    parsed = tomllib.loads(text) if file.suffix == ".toml" else parse_json(text)
    entries: dict[str, Any] = parsed[SECTIONS.get(host, "mcpServers")]
    return entries


def parse_json(text: str) -> dict[str, Any]:
    return config_edits.parse_json_text(text)


def parse_printed(text: str) -> list[dict[str, Any]]:
    """The entries that `--print` shows in JSON, below the settings."""
    _, *entries = text.split("\n\n")
    return [json.loads(each)["mcpServers"]["skills"] for each in entries]


@every_host
def test_a_host_gets_an_entry_in_the_file_that_it_reads(
    invoke: Run, home: Path, project: Path, host: Host
) -> None:
    mine = invoke("install", "--client", host.name, "--repo", REPO, "--yes")
    ours = ["--client", host.name, "--scope", "project", "--repo", REPO, "--yes"]
    shared = invoke("install", *ours)

    assert (mine.returncode, shared.returncode) == (0, 0), mine.stderr + shared.stderr
    own = read_entries(home / USER_FILES[host.name], host.name)["skills"]
    other = read_entries(project / PROJECT_FILES[host.name], host.name)["skills"]
    command = [own["command"]] if isinstance(own["command"], str) else own["command"]
    words = [*command, *own.get("args", [])]
    assert Path(words[0]).is_absolute()
    assert not {"--repo", REPO} & {*words}
    assert "skills-mcp" in (other["command"], other["command"][0])
    assert REPO in [*other["command"], *other.get("args", [])]


@every_host
def test_what_install_has_written_remove_takes_out(invoke: Run, home: Path, host: Host) -> None:
    file = home / USER_FILES[host.name]
    comment = "" if "comments" in host.refused.get("user", ()) else "// mine"
    text = '# mine\nmodel = "x"\n' if host.is_toml else f'{{\n  {comment}\n  "mine": 1\n}}\n'
    write(file, text)
    file.chmod(0o640)
    client = ("--client", host.name)

    invoke("install", *client, "--repo", REPO, "--yes")
    installed = file.read_text()
    done = invoke("install", *client, "--remove", "--yes")
    again = invoke("install", *client, "--remove", "--yes")

    assert "skills-mcp" in installed
    assert "mine" in installed
    assert done.returncode == 0
    assert file.read_text() == text
    assert file.stat().st_mode & 0o777 == 0o640
    assert not (home / ".skills-mcp/config.yaml").exists()
    assert "has no entry" in again.stdout


@every_host
def test_a_file_that_install_has_made_is_deleted_by_remove(
    invoke: Run, home: Path, host: Host
) -> None:
    file = home / USER_FILES[host.name]

    invoke("install", "--client", host.name, "--repo", REPO, "--yes")
    mode = file.stat().st_mode & 0o777
    done = invoke("install", "--client", host.name, "--remove", "--yes")

    assert mode == 0o600
    assert not file.exists()
    assert f"{file} was deleted" in done.stdout


@every_host
def test_a_server_at_a_url_needs_no_source(invoke: Run, home: Path, host: Host) -> None:
    url = "https://skills.acme.invalid/mcp"

    done = invoke("install", "--client", host.name, "--http", url, "--yes")

    assert done.returncode == 0
    entry = read_entries(home / USER_FILES[host.name], host.name)["skills"]
    assert entry["url"] == url
    assert "command" not in entry


def test_an_address_at_which_no_mcp_is_served_is_not_written(invoke: Run, home: Path) -> None:
    ours = ("install", "--client=cursor", "--http")
    with served() as server:
        root = server.url.removesuffix("/mcp")
        refused = [
            invoke(*ours, f"{root}{path}", "--yes", SKILLS_MCP_OFFLINE="")
            for path in ("", "/", "/sse")
        ]
        is_written = (home / ".cursor").exists()
        taken = invoke(*ours, f"{root}/mcp/", "--yes", SKILLS_MCP_OFFLINE="")

    assert {done.returncode for done in refused} == {3}
    assert all("MCP is served at /mcp" in done.stderr for done in refused)
    assert not is_written
    assert (taken.returncode, taken.stderr) == (0, "")


@every_host
def test_print_shows_the_entry_and_writes_nothing(invoke: Run, home: Path, host: Host) -> None:
    done = invoke("install", "--client", host.name, "--repo", REPO, "--print")

    settings, _, entry = done.stdout.partition("\n\n")
    parsed = (tomllib if host.is_toml else json).loads(entry)
    assert "skills" in parsed[SECTIONS.get(host.name, "mcpServers")]
    assert yaml.safe_load(settings) == {"sources": [{"repo": REPO}]}
    assert str(home / USER_FILES[host.name]) in done.stderr
    assert not (home / USER_FILES[host.name]).exists()
    assert not (home / ".skills-mcp/config.yaml").exists()


def test_beside_other_settings_the_options_are_in_the_entry(
    invoke: Run, home: Path, project: Path
) -> None:
    (project / "skills").mkdir()
    options = ["--subfolder", "teams/web", "--plugins", "a,b", "--everywhere"]
    switches = ["--discover", "--offline"]
    settings = write(project / "mine.yaml", "{}")

    done = invoke(
        *("install", "--client=cursor", "--skills-dir", "skills", *options, *switches),
        *("--config", "mine.yaml", "--yes"),
    )

    assert done.returncode == 0, done.stderr
    entry = read_entries(home / ".cursor/mcp.json", "cursor")["skills"]
    assert entry["args"][-11:] == [
        *("--skills-dir", str(project / "skills"), "--subfolder", "teams/web"),
        *("--plugins", "a,b", "--config", str(settings)),
        *("--discover", "--offline", "--everywhere"),
    ]


def test_variables_are_named_and_their_values_left_out(invoke: Run, home: Path) -> None:
    secret = "ghp_" + "x" * 36
    names = ("codex", "gemini", "cursor", "copilot", "vscode")
    clients = [f"--client={name}" for name in names]

    done = invoke("install", *clients, "--repo", REPO, "--yes", GITHUB_TOKEN=secret)

    files = {name: home / USER_FILES[name] for name in names}
    texts = {name: file.read_text() for name, file in files.items()}
    entries = {n: read_entries(files[n], n)["skills"] for n in names}
    named = {n: each.get("env", {}).get("GITHUB_TOKEN") for n, each in entries.items()}
    assert secret not in done.stdout + "".join(texts.values())
    assert "GITHUB_TOKEN" in entries["codex"]["env_vars"]
    assert named == {
        "codex": None,
        "gemini": "${GITHUB_TOKEN:-}",
        "cursor": "${env:GITHUB_TOKEN}",
        "copilot": None,  # a server of these two gets the whole environment
        "vscode": None,
    }


def test_a_project_gets_no_variable_that_only_one_person_has_set(
    invoke: Run, project: Path
) -> None:
    clients = ("--client=codex", "--client=gemini", "--scope=project")

    done = invoke(
        *("install", *clients, "--repo", REPO, "--yes"),
        NO_PROXY="a.example",
        SSH_AUTH_SOCK="/run/agent",
    )

    assert done.returncode == 0
    codex = read_entries(project / ".codex/config.toml", "codex")["skills"]
    gemini = read_entries(project / ".gemini/settings.json", "gemini")["skills"]
    assert codex["env_vars"] == ["SSH_AUTH_SOCK"]
    assert gemini["env"] == {"SSH_AUTH_SOCK": "${SSH_AUTH_SOCK:-}"}


def test_only_codex_is_told_to_pass_on_the_variables_of_a_session(invoke: Run, home: Path) -> None:
    clients = ("--client=codex", "--client=gemini")

    done = invoke(
        *("install", *clients, "--repo", REPO, "--yes"),
        XDG_RUNTIME_DIR="/run/user/7",
        SKILLS_MCP_SHARE="1",
    )

    assert done.returncode == 0
    codex = read_entries(home / ".codex/config.toml", "codex")["skills"]
    gemini = read_entries(home / ".gemini/settings.json", "gemini")["skills"]
    assert {"XDG_RUNTIME_DIR", "SKILLS_MCP_SHARE"} <= {*codex["env_vars"]}
    assert "XDG_RUNTIME_DIR" not in gemini["env"]
    assert gemini["env"]["SKILLS_MCP_SHARE"] == "${SKILLS_MCP_SHARE:-}"


def test_an_update_keeps_what_a_person_has_added(invoke: Run, home: Path) -> None:
    file = write(
        home / ".cursor/mcp.json",
        '{\n  "mcpServers": {\n    "skills": {\n      "command": "skills-mcp",\n'
        '      "args": ["--repo", "old"],\n      "env": {"A": "1", "SKILLS_DIR": "old",\n'
        '        "SKILLS_BRANCH": "old"},\n'
        '      "timeout": 9\n    }\n  }\n}\n',
    )

    invoke(
        "install",
        "--client",
        "cursor",
        "--repo",
        REPO,
        "--yes",
        NO_PROXY="a.example",
    )
    again = invoke(
        *("install", "--client", "cursor", "--repo", REPO, "--yes"),
        NO_PROXY="a.example",
    )

    entry = read_entries(file, "cursor")["skills"]
    assert "old" not in [*entry["args"], *entry["env"].values()]
    assert entry["timeout"] == 9
    assert entry["env"].keys() >= {"A", "NO_PROXY"}
    assert "has the entry already" in again.stdout


def test_a_program_that_uvx_has_started_is_started_by_uvx(
    invoke: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = home / ".cache/uv/archive-v0/x/bin/skills-mcp"
    monkeypatch.setattr("sys.argv", [str(passing)])

    done = invoke("install", "--client", "cursor", "--repo", REPO, "--print")

    [entry] = parse_printed(done.stdout)
    assert entry["command"] == "uvx"
    assert entry["args"] == ["--from", compose_requirement(), "skills-mcp", "--offline"]


def test_a_program_that_is_installed_is_named_by_its_path(
    invoke: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write(home / ".local/bin/skills-mcp")
    monkeypatch.setattr("sys.argv", [str(program)])

    done = invoke("install", "--client", "cursor", "--repo", REPO, "--print")

    [entry] = parse_printed(done.stdout)
    assert entry["command"] == str(program)


def test_clients_are_found_by_their_folders(invoke: Run, home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".config/other").mkdir(parents=True)
    write(home / ".claude.json", "{}")

    done = invoke("install", "--skills-dir", str(SKILLS_CONTENT), "--yes", PATH="/nowhere")

    assert "Claude Code: " in done.stdout
    assert "Codex: " in done.stdout
    assert not {"Gemini CLI:", "OpenCode:"} & {*done.stdout.splitlines()}
    assert "Try it in your agent" in done.stdout
    assert "Northwind" not in done.stdout.splitlines()[-1]  # of the rules for every task
    assert "skills-mcp" in (home / ".codex/config.toml").read_text()


def test_without_any_client_it_names_those_that_are_known(invoke: Run) -> None:
    done = invoke("install", "--repo", REPO, PATH="/nowhere")

    assert done.returncode == 1
    assert "--client: claude-code, codex, gemini" in done.stderr


def test_without_a_terminal_nothing_is_changed(invoke: Run, home: Path) -> None:
    done = invoke("install", "--client", "cursor", "--repo", REPO)

    assert done.returncode == 1
    assert '+  "mcpServers": {' in done.stdout
    assert "call it again with --yes" in done.stderr
    assert not (home / ".cursor").exists()


@pytest.mark.parametrize("answer, is_written", [("y\n", True), ("n\n", False)])
def test_on_a_terminal_it_asks_first(
    home: Path,
    answer: str,
    is_written: bool,  # noqa: FBT001
) -> None:
    ours, theirs = pty.openpty()
    words = ("install", "--client", "cursor", "--repo", REPO)
    with subprocess.Popen(
        [sys.executable, "-m", "skills_mcp", *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        os.write(ours, answer.encode())
        printed, _ = process.communicate(timeout=PATIENCE_SECONDS)
    os.close(ours)
    os.close(theirs)

    assert "Change these 2 files?" in printed
    assert (process.returncode == 0) is is_written
    assert (home / ".cursor/mcp.json").exists() is is_written


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"mcpServers": {', "cannot be edited, as Cursor would not read it either"),
        ('{"mcpServers": []}', "mcpServers is no table"),
        (b"\xff\xfe{", "cannot be read"),
        (
            '{"mcpServers": {"skills": {"command": "npx", "args": ["other"]}}}',
            "another server with the name 'skills', which starts npx",
        ),
    ],
)
def test_a_file_that_is_not_fit_stays_as_it_is(
    invoke: Run, home: Path, text: str | bytes, said: str
) -> None:
    file = write(home / ".cursor/mcp.json", text)
    before = file.read_bytes()

    done = invoke("install", "--client", "cursor", "--repo", REPO, "--yes")

    assert done.returncode == 1
    assert said in done.stderr
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "host, text, said",
    [
        ("claude-code", "{} // mine", "it has comments"),
        ("claude-code", '{"a": 1,}', "it has trailing commas"),
        ("gemini", "\ufeff{}", "it has a byte order mark"),
        ("gemini", '{"a": 1,}', "it has trailing commas"),
        ("copilot", "/* mine */ {}", "it has comments"),
    ],
)
def test_a_file_that_its_host_cannot_parse_is_not_edited(
    invoke: Run, project: Path, host: str, text: str, said: str
) -> None:
    file = write(project / PROJECT_FILES[host], text)

    done = invoke("install", f"--client={host}", "--scope=project", "--repo", REPO, "--yes")

    assert done.returncode == 1
    assert said in done.stderr
    assert file.read_text() == text


def test_another_name_stands_beside_a_server_of_the_same_name(invoke: Run, home: Path) -> None:
    entry = '{"mcpServers": {"skills": {"command": "npx", "args": ["other"]}}}'
    file = write(home / ".cursor/mcp.json", entry)

    invoke("install", "--client=cursor", "--repo", REPO, "--name", "acme", "--yes")

    assert read_entries(file, "cursor").keys() == {"skills", "acme"}
    invoke("install", "--client=cursor", "--name", "acme", "--remove", "--yes")
    assert file.read_text() == entry


def test_a_linked_file_stays_a_link(invoke: Run, home: Path, tmp_path: Path) -> None:
    there = write(tmp_path / "dotfiles/mcp.json", "{}")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(there)

    invoke("install", "--client", "cursor", "--repo", REPO, "--yes")

    assert (home / ".cursor/mcp.json").is_symlink()
    assert "skills-mcp" in there.read_text()


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        ((), 3, "Set SKILLS_REPO"),
        (("--repo", "https://ghp_secret@github.com/a/b"), 3, "The entry names that"),
        (("--http", "skills.acme.com"), 2, "--http takes a URL"),
        (("--remove", "--http", "https://a/mcp"), 2, "--remove excludes"),
        (("--client", "emacs"), 2, "'emacs' is not one of 'claude-code'"),
    ],
)
def test_an_entry_that_could_not_work_is_not_written(
    invoke: Run, home: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    done = invoke("install", "--client", "cursor", "--yes", *arguments)

    assert done.returncode == status
    assert said.lower() in done.stderr.lower()
    assert not (home / ".cursor").exists()


def test_the_entry_starts_a_server(invoke: Run, home: Path) -> None:
    invoke("install", "--client=cursor", "--skills-dir", str(SKILLS_CONTENT), "--yes")

    entry = read_entries(home / ".cursor/mcp.json", "cursor")["skills"]
    done = subprocess.run(
        [entry["command"], *entry["args"], "--log-level", "info"],
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_programs_get_which_files_have_changed(invoke: Run, home: Path) -> None:
    ours = ("--client", "codex", "--client", "cursor", "--repo", REPO, "--json")

    refused = invoke("install", *ours)
    printed = json.loads(invoke("install", "--print", *ours).stdout)
    before = (home / USER_FILES["codex"]).exists()
    done = json.loads(invoke("install", "--yes", *ours).stdout)
    again = json.loads(invoke("install", *ours).stdout)
    removed = json.loads(invoke("install", "--remove", "--yes", *ours).stdout)

    assert not before
    assert json.loads(refused.stdout)["error"]["code"] == "HOST_FILE_REFUSED"
    assert [each["client"] for each in printed["entries"]] == ["codex", "cursor"]
    assert printed["settings"]["values"] == {"sources": [{"repo": REPO}]}
    assert "mcp_servers" in tomllib.loads(printed["entries"][0]["entry"])
    file = str(home / USER_FILES["codex"])
    assert done["changes"][0] == {
        "client": "codex",
        "file": file,
        "changed": True,
        "deleted": False,
    }
    assert done["settings"]["file"] == str(home / ".skills-mcp/config.yaml")
    assert [each["changed"] for each in again["changes"]] == [False, False]
    assert not again["settings"]["changed"]
    assert removed["settings"]["deleted"]
    assert [each["deleted"] for each in removed["changes"]] == [True, True]


SETTINGS = ".skills-mcp/config.yaml"
MINE = "# mine\nlimits:\n    max_files: 9000   # many\n"


def read_served(invoke: Run) -> int:
    skills: int = json.loads(invoke("sync", "--json").stdout)["skills"]
    return skills


def test_after_it_every_command_serves_the_same_without_options(
    invoke: Run, home: Path, upstream: Upstream
) -> None:
    upstream.commit({"skills/ui/login.md": skill_text(keywords=["login", "page"])})
    write(home / SETTINGS, MINE)

    done = invoke(
        *("install", "--client=cursor", "--client=codex", "--repo", upstream.url, "--yes"),
        SKILLS_MCP_OFFLINE="",
    )

    answers = [
        invoke("tree"),
        invoke("ask", "add a login page"),
        invoke("explain", "add a login page"),
        invoke("status"),
    ]
    assert (done.returncode, done.stderr) == (0, "")
    assert "Codex:\n--- " in done.stdout
    assert "1 skill is ready" in done.stdout
    assert "skills-mcp ask " in done.stdout
    assert MINE in (home / SETTINGS).read_text()
    assert {each.returncode for each in answers} == {0}
    assert all("login" in each.stdout for each in answers[:3])


def test_a_source_that_is_not_there_is_not_written(
    invoke: Run, home: Path, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    folder = str(tmp_path / "skils")
    sources = (
        ("--skills-dir", folder),
        ("--repo", f"{upstream.url}s"),
        ("--repo", upstream.url, "--branch", "mian"),
    )

    refused = [
        invoke("install", "--client=cursor", *source, "--yes", SKILLS_MCP_OFFLINE="")
        for source in sources
    ]

    assert {done.returncode for done in refused} == {4}
    assert folder in refused[0].stderr
    assert not (home / ".cursor").exists()
    assert not (home / SETTINGS).exists()


def test_a_source_that_cannot_be_reached_is_said_before_the_question(
    invoke: Run, home: Path
) -> None:
    away = "http://127.0.0.1:9/skills.git"

    done = invoke("install", "--client=cursor", "--repo", away, SKILLS_MCP_OFFLINE="")

    assert done.stderr.startswith(f"Not checked: {away}")
    assert not (home / ".cursor").exists()


def test_the_source_stays_while_another_host_needs_it(invoke: Run, home: Path) -> None:
    write(home / SETTINGS, MINE)
    both = ("--client=cursor", "--client=codex")
    invoke("install", *both, "--skills-dir", str(SKILLS_CONTENT), "--yes")

    invoke("install", "--client=cursor", "--remove", "--yes")
    kept = (home / SETTINGS).read_text()
    invoke("install", "--client=codex", "--remove", "--yes")

    assert str(SKILLS_CONTENT) in kept
    assert (home / SETTINGS).read_text() == MINE


def test_another_source_replaces_what_install_has_written(
    invoke: Run, home: Path, project: Path
) -> None:
    (project / "skills").mkdir()
    part = ("--subfolder", "teams/web", "--plugins", "a,b", "--everywhere", "--discover")

    invoke("install", "--client=cursor", "--repo", REPO, "--branch", "next", "--yes")
    invoke("install", "--client=cursor", "--skills-dir", "skills", *part, "--yes")

    source = {
        "folder": str(project / "skills"),
        "subfolder": "teams/web",
        "plugins": ["a", "b"],
        "everywhere": True,
    }
    written = yaml.safe_load((home / SETTINGS).read_text())
    assert written == {"discover": True, "sources": [source]}


def test_sources_of_a_person_are_left_to_that_person(invoke: Run, home: Path) -> None:
    own = f"sources:\n  - repo: {REPO}\n    mount: acme\n"
    file = write(home / SETTINGS, own)

    alike = invoke("install", "--client=cursor", "--repo", REPO, "--yes")
    other = invoke("install", "--client=cursor", "--skills-dir", str(SKILLS_CONTENT), "--yes")

    assert alike.returncode == 0
    assert other.returncode == 1
    assert "has sources already" in other.stderr
    assert file.read_text() == own


@pytest.mark.parametrize("text", ["{limits: {}}", "- a\n", "a: [\n"])
def test_settings_that_cannot_be_edited_stay_as_they_are(
    invoke: Run, home: Path, text: str
) -> None:
    file = write(home / SETTINGS, text)

    done = invoke("install", "--client=cursor", "--skills-dir", str(SKILLS_CONTENT), "--yes")

    assert done.returncode in {1, 3}
    assert str(file) in done.stderr
    assert file.read_text() == text
    assert not (home / ".cursor").exists()
