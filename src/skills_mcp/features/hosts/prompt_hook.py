"""Prompt hook of a host: hints at the matching skill.

A host runs it on every prompt and waits, so it asks a running server over a socket only
this user may open. It imports one module beside the standard library.

Rule: never block a prompt. Any failure exits with status 0 and without output.
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

from skills_mcp.files.user_folders import find_user_folders

EVENTS: Mapping[str, str] = {
    "claude-code": "UserPromptSubmit",
    "codex": "UserPromptSubmit",
    "gemini": "BeforeAgent",
    "copilot": "userPromptSubmitted",
}
"""Each host's name of the event after a prompt."""

_TOP_LEVEL_CONTEXT = frozenset({"copilot"})
"""Hosts with the context at the top level of the output."""

MAX_ADDRESS_BYTES = 100
"""Longest path of a socket: systems take 104 or 108 bytes with a final NUL."""

MAX_PROMPT_BYTES = 1024 * 1024

_ANSWER_SECONDS = 1.0  # a server that is reading new content may be busy
_PIECE_BYTES = 64 * 1024
_MAX_SERVERS = 4

# Neither changes which skills a server has.
_IRRELEVANT = ("--toolsets", "--log-level", "--transport")
_SOURCES = ("--skills-dir", "--repo")
_SOURCE_VARIABLES = (
    *("SKILLS_DIR", "SKILLS_REPO", "SKILLS_BRANCH", "SKILLS_REF", "SKILLS_PLUGINS"),
    *("SKILLS_SUBFOLDER", "SKILLS_EVERYWHERE", "SKILLS_MCP_DISCOVER"),
)
_PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")


def answer_hook(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Answer a prompt hook by a running server; False if none answered."""
    host, *options = words or [""]
    if host not in EVENTS or {"-h", "--help"} & set(options):
        return False
    prompt = read_prompt()
    if not prompt:
        return True
    for address in find_servers(options, environment):
        hint = _request_hint(address, prompt)
        if hint is not None:
            print_hint(host, hint)
            return True
    return False


@cache
def read_prompt() -> str:
    """Read the prompt on stdin; empty for a slash command or invalid input."""
    try:
        data = json.loads(sys.stdin.buffer.read(MAX_PROMPT_BYTES))
        prompt = data.get("prompt")
    except (OSError, ValueError, AttributeError):
        return ""
    is_prompt = isinstance(prompt, str) and not prompt.lstrip().startswith("/")
    return prompt.strip() if is_prompt else ""


def print_hint(host: str, hint: str) -> None:
    """Print a hint in the host's format; nothing if empty."""
    if not hint:
        return
    output: dict[str, object] = {"additionalContext": hint}
    if host not in _TOP_LEVEL_CONTEXT:
        output = {"hookSpecificOutput": {"hookEventName": EVENTS[host], **output}}
    sys.stdout.write(f"{json.dumps(output)}\n")


def derive_address(
    words: Sequence[str], environment: Mapping[str, str], number: int, working: str = os.curdir
) -> Path:
    """Socket path of a server.

    Args:
        words: Its arguments.
        environment: Its variables, or those of one of its windows.
        number: Its process ID.
        working: The working directory of the server or the window.
    """
    return _folder(environment) / f"{_derive_key(words, environment, working)}-{number}.sock"


def find_servers(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Sockets of servers with the same skills, newest first."""
    pattern = f"{_derive_key(words, environment)}-*.sock"
    with suppress(OSError):
        found = [*_folder(environment).glob(pattern)]
        found.sort(key=lambda path: path.lstat().st_mtime, reverse=True)
        yield from found[:_MAX_SERVERS]


def _folder(environment: Mapping[str, str]) -> Path:
    return Path(find_user_folders(environment)[2], "run")


def _derive_key(
    words: Sequence[str], environment: Mapping[str, str], working: str = os.curdir
) -> str:
    """Digest of all options and variables that select skills."""
    relevant = list(_find_relevant(words))
    is_named = any(word.partition("=")[0] in _SOURCES for word in relevant)
    names = () if is_named else _SOURCE_VARIABLES
    variables = [environment.get(name, "") for name in names]
    serialised = json.dumps([relevant, variables, _find_project(environment, working)])
    return hashlib.blake2b(serialised.encode(), digest_size=8).hexdigest()


def _find_project(environment: Mapping[str, str], working: str) -> str:
    """Base folder of relative paths; empty if deleted."""
    named = next(filter(None, map(environment.get, _PROJECT_VARIABLES)), None)
    try:
        return os.path.realpath(named or working)
    except OSError:
        return ""


def _find_relevant(words: Sequence[str]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        if word in _IRRELEVANT:
            next(waiting, None)
        elif not word.startswith(tuple(f"{option}=" for option in _IRRELEVANT)):
            yield word


def _request_hint(address: Path, prompt: str) -> str | None:
    """Request a hint from a server; None without an answer."""
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


def parse_process_id(address: Path) -> int | None:
    """Process ID in the name of a socket."""
    found = re.fullmatch(r"[0-9a-f]+-(\d+)", address.stem)
    return int(found[1]) if found else None
