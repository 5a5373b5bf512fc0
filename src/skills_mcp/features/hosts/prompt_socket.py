"""Unix socket for hooks: suggests a skill for a prompt, and reminds after a compaction.

A host compacts a long conversation into a summary, and the texts of skills are lost. It
runs a hook before or after that, which asks the server of the session's window: the
reminder has the skills of the session, with their must-lines.

Only the current user may connect, and failures here never stop the server.
"""

import json
import logging
import os
import re
import socket
import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from anyio.abc import SocketStream

from skills_mcp.errors import SkillsError
from skills_mcp.features.hosts.early_commands.hook import (
    MAX_ADDRESS_BYTES,
    MAX_PROMPT_BYTES,
    derive_address,
    find_hook_project,
    parse_process_id,
)
from skills_mcp.files.durable import PRIVATE_MODE
from skills_mcp.library import SkillLibrary
from skills_mcp.processes.group import is_running
from skills_mcp.routing.decision import Ambiguous, answered_candidates
from skills_mcp.routing.matcher import Candidate
from skills_mcp.server.parts import ServerPart, Window
from skills_mcp.skills.composition import Outline
from skills_mcp.skills.model import SkillPath, escape_unprintable
from skills_mcp.text.rendering import truncate_text

MAX_REMINDER_BYTES = 1024
"""The summary of a conversation has a few kilobytes; a reminder is the smaller part."""

_HEAD = "Skills of this session, compacted away. Keep following them."
_INHERITED = "Inherited:"
_LEFT_OUT_BYTES = 40  # of "And 1,600 more must-lines."

# A host starts the server and its hooks itself, or through a shell and a launcher.
_HOOK_ANCESTORS = 3
_SERVER_ANCESTORS = 2


class SkillReminder(NamedTuple):
    """What remains of a skill for an agent that has lost its text."""

    skill_path: SkillPath
    digest: str
    outline: Outline


@dataclass(frozen=True, slots=True)
class _Line:
    group: str
    """The path of a skill, or the title of what is inherited."""
    text: str = ""
    """Empty for the line that opens a group."""

    def __str__(self) -> str:
        return f"- {self.text}" if self.text else self.group


def compose_reminder(reminders: Sequence[SkillReminder], *, has_core: bool) -> str:
    """Compose a reminder within its limit; empty without a skill.

    What does not fit is left out from the end: inherited lines, then those of the skill
    that was served first.
    """
    if not reminders:
        return ""
    end = _describe_call(has_core=has_core)
    budget = MAX_REMINDER_BYTES - _LEFT_OUT_BYTES - len(f"{_HEAD}\n{end}\n".encode())
    lines = [*_list_lines(reminders)]
    sizes = accumulate(len(f"{line}\n".encode()) for line in lines)
    kept = lines[: bisect_right([*sizes], budget)]
    groups = dict.fromkeys(line.group for line in kept)
    shown = (str(line) for group in groups for line in kept if line.group == group)
    left_out = len(lines) - len(kept)
    rest = [f"And {left_out:,} more must-lines."] if left_out else []
    return "\n".join((_HEAD, *shown, *rest, end))


def _list_lines(reminders: Sequence[SkillReminder]) -> Iterator[_Line]:
    """Yield all lines by weight: the skills, then their own lines, then inherited ones."""
    titles = {
        each.skill_path: f"{escape_unprintable(each.skill_path)} (digest {each.digest}):"
        for each in reminders
    }
    for title in titles.values():
        yield _Line(title)
    for each in reminders:
        for text in each.outline.must_lines:
            yield _Line(titles[each.skill_path], escape_unprintable(text))
    found = [text for each in reminders for text in each.outline.inherited_must_lines]
    if found:
        yield _Line(_INHERITED)
    for text in dict.fromkeys(found):
        yield _Line(_INHERITED, escape_unprintable(text))


