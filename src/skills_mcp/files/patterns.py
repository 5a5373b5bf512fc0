"""Patterns of paths, compiled into one automaton for all of them.

Rule: with any patterns, a match takes time in proportion to the path, and the automaton
takes memory in proportion to the patterns.

Each position in a pattern is a bit of a nondeterministic automaton (Thompson, "Regular
Expression Search Algorithm", 1968). Its sets of positions become the states of a
deterministic one when a path first needs them, in a table that is emptied when it is
full, as in RE2 (Cox, "Regular Expression Matching in the Wild", 2010).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from functools import lru_cache
from itertools import groupby
from threading import Lock

_ANY_FOLDERS = "**/"

_STAR, _FOLDERS = "*", "**/"
"""The gaps of a pattern: any text; any folders, or none."""

# Of one automaton. The grants of an organisation need some hundred states; where more
# are needed than this takes, the matches are only slower.
_MAX_TABLE_BYTES = 1 << 20

# A state with one way out of it, without its positions.
_STATE_BYTES = 500

# Each with an automaton: those of the settings, and those of the last calls.
_MOST_KEPT = 32

# To look for each of them takes less time than the automaton, which few paths reach.
_MOST_LITERALS = 8


def fits(path: str, *patterns: str) -> bool:
    """Whether one of the patterns fits a whole path, however its accents are encoded.

    `*` also stands for slashes, and `**/` for any folders or none.

    >>> [fits(path, "**/*.md") for path in ("a.md", "b/c/a.md", "a.txt")]
    [True, True, False]
    """
    return _compile(patterns)(path)


def compile_patterns(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether any of these patterns fits a path.

    It answers as `fits` does; to compile them pays for many paths.
    """
    fits_any = _Automaton(map(_compose, patterns)).fits
    return lambda path: fits_any(_compose(path))


def count_wildcards(pattern: str) -> int:
    """Return how many gaps, classes and any characters a pattern has.

    >>> count_wildcards("**/ui-?/[ab]*")
    4
    """
    parts = _simplify(_split(_compose(pattern)))
    return sum(not _is_text(part) for part in parts)


_compile = lru_cache(maxsize=_MOST_KEPT)(compile_patterns)


def _compose(name: str) -> str:
    """Return the one spelling that all encodings of a name share (NFC)."""
    return unicodedata.normalize("NFC", name)


class _State(dict[str, "_State"]):
    """A set of positions, and the next state for each character that was looked at."""

    __slots__ = ("_automaton", "accepts", "is_final", "positions")

    def __init__(
        self,
        automaton: "_Automaton",
        positions: int,
        *,
        accepts: bool,
        is_final: bool,
    ) -> None:
        super().__init__()
        self._automaton = automaton
        self.positions = positions
        self.accepts = accepts
        self.is_final = is_final
        """Whether no further character changes `accepts`."""

    def __missing__(self, character: str) -> "_State":
        return self._automaton.advance(self, character)


