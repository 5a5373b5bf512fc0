"""Real hosts, as their users install them: they connect, with a token and without.

A host runs in a home of its own, and every proxy that it is told of is a closed port:
nothing that it would tell its maker leaves this machine.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, cast

from soak.http.node_packages import install_packages
from soak.scenario import Figure, Scale, Scenario, Unavailable
from tests.http_server import HttpServer, served
from tests.issuer import AUDIENCE, running_issuer

_PACKAGES = (
    "@anthropic-ai/claude-code@2.1.197",
    "@google/gemini-cli@0.61.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "@openai/codex@0.169.0",
)
_SCRIPT = Path(__file__).with_name("client.mjs")
_NAME = "skills"
_NOWHERE = "http://127.0.0.1:9"
_PATIENCE_SECONDS = 90


@dataclass(frozen=True, slots=True)
class _Installed:
    """Where the hosts are, and the home of one run."""

    packages: Path
    home: Path
    token: str
    """What it signs in with; empty for none."""

    def run(self, *command: str) -> str:
        """Run a host to its end, and return what it has written."""
        done = subprocess.run(
            command,
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        return done.stdout

    def ask(self, *command: str, messages: Sequence[object], last: int) -> str:
        """Return a program's answer to the last of some messages of JSON-RPC."""
        process = subprocess.Popen(
            command,
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with process, _ended_after(process, _PATIENCE_SECONDS):
            given, said = cast("IO[str]", process.stdin), process.stdout
            given.write("\n".join(map(json.dumps, messages)) + "\n")
            given.flush()
            for line in said or ():
                if json.loads(line).get("id") == last:
                    return line
        return ""

    def environment(self) -> dict[str, str]:
        """Return the variables of a host."""
        programs = self.packages / "node_modules" / ".bin"
        return {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "SKILLS_TOKEN": self.token,
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "https_proxy"), _NOWHERE),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
        }


@contextmanager
def _ended_after(process: "subprocess.Popen[str]", seconds: float) -> Iterator[None]:
    """Kill a process at the end of the block, and at a limit."""
    timer = Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()


def _claude_code(at: _Installed, url: str) -> bool:
    header = ("--header", f"Authorization: Bearer {at.token}") if at.token else ()
    add = ("claude", "mcp", "add", "--transport", "http", "--scope", "user")
    at.run(*add, _NAME, url, *header)
    return "✔ Connected" in at.run("claude", "mcp", "list")


def _gemini_cli(at: _Installed, url: str) -> bool:
    header = ("--header", f"Authorization: Bearer {at.token}") if at.token else ()
    add = ("gemini", "mcp", "add", "--transport", "http", "--scope", "user")
    at.run(*add, _NAME, url, *header)
    return "- Connected" in at.run("gemini", "mcp", "list")


def _codex(at: _Installed, url: str) -> bool:
    variable = ("--bearer-token-env-var", "SKILLS_TOKEN") if at.token else ()
    at.run("codex", "mcp", "add", _NAME, "--url", url, *variable)
    about = {"clientInfo": {"name": "soak", "title": "soak", "version": "1"}}
    messages = (
        {"id": 1, "method": "initialize", "params": about},
        {"method": "initialized"},
        {"id": 2, "method": "mcpServerStatus/list", "params": {}},
    )
    said = at.ask("codex", "app-server", messages=messages, last=2)
    return bool(said) and "get_skill" in json.loads(said)["result"]["data"][0]["tools"]


def _typescript_sdk(at: _Installed, url: str) -> bool:
    script = at.packages / _SCRIPT.name
    shutil.copy(_SCRIPT, script)
    *_, last = at.run("node", str(script), url, at.token).splitlines() or [""]
    if not last.startswith("{"):
        return False
    said = json.loads(last)
    skill, progress = said["skill"], said["progress"]
    return bool(
        {"get_skill", "refresh_skills"} <= set(said["tools"])
        and "run_script" not in said["tools"]
        and skill == "ui/react/auth"
        and said["resources"] > 1
        and progress
    )


_HOSTS: tuple[Callable[[_Installed, str], bool], ...] = (
    _claude_code,
    _codex,
    _gemini_cli,
    _typescript_sdk,
)


def connect(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Connect each host: to an open server, with a token, and with a wrong one."""
    if not scale.is_full:
        raise Unavailable("the hosts are 800 MB, too much for a quick run")
    packages = install_packages(folder / "packages", *_PACKAGES, with_scripts=True)
    count = len(_HOSTS)
    with served() as server:
        connected = sum(_try(folder, packages, "open", server))
        yield Figure.every(57, "hosts connect", connected, count)
    with running_issuer() as issuer:
        auth = {"issuer": issuer.url, "audience": AUDIENCE}
        with served({"http": {"auth": auth}}) as server:
            right, wrong = issuer.token(), issuer.token(aud="https://elsewhere.example")
            connected = sum(_try(folder, packages, "token", server, right))
            refused = sum(_try(folder, packages, "wrong", server, wrong))
    yield Figure.every(57, "hosts with a token connect", connected, count)
    what = "hosts with a token for another server connect"
    yield Figure.none(57, what, refused, count)


def _try(
    folder: Path, packages: Path, kind: str, server: HttpServer, token: str = ""
) -> Iterator[bool]:
    for number, host in enumerate(_HOSTS):
        home = folder / f"{kind}-{number}"
        home.mkdir()
        yield host(_Installed(packages, home, token), server.url)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("real-clients", connect),)