def _describe_call(*, has_core: bool) -> str:
    tool = "get_skill with the task and skill_path" if has_core else "load_skill with skill_name"
    return f"For the whole text of one: {tool}; for its headings, add known_digest."


@dataclass(slots=True, eq=False)
class HookedSession:
    """A window, and what hooks have said of its conversation."""

    window: Window
    identifier: str = ""
    """The host's, since a hook has named it; a window may have several after another."""
    is_compacted: bool = False
    """Whether the conversation was compacted, and no reminder was read since."""
    context: Context = field(default_factory=copy_context, repr=False)
    """In which a message is one of this window alone."""

    def follow(self, identifier: str) -> None:
        """Follow the conversation of a window; another one has no skills yet."""
        if self.identifier and identifier not in {"", self.identifier}:
            self.window.library.forget_served()
            self.is_compacted = False
        self.identifier = identifier or self.identifier

    def take_reminder(self) -> str:
        """Compose the reminder once after a compaction; empty without one."""
        is_due, self.is_compacted = self.is_compacted, False
        return self.remind() if is_due else ""

    def remind(self) -> str:
        """Compose what remains of the served skills, the last one first; a gone one is left out."""
        library, reminders = self.window.library, []
        view = library.view()
        for path in reversed(library.served_paths):
            with suppress(SkillsError):
                skill = view.snapshot.index.resolve(path)
                composed = view.snapshot.compose(skill)
                reminders.append(SkillReminder(skill.path, composed.digest, composed.outline))
        return compose_reminder(reminders, has_core="core" in library.config.toolsets)


def find_session(
    sessions: Sequence[HookedSession], identifier: str, process_id: int, project: str
) -> HookedSession | None:
    """Find the window of a hook: by the host's identifier, else by project and process.

    Args:
        sessions: All windows of the server.
        identifier: Of the conversation, from the host.
        process_id: The hook's.
        project: The hook's.
    """
    for session in reversed(sessions):
        named = (session.identifier, *session.window.environment.values())
        if identifier and identifier in named:
            return session
    here = [session for session in sessions if _find_project(session.window) == project]
    if len(here) <= 1:
        return next(iter(here), None)
    hosts = [*_find_ancestors(process_id, _HOOK_ANCESTORS)]
    for session in reversed(here):
        started_by = _find_ancestors(session.window.process_id, _SERVER_ANCESTORS)
        if not set(hosts).isdisjoint(started_by):
            return session
    return None


def _find_project(window: Window) -> str:
    return find_hook_project(window.environment, os.fspath(window.folder or os.curdir))


def _find_ancestors(number: int, limit: int) -> Iterator[int]:
    """Yield the processes above a process, the nearest one first."""
    for _ in range(limit):
        parent = _find_parent(number)
        if parent is None:
            return
        yield parent
        number = parent


def _find_parent(number: int) -> int | None:
    with suppress(OSError, ValueError, subprocess.CalledProcessError):
        if Path("/proc/self/stat").exists():
            # The name of the program, in brackets, may have any characters.
            return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        # A program of POSIX, with a number that the operating system has given.
        command = ("ps", "-o", "ppid=", "-p", str(number))
        found = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - as above
        return int(found.stdout)
    return None


MAX_HINT_CHARACTERS = 500

_MAX_NAMED = 3
_DESCRIPTION_CHARACTERS = 90

# Not about Go or retries.
_GOES_ON = re.compile(
    r"(?:\W*\b(?:ok|okay|yes|please|now|and|then|let['\u2019]?s|go|on|ahead|try|it|once|more|again)\b)+\W*",
    re.IGNORECASE,
)

_ONE = "Your organisation has a skill for this task: {skills}. {call}, and follow it."
_SEVERAL = "Your organisation has skills for this task: {skills}. {call}."
_PERHAPS = "Your organisation may have a skill for this task: {skills}. If one fits: {call}."


