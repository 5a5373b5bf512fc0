"""Hosts that are installed on this machine: they connect through the forwarder.

They need no network, but npm has them: `npm install --prefix FOLDER` with the packages
below, and `FOLDER/node_modules/.bin` on the PATH.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import PATIENCE_SECONDS, SKILLS_CONTENT, git
from tests.windows import FOLDER, LINGER, find_servers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

Environment = Mapping[str, str]


def list_servers(program: str, connected: str, environment: Environment) -> bool:
    """Call `mcp list`, which starts each server and says whether it is connected."""
    done = subprocess.run(
        [program, "mcp", "list"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(environment["HOME"], "project"),
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
    )
    return connected in (done.stdout + done.stderr).lower()


def ask_codex(environment: Environment) -> bool:
    """Ask for the tools of the servers: `codex mcp list` starts none."""
    messages = [
        {"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}},
        {"method": "initialized", "params": {}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {}},
    ]
    with subprocess.Popen(
        ["codex", "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        answer = next((line for line in process.stdout if line.startswith('{"id":1')), "")
        process.stdin.close()
    return '"get_skill"' in answer


HOSTS: Mapping[str, tuple[str, str, Callable[[Environment], bool]]] = {
    "claude-code": (
        "claude",
        "@anthropic-ai/claude-code",
        lambda environment: list_servers("claude", "✔ connected", environment),
    ),
    "codex": ("codex", "@openai/codex", ask_codex),
    "gemini": (
        "gemini",
        "@google/gemini-cli",
        lambda environment: list_servers("gemini", "(stdio) - connected", environment),
    ),
    "opencode": (
        "opencode",
        "opencode-ai",
        lambda environment: list_servers("opencode", "connected", environment),
    ),
}
"""The program of each host, its package on npm, and how it says that it is connected."""


def require(*names: str) -> None:
    absent = [HOSTS[name][1] for name in names if shutil.which(HOSTS[name][0]) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")


def prepare(home: Path, *names: str) -> Environment:
    """Install the server into hosts, perhaps with an option; the variables of a plain session."""
    kept = ("HOME", "USER", "PATH", "SKILLS_MCP_HOME", FOLDER)
    environment = {name: os.environ[name] for name in kept}
    environment |= {"LANG": "C.UTF-8", "TERM": "xterm", "SSH_AUTH_SOCK": str(home / "agent")}
    project = home / "project"
    project.mkdir()
    git("init", "-q", cwd=project)
    clients = [name if name.startswith("--") else f"--client={name}" for name in names]
    command = [sys.executable, "-m", "skills_mcp", "install", *clients, "--yes"]
    subprocess.run(
        [*command, "--skills-dir", str(SKILLS_CONTENT)],
        check=True,
        capture_output=True,
        env=environment,
        cwd=project,
    )
    trusted = home / ".gemini/trustedFolders.json"
    trusted.parent.mkdir(exist_ok=True)
    trusted.write_text(json.dumps({str(project): "TRUST_FOLDER"}))
    return environment


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_connects_through_the_forwarder(name: str, home: Path) -> None:
    require(name)
    environment = prepare(home, name)

    assert HOSTS[name][2](environment)
    assert len(find_servers()) == 1


def test_hosts_at_once_share_one_server(home: Path) -> None:
    require(*HOSTS)
    environment = prepare(home, *HOSTS)

    with ThreadPoolExecutor(len(HOSTS)) as threads:
        answers = threads.map(lambda host: host[2](environment), HOSTS.values())
        assert [*answers] == [True] * len(HOSTS)

    assert LINGER not in environment
    assert len(find_servers()) == 1