class _Automaton:
    """Patterns that are matched together.  Any thread may match.

    Args:
        patterns: In composed form.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._lock = Lock()
        self._states: dict[int, _State] = {}
        self._transitions = 0
        # Sets of positions: where a pattern begins and ends, where a gap repeats, and
        # where one may be left out.
        self._begin = self._end = self._repeated = self._optional = 0
        # The positions whose character is any, one certain, or of a class.
        self._any = 0
        self._characters: dict[str, int] = {}
        self._classes: dict[str, int] = {}
        place, literals = 0, []
        for pattern in patterns:
            parts = [*_simplify(_split(pattern))]
            place = self._add(parts, place)
            literals.append(_find_literal(parts))
        is_few = len(literals) <= _MOST_LITERALS and all(literals)
        self._literals = literals if is_few else [""]
        self._tests = [
            (re.compile(translate(each)).match, places)
            for each, places in self._classes.items()
        ]
        state_bytes = _STATE_BYTES + place // 8
        self._max_transitions = _MAX_TABLE_BYTES // state_bytes + 1
        self._start = self._open(self._skip(self._begin))

    def fits(self, path: str) -> bool:
        """Whether one of the patterns fits."""
        for literal in self._literals:
            if literal in path:
                break
        else:
            return False
        state = self._start
        for character in path:
            if state.is_final:
                break
            state = state[character]
        return state.accepts

    def advance(self, state: _State, character: str) -> _State:
        """Return the state after a character, and keep the way to it."""
        positions = state.positions
        taken = positions & self._find_takers(character)
        following = self._skip(taken << 1 | positions & self._repeated)
        with self._lock:
            if self._transitions >= self._max_transitions:
                self._empty()
            self._transitions += 1
            state[character] = self._open(following)
            return state[character]

    def _add(self, parts: Iterable[str], place: int) -> int:
        """Add a pattern at a position; return the one after it."""
        self._begin |= 1 << place
        for part in parts:
            if part == _STAR:
                self._repeated |= 1 << place
                continue
            if part == _FOLDERS:
                # Straight on, or through a position that takes all up to a slash.
                self._optional |= 1 << place
                place += 1
                self._repeated |= 1 << place
                self._take("/", 1 << place)
            elif part == "?":
                self._any |= 1 << place
            elif len(part) > 1:
                self._classes[part] = self._classes.get(part, 0) | 1 << place
            else:
                self._take(part, 1 << place)
            place += 1
        self._end |= 1 << place
        return place + 1

    def _take(self, character: str, position: int) -> None:
        self._characters[character] = self._characters.get(character, 0) | position

    def _skip(self, positions: int) -> int:
        """Add the positions that are reached without a character."""
        optional = positions & self._optional
        return positions | optional << 1 | optional << 2

    def _find_takers(self, character: str) -> int:
        """Return the positions that a character takes further."""
        found = self._any | self._characters.get(character, 0)
        for is_of_class, places in self._tests:
            if is_of_class(character):
                found |= places
        return found

    def _open(self, positions: int) -> _State:
        state = self._states.get(positions)
        if state is None:
            ends = positions & self._end
            state = self._states[positions] = _State(
                self,
                positions,
                accepts=ends != 0,
                is_final=positions == 0 or ends & self._repeated != 0,
            )
        return state

    def _empty(self) -> None:
        """Forget the table; who stands in one of its states goes on from there."""
        for state in self._states.values():
            state.clear()  # or only the garbage collector would free them
        self._states.clear()
        self._transitions = 0
        self._start = self._open(self._start.positions)


def _split(pattern: str) -> Iterator[str]:
    """Iterate over gaps, classes and characters, as `fnmatch` has them."""
    place = 0
    while place < len(pattern):
        part = pattern[place]
        if pattern.startswith(_FOLDERS, place):
            part = _FOLDERS
        elif part == "[":
            part = pattern[place : _find_class_end(pattern, place)]
        yield part
        place += len(part)


def _find_class_end(pattern: str, place: int) -> int:
    """Return where a class ends; after its bracket, if that is never closed."""
    first = place + 1
    first += pattern.startswith("!", first)
    # A bracket that stands first is one of the characters.
    closing = pattern.find("]", first + 1)
    return closing + 1 or place + 1


def _simplify(parts: Iterable[str]) -> Iterator[str]:
    """Make gaps without a character between them one: any text has all folders."""
    gap = ""
    for part in parts:
        if part in {_STAR, _FOLDERS}:
            gap = part if gap != _STAR else gap
            continue
        if gap:
            yield gap
        gap = ""
        yield part
    if gap:
        yield gap


def _find_literal(parts: Iterable[str]) -> str:
    """Return the longest text that is in each path that the pattern fits."""
    runs = groupby(parts, _is_text)
    return max(("".join(run) for is_text, run in runs if is_text), key=len, default="")


def _is_text(part: str) -> bool:
    return len(part) == 1 and part not in "*?"
