"""Relative paths: safety, equality and patterns, the same on every system.

Nothing here reads the disk; `files.opening` does, without following links.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import translate
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from threading import Lock

from skills_mcp.errors import InvalidPathError
from skills_mcp.text.unicode import BLANK_CHARACTERS

_NO_HOME = "/nonexistent"  # as Debian names the home of a user without one


def find_user_home() -> Path:
    """Absolute home of the user; a folder that is nowhere for a user without one."""
    home = os.path.expanduser("~")  # noqa: PTH111 - the method fails without a home
    return Path(os.path.abspath(_NO_HOME if home == "~" else home))  # noqa: PTH100


def expand_home_folder(path: str, home: Path | None = None) -> Path:
    """Expand `~` in an operator's path.

    >>> str(expand_home_folder("~/src", Path("/home/ada")))
    '/home/ada/src'
    """
    first, _, rest = path.replace(os.sep, "/").partition("/")
    return (home or find_user_home()) / rest if first == "~" else Path(os.path.expanduser(path))  # noqa: PTH111


MAX_PARTS = 1 + 32
"""A file in 32 folders: three times the deepest public skill."""

_MAX_LENGTH = 1024
_MAX_PART_BYTES = 255  # the limit of every common file system
_NO_NAMES = frozenset({"", ".", ".."})

# What a file system, a terminal or a log could misread. Cc: control characters,
# Cf: invisible marks such as the bidirectional overrides, Cs: lone surrogates,
# Co and Cn: up to the font or the next Unicode, Zl and Zp: line ends.
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# What else is invisible although Unicode counts it among letters and marks: a joiner
# and variation selectors.
_INVISIBLE = re.compile(
    f"[{BLANK_CHARACTERS}\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)

# A pattern, a redirection, a separator or a stream to some shell or file system.
_SPECIAL_CHARACTERS = re.compile(r'[/\\:*?"<>|]')

# What Windows takes for a device, with any extension.
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])[ ]*(?:\..*)?",
    re.IGNORECASE,
)

# What Windows calls another file, too: GIT~1 is .git, SKILLS~1 skills-content.
_SHORT_NAME = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{0,3})?")

_PLAIN = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")

# Letters and digits of names that are too long for a device, or not like one. Nearly
# all are like that, and to look at each of a hundred thousand names takes its time.
_PLAIN_STEM = r"(?:[\w-]{5,80}|(?!con|prn|aux|nul|com|lpt)[\w-]{1,4})"
_PLAIN_COMPONENT = rf"{_PLAIN_STEM}(?:\.[\w-]{{1,80}}){{0,2}}"
_PLAIN_PATH = re.compile(rf"{_PLAIN_COMPONENT}(?:/{_PLAIN_COMPONENT})*", re.ASCII | re.IGNORECASE)


_DESKTOP_FILES = frozenset({".ds_store", "thumbs.db", "ehthumbs.db", "desktop.ini"})


def is_desktop_file(name: str) -> bool:
    """Whether macOS or Windows adds a file of this name to a folder or an archive.

    >>> [is_desktop_file(name) for name in ("._SKILL.md", "Thumbs.db", "thumbs.md")]
    [True, True, False]
    """
    return name.startswith("._") or name.casefold() in _DESKTOP_FILES


def parse_relative(text: str) -> tuple[str, ...]:
    """Components of a relative path, unambiguous on every system.

    >>> parse_relative("assets/flow.svg")
    ('assets', 'flow.svg')

    Raises:
        InvalidPathError: For an absolute path, `..`, a leading `~`, an empty component,
        a
            backslash, a drive, a device or a short name of Windows, an invisible
            character, or an excessive length.
    """
    parts = text.split("/", MAX_PARTS) if 0 < len(text) <= _MAX_LENGTH else []
    is_listed = 0 < len(parts) <= MAX_PARTS and not text.startswith("~")
    if not is_listed or any(map(_is_unsafe, parts)):
        raise InvalidPathError(
            "This is not a path inside the skill's folder. Use a file exactly as the "
            "skill lists it, relative and with forward slashes: assets/example.txt"
        )
    return tuple(parts)


@lru_cache(maxsize=1 << 16)
def is_path_component(name: str) -> bool:
    """Whether a name is one path component, the same on every system.

    >>> [is_path_component(name) for name in ("SKILL.md", "aux.md", "a/b", "..")]
    [True, False, False, False]
    """
    return not (name.startswith("~") or _is_unsafe(name))


def are_plain_components(names: Collection[str]) -> bool:
    """Fast path for many names; if False, use `is_path_component`.

    >>> are_plain_components(["SKILL.md", "scripts"]), are_plain_components(["a/b.py"])
    (True, False)
    """
    joined = "/".join(names)
    has_no_slashes = joined.count("/") == len(names) - 1
    return has_no_slashes and is_plain_path(joined)


def is_plain_path(path: str) -> bool:
    """Fast path for a relative path; if False, use `is_path_component`.

    >>> is_plain_path("scripts/run.py"), is_plain_path("a/../b"), is_plain_path("/a")
    (True, False, False)
    """
    return _PLAIN_PATH.fullmatch(path) is not None


def is_relative_path(path: str) -> bool:
    try:
        parse_relative(path)
    except InvalidPathError:
        return False
    return True


def is_inside(folder: str, above: str) -> bool:
    return not above or folder == above or folder.startswith(f"{above}/")


def iterate_folders(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, and the root (empty) last."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def find_marked_folder(folder: Path, *markers: str) -> Path | None:
    """Find the nearest folder with a marker, such as `.git`, from a folder upwards.

    A broken link is no marker, as in Git.
    """
    for above in (folder, *folder.parents):
        # Unlike the method, this function does not fail in a folder without permission.
        if any(os.path.exists(above / name) for name in markers):  # noqa: PTH110
            return above
    return None


def can_find(path: Path) -> bool:
    """Whether a file exists; False for a name that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def fold_name(name: str) -> str:
    """Key of a name on file systems ignoring case and composition."""
    if name.isascii():
        return name.lower()
    return _to_nfc(_to_nfc(name).casefold())


