"""The metadata of a package: texts only, and one extension that we know."""

from collections.abc import Iterator, Mapping
from typing import Any

from skills_mcp.authoring.validation.head import Head
from skills_mcp.authoring.validation.kinds import name_kind, write_as_text
from skills_mcp.authoring.validation.rules import Finding
from skills_mcp.skills.fields import mapping_of, words_of

_KEY = "metadata"
_EXTENSION = "skillhub"

EXAMPLES = "examples"
ONE_ON_EACH_LINE = "examples: | and each task on a line of its own"
"""How a list of tasks is written as the text that a standard asks for."""


def check_metadata(head: Head) -> Iterator[Finding]:
    """Check that the metadata is a map of texts."""
    if _KEY not in head.values:
        return
    values = head.values[_KEY]
    if not isinstance(values, dict):
        kind = name_kind(values) or "a text"
        reason = f"has {_KEY} that is {kind}, not a map"
        hint = f"write {_KEY}: / author: … below each other, or take it away"
        yield Finding("metadata", reason, hint, head.line(_KEY))
        return
    written = mapping_of(head.texts, _KEY)
    for name, value in values.items():
        key = str(name)
        if key == _EXTENSION and isinstance(value, dict):
            yield _extension(head)
        elif kind := name_kind(value):
            reason = f"has {_KEY}.{key}, which is {kind}; the standard has texts only"
            hint = _advise(key, value, written)
            yield Finding("metadata-value", reason, hint, head.line(_KEY, key))


def _extension(head: Head) -> Finding:
    """SkillHub's own (000 §5.2): we read it, and other readers refuse it."""
    reason = f"has {_KEY}.{_EXTENSION}, a map that only some readers know"
    hint = f"write texts: {_KEY}: / category: … / tags: one, two"
    return Finding("metadata-skillhub", reason, hint, head.line(_KEY, _EXTENSION))


def _advise(key: str, value: Any, written: Mapping[str, Any]) -> str:
    if key == "triggers" and (words := words_of(mapping_of(written, key), "keywords")):
        return f"write one text: keywords: {', '.join(words[:3])}, …"
    if key == EXAMPLES and isinstance(value, list):
        return f"write one text: {ONE_ON_EACH_LINE}"
    return write_as_text(key, value, written.get(key, ""))
