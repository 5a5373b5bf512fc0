"""Redaction and pseudonyms: everything is redacted before an event is written."""

import hmac
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skills_mcp.config import Analytics
from skills_mcp.files.durable import load_secret_key
from skills_mcp.text.redaction import REDACTED, redact, redact_registered

HASH_PREFIX = "hmac-sha256:"
"""Prefix of a hashed text: equal texts stay equal, and cannot be read."""

_NAME_DIGITS = 12  # unique among millions of people, and short enough for a chart

_SHARE_DIGITS = 12  # more than there are machines

# Never starts inside of an address, so that a long word is read once and not once for
# each of its letters.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_REDACTED_EMAIL = "***@***"

# `redact` keeps what does not look like a secret, so that messages stay readable. An
# event that leaves the machine may lose a word too many.
_NAMED_SECRET = re.compile(
    r"""((?:\b|_)(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|api[_-]?key
          |(?:access|private|auth|signing|encryption)[_-]?key)(?:s|\b)["'\]]{0,2}
          \s{0,4}(?:=>|:=|[:=])\s{0,4})
        ("[^"\n]{1,200}"|'[^'\n]{1,200}'|[^\s"',;]{1,200})
      |(\s-u\s{0,4}[^\s:]{1,100}:)([^\s]{1,200})        # curl -u user:password
    """,
    re.IGNORECASE | re.VERBOSE,
)

# Of a text in an event; people paste logs into a task, and it is at both ends.
_MAX_CHARACTERS = 10_000
_ELLIPSIS = "\n[…]\n"

_MIN_HOME_LENGTH = 3  # to take `/` out of a text would take every path apart


class UserText(str):
    """Text of a user or agent, in a field that usually has none."""

    __slots__ = ()


class Privacy:
    """Redacts events as the operator's settings demand.

    `key_file` holds the HMAC key of this installation, created on first use.
    """

    def __init__(self, key_file: Path, environment: Mapping[str, str]) -> None:
        self._key_file = key_file
        self._environment = environment
        self._key = b""
        self._temporary_name = os.urandom(_NAME_DIGITS // 2).hex()

    def user_pseudonym(self, rules: Analytics) -> str:
        """Pseudonym or name of this user, for `server_id`."""
        user = derive_user_name(self._environment)
        if rules.identity == "user":
            return f"dev-{user}"
        if rules.identity == "none":
            return "dev"
        return f"dev-{self._digest('user', user)[:_NAME_DIGITS]}"

    def agent_pseudonym(self, agent: str, rules: Analytics) -> str:
        """Pseudonym or name of an agent, which may bear the name of a person."""
        if rules.identity == "user":
            return f"agent-{agent}"
        if rules.identity == "none":
            return "agent"
        return f"agent-{self._digest('agent', agent)[:_NAME_DIGITS]}"

    def server_pseudonym(self, rules: Analytics, distinction: str) -> str:
        """Pseudonym of a server; never that of a person.

        Stable as long as the key and the distinction are; with `analytics.identity:
        none`, as long as the process.
        """
        if rules.identity == "none":
            return f"server-{self._temporary_name}"
        return f"server-{self._digest('server', distinction)[:_NAME_DIGITS]}"

    def machine_share(self, purpose: str) -> float:
        """Place of this machine among all, from 0 to 1: always the same for a purpose."""
        digits = self._digest("share", purpose)[:_SHARE_DIGITS]
        return float(int(digits, 16) / 16**_SHARE_DIGITS)

    def redact_fields(self, data: Mapping[str, Any], rules: Analytics) -> dict[str, Any]:
        return dict(self._redacted_fields(data, rules))

    def _redacted_fields(
        self, data: Mapping[str, Any], rules: Analytics
    ) -> Iterator[tuple[str, Any]]:
        for name, value in data.items():
            if name == "comment":
                yield name, self._redact_comment(value, rules)
            elif name == "context" or isinstance(value, UserText):
                yield name, self._redact_text(value, rules)
                if name == "context" and value and rules.context == "hashed":
                    yield "context_tokens", len(value.split())
            else:
                yield name, _redact_value(value)

    def _redact_comment(self, text: str | None, rules: Analytics) -> str | None:
        if text is None or rules.context in {"hashed", "none"}:
            return None
        return self._redact_text(text, rules)

    def _redact_text(self, text: str, rules: Analytics) -> str:
        match rules.context:
            case "full":
                return _truncate(redact_registered(str(text)))
            case "redacted":
                return _truncate(self._redact(text))
            case "hashed":
                return f"{HASH_PREFIX}{self._digest('context', text)}" if text else ""
            case "none":
                return ""

    def _redact(self, text: str) -> str:
        text = _NAMED_SECRET.sub(lambda found: f"{found[1] or found[3]}{REDACTED}", redact(text))
        text = _EMAIL.sub(_REDACTED_EMAIL, text)
        for name in ("HOME", "USERPROFILE"):
            home = self._environment.get(name, "").rstrip("/\\")
            if len(home) >= _MIN_HOME_LENGTH:
                text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        return text

    def _digest(self, purpose: str, text: str) -> str:
        """HMAC-SHA256 of a text, in hexadecimal."""
        self._key = self._key or load_secret_key(self._key_file)
        message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()


def _truncate(text: str) -> str:
    """Keep the beginning and the end of a long text.

    Redact first: half of a secret could not be recognised.
    """
    if len(text) <= _MAX_CHARACTERS:
        return text
    half = (_MAX_CHARACTERS - len(_ELLIPSIS)) // 2
    return f"{text[:half]}{_ELLIPSIS}{text[-half:]}"


def derive_user_name(environment: Mapping[str, str]) -> str:
    return environment.get("USER") or environment.get("USERNAME") or "unknown"


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact_registered(value)
    if isinstance(value, list | tuple):
        return [_redact_value(item) for item in value]
    return value
