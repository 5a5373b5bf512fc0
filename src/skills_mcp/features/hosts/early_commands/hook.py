"""Hook of a host: hints at the skill for a prompt, and reminds after a compaction.

A host runs it before each prompt and waits, so it asks a running server over a socket only
this user may open. It imports one module beside the standard library.

Rule: never block a prompt. Any failure exits with status 0 and without output.
"""

import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

from skills_mcp.files.user_folders import find_project_folder, find_user_folders

EVENTS: Mapping[str, str] = {
    "claude-code": "UserPromptSubmit",
    "codex": "UserPromptSubmit",
    "gemini": "BeforeAgent",
    "copilot": "userPromptSubmitted",
}
"""Each host's name of the event after a prompt."""

COMPACTION_EVENTS: Mapping[str, Mapping[str, str]] = {
    "claude-code": {"PreCompact": "", "SessionStart": "compact"},
    "codex": {"SessionStart": "compact"},
    "gemini": {"PreCompress": ""},
    "copilot": {"preCompact": ""},
}
"""Each host's events at a compaction, with the source of a session that is meant."""

Moment = Literal["prompt", "before", "after"]
"""A prompt, or a moment of a compaction.

A host without a hook after it gets the reminder with the next prompt.
"""

_READS_BEFORE = frozenset({"claude-code"})
"""Hosts that take what a hook prints before a compaction for instructions of the summary."""

_TOP_LEVEL_CONTEXT = frozenset({"copilot"})
"""Hosts with the context at the top level of the output."""

MAX_ADDRESS_BYTES = 100
"""Longest path of a socket: systems take 104 or 108 bytes with a final NUL."""

MAX_PROMPT_BYTES = 1024 * 1024

_ANSWER_SECONDS = 1.0  # a server that is reading new content may be busy
_MAX_SERVERS = 4

# Neither changes which skills a server has.
_IRRELEVANT = ("--toolsets", "--log-level", "--transport")
_SOURCES = ("--skills-dir", "--repo")
SOURCE_VARIABLES = (
    *("SKILLS_DIR", "SKILLS_REPO", "SKILLS_BRANCH", "SKILLS_REF", "SKILLS_PLUGINS"),
    *("SKILLS_SUBFOLDER", "SKILLS_EVERYWHERE", "SKILLS_MCP_DISCOVER"),
)


def answer_hook(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Answer a hook by a running server; False if none answered a prompt."""
    host, *options = words or [""]
    if host not in EVENTS or {"-h", "--help"} & set(options):
        return False
    said = read_input()
    moment = find_moment(said)
    if moment is None:
        return True
    request = {
        "moment": moment,
        "prompt": read_prompt(),
        "session": said.get("session_id") or said.get("sessionId") or "",
        "process": os.getpid(),
        "project": find_hook_project(environment),
    }
    for address in find_servers(options, environment):
        hint = _request_hint(address, request)
        if hint is not None:
            print_hint(host, hint, moment)
            return True
    return moment != "prompt"


def find_moment(said: Mapping[str, Any]) -> Moment | None:
    """The moment of a hook, which hosts name differently; None for any other."""
    if read_prompt():
        return "prompt"
    if said.get("source") == "compact":
        return "after"
    return "before" if "trigger" in said and "prompt" not in said else None


@cache
def read_input() -> Mapping[str, Any]:
    """Read the JSON on stdin; empty if invalid."""
    try:
        data = json.loads(sys.stdin.buffer.read(MAX_PROMPT_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def read_prompt() -> str:
    """Read the prompt on stdin; empty for a slash command or invalid input."""
    prompt = read_input().get("prompt")
    if not isinstance(prompt, str) or prompt.lstrip().startswith("/"):
        return ""
    return prompt.strip()


def print_hint(host: str, hint: str, moment: Moment = "prompt") -> None:
    """Print a hint in the host's format; nothing if empty."""
    if not hint or (moment == "before" and host not in _READS_BEFORE):
        return
    if moment == "before":
        sys.stdout.write(f"{hint}\n")
        return
    output: dict[str, object] = {"additionalContext": hint}
    if host not in _TOP_LEVEL_CONTEXT:
        name = EVENTS[host] if moment == "prompt" else "SessionStart"
        output = {"hookSpecificOutput": {"hookEventName": name, **output}}
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
    names = () if is_named else SOURCE_VARIABLES
    variables = [environment.get(name, "") for name in names]
    serialised = json.dumps([relevant, variables, find_hook_project(environment, working)])
    return hashlib.blake2b(serialised.encode(), digest_size=8).hexdigest()


def find_hook_project(environment: Mapping[str, str], working: str = os.curdir) -> str:
    """Base folder of relative paths; empty if deleted."""
    try:
        return find_project_folder(environment, working)
    except OSError:
        return ""


def _find_relevant(words: Sequence[str]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        if word in _IRRELEVANT:
            next(waiting, None)
        elif not word.startswith(tuple(f"{option}=" for option in _IRRELEVANT)):
            yield word


def _request_hint(address: Path, request: Mapping[str, object]) -> str | None:
    """Request a hint from a server; None without an answer."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        return None
    try:
        with socket.socket(family) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(os.fspath(address))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: Any = json.load(connection.makefile("rb"))
        hint = answer["hint"]
        return None if hint is None else str(hint)
    except ConnectionRefusedError:
        with suppress(OSError):
            address.unlink()  # its server was killed
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def parse_process_id(address: Path) -> int | None:
    """Process ID in the name of a socket."""
    found = re.fullmatch(r"[0-9a-f]+-(\d+)", address.stem)
    return int(found[1]) if found else None


_BLOCKING = 2  # by this exit code hosts tell that a hook refuses the prompt


def run(words: Sequence[str], run_program: Callable[[], None]) -> None:
    """Answer a prompt, or run the command if no server does."""
    if answer_hook(words, os.environ):
        return
    try:
        run_program()
    except SystemExit as ended:
        if ended.code == _BLOCKING:
            raise SystemExit(1) from ended
        raise
