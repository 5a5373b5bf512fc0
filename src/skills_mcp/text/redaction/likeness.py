"""Whether a text is a secret, or stands in the place of one in an example.  Pure."""

import math
import re
from collections import Counter

# English has about 4 bits in each of its letters, and `xxxxxxxx` none.
_FEWEST_BITS = 3.0

# What nobody's generator makes, and everybody's documentation has.
_PLACEHOLDER = re.compile(
    r"example|sample|placeholder|your|x{4}|0{6}|dummy|fake|redacted|change.?me"
    r"|replace|insert|1234567|abcdef|qwerty|\.\.|…|\*\*|[<>{}$%]"
    r"|eyJzdWIiOiIxMjM0NTY3ODkw",  # the subject of the token on every page about them
    re.IGNORECASE,
)

# Nor are these what somebody else should not know.
_TELLING = re.compile(
    r"passw|secret|token|test|demo|admin|default|hunter2|s3cr3t|p@ss|letmein"
    r"|process\.|environ|config|https?:|^/|\.(?:com|org|io|json|ya?ml|py|md|txt)\b",
    re.IGNORECASE,
)
_SYMBOL = re.compile(r"[!#%&*+/=?@^~]")
_SWITCH = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])")

_SHORTEST_PLAIN = 12
"""Without quotation marks it may as well be a name in a program."""

_SWITCHES = 2
_SWITCHES_PLAIN = 4

_HARMLESS_HOST = re.compile(
    r"localhost|127\.|0\.0\.0\.0|\[?::1|host(?:name)?\b|(?:[\w-]+\.)*example\b"
    r"|[\w.-]+\.(?:example|test|invalid|localhost|local)\b",
    re.IGNORECASE,
)
_SHORTEST_IN_ADDRESS = 6


def is_random(text: str) -> bool:
    """Whether a text is what a machine has drawn.

    >>> is_random("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxx"), is_random("9fK2mQ7xLw4Tz8Rb")
    (False, True)
    """
    return not _PLACEHOLDER.search(text) and _count_bits(text) >= _FEWEST_BITS


def is_password(text: str, *, is_quoted: bool) -> bool:
    """Whether the value of something that is called a secret is one.

    >>> is_password("correct-horse", is_quoted=True)
    False
    """
    if not is_random(text) or _TELLING.search(text):
        return False
    switches = len(_SWITCH.findall(text))
    has_both = re.search(r"\d", text) and re.search(r"[A-Za-z]", text)
    if is_quoted:
        return switches >= _SWITCHES or bool(has_both and _SYMBOL.search(text))
    return len(text) >= _SHORTEST_PLAIN and switches >= _SWITCHES_PLAIN


def is_password_for(text: str, user: str, host: str) -> bool:
    """Whether an address holds a password that opens something."""
    is_harmless = _HARMLESS_HOST.match(host) or text.casefold() == user.casefold()
    is_word = text.isalpha() or _PLACEHOLDER.search(text) or _TELLING.search(text)
    return not is_harmless and not is_word and len(text) >= _SHORTEST_IN_ADDRESS


def _count_bits(text: str) -> float:
    """Return Shannon's entropy of a character."""
    counts = Counter(text).values()
    shares = (count / len(text) for count in counts)
    return -sum(share * math.log2(share) for share in shares)
