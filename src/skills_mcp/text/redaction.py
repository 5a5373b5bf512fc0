"""Secrets that this process knows, and how they are taken out of a text.

Rule: a module that reads a secret calls `remember_secret` before it uses the secret,
and every text that leaves the process passes `redact`.  There is one set of secrets for
the process, because it has one log, and a message about one repository may repeat the
token of another.
"""

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterator
from urllib.parse import quote

HIDDEN = "***"
"""What stands in the place of a secret."""

# Shorter ones are in too many words: a log without the letter `a` cannot be read.
_MIN_CHARACTERS = 4

# Fewer characters of base64 than these stand in text by chance.
_MIN_ENCODED = 8


class _Memory:
    """Every secret of the process, and the pattern that finds all of them."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self.secrets: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None

    def add(self, secret: str) -> None:
        with self._gate:
            if secret not in self.secrets:
                self.replace(self.secrets | {secret})

    def replace(self, secrets: frozenset[str]) -> None:
        """Know exactly these secrets."""
        forms = {form for secret in secrets for form in _forms(secret)}
        # Of two that begin alike, the longer one is tried first.
        words = sorted(forms, key=lambda form: (-len(form), form))
        self.pattern = re.compile("|".join(map(re.escape, words))) if words else None
        self.secrets = secrets


_memory = _Memory()

# Everything up to the last @ before the path. The user of ssh is no secret.
_USER_INFORMATION = re.compile(r"(?<=://)(?<!ssh://)[^\s/?#]*(?=@)")
_SSH_PASSWORD = re.compile(r"(?<=ssh://)([^\s/?#:@]*):[^\s/?#]*(?=@)")

_AUTHORIZATION = re.compile(
    r"""(authorization["']?\s*[:=]\s*["']?)      # a header, also as text of a mapping
        (?:(?:basic|bearer|token|digest|negotiate)\s+)?[^\s"',;]+""",
    re.IGNORECASE | re.VERBOSE,
)


def remember_secret(secret: str) -> None:
    """Take a secret out of every text redacted from now on, in any encoding."""
    if len(secret) >= _MIN_CHARACTERS:
        _memory.add(secret)


def redact(text: str) -> str:
    """Return the text without secrets, remembered ones and any that look like one.

    >>> redact("fatal: unable to access 'https://ada:pass@example.com/skills'")
    "fatal: unable to access 'https://***@example.com/skills'"
    """
    # Late: its patterns are many, and the first answer has no text to redact.
    from skills_mcp.text.secret_detection import ASSIGNMENT, PRIVATE_KEY, TOKEN

    text = redact_remembered(text)
    text = _SSH_PASSWORD.sub(rf"\1:{HIDDEN}", text)
    text = _USER_INFORMATION.sub(HIDDEN, text)
    text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
    text = PRIVATE_KEY.sub(HIDDEN, text)
    return ASSIGNMENT.sub(_hide_value, TOKEN.sub(HIDDEN, text))


def redact_remembered(text: str) -> str:
    """Return the text without the remembered secrets; nothing else changes."""
    return _memory.pattern.sub(HIDDEN, text) if _memory.pattern else text


def _hide_value(found: re.Match[str]) -> str:
    from skills_mcp.text.secret_detection import is_password

    value = found["value"]
    is_quoted = found["quote"] is not None
    if not is_password(value, is_quoted=is_quoted):
        return found[0]
    return found[0].removesuffix(value) + HIDDEN


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it may stand in a log, an address, a header or JSON."""
    yield secret
    for encoded in (quote(secret, safe=""), quote(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    yield binascii.hexlify(raw).decode()
    yield from _encoded_anywhere(raw)


def _encoded_anywhere(raw: bytes) -> Iterator[str]:
    """Yield what base64 makes of a secret that follows a user's name of any length.

    Three bytes become four characters, so there are three ways to begin; a character
    that also depends on what stands beside the secret is left out.
    """
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode()
        begin, end = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        whole = encoded[begin:end]
        if len(whole) >= _MIN_ENCODED:
            yield whole
            yield whole.replace("+", "-").replace("/", "_")
