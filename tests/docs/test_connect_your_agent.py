"""The configuration of each host, in that host's format."""

import base64
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from skills_mcp.features.hosts.host import find_host
from skills_mcp.features.hosts.installation import StartedServer, render_entry
from tests.docs.pages import DOCS, Block, blocks_below
from tests.support import PROJECT

CONNECT = DOCS / "how-to" / "connect-your-agent.md"


@dataclass(frozen=True)
class Format:
    """Where a host looks for a server, and the keys that it reads there."""

    heading: str
    language: str
    place: tuple[str, ...]
    required: frozenset[str]
    optional: frozenset[str]
    environment: str = "env"


FORMATS = (
    Format(
        "## Claude Code",
        "json",
        ("mcpServers",),
        frozenset({"command"}),
        frozenset({"type", "args", "env", "timeout"}),
    ),
    Format(
        "## Cursor",
        "json",
        ("mcpServers",),
        frozenset({"command"}),
        frozenset({"type", "args", "env", "envFile"}),
    ),
    Format(
        "## VS Code",
        "json",
        ("servers",),
        frozenset({"type", "command"}),
        frozenset({"args", "env", "envFile"}),
    ),
    Format(
        "## Codex",
        "toml",
        ("mcp_servers",),
        frozenset({"command"}),
        frozenset({"args", "env", "env_vars", "cwd", "startup_timeout_sec"}),
    ),
    Format(
        "## Gemini CLI",
        "json",
        ("mcpServers",),
        frozenset({"command"}),
        frozenset({"args", "env", "cwd", "timeout", "trust"}),
    ),
    Format(
        "## OpenCode",
        "json",
        ("mcp",),
        frozenset({"type", "command"}),
        frozenset({"environment", "enabled", "timeout"}),
        environment="environment",
    ),
    Format(
        "## Copilot CLI",
        "json",
        ("mcpServers",),
        frozenset({"type", "command", "args", "tools"}),
        frozenset({"env", "cwd", "timeout"}),
    ),
)


def find_files(host: Format) -> Iterator[Block]:
    """Yield the configuration files that the page shows for a host."""
    for each in blocks_below(CONNECT, host.heading):
        if each.language == host.language:
            yield each


def parse(block: Block) -> Mapping[str, Any]:
    parsed: Mapping[str, Any]
    parsed = (tomllib if block.language == "toml" else json).loads(block.text)
    return parsed


@pytest.mark.parametrize("host", FORMATS, ids=lambda host: host.heading[3:])
def test_each_file_is_in_the_format_of_its_host(host: Format) -> None:
    files = [*find_files(host)]

    assert files
    for file in files:
        servers = parse(file)
        for key in host.place:
            servers = servers[key]
        [(name, entry)] = servers.items()
        command = entry["command"]
        assert name == "skills"
        assert host.required <= entry.keys() <= host.required | host.optional
        assert command in ("skills-mcp", ["skills-mcp"])
        assert isinstance(command, list) is (host.environment == "environment")
        assert "SKILLS_REPO" in entry[host.environment]


def test_no_host_of_the_page_is_left_out() -> None:
    text = CONNECT.read_text(encoding="utf-8")
    headings = {line for line in text.splitlines() if line.startswith("## ")}
    shown = {
        heading
        for heading in headings
        for each in blocks_below(CONNECT, heading)
        if each.language in {"json", "toml"}
    }

    assert shown == {host.heading for host in FORMATS}


@pytest.mark.parametrize("page", [CONNECT, PROJECT / "README.md"], ids=lambda page: page.name)
def test_a_button_adds_the_entry_that_install_writes(page: Path) -> None:
    links = re.findall(
        r"\((https://[^)\s]*install[^)\s]*config=[^)\s]*)\)", page.read_text("utf-8")
    )
    asked = {urlsplit(link).hostname: parse_qs(urlsplit(link).query) for link in links}
    code, cursor = asked["insiders.vscode.dev"], asked["cursor.com"]
    plain = StartedServer(["skills-mcp"])

    entry = json.loads(code["config"][0])
    question = json.loads(code["inputs"][0])[0]["id"]
    decoded = json.loads(base64.b64decode(cursor["config"][0]))
    assert entry == {
        **render_entry(find_host("vscode"), plain),
        "env": {"SKILLS_REPO": f"${{input:{question}}}"},
    }
    assert decoded == render_entry(find_host("cursor"), plain)
    assert code["name"] == cursor["name"] == ["skills"]
