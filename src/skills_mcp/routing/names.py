"""Which skills a text names: by path, by name, or by the beginning of a name."""

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from skills_mcp.routing.matcher import Mask
from skills_mcp.routing.tokens import SILENT_WORDS, fold
from skills_mcp.skills.model import Scope

if TYPE_CHECKING:
    from skills_mcp.routing.seen_skills import SeenSkills

_SHORTEST_BEGINNING = 3  # fewer letters begin too many words to mean a name

_LAST_SIGN = "\U0010ffff"  # behind everything that begins alike


@dataclass(frozen=True)
class Names:
    """What the skills of one set are called; a skill is its number there.

    Nothing is derived from the names before the first call.
    """

    paths: Sequence[str] = field(repr=False)
    names: Sequence[str] = field(repr=False)
    scopes: Sequence[Scope] = field(default=(), repr=False)
    """Whose skills they are; empty if they are all the organisation's."""

    def path(self, number: int) -> str:
        """Return where the skill is in the tree."""
        return self.paths[number]

    def scope(self, number: int) -> Scope:
        """Return whose skill it is."""
        return self.scopes[number] if self.scopes else "org"

    def find_path(self, text: str) -> tuple[int, ...]:
        """Return the skills with this path; more than one if they differ in signs."""
        return self._by_path.get(comparable(text), ())

    def find_name(self, text: str) -> tuple[int, ...]:
        """Return the skills with this name."""
        wanted = comparable(text)
        start = bisect_left(self._sorted, wanted)
        end = bisect_right(self._sorted, wanted, lo=start)
        return tuple(self._numbers[start:end])

    def find_beginning(self, text: str) -> tuple[int, ...]:
        """Return the skills whose names begin so, in the order of their names."""
        wanted = comparable(text)
        start = bisect_left(self._sorted, wanted)
        end = bisect_left(self._sorted, wanted + _LAST_SIGN)
        return tuple(self._numbers[start:end])

    def find_near(self, file: str) -> tuple[int, ...]:
        """Return the skills that a Markdown file may belong to, the likeliest first.

        It lies in the folder of a package, or beside one of its own name. A package
        at the top alone has the name that it gives itself.
        """
        *_, folder, last = ("", "", *comparable(file).split("/"))
        own = last.removesuffix(".md")
        near = (*self._find_last(folder), *self._find_last(own))
        return tuple(dict.fromkeys((*near, *self._at_top)))

    def find_only(self, text: str, within: Mask = None) -> int | None:
        """Return the skill that the whole text names, if it is a single one.

        Args:
            text: A path, a name with or without `$`, or the beginning of a name.
            within: Which skills may be meant; None for all.
        """
        wanted = clean(text)
        for found in (self.find_path(wanted), self.find_name(wanted)):
            allowed = _allow(found, within)
            if allowed:
                return allowed[0] if len(allowed) == 1 else None
        if len(wanted) < _SHORTEST_BEGINNING or fold(wanted) in SILENT_WORDS:
            return None
        allowed = _allow(self.find_beginning(wanted), within)
        return allowed[0] if len(allowed) == 1 else None

    def seen(self, seen: "SeenSkills") -> "SeenNames":
        """Return the same names, of which only those of some skills are known."""
        return SeenNames(self.paths, self.names, self.scopes, whole=self, some=seen)

    def _find_last(self, name: str) -> Sequence[int]:
        """Return the skills whose paths end with this name."""
        return self._by_last.get(name, ())

    @cached_property
    def _by_path(self) -> dict[str, tuple[int, ...]]:
        return _group(map(comparable, self.paths))

    @cached_property
    def _by_last(self) -> dict[str, tuple[int, ...]]:
        return _group(comparable(path.rpartition("/")[2]) for path in self.paths)

    @cached_property
    def _at_top(self) -> tuple[int, ...]:
        return tuple(n for n, path in enumerate(self.paths) if "/" not in path)

    @cached_property
    def _numbers(self) -> "array[int]":
        folded = list(map(comparable, self.names))
        return array("I", sorted(range(len(folded)), key=folded.__getitem__))

    @cached_property
    def _sorted(self) -> list[str]:
        return [comparable(self.names[number]) for number in self._numbers]


@dataclass(frozen=True, kw_only=True)
class SeenNames(Names):
    """The names of the skills that one caller sees; made of those of all skills."""

    whole: Names = field(repr=False)
    some: "SeenSkills"

    def path(self, number: int) -> str:
        """Return where the skill is in the tree."""
        return self.some.moved.get(number) or self.paths[number]

    def find_path(self, text: str) -> tuple[int, ...]:
        """Return the skills that are seen with this path."""
        moved, wanted = self.some.moved, comparable(text)
        there = (n for n in self._choose(self.whole.find_path(text)) if n not in moved)
        here = (n for n, path in moved.items() if comparable(path) == wanted)
        return tuple(self.some.sort((*there, *here)))

    def find_name(self, text: str) -> tuple[int, ...]:
        """Return the skills that are seen with this name."""
        return tuple(self._choose(self.whole.find_name(text)))

    def find_beginning(self, text: str) -> tuple[int, ...]:
        """Return the skills that are seen whose names begin so."""
        return tuple(self._choose(self.whole.find_beginning(text)))

    def _find_last(self, name: str) -> Sequence[int]:
        # A copy has the same last name as the first.
        return self.some.sort(self._choose(self.whole._find_last(name)))  # noqa: SLF001 - it is one of us

    @cached_property
    def _at_top(self) -> tuple[int, ...]:
        every = zip(self.some.numbers.tolist(), self.some.paths, strict=True)
        return tuple(number for number, path in every if "/" not in path)

    def _choose(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if self.some.mask[number]]


def clean(text: str) -> str:
    """Return a name without the spaces and the `$` that people put around it."""
    return " ".join(text.split()).removeprefix("$").strip()


def comparable(text: str) -> str:
    """Return a name so that `Release Notes`, `release_notes` and the like are one."""
    # Most names are ASCII, where folding is lowering, and there may be 10,000.
    folded = text.lower() if text.isascii() else fold(text)
    folded = folded.replace(" ", "-").replace("_", "-")
    return text if folded == text else folded  # or most names are in memory twice


def _group(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        grouped[text].append(number)
    # Ten thousand lists of one number take twice as much.
    return {text: tuple(numbers) for text, numbers in grouped.items()}


def _allow(numbers: Sequence[int], within: Mask) -> Sequence[int]:
    return numbers if within is None else [n for n in numbers if within[n]]
