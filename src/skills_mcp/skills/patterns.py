"""Patterns of paths, as people write them in settings and arguments.

`*` also stands for slashes, and `**/` for any folders or none.
"""

import unicodedata
from fnmatch import fnmatchcase

_ANY_FOLDERS = "**/"
_MOST = 4  # each doubles the ways to read a pattern; more are no help


def fits(path: str, pattern: str) -> bool:
    """Whether a pattern fits a path as a whole, however its accents are encoded.

    >>> [fits(path, "**/*.md") for path in ("a.md", "b/c/a.md", "a.txt")]
    [True, True, False]
    """
    return _fits(_composed(path), _composed(pattern), _MOST)


def clean(pattern: str) -> str:
    """Return a pattern of skills without what people add to a folder's name.

    >>> [clean(each) for each in ("./pdf/", "/pdf", "pdf/SKILL.md", "pdf/**")]
    ['pdf', 'pdf', 'pdf', 'pdf/*']
    """
    bare = pattern.strip().removeprefix("./").strip("/")
    bare = bare.removesuffix("/SKILL.md")
    return f"{bare.removesuffix('/**')}/*" if bare.endswith("/**") else bare


def _fits(path: str, pattern: str, left: int) -> bool:
    head, found, tail = pattern.partition(_ANY_FOLDERS)
    if not found or not left:
        return fnmatchcase(path, pattern)
    return any(
        _fits(path, f"{head}{between}{tail}", left - 1) for between in ("", "*/")
    )


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
