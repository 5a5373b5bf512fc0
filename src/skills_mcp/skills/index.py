"""All skills of one commit, and how they are related.  Never changes."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from typing import NamedTuple, overload

from skills_mcp.config import Visibility
from skills_mcp.errors import (
    AmbiguousNameError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
)
from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.visibility import Listed, is_denied, is_enabled
from skills_mcp.text.rendering import name_some, shorten

ROOT = SkillPath("_root")
INDEX = "_index"

SCOPES = ("org", "repo", "user")
"""The scopes in the order in which skills come where nothing else decides."""


_MAX_NAMED = 10
"""Skills in one message: `code-review` is the name of hundreds."""

_LONGEST_SLIP = 100  # longer words are no names, and take long to compare


class Offered(Sequence[Skill]):
    """Some of many skills, in the same order; the number of one is its place here."""

    def __init__(self, skills: Sequence[Skill], numbers: Sequence[int]) -> None:
        self._skills = skills
        self.numbers = numbers
        """Where each of them is among all."""

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, number: int) -> Skill: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Skill, ...]: ...
    def __getitem__(self, number: int | slice) -> Skill | tuple[Skill, ...]:
        if isinstance(number, slice):
            return tuple(self._skills[n] for n in self.numbers[number])
        return self._skills[self.numbers[number]]

    def replaced(self, others: Mapping[int, int]) -> "Offered":
        """Return the same with other skills at some numbers, each by its place."""
        numbers = array("I", self.numbers)
        for number, place in others.items():
            numbers[number] = place
        return Offered(self._skills, numbers)


# How a skill stands to those who ask. The order matters: what is asked for by its path
# is one of the last three.
_ABSENT = 0  # the caller may not know of it
_OUTSIDE = 1  # of the part that a request is about; its rules reach the skills below
_DENIED = 2  # by the operator, and its rules reach no skill
_DISABLED = 3  # the operator does not offer it; its rules reach the skills below
_ENABLED = 4

# How each of them stands to a request that is not about it.
_BEYOND = bytes((_ABSENT, _OUTSIDE, _ABSENT, _OUTSIDE, _OUTSIDE))

_HIDDEN = frozenset({_DENIED, _DISABLED})
_REACHING = frozenset({_OUTSIDE, _DISABLED, _ENABLED})


class _Rows(NamedTuple):
    """What all who look at the same skills share."""

    skills: Sequence[Skill]
    rows: tuple[Listed, ...]
    numbers: Mapping[str, int]
    """Of each path."""
    copies: tuple[Sequence[SkillPath], ...]


class SkillIndex:
    """An immutable set of skills, in path order.

    It holds every skill, but finds only those that are offered. Iterating yields them.

    Args:
        skills: In path order already, if there are `rows`.
        rules: What the operator offers; everything if there are none.
        rows: What is known of each skill without making it (see `SkillTable.listed`).
        copies: Paths of skills that say the same; where they inherit the same rules,
            the first one that is offered stands for all of them.
    """

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        rules: Visibility | None = None,
        *,
        rows: Iterable[Listed] | None = None,
        copies: Iterable[Sequence[SkillPath]] = (),
    ) -> None:
        if rows is None or not isinstance(skills, Sequence):
            skills = _in_path_order(skills)
        known = tuple(rows or skills)
        numbers = {row.path: number for number, row in enumerate(known)}
        every = _Rows(skills, known, numbers, tuple(copies))
        self._look(every, bytes(_judge(row, rules or Visibility()) for row in known))

    def _look(self, every: _Rows, standing: bytes) -> None:
        """See these rows as they stand, a byte for each."""
        self._every = every
        self._standing = standing
        self._places = dict(self._find_places())
        self._kept: dict[str, str] = {
            c: p for p, others in self._places.items() for c in others
        }
        kept = array(
            "I",
            (
                number
                for number, row in enumerate(every.rows)
                if standing[number] == _ENABLED and row.path not in self._kept
            ),
        )
        self.offered = Offered(every.skills, kept)

    def derive_shown(self, sees: Callable[[Listed], bool]) -> bytes:
        """Return how the skills stand to a caller who may see some of them.

        Any other does not exist: neither by its path, nor as a rule that others
        inherit.
        """
        each = zip(self._standing, self.rows, strict=True)
        return bytes(its if sees(row) else _ABSENT for its, row in each)

    def derive_asked(self, asks_for: Callable[[Listed], bool]) -> bytes:
        """Return how the skills stand to a request that is about some of them.

        Any other cannot be found; its rules still reach the skills below it.
        """
        each = zip(self._standing, self.rows, strict=True)
        return bytes(
            its if its == _ABSENT or asks_for(row) else _BEYOND[its]
            for its, row in each
        )

    def seen(self, standing: bytes) -> "SkillIndex":
        """Return the same skills as they stand to a caller, a byte for each."""
        other = SkillIndex.__new__(SkillIndex)
        other._look(self._every, standing)  # noqa: SLF001 - it is one of us
        return other

    @property
    def rows(self) -> tuple[Listed, ...]:
        """What is known of all skills, offered or not."""
        return self._every.rows

    @property
    def shown_numbers(self) -> tuple[int, ...]:
        """The numbers of the rows that the caller may know of, offered or not."""
        return tuple(n for n, its in enumerate(self._standing) if its != _ABSENT)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.offered)

    def __len__(self) -> int:
        return len(self.offered)

    @property
    def hidden_count(self) -> int:
        """How many skills the operator does not offer."""
        return self._standing.count(_DENIED) + self._standing.count(_DISABLED)

    @property
    def copy_count(self) -> int:
        """How many skills are copies of others, which stand for them."""
        return len(self._kept)

    def other_places(self, path: SkillPath) -> tuple[SkillPath, ...]:
        """Return the paths of the copies that a skill stands for."""
        return self._places.get(path, ())

    @cached_property
    def listed(self) -> tuple[Listed, ...]:
        """What is known of the skills that are offered without making them."""
        return tuple(self._every.rows[number] for number in self.offered.numbers)

    def find(self, path: str) -> int | None:
        """Return the place among those that are offered of exactly this path."""
        row = self._every.numbers.get(self._kept.get(path, path), -1)
        place = -1 if row < 0 else self.offered_at[row]
        return None if place < 0 else place

    def get(self, path: str) -> Skill | None:
        """Return the skill with exactly this path, or its copy, if it is offered."""
        place = self.find(path)
        return None if place is None else self.offered[place]

    def require(self, path: str) -> Skill:
        """Return the skill with exactly this path.

        Raises:
            SkillDisabledError: The operator does not offer it.
            SkillNotFoundError: There is none; the message names similar ones.
        """
        skill = self.get(path)
        if skill is None:
            raise self.not_found(path)
        return skill

    def resolve(self, name: str) -> Skill:
        """Return the skill with this path, or else the only one with this name.

        `$pdf` is `pdf`: so people mention a skill in a chat. Its Markdown
        file stands for a skill, too.

        Raises:
            AmbiguousNameError: Several skills have this name; the message has the
                path of each.
            SkillDisabledError: The operator does not offer it.
            SkillNotFoundError: There is none; the message names similar ones.
        """
        wanted = name.strip().removeprefix("$")
        for path in (name, wanted, self._path_of(wanted)):
            if self._knows(path):
                return self.require(path)
        named = [self.offered[n] for n in self._named.get(wanted.casefold(), ())]
        if len(named) > 1:
            raise _ambiguous(wanted, named)
        if not named:
            raise self.not_found(wanted)
        return named[0]

    def _path_of(self, file: str) -> str:
        """Return the path of the skill whose file this is, as a catalogue names it."""
        if not file.endswith(".md"):
            return ""
        # A file lies in a package's folder, or beside one of its own name; a package
        # at the top alone has the name that it gives itself.
        *_, folder, name = ("", "", *file.split("/"))
        likely = {folder, name.removesuffix(".md")}
        rows = enumerate(self._every.rows)
        known = (each for each in rows if self._standing[each[0]] >= _DENIED)
        paths = [(n, *row.path.rpartition("/")) for n, row in known]
        near = (n for n, _, _, last in paths if last in likely)
        at_top = (n for n, above, _, last in paths if not above and last not in likely)
        skills = (self._every.skills[number] for number in chain(near, at_top))
        return next((s.path for s in skills if file in {s.file, str(s.location)}), "")

    def not_found(self, path: str) -> SkillsError:
        """Return the error for a path or name that leads nowhere."""
        wanted = path.strip("/").casefold()
        hidden = (
            row
            for number, row in enumerate(self._every.rows)
            if self._standing[number] in _HIDDEN
        )
        shown = show_asked(path, "of this name")
        if any(wanted in {r.path.casefold(), r.name.casefold()} for r in hidden):
            return SkillDisabledError(
                f"The skill {shown} is not offered here. Go on without it, "
                "or ask the operator (visibility)."
            )
        similar = self._similar(path)
        hint = f"Did you mean {' or '.join(similar)}? " if similar else ""
        return SkillNotFoundError(
            f"There is no skill {shown}. {hint}list_skills or search_skills "
            "shows what there is."
        )

    def parent(self, skill: Skill) -> Skill | None:
        """Return the nearest ancestor that exists; `inherit` does not matter."""
        # Over parents that do not exist, or may not be served.
        above = next(self._rules_above(skill.path), None)
        return None if above is None else self._every.skills[above]

    def children(self, skill: Skill) -> tuple[Skill, ...]:
        """Return the skills whose parent is `skill`."""
        return tuple(s for s in self if _path_of(self.parent(s)) == skill.path)

    def lineage(self, skill: Skill) -> tuple[Skill, ...]:
        """Return the skill's ancestors and itself, the most general first."""
        chain = [skill]
        while parent := self.parent(chain[-1]):
            chain.append(parent)
        return tuple(reversed(chain))

    def _similar(self, path: str) -> list[SkillPath]:
        """Return the skills that were probably meant, the closest first."""
        wanted = path.strip("/").casefold().removesuffix("/skill.md")
        wanted = wanted.removesuffix(".md")
        name = wanted.rpartition("/")[2]
        meant = (wanted, f"{wanted}/{INDEX}")
        found: list[str] = [
            row.path
            for row in self.listed
            if name
            and any(part.startswith(name) for part in row.path.casefold().split("/"))
        ]
        found = found or self._spelled_like(name)
        found.sort(key=lambda other: other.casefold() not in meant)
        return [SkillPath(path) for path in found[:3]]

    def _spelled_like(self, name: str) -> list[str]:
        """Return the skills whose names differ from this one by a slip or two."""
        close = get_close_matches(name[:_LONGEST_SLIP], list(self._named))
        return [self.listed[n].path for each in close for n in self._named[each]]

    def _knows(self, path: str) -> bool:
        number = self._every.numbers.get(path)
        return number is not None and self._standing[number] >= _DENIED

    def _rules_above(self, path: SkillPath) -> Iterator[int]:
        """Iterate over the rows of what a skill may inherit from, the nearest first."""
        above = derive_parent_path(path)
        while above is not None:
            number = self._every.numbers.get(above)
            if number is not None and self._standing[number] in _REACHING:
                yield number
            above = derive_parent_path(above)

    def _find_places(self) -> Iterator[tuple[SkillPath, tuple[SkillPath, ...]]]:
        """Yield the skill that stands for each group of copies, and the others."""
        numbers = self._every.numbers
        for group in self._every.copies:
            alike: dict[tuple[int, ...], list[SkillPath]] = defaultdict(list)
            for path in group:
                if path in numbers and self._standing[numbers[path]] == _ENABLED:
                    alike[tuple(self._rules_above(path))].append(path)
            for first, *others in alike.values():
                if others:
                    yield first, tuple(others)

    @cached_property
    def offered_at(self) -> "array[int]":
        """For each row its place among those that are offered, or -1."""
        places = array("i", [-1]) * len(self._every.rows)
        for place, number in enumerate(self.offered.numbers):
            places[number] = place
        return places

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        named: dict[str, list[int]] = defaultdict(list)
        for number, row in enumerate(self.listed):
            named[row.name.casefold()].append(number)
        return named


