"""Registered secrets and their redaction.

Rule: a module registers a secret with `register_secret` before its first use, and every
outgoing text passes `redact`.  The registry is global to the process: there is one log,
and a message about one repository may repeat the token of another.
"""

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterator
from urllib.parse import quote

REDACTED = "***"

# Shorter ones are in too many words: a log without the letter `a` cannot be read.
_MIN_CHARACTERS = 4

# Fewer characters of base64 than these stand in text by chance.
_MIN_ENCODED = 8


class _SecretRegistry:
    def __init__(self) -> None:
        self._gate = threading.Lock()
        self.secrets: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None

    def add(self, secret: str) -> None:
        with self._gate:
            if secret not in self.secrets:
                self.replace(self.secrets | {secret})

    def replace(self, secrets: frozenset[str]) -> None:
        forms = {form for secret in secrets for form in _encodings(secret)}
        # Of two that begin alike, the longer one is tried first.
        words = sorted(forms, key=lambda form: (-len(form), form))
        self.pattern = re.compile("|".join(map(re.escape, words))) if words else None
        self.secrets = secrets


_registry = _SecretRegistry()

# Everything up to the last @ before the path. The user of ssh is no secret.
_USER_INFORMATION = re.compile(r"(?<=://)(?<!ssh://)[^\s/?#]*(?=@)")
_SSH_PASSWORD = re.compile(r"(?<=ssh://)([^\s/?#:@]*):[^\s/?#]*(?=@)")

_AUTHORIZATION = re.compile(
    r"""(authorization["']?\s*[:=]\s*["']?)      # a header, also as text of a mapping
        (?:(?:basic|bearer|token|digest|negotiate)\s+)?[^\s"',;]+""",
    re.IGNORECASE | re.VERBOSE,
)


def register_secret(secret: str) -> None:
    """Register a secret for redaction in any encoding."""
    if len(secret) >= _MIN_CHARACTERS:
        _registry.add(secret)


def redact(text: str) -> str:
    """Redact registered secrets and anything similar to one.

    >>> redact("fatal: unable to access 'https://ada:pass@example.com/skills'")
    "fatal: unable to access 'https://***@example.com/skills'"
    """
    # Late: its patterns are many, and the first answer has no text to redact.
    from skills_mcp.text.secret_detection import ASSIGNMENT, PRIVATE_KEY, TOKEN

    text = redact_registered(text)
    text = _SSH_PASSWORD.sub(rf"\1:{REDACTED}", text)
    text = _USER_INFORMATION.sub(REDACTED, text)
    text = _AUTHORIZATION.sub(rf"\1{REDACTED}", text)
    text = PRIVATE_KEY.sub(REDACTED, text)
    return ASSIGNMENT.sub(_hide_value, TOKEN.sub(REDACTED, text))


def redact_registered(text: str) -> str:
    return _registry.pattern.sub(REDACTED, text) if _registry.pattern else text


def _hide_value(found: re.Match[str]) -> str:
    from skills_mcp.text.secret_detection import is_password

    value = found["value"]
    is_quoted = found["quote"] is not None
    if not is_password(value, is_quoted=is_quoted):
        return found[0]
    return found[0].removesuffix(value) + REDACTED


def _encodings(secret: str) -> Iterator[str]:
    """Encodings of a secret in logs, URLs, headers and JSON."""
    yield secret
    for encoded in (quote(secret, safe=""), quote(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    yield binascii.hexlify(raw).decode()
    yield from _base64_alignments(raw)


def _base64_alignments(raw: bytes) -> Iterator[str]:
    """Base64 of a secret after any user name: stable parts of three alignments."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode()
        begin, end = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        stable = encoded[begin:end]
        if len(stable) >= _MIN_ENCODED:
            yield stable
            yield stable.replace("+", "-").replace("/", "_")
