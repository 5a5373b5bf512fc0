"""Collects what is wrong with one file, so that an author sees all of it at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from skills_mcp.skills.model import Problem

_MAX_CHARACTERS = 300
"""The longest reason: it may quote a file, and a file may be a whole book."""

_MAX_WARNINGS = 50
"""In one file: a thousand would fill the log, and hide the problems of other files."""


def printable(text: str) -> str:
    r"""Return a text that is safe on every terminal and in every reply.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(map(_escape, text))


@dataclass(slots=True)
class ProblemList:
    """The problems of one file, in the order in which they were found."""

    file: str
    lines: Mapping[str, int] = field(default_factory=dict)
    """Where each key of the frontmatter stands, as soon as that is known.

    The empty one is for what is no matter of a single key.
    """
    _found: list[Problem] = field(default_factory=list)

    def fail(self, rule: str, reason: str, hint: str, *, key: str = "") -> None:
        """Add a reason why the file is not served; `key` says where it stands."""
        self._add(rule, reason, hint, key, "error")

    def warn(self, rule: str, reason: str, hint: str, *, key: str = "") -> None:
        """Add something that was repaired or ignored."""
        if len(self._found) < _MAX_WARNINGS:
            self._add(rule, reason, hint, key, "warning")

    def add(self, problem: Problem) -> None:
        """Add a problem that was found by another module."""
        self._found.append(problem)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that was found."""
        return tuple(self._found)

    def _add(
        self,
        rule: str,
        reason: str,
        hint: str,
        key: str,
        level: Literal["error", "warning"],
    ) -> None:
        line = self.lines.get(key, 1)
        reason = printable(reason)
        if len(reason) > _MAX_CHARACTERS:
            reason = f"{reason[: _MAX_CHARACTERS - 1]}…"
        self._found.append(
            Problem(self.file, reason, hint, level, rule=rule, line=line)
        )


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
