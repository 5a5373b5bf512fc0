"""Rendering of replies as text blocks, within the limits of known clients.

Evidence for each row of `KNOWN_CLIENTS`: `docs/reference/tools.md`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from skills_mcp.config.sections import Responses

ReplyFormat = Literal["json", "markdown"]

# Beside a text: files, commit, and how to go on.
_METADATA_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client that truncates or escapes long replies."""

    name: str
    """Prefix of its `clientInfo.name`."""
    text_bytes: int
    text_lines: int | None = None
    """Maximum number of lines, if the client counts them."""


KNOWN_CLIENTS = (
    KnownClient("codex-mcp-client", 30_000),
    KnownClient("gemini-cli-mcp-client", 34_000),
    KnownClient("opencode", 44_000, 1_900),
    KnownClient("copilot-cli", 14_000),
)
"""Each below its measured limit, with a reserve for the metadata."""


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """Format and limits of the replies of one call."""

    format: ReplyFormat
    max_characters: int
    text_bytes: int | None = None
    """Of one part of a text, in UTF-8; None: never split."""
    text_lines: int | None = None

    def measure(self, text: str) -> int:
        """Share of `text_bytes` used by a text."""
        is_escaped = self.format == "json"
        written = json.dumps(text, ensure_ascii=False) if is_escaped else text
        size = len(written.encode("utf-8", "surrogatepass"))
        if self.text_bytes is None or self.text_lines is None:
            return size
        line = self.text_bytes // self.text_lines
        return max(size, line * text.count("\n"))


_RULES: ContextVar[ReplyRules] = ContextVar("reply_rules")


def derive_rules(client: str, responses: Responses) -> ReplyRules:
    """Reply rules for a client.

    Args:
        client: `clientInfo.name`, empty if unknown.
        responses: The settings; `auto` leaves the format to the table.
    """
    found = next(
        (client_limits for client_limits in KNOWN_CLIENTS if client.startswith(client_limits.name)),
        None,
    )
    if found is None:
        style: ReplyFormat = "markdown" if responses.format == "markdown" else "json"
        return ReplyRules(style, responses.max_characters)
    return ReplyRules(
        "json" if responses.format == "json" else "markdown",
        min(responses.max_characters, found.text_bytes + _METADATA_CHARACTERS),
        found.text_bytes,
        found.text_lines,
    )


@contextmanager
def use_reply_rules(rules: ReplyRules) -> Iterator[None]:
    """Set the rules for `current_rules` in the block and its threads."""
    token = _RULES.set(rules)
    try:
        yield
    finally:
        _RULES.reset(token)


def current_rules() -> ReplyRules:
    """Reply rules of the current call.

    Raises:
        LookupError: No call is being answered: a defect of this program.
    """
    return _RULES.get()