def find_composed_name(names: Iterable[str], requested: str) -> str | None:
    r"""Look up a name in any Unicode composition; None if ambiguous.

    >>> find_composed_name(["a.txt", "e\u0301.txt"], "\xe9.txt") == "e\u0301.txt"
    True
    """
    key = _to_nfc(requested)
    found = {name for name in names if _to_nfc(name) == key}
    return found.pop() if len(found) == 1 else None


def _to_nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _is_unsafe(part: str) -> bool:
    is_plain = _PLAIN.fullmatch(part) and len(part) <= _MAX_PART_BYTES
    return _is_reserved(part) or (not is_plain and _is_ambiguous(part))


def _is_reserved(part: str) -> bool:
    return (
        part.lower() == ".git"
        or _DEVICE.fullmatch(part) is not None
        or _SHORT_NAME.fullmatch(part) is not None
    )


def _is_ambiguous(part: str) -> bool:
    return (
        part in _NO_NAMES
        or part != part.strip()
        or part.endswith(".")
        or _SPECIAL_CHARACTERS.search(part) is not None
        or _INVISIBLE.search(part) is not None
        or any(unicodedata.category(c) in _FORBIDDEN_CATEGORIES for c in part)
        or len(part.encode("utf-8")) > _MAX_PART_BYTES
    )


_STAR, _FOLDERS = "*", "**/"
"""The gaps of a pattern: any text; any folders, or none."""

# Of one automaton. The grants of an organisation need some hundred states; where more
# are needed than this takes, the matches are only slower.
_MAX_TABLE_BYTES = 1 << 20

# A state with one way out of it, without its positions.
_STATE_BYTES = 500

# Each with an automaton: those of the settings, and those of the last calls.
_MAX_COMPILED = 32

# To look for each of them takes less time than the automaton, which few paths reach.
_MAX_LITERALS = 8


def matches_any(path: str, *patterns: str) -> bool:
    """Match a whole path in any Unicode composition; `**/` is any folders or none.

    >>> [matches_any(path, "**/*.md") for path in ("a.md", "b/c/a.md", "a.txt")]
    [True, True, False]
    """
    return _compile(patterns)(path)


def compile_patterns(patterns: Iterable[str]) -> Callable[[str], bool]:
    fits_any = _Automaton(map(_to_nfc, patterns)).fits
    return lambda path: fits_any(_to_nfc(path))


