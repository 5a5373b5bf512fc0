"""Relative paths: safety, equality and patterns, the same on every system.

Nothing here reads the disk; `files.opening` does, without following links.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

from skills_mcp.errors import InvalidPathError
from skills_mcp.text.unicode import BLANK_CHARACTERS

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
