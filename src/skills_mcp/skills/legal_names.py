"""Standard names of skill paths."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256

from skills_mcp.skills.model import SkillPath
from skills_mcp.text.unicode import normalize_unicode

MAX_NAME_LENGTH = 64
"""Limit of the Agent Skills standard and its validators."""

_STANDARD_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WITH_DIGEST = re.compile(r".*-x(?:[0-9a-f]{7}|[0-9a-f]{39})")
_ACCENTS = re.compile("[\u0300-\u036f]+")  # accents, once they stand alone
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")

# Few paths are spelled alike, so 28 bits keep them apart; 156 bits do where a stranger
# has looked for a path with the same few.
_DIGITS = 7
_LONG_DIGITS = 39


def map_standard_names(paths: Iterable[SkillPath]) -> Mapping[str, SkillPath]:
    """Map standard names to paths; colliding names get longer digests."""
    spelled: dict[str, list[SkillPath]] = defaultdict(list)
    for path in paths:
        spelled[to_standard_name(path)].append(path)
    return {
        name if len(alike) == 1 else to_standard_name(path, digits=_LONG_DIGITS): path
        for name, alike in spelled.items()
        for path in alike
    }


def to_standard_name(path: str, *, digits: int = _DIGITS) -> str:
    """Convert a path to a standard name; irreversible without a table.

    >>> to_standard_name("pdf")
    'pdf'
    >>> to_standard_name("ui/react/auth")
    'ui-react-auth-x709ad3c'
    """
    if is_standard_name(path) and not _WITH_DIGEST.fullmatch(path):
        return path
    digest = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    # The end of a long path says most about the skill.
    words = hyphenate(path)[-(MAX_NAME_LENGTH - len("-x") - digits) :].strip("-")
    return f"{words or 'skill'}-x{digest}"


def is_standard_name(text: str) -> bool:
    """Whether the Agent Skills standard allows this name.

    >>> [is_standard_name(n) for n in ("code-review", "code--review", "ui/react")]
    [True, False, False]
    """
    return len(text) <= MAX_NAME_LENGTH and _STANDARD_NAME.fullmatch(text) is not None


def hyphenate(text: str) -> str:
    """Transliterate a path to a-z and 0-9, with hyphens between words.

    >>> hyphenate("Ünïcode/Straße")
    'unicode-strasse'
    """
    bare = _ACCENTS.sub("", normalize_unicode("NFKD", text.casefold()))
    return _OTHER_CHARACTERS.sub("-", bare).strip("-")