def find_hint(library: SkillLibrary, prompt: str, project: str = "") -> str:
    """Compose a hint for a prompt in a project; empty without a match.

    Blocking. It records no event: the model has not asked.
    """
    if not library.is_ready or _GOES_ON.fullmatch(prompt):
        return ""
    from skills_mcp.library.project import open_project  # late: start-up

    view = library.view(project=open_project(Path(project)) if project else None)
    decision = view.decide(prompt)
    skills = [candidate.skill for candidate in answered_candidates(decision)]
    named = [
        (
            escape_unprintable(skill.path),
            escape_unprintable(" ".join(skill.description.split())),
        )
        for skill in skills[:_MAX_NAMED]
    ]
    has_core = "core" in library.config.toolsets
    is_choice = isinstance(decision, Ambiguous)
    is_low_confidence = isinstance(decision, Ambiguous) and decision.is_low_confidence
    hint = compose_hint(
        named, has_core=has_core, is_choice=is_choice, is_low_confidence=is_low_confidence
    )
    line = decision.applies if isinstance(decision, Candidate) else ""
    with_line = f"{hint} {line}".rstrip()
    return with_line if len(with_line) <= MAX_HINT_CHARACTERS else hint


def compose_hint(
    skills: Sequence[tuple[str, str]],
    *,
    has_core: bool,
    is_choice: bool = True,
    is_low_confidence: bool = False,
) -> str:
    """Compose a hint within its limit, best skills first; empty if nothing fits.

    Several skills are a choice, or for a task with as many intents.
    """
    which = "of the one that fits" if is_choice else "of each"
    for count in range(len(skills), 0, -1):
        chosen = which if count > 1 else f'"{skills[0][0]}"'
        call = _render_call(chosen, has_core=has_core)
        form = _ONE if count == 1 else _SEVERAL
        form = _PERHAPS if is_low_confidence else form
        for length in (_DESCRIPTION_CHARACTERS, 0):
            named = "; ".join(_render_skill(*skill, length) for skill in skills[:count])
            hint = form.format(skills=named, call=call)
            if len(hint) <= MAX_HINT_CHARACTERS:
                return hint
    return ""


def _render_skill(path: str, description: str, length: int) -> str:
    return f"{path} ({truncate_text(description, length)})" if length and description else path


def _render_call(chosen: str, *, has_core: bool) -> str:
    tool = "get_skill with this task and" if has_core else "load_skill with"
    argument = "skill_path" if has_core else "skill_name"
    first = "Before you write or change code, call the MCP tool"
    return f"{first} {tool} {argument} {chosen}"


logger = logging.getLogger(__name__)

_PRIVATE_FOLDER = 0o700
_REQUEST_TIMEOUT_SECONDS = 5.0
_LOADING_SECONDS = 60.0 * 60.0
_MAX_CONCURRENT = 4  # a person sends one prompt at a time


def _warn_of_exports(window: Window) -> None:
    """Log the folders by which an agent may see each skill twice."""
    from skills_mcp.features.hosts.host import describe_exports  # late: start-up

    if window.folder:
        with suppress(OSError):  # the folder may be gone
            for warning in describe_exports(Path.home(), window.folder.absolute()):
                logger.warning("%s", warning)


