"""Single values of a frontmatter; one that is wrong is reported, not raised.

Every scalar arrives as text, see `safe_yaml.parse_texts`.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from skills_mcp.skills.problems import ProblemList
from skills_mcp.text.rendering import shorten

# YAML's own spellings.
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
EMPTY = frozenset({"", "~", "null"})

# Priority only breaks ties: 1,000 is one whole point of score (001 §5.2).
_MAX_PRIORITY = 1000
_INTEGER = re.compile(r"[+-]?\d{1,5}")

_ENTRY = "entry"
_METADATA = "metadata"
_EXAMPLES = "examples"
_EXAMPLE_KEYS = ("query", "prompt")
"""What files of prompts call the task; both are customary."""


def text_of(fields: Mapping[str, Any], key: str) -> str:
    """Return a text on one line; empty if the value is no text."""
    value = fields.get(key)
    folded = " ".join(value.split()) if isinstance(value, str) else ""
    return "" if folded.casefold() in EMPTY else folded


def mapping_of(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping; empty if the value is none."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def words_of(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of texts, which may be written with commas instead."""
    value = fields.get(key)
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list):
        return ()
    texts = (" ".join(item.split()) for item in items if isinstance(item, str))
    return tuple(filter(None, texts))


def distinct(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return each word once; upper and lower case are the same."""
    kept: dict[str, str] = {}
    for word in words:
        kept.setdefault(word.casefold(), word)
    return tuple(kept.values())


def flag_of(
    fields: Mapping[str, Any], key: str, report: ProblemList, *, default: bool
) -> bool:
    """Return a switch, as YAML spells it."""
    value = fields.get(key, "")
    word = value.strip().casefold() if isinstance(value, str) else "no scalar"
    if word in _TRUE | _FALSE:
        return word in _TRUE
    if word not in EMPTY:
        reason = f"has {key}: {shorten(value)}, so {str(default).lower()} is used"
        report.warn(f"{key}-type", reason, "write true or false", key=key)
    return default


def priority_of(fields: Mapping[str, Any], report: ProblemList) -> int:
    """Return the priority, or 0 for what is no number that it may have."""
    value = fields.get("priority", "")
    word = value.strip().casefold() if isinstance(value, str) else "no scalar"
    if word in EMPTY:
        return 0
    if _INTEGER.fullmatch(word) and abs(int(word)) <= _MAX_PRIORITY:
        return int(word)
    report.warn(
        "priority-type",
        f"has priority: {shorten(value)}, so 0 is used",
        f"write a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}",
        key="priority",
    )
    return 0


def examples_of(value: Any, report: ProblemList) -> tuple[str, ...]:
    """Return tasks in a user's words, each once.

    They are a list of texts, or of mappings that have the text as `query` or
    `prompt`; or one text with an example on each line, because the standard of
    packages allows nothing but texts in `metadata`.
    """
    entries = value.splitlines() if isinstance(value, str) else value
    hint = "write a list of tasks: examples: / - add login to the React app"
    if not isinstance(entries, list):
        if entries is not None:
            reason = "has examples that are no list of texts"
            report.warn(f"{_EXAMPLES}-type", reason, hint, key=_EXAMPLES)
        return ()
    texts = tuple(map(_example, entries))
    if isinstance(value, list) and not all(texts):
        reason = "has an entry in examples without a text"
        report.warn(f"{_EXAMPLES}-entry", reason, hint, key=_EXAMPLES)
    return tuple(dict.fromkeys(filter(None, texts)))


def entry_of(fields: Mapping[str, Any], report: ProblemList) -> tuple[str, ...]:
    """Return the words of the command that a package is entered by.

    They are split as a shell would, but nothing in them is expanded.
    """
    value = fields.get(_ENTRY, "")
    words = split_words(value) if isinstance(value, str) else None
    if words is None:
        reason = "has an entry that is no command line, so there is none"
        hint = "write one text and close its quotes: entry: python3 scripts/run.py"
        key = _ENTRY if _ENTRY in report.lines else _METADATA
        report.warn(f"{_ENTRY}-type", reason, hint, key=key)
        return ()
    return () if len(words) == 1 and words[0].casefold() in EMPTY else words


def split_words(text: str) -> tuple[str, ...] | None:
    """Return the words of a command line, or None if its quotes do not match.

    >>> split_words("python3 run.py 'two words' $HOME # not a comment")
    ('python3', 'run.py', 'two words', '$HOME', '#', 'not', 'a', 'comment')
    """
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return None


def _example(entry: Any) -> str:
    """Return the text of an entry; empty if it has none."""
    if isinstance(entry, dict):
        found = (text_of(entry, key) for key in _EXAMPLE_KEYS)
        return next(filter(None, found), "")
    return text_of({_EXAMPLES: entry}, _EXAMPLES)
