"""What hosts make of a reply before their model sees it.

The evidence of each row is in `docs/reference/tools.md`.
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
    """A client whose model would not see all of a long reply, or not readably."""

    name: str
    """What its `clientInfo.name` begins with."""
    text_bytes: int
    """How much text one reply may hold so that all of it is shown."""
    text_lines: int | None = None
    """How many lines, if the client counts them."""


KNOWN_CLIENTS = (
    KnownClient("codex-mcp-client", 30_000),
    KnownClient("gemini-cli-mcp-client", 34_000),
    KnownClient("opencode", 44_000, 1_900),
    KnownClient("copilot-cli", 14_000),
)
"""Each below its measured limit, with room for what stands beside the text."""


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """How the replies of one call are written."""

    format: ReplyFormat
    max_characters: int
    """Of a reply without a long text."""
    text_bytes: int | None = None
    """Of one part of a text, in UTF-8; None for a text in one piece."""
    text_lines: int | None = None
    """Of one part of a text."""

    def measure(self, text: str) -> int:
        """Return what a piece of text uses of `text_bytes`."""
        is_escaped = self.format == "json"
        written = json.dumps(text, ensure_ascii=False) if is_escaped else text
        size = len(written.encode("utf-8", "surrogatepass"))
        if self.text_bytes is None or self.text_lines is None:
            return size
        line = self.text_bytes // self.text_lines
        return max(size, line * text.count("\n"))


_RULES: ContextVar[ReplyRules] = ContextVar("reply_rules")


def derive_rules(client: str, responses: Responses) -> ReplyRules:
    """Return how replies to a client are written.

    Args:
        client: The `clientInfo.name`, empty if it has not told one.
        responses: The settings; `auto` leaves the format to the table.
    """
    found = next((each for each in KNOWN_CLIENTS if client.startswith(each.name)), None)
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
def answering(rules: ReplyRules) -> Iterator[None]:
    """Let `current_rules` return these rules in the block, and in its threads."""
    token = _RULES.set(rules)
    try:
        yield
    finally:
        _RULES.reset(token)


def current_rules() -> ReplyRules:
    """Return how the reply to the call that is being answered is written.

    Raises:
        LookupError: No call is being answered, which is a defect of this program.
    """
    return _RULES.get()