class PromptSocket(ServerPart):
    """Answers hooks from the skills of a running server."""

    def __init__(
        self, own: Window, address: Path, options: Sequence[str] = (), *, has_windows: bool = False
    ) -> None:
        """Take the window of this process, which has others instead with `has_windows`."""
        self._library = own.library
        self._address = address
        self._options = options
        self._sessions = [] if has_windows else [HookedSession(own)]
        self._windows: Counter[Path] = Counter()
        """Addresses of the projects of windows, and how many windows each has."""
        self._new = address.with_suffix(".new")
        self._limiter = anyio.CapacityLimiter(_MAX_CONCURRENT)
        self._has_content = False
        self._is_open = False

    def open_window(self, window: Window) -> Callable[[], object]:
        """Answer the hooks of a window, and of the project in which it was opened."""
        working = os.fspath(window.folder or os.curdir)
        address = derive_address(self._options, window.environment, os.getpid(), working)
        self._windows[address] += 1
        self._link(address)
        session = HookedSession(window)
        self._sessions.append(session)
        if self._has_content:
            _warn_of_exports(window)
        return partial(self._close_window, address, session)

    def _link(self, address: Path) -> None:
        if self._is_open and address != self._address:
            with suppress(OSError):  # another window has it
                address.symlink_to(self._address.name)

    def _close_window(self, address: Path, session: HookedSession) -> None:
        self._sessions.remove(session)
        self._windows[address] -= 1
        if not self._windows[address] and address != self._address:
            with suppress(OSError):
                address.unlink()

    async def run(self) -> None:
        """Answer until cancelled; it begins when there is content to answer from."""
        with suppress(SkillsError):  # the next sync may succeed
            await self._library.refresher.wait_until_ready(_LOADING_SECONDS)
        self._has_content = True
        for session in self._sessions:
            session.context.run(_warn_of_exports, session.window)
        try:
            await anyio.to_thread.run_sync(self._prepare)
            # It gets its name after its mode: other users cannot open it before.
            listener = await anyio.create_unix_listener(self._new, mode=PRIVATE_MODE)
            self._new.replace(self._address)
        except (OSError, ValueError) as error:
            logger.debug("Hooks cannot ask this server: %s", error)
            return
        self._is_open = True
        for address in self._windows:
            self._link(address)
        async with listener:
            await listener.serve(self._answer)

    async def close(self) -> None:
        """Delete the socket, so no hook connects to a stopped server."""
        if self._is_open:
            with suppress(OSError):
                self._address.unlink()

    def _prepare(self) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise ValueError("this system has no sockets with a path")
        if len(os.fsencode(self._address)) > MAX_ADDRESS_BYTES:
            raise ValueError(f"{self._address} is too long for a socket")
        folder = self._address.parent
        folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
        folder.chmod(_PRIVATE_FOLDER)
        for path in folder.iterdir():
            number = parse_process_id(path)
            if number is None or not is_running(number):
                with suppress(OSError):
                    path.unlink()

    async def _answer(self, stream: SocketStream) -> None:
        async with stream:
            try:
                with anyio.move_on_after(_REQUEST_TIMEOUT_SECONDS):
                    request = await _receive(stream)
                    work = partial(self._find_answer, request)
                    hint = await anyio.to_thread.run_sync(work, limiter=self._limiter)
                    await stream.send(json.dumps({"hint": hint}).encode())
            except (anyio.BrokenResourceError, anyio.EndOfStream, TypeError, ValueError, KeyError):
                return  # it was no hook, or its host has ended it
            except Exception:
                logger.exception("A hook got no answer")

    def _find_answer(self, request: Mapping[str, Any]) -> str | None:
        """Answer a hook; None if it is of no window of this server."""
        moment = request.get("moment", "prompt")
        identifier, project = str(request.get("session", "")), str(request.get("project", ""))
        session = find_session(self._sessions, identifier, int(request.get("process", 0)), project)
        if session:
            session.follow(identifier)
        if moment == "prompt":
            hint = find_hint(self._library, str(request["prompt"]), project)
            reminder = session.take_reminder() if session else ""
            return "\n\n".join(filter(None, (reminder, hint)))
        if session is None:
            return None
        session.is_compacted = True
        return session.remind() if moment == "before" else session.take_reminder()


async def _receive(stream: SocketStream) -> Mapping[str, Any]:
    line = bytearray()
    while not line.endswith(b"\n"):
        line += await stream.receive()
        if len(line) > 2 * MAX_PROMPT_BYTES:  # JSON escapes some characters
            raise ValueError("the question is too long")
    return dict(json.loads(line))