def count_wildcards(pattern: str) -> int:
    """Number of wildcards and character classes in a pattern.

    >>> count_wildcards("**/ui-?/[ab]*")
    4
    """
    parts = _merge_wildcards(_tokenize(_to_nfc(pattern)))
    return sum(not _is_literal(part) for part in parts)


_compile = lru_cache(maxsize=_MAX_COMPILED)(compile_patterns)


class _State(dict[str, "_State"]):
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
    """Lazy DFA of several patterns in composed form.  Thread-safe.

    Rule: matching takes time linear in the path, and memory linear in the patterns.

    Each position in a pattern is a bit of a nondeterministic automaton (Thompson,
    "Regular Expression Search Algorithm", 1968). Its sets of positions become states of
    a deterministic one on demand, in a table cleared when full, as in RE2 (Cox,
    "Regular Expression Matching in the Wild", 2010).
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
        position, literals = 0, []
        for pattern in patterns:
            parts = [*_merge_wildcards(_tokenize(pattern))]
            position = self._add_pattern(parts, position)
            literals.append(_longest_literal(parts))
        is_few = len(literals) <= _MAX_LITERALS and all(literals)
        self._literals = literals if is_few else [""]
        self._tests = [
            (re.compile(translate(pattern_class)).match, positions)
            for pattern_class, positions in self._classes.items()
        ]
        state_bytes = _STATE_BYTES + position // 8
        self._max_transitions = _MAX_TABLE_BYTES // state_bytes + 1
        self._start = self._open(self._epsilon_closure(self._begin))

    def fits(self, path: str) -> bool:
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
        positions = state.positions
        consumed = positions & self._find_consuming(character)
        following = self._epsilon_closure(consumed << 1 | positions & self._repeated)
        with self._lock:
            if self._transitions >= self._max_transitions:
                self._clear_table()
            self._transitions += 1
            state[character] = self._open(following)
            return state[character]

    def _add_pattern(self, parts: Iterable[str], position: int) -> int:
        self._begin |= 1 << position
        for part in parts:
            if part == _STAR:
                self._repeated |= 1 << position
                continue
            if part == _FOLDERS:
                # Straight on, or through a position that takes all up to a slash.
                self._optional |= 1 << position
                position += 1
                self._repeated |= 1 << position
                self._take("/", 1 << position)
            elif part == "?":
                self._any |= 1 << position
            elif len(part) > 1:
                self._classes[part] = self._classes.get(part, 0) | 1 << position
            else:
                self._take(part, 1 << position)
            position += 1
        self._end |= 1 << position
        return position + 1

    def _take(self, character: str, position: int) -> None:
        self._characters[character] = self._characters.get(character, 0) | position

    def _epsilon_closure(self, positions: int) -> int:
        optional = positions & self._optional
        return positions | optional << 1 | optional << 2

    def _find_consuming(self, character: str) -> int:
        found = self._any | self._characters.get(character, 0)
        for is_of_class, positions in self._tests:
            if is_of_class(character):
                found |= positions
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

    def _clear_table(self) -> None:
        """Clear the table; running matches continue from their states."""
        for state in self._states.values():
            state.clear()  # or only the garbage collector would free them
        self._states.clear()
        self._transitions = 0
        self._start = self._open(self._start.positions)


def _tokenize(pattern: str) -> Iterator[str]:
    position = 0
    while position < len(pattern):
        part = pattern[position]
        if pattern.startswith(_FOLDERS, position):
            part = _FOLDERS
        elif part == "[":
            part = pattern[position : _find_class_end(pattern, position)]
        yield part
        position += len(part)


def _find_class_end(pattern: str, position: int) -> int:
    first = position + 1
    first += pattern.startswith("!", first)
    # A bracket that stands first is one of the characters.
    closing = pattern.find("]", first + 1)
    return closing + 1 or position + 1


def _merge_wildcards(parts: Iterable[str]) -> Iterator[str]:
    """Merge adjacent wildcards: any text includes any folders."""
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


def _longest_literal(parts: Iterable[str]) -> str:
    runs = groupby(parts, _is_literal)
    return max(("".join(run) for is_text, run in runs if is_text), key=len, default="")


def _is_literal(part: str) -> bool:
    return len(part) == 1 and part not in "*?"
