"""Reminders after a compaction: the skills of a session, with their must-lines.

A host compacts a long conversation into a summary, and the texts of skills are lost. It
runs a hook before or after that, which asks the server of the session's window.
"""

import os
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from skills_mcp.features.hosts.prompt_hook import find_hook_project
from skills_mcp.library import SkillReminder
from skills_mcp.server.parts import Window
from skills_mcp.skills.model import escape_unprintable

MAX_REMINDER_BYTES = 1024
"""The summary of a conversation has a few kilobytes; a reminder is the smaller part."""

_HEAD = "Skills of this session, compacted away. Keep following them."
_INHERITED = "Inherited:"
_LEFT_OUT_BYTES = 40  # of "And 1,600 more must-lines."

# A host starts the server and its hooks itself, or through a shell and a launcher.
_HOOK_ANCESTORS = 3
_SERVER_ANCESTORS = 2


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
        view = self.window.library.view()
        has_core = "core" in self.window.library.config.toolsets
        return compose_reminder([*view.remind()], has_core=has_core)


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
