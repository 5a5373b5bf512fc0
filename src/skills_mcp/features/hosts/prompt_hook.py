"""The hook of a host: which skill fits the prompt that a person has just sent.

A host starts it for every prompt and waits for it, so it asks a server that runs
already, over a socket that only this user may open. Nothing but the standard library
is imported here.

Rule: a prompt is never blocked. What goes wrong ends without an output and with status
0.
"""

import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

EVENTS: Mapping[str, str] = {
    "claude-code": "UserPromptSubmit",
    "codex": "UserPromptSubmit",
    "gemini": "BeforeAgent",
    "copilot": "userPromptSubmitted",
}
"""What each host calls the moment after a prompt was sent."""

_FLAT = frozenset({"copilot"})
"""Hosts that read the context at the top of the output."""

MAX_ADDRESS_BYTES = 100
"""The longest path of a socket: systems take 104 or 108 bytes with a final NUL."""

MAX_PROMPT_BYTES = 1024 * 1024

_ANSWER_SECONDS = 1.0  # a server that is reading new content may be busy
_PIECE_BYTES = 64 * 1024
_MOST_SERVERS = 4

# Neither changes which skills a server has.
_IRRELEVANT = ("--toolsets", "--log-level", "--transport")
_SOURCES = ("--skills-dir", "--repo")
_SOURCE_VARIABLES = (
    *("SKILLS_DIR", "SKILLS_REPO", "SKILLS_BRANCH", "SKILLS_REF", "SKILLS_PLUGINS"),
    *("SKILLS_SUBFOLDER", "SKILLS_EVERYWHERE", "SKILLS_MCP_DISCOVER"),
)
_PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")


def answer_hook(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Print what the hook of a host prints, if a running server can say it.

    Args:
        words: The name of the host, and the options of the source.
        environment: All variables.

    Returns:
        Whether the prompt is answered, be it with nothing.
    """
    host, *options = words or [""]
    if host not in EVENTS or {"-h", "--help"} & set(options):
        return False
    prompt = read_prompt()
    if not prompt:
        return True
    for address in find_servers(options, environment):
        hint = _ask(address, prompt)
        if hint is not None:
            print_hint(host, hint)
            return True
    return False


@cache
def read_prompt() -> str:
    """Return the prompt on standard input; empty if there is none to look at.

    A command, which begins with a slash, is none.
    """
    try:
        data = json.loads(sys.stdin.buffer.read(MAX_PROMPT_BYTES))
        prompt = data.get("prompt")
    except (OSError, ValueError, AttributeError):
        return ""
    is_prompt = isinstance(prompt, str) and not prompt.lstrip().startswith("/")
    return prompt.strip() if is_prompt else ""


def print_hint(host: str, hint: str) -> None:
    """Print a hint for the model as the host wants it; nothing for no hint."""
    if not hint:
        return
    said: dict[str, object] = {"additionalContext": hint}
    if host not in _FLAT:
        said = {"hookSpecificOutput": {"hookEventName": EVENTS[host], **said}}
    sys.stdout.write(f"{json.dumps(said)}\n")


def derive_address(
    words: Sequence[str], environment: Mapping[str, str], number: int
) -> Path:
    """Return the socket of a server.

    Args:
        words: The arguments of the program, without the name of a command.
        environment: Its variables.
        number: The id of its process.
    """
    return _folder(environment) / f"{_derive_key(words, environment)}-{number}.sock"


def find_servers(
    words: Sequence[str], environment: Mapping[str, str]
) -> Iterator[Path]:
    """Return the sockets of servers with the same skills, the newest first."""
    pattern = f"{_derive_key(words, environment)}-*.sock"
    with suppress(OSError):
        found = [*_folder(environment).glob(pattern)]
        found.sort(key=lambda path: path.lstat().st_mtime, reverse=True)
        yield from found[:_MOST_SERVERS]


def _folder(environment: Mapping[str, str]) -> Path:
    moved = environment.get("SKILLS_MCP_HOME")
    home = Path(moved).expanduser() if moved else Path.home() / ".skills-mcp"
    return home / "run"


def _derive_key(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return a digest of all that decides which skills a server has."""
    relevant = list(_find_relevant(words))
    is_named = any(word.partition("=")[0] in _SOURCES for word in relevant)
    names = () if is_named else _SOURCE_VARIABLES
    variables = [environment.get(name, "") for name in names]
    said = json.dumps([relevant, variables, _find_project(environment)])
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def _find_project(environment: Mapping[str, str]) -> str:
    """Return the folder that a relative path is in; empty if it is gone."""
    named = next(filter(None, map(environment.get, _PROJECT_VARIABLES)), None)
    try:
        return os.path.realpath(named or os.curdir)
    except OSError:
        return ""


def _find_relevant(words: Sequence[str]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        if word in _IRRELEVANT:
            next(waiting, None)
        elif not word.startswith(tuple(f"{each}=" for each in _IRRELEVANT)):
            yield word


def _ask(address: Path, prompt: str) -> str | None:
    """Return the hint of a server; None if nothing answers there."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        return None
    try:
        with socket.socket(family) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(os.fspath(address))
            connection.sendall(json.dumps({"prompt": prompt}).encode() + b"\n")
            answer: Any = json.loads(b"".join(_receive(connection)))
        return str(answer["hint"])
    except ConnectionRefusedError:
        with suppress(OSError):
            address.unlink()  # its server was killed
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _receive(connection: socket.socket) -> Iterator[bytes]:
    while piece := connection.recv(_PIECE_BYTES):
        yield piece


def find_number(address: Path) -> int | None:
    """Return the id of the process that a socket belongs to."""
    found = re.fullmatch(r"[0-9a-f]+-(\d+)", address.stem)
    return int(found[1]) if found else None