def _judge(row: Listed, rules: Visibility) -> int:
    if is_denied(row, rules):
        return _DENIED
    return _ENABLED if is_enabled(row, rules) else _DISABLED


def show_asked(path: str, otherwise: str) -> str:
    """Return what was asked for, unless it is a place on a disk and no skill's."""
    try:
        parse_relative(path)
    except InvalidPathError:
        return otherwise
    return shorten(path)


def derive_parent_path(path: SkillPath) -> SkillPath | None:
    """Return the path that would be the parent, whether it exists or not.

    >>> derive_parent_path(SkillPath("ui/react/auth"))
    'ui/react/_index'
    >>> derive_parent_path(SkillPath("ui/react/_index"))
    'ui/_index'
    >>> derive_parent_path(SkillPath("ui/_index"))
    '_root'
    """
    if path == ROOT:
        return None
    folder, _, name = path.rpartition("/")
    if name == INDEX:
        folder = folder.rpartition("/")[0]
    return SkillPath(f"{folder}/{INDEX}") if folder else ROOT


def _ambiguous(name: str, named: list[Skill]) -> AmbiguousNameError:
    ordered = sorted(named, key=lambda s: (SCOPES.index(s.scope), s.path))
    listed = name_some([f"{s.path} ({s.scope})" for s in ordered], _MAX_NAMED)
    return AmbiguousNameError(
        f"Several skills are named {name!r}. Pass the path of the one you mean: "
        f"{listed}."
    )


def _in_path_order(skills: Iterable[Skill]) -> Sequence[Skill]:
    """Return the skills by path; of two with the same one, the last."""
    every = {skill.path: skill for skill in skills}
    return sorted(every.values(), key=lambda skill: skill.path)


def _path_of(skill: Skill | None) -> str:
    return skill.path if skill else ""
