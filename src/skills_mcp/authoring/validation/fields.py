"""The fields of a package's frontmatter (Agent Skills specification)."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from skills_mcp.authoring.validation.head import Head
from skills_mcp.authoring.validation.kinds import name_kind, write_as_text
from skills_mcp.authoring.validation.metadata import (
    EXAMPLES,
    ONE_ON_EACH_LINE,
    check_metadata,
)
from skills_mcp.authoring.validation.rules import Finding
from skills_mcp.skills.fields import text_of, words_of

FIELDS = (
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
)
"""What the standard allows at the top of a frontmatter."""

MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500

_SHOWN = 3

_OURS = frozenset({"keywords", "tags", "category", "inherit", "priority", "entry"})
_CLAUDE = frozenset(
    {"agent", "argument-hint", "context", "disable-model-invocation", "hooks"}
    | {"model", "user-invocable", "when_to_use"}
)
"""What one host reads at the top, so that a move would cost its effect."""

# Tools may have patterns with commas of their own: Bash(git add:*, git commit:*)
_TOOL = re.compile(r"(?:[^\s,(]|\([^)]*\))+")
_PATTERN = re.compile(r"\([^)]*\)")


def check_fields(head: Head) -> Iterator[Finding]:
    """Compare every field but the name with the standard."""
    yield from _description(head)
    yield from _texts(head)
    yield from _allowed_tools(head)
    yield from check_metadata(head)
    yield from _unknown(head)


def _description(head: Head) -> Iterator[Finding]:
    line = head.line("description")
    value = head.values.get("description")
    kind = name_kind(value)
    text = text_of(head.texts, "description")
    if not text and kind in {"", "empty"}:
        hint = "add what the skill does and when to use it: description: …"
        yield Finding("description", "has no description", hint, line)
    elif kind:
        hint = write_as_text("description", value, head.texts["description"])
        reason = f"has a description that is {kind}, not a text"
        yield Finding("description", reason, hint, line)
    length = len(str(head.texts.get("description", "")).strip())
    if text and length > MAX_DESCRIPTION:
        reason = f"has a description of {length:,} characters; "
        reason += f"{MAX_DESCRIPTION:,} are allowed"
        hint = "say what it does and when to use it, and move the rest into the body"
        yield Finding("description-length", reason, hint, line)


def _texts(head: Head) -> Iterator[Finding]:
    """Check the fields that only have to be texts."""
    for key in ("license", "compatibility"):
        if key not in head.values:
            continue
        if kind := name_kind(head.values[key]):
            hint = write_as_text(key, head.values[key], head.texts[key])
            reason = f"has {key} that is {kind}, not a text"
            yield Finding(key, reason, hint, head.line(key))
    text = head.values.get("compatibility")
    if isinstance(text, str) and not 1 <= len(text.strip()) <= MAX_COMPATIBILITY:
        length = len(text.strip())
        reason = f"has compatibility of {length:,} characters; "
        reason += f"1 to {MAX_COMPATIBILITY} are allowed"
        hint = "name what it needs in a sentence, or take it away"
        yield Finding("compatibility", reason, hint, head.line("compatibility"))


def _allowed_tools(head: Head) -> Iterator[Finding]:
    key = "allowed-tools"
    if key not in head.values:
        return
    value, written = head.values[key], head.texts[key]
    kind = name_kind(value)
    if kind:
        hint = write_as_text(key, value, written, separator=" ")
        reason = f"has {key} that are {kind}, not one text"
        yield Finding(key, reason, hint, head.line(key))
    elif "," in _PATTERN.sub("", written):
        hint = f"write spaces between them: {key}: {' '.join(_TOOL.findall(written))}"
        reason = f"has {key} with commas between them"
        yield Finding(key, reason, hint, head.line(key))


def _unknown(head: Head) -> Iterator[Finding]:
    for key in head.texts:
        if key not in FIELDS:
            reason = f"has the key {key!r}, which the standard does not know"
            yield Finding("unknown-key", reason, _advise(head, key), head.line(key))


def _advise(head: Head, key: str) -> str:
    guess = get_close_matches(key, FIELDS, n=1, cutoff=0.8)
    if guess:
        return f"did you mean {guess[0]}?"
    if key in _CLAUDE:
        return "keep it only if all who use the skill use Claude Code, which reads it"
    moved = f"move it below metadata: {_as_metadata(head, key)}"
    if key == "triggers":
        return f"move them below metadata: {_as_metadata(head, key, 'keywords')}"
    if key == EXAMPLES:
        return f"move them below metadata: {ONE_ON_EACH_LINE}"
    if key in _OURS:
        return f"{moved}; it means the same there"
    return f"{moved}; allowed at the top are {', '.join(FIELDS)}"


def _as_metadata(head: Head, key: str, name: str = "") -> str:
    """Show how a value is written as a text, which is all that metadata may hold."""
    name = name or key
    value = head.values.get(key)
    words = words_of(head.texts, key)
    if isinstance(value, list) and words:
        return f"{name}: {', '.join(words[:_SHOWN])}{', …' * (len(words) > _SHOWN)}"
    if value is None or isinstance(value, str | list | dict):
        return f"{name}: …"
    return f'{name}: "{head.texts[key]}"'
