"""How much of a user's words and name an event may hold, as the operator decides.

Rule: everything is taken out before an event is written to the disk.
"""

import hmac
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skills_mcp.config import Analytics
from skills_mcp.files.kept_key import load_key
from skills_mcp.text.redaction import HIDDEN, redact, redact_remembered

HASH_PREFIX = "hmac-sha256:"
"""How a text begins that was hashed: equal texts stay equal, and cannot be read."""

_NAME_DIGITS = 12  # unique among millions of people, and short enough for a chart

# Never starts inside of an address, so that a long word is read once and not once for
# each of its letters.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HIDDEN_EMAIL = "***@***"

# `redact` keeps what does not look like a secret, so that messages stay readable. An
# event that leaves the machine may lose a word too many.
_NAMED = re.compile(
    r"""((?:\b|_)(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|api[_-]?key
          |(?:access|private|auth|signing|encryption)[_-]?key)(?:s|\b)["'\]]{0,2}
          \s{0,4}(?:=>|:=|[:=])\s{0,4})
        ("[^"\n]{1,200}"|'[^'\n]{1,200}'|[^\s"',;]{1,200})
      |(\s-u\s{0,4}[^\s:]{1,100}:)([^\s]{1,200})        # curl -u user:password
    """,
    re.IGNORECASE | re.VERBOSE,
)

# Of a text in an event; people paste logs into a task, and it is at both ends.
_MOST_CHARACTERS = 10_000
_LEFT_OUT = "\n[…]\n"

_SHORTEST_HOME = 3  # to take `/` out of a text would take every path apart


class Text(str):
    """Text that a user may have written, in a field that usually has none."""

    __slots__ = ()


class Privacy:
    """Takes out of an event what the operator does not allow in it.

    Args:
        key_file: Holds the key of this installation; made when it is first needed.
        environment: Names the user and the home.
    """

    def __init__(self, key_file: Path, environment: Mapping[str, str]) -> None:
        self._key_file = key_file
        self._environment = environment
        self._key = b""
        self._passing_name = os.urandom(_NAME_DIGITS // 2).hex()

    def name(self, rules: Analytics) -> str:
        """Return the name of this user for `server_id`."""
        user = derive_user(self._environment)
        if rules.identity == "user":
            return f"dev-{user}"
        if rules.identity == "none":
            return "dev"
        return f"dev-{self._digest('user', user)[:_NAME_DIGITS]}"

    def name_server(self, rules: Analytics, distinction: str) -> str:
        """Return the name of a server, which is that of no person.

        It stays the same as long as the key and the distinction do; with
        `analytics.identity: none`, as long as the process.
        """
        if rules.identity == "none":
            return f"server-{self._passing_name}"
        return f"server-{self._digest('server', distinction)[:_NAME_DIGITS]}"

    def hide(self, data: Mapping[str, Any], rules: Analytics) -> dict[str, Any]:
        """Return the fields of an event as they may be written."""
        return dict(self._hidden(data, rules))

    def _hidden(
        self, data: Mapping[str, Any], rules: Analytics
    ) -> Iterator[tuple[str, Any]]:
        for name, value in data.items():
            if name == "comment":
                yield name, self._hide_comment(value, rules)
            elif name == "context" or isinstance(value, Text):
                yield name, self._hide_text(value, rules)
                if name == "context" and value and rules.context == "hashed":
                    yield "context_tokens", len(value.split())
            else:
                yield name, _hide_remembered(value)

    def _hide_comment(self, text: str | None, rules: Analytics) -> str | None:
        """Return a comment; None if texts are hashed, as its hash says nothing."""
        if text is None or rules.context in {"hashed", "none"}:
            return None
        return self._hide_text(text, rules)

    def _hide_text(self, text: str, rules: Analytics) -> str:
        match rules.context:
            case "full":
                return _cut(redact_remembered(str(text)))
            case "redacted":
                return _cut(self._redact(text))
            case "hashed":
                return f"{HASH_PREFIX}{self._digest('context', text)}" if text else ""
            case "none":
                return ""

    def _redact(self, text: str) -> str:
        text = _NAMED.sub(_hide_named, redact(text))
        text = _EMAIL.sub(_HIDDEN_EMAIL, text)
        for name in ("HOME", "USERPROFILE"):
            home = self._environment.get(name, "").rstrip("/\\")
            if len(home) >= _SHORTEST_HOME:
                text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        return text

    def _digest(self, purpose: str, text: str) -> str:
        """Return a keyed hash (HMAC-SHA256) of a text."""
        self._key = self._key or load_key(self._key_file)
        message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()


def _cut(text: str) -> str:
    """Return the beginning and the end of a long text.

    Secrets are taken out before: half of one could not be recognised.
    """
    if len(text) <= _MOST_CHARACTERS:
        return text
    half = (_MOST_CHARACTERS - len(_LEFT_OUT)) // 2
    return f"{text[:half]}{_LEFT_OUT}{text[-half:]}"


def _hide_named(found: re.Match[str]) -> str:
    """Return the name of a secret, without the secret."""
    return f"{found[1] or found[3]}{HIDDEN}"


def derive_user(environment: Mapping[str, str]) -> str:
    """Return the name of the user on this machine.

    >>> derive_user({"USER": "ada"})
    'ada'
    """
    return environment.get("USER") or environment.get("USERNAME") or "unknown"


def _hide_remembered(value: Any) -> Any:
    if isinstance(value, str):
        return redact_remembered(value)
    if isinstance(value, list | tuple):
        return [_hide_remembered(each) for each in value]
    return value
