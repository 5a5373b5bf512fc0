"""Skill paths as names that the Agent Skills standard allows, and back again.

Rule: a name depends on its path alone, so that it stays the same when other skills
come and go, and no two paths have one name.

The standard allows 1 to 64 of a-z, 0-9 and single hyphens.  A path that is such a name
stays as it is.  Every other is spelled with hyphens and ends in `-x` and seven digits
of its digest, and so does a path that only looks as if it had them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256

from skills_mcp.skills.model import SkillPath
from skills_mcp.text.unicode import normalize

MAX_NAME_LENGTH = 64
"""What the Agent Skills standard and every framework that checks it allow."""

_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MARKED = re.compile(r".*-x(?:[0-9a-f]{7}|[0-9a-f]{39})")
_MARKS = re.compile("[\u0300-\u036f]+")  # accents, once they stand alone
_OTHERS = re.compile("[^a-z0-9]+")

# Few paths are spelled alike, so 28 bits keep them apart; 156 bits do where a stranger
# has looked for a path with the same few.
_DIGITS = 7
_ALL_DIGITS = 39


def name_paths(paths: Iterable[SkillPath]) -> Mapping[str, SkillPath]:
    """Return each path by its name; where two were alike, both have longer ones."""
    spelled: dict[str, list[SkillPath]] = defaultdict(list)
    for path in paths:
        spelled[spell_name(path)].append(path)
    return {
        name if len(alike) == 1 else spell_name(path, digits=_ALL_DIGITS): path
        for name, alike in spelled.items()
        for path in alike
    }


def spell_name(path: str, *, digits: int = _DIGITS) -> str:
    """Return a name for a path, from which nothing but a table leads back.

    >>> spell_name("pdf")
    'pdf'
    >>> spell_name("ui/react/auth")
    'ui-react-auth-x709ad3c'
    """
    if is_name(path) and not _MARKED.fullmatch(path):
        return path
    digest = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    # The end of a long path says most about the skill.
    words = derive_words(path)[-(MAX_NAME_LENGTH - len("-x") - digits) :].strip("-")
    return f"{words or 'skill'}-x{digest}"


def is_name(text: str) -> bool:
    """Return whether the Agent Skills standard allows this name.

    >>> is_name("code-review"), is_name("code--review"), is_name("ui/react")
    (True, False, False)
    """
    return len(text) <= MAX_NAME_LENGTH and _PLAIN.fullmatch(text) is not None


def derive_words(text: str) -> str:
    """Return the words of a path in a-z and 0-9, joined with hyphens.

    >>> derive_words("Ünïcode/Straße")
    'unicode-strasse'
    """
    bare = _MARKS.sub("", normalize("NFKD", text.casefold()))
    return _OTHERS.sub("-", bare).strip("-")
