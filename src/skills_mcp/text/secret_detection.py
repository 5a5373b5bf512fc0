"""Patterns of secrets and their detection in text.  Pure.

One table of patterns, so that redaction covers everything detected in content.
Libraries of detectors were considered: they judge files and not lines of a log, need a
list of known findings, and take `password: string` for a secret.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretKind:
    name: str
    """For people: `has what looks like a GitHub token`."""
    pattern: str
    shortest: int


TOKEN_KINDS = (
    SecretKind("GitHub token", r"gh[oprsu]_\w{4,}|github_pat_\w{4,}", 36),
    SecretKind(
        "GitLab token",
        r"gl(?:pat|dt|rt|ft|soat|ptt|cbt|imt|agent|oas|ffct)-[\w-]{4,}",
        24,
    ),
    SecretKind("Slack token", r"xox[abeprs]-[\w-]{4,}|xapp-\d-[\w-]{4,}", 24),
    SecretKind(
        "Slack webhook",
        r"hooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{16,}",
        50,
    ),
    SecretKind("AWS access key", r"(?:A[KS]IA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{12,}", 20),
    SecretKind("Google key", r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}", 24),
    SecretKind("Stripe key", r"(?:sk|rk)_(?:live|test)_\w{10,}|whsec_[\w+/=]{16,}", 24),
    SecretKind("npm token", r"npm_[A-Za-z0-9]{30,}", 34),
    SecretKind("PyPI token", r"pypi-[\w-]{50,}", 55),
    SecretKind("Anthropic key", r"sk-ant-[\w-]{20,}", 40),
    SecretKind("OpenAI key", r"sk-(?:proj|svcacct|admin)-[\w-]{20,}|sk-[A-Za-z0-9]{32,}", 35),
    SecretKind("Hugging Face token", r"hf_[A-Za-z0-9]{30,}", 33),
    SecretKind("Azure storage key", r"AccountKey=[A-Za-z0-9+/]{40,}={0,2}", 60),
    SecretKind("SendGrid key", r"SG\.[\w-]{16,}\.[\w-]{16,}", 60),
    SecretKind("DigitalOcean token", r"do[oprt]_v1_[0-9a-f]{40,}", 60),
    SecretKind("Docker token", r"dckr_[a-z]+_[\w-]{20,}", 30),
    SecretKind("Vault token", r"hv[bsr]\.[\w-]{20,}", 28),
    SecretKind("Databricks token", r"dapi[0-9a-f]{32}", 36),
    SecretKind("Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", 38),
    SecretKind("Grafana token", r"gl(?:sa|c)_[\w+/=]{30,}", 35),
    SecretKind("age key", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}", 60),
    SecretKind("JSON Web Token", r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{16,}", 60),
)

TOKEN = re.compile(
    rf"\b(?:{'|'.join(f'(?P<k{n}>{k.pattern})' for n, k in enumerate(TOKEN_KINDS))})"
)

_SHORTEST_TOKEN = min(kind.shortest for kind in TOKEN_KINDS)

_TOKEN_MARKS = (
    *("ghp_", "gho_", "ghr_", "ghs_", "ghu_", "github_pat_"),
    *("glpat-", "gldt-", "glrt-", "glft-", "glsoat-", "glptt-", "glcbt-", "glimt-"),
    *("glagent-", "gloas-", "glffct-", "xox", "xapp-", "hooks.slack.com/services/"),
    *("AKIA", "ASIA", "ABIA", "ACCA", "A3T", "AIza", "ya29.", "GOCSPX-"),
    *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "npm_", "pypi-", "sk-"),
    *("hf_", "AccountKey=", "SG.", "doo_v1_", "dop_v1_", "dor_v1_", "dot_v1_"),
    *("dckr_", "hvb.", "hvs.", "hvr.", "dapi", "shpat_", "shpca_", "shppa_", "shpss_"),
    *("glsa_", "glc_", "AGE-SECRET-KEY-1", "eyJ"),
)
"""Substrings required by the patterns, for a fast check."""

# A dash may stand in the head of a key, but never five of them, so this ends in time.
PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,10} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?P<key>(?:[^-]|-(?!----))*)"
    r"(?:-----END (?:[A-Z0-9]{1,10} ){0,4}PRIVATE KEY(?: BLOCK)?-----)?"
)

ADDRESS = re.compile(
    r"\b(?P<scheme>[A-Za-z][\w+.-]{1,20})://(?P<user>[^\s/?#:@\"'`]{0,100})"
    r":(?P<value>[^\s/?#@\"'`]{1,200})@(?P<host>[\w.-]{1,200})"
)

# What every such address has in it; a pattern that begins with a text is quick.
_ADDRESS_MARK = re.compile(r"://[^\s/?#:@\"'`]{0,100}:[^\s/?#@\"'`]{1,200}@")

AUTHORIZATION = re.compile(
    r"""authorization["']?\s{0,4}[:=]\s{0,4}["']?
        (?:basic|bearer|token)\s{1,4}(?P<value>[\w.~+/=-]{16,})""",
    re.IGNORECASE | re.VERBOSE,
)

ASSIGNMENT = re.compile(
    r"""(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|api[_-]?key
          |(?:access|private|account|auth|signing|encryption)[_-]?key)
        (?:s|key|value|text)?(?:[_-][\w-]{0,20})?["'\]]{0,2}\s{0,4}(?:=>|:=|[:=])\s{0,4}
        (?P<quote>["'`])?(?P<value>[^\s"'`<>(){}\[\]$,;]{8,200})
        (?(quote)(?=(?P=quote))|(?![\w<>(){}\[\]$]))""",
    re.IGNORECASE | re.VERBOSE,
)

_ASSIGNMENT_NAMES = (
    *(b"passw", b"passphrase", b"pwd", b"secret", b"token", b"credential", b"api"),
    *(b"access", b"private", b"account", b"auth", b"signing", b"encryption"),
)
"""Lower-case beginnings of each match of `ASSIGNMENT`."""

# The only letters beyond ASCII that are one of its letters where case is ignored.
_UNUSUAL = re.compile("[\u0130\u0131\u017f\u212a]")

# English has about 4 bits in each of its letters, and `xxxxxxxx` none.
_MIN_ENTROPY_BITS = 3.0

# Placeholders of documentation, which no generator of secrets makes.
_PLACEHOLDER = re.compile(
    r"example|sample|placeholder|your|x{4}|0{6}|dummy|fake|redacted|change.?me"
    r"|replace|insert|1234567|abcdef|qwerty|\.\.|…|\*\*|[<>{}$%]"
    r"|eyJzdWIiOiIxMjM0NTY3ODkw",  # the subject of the token on every page about them
    re.IGNORECASE,
)

# Words which show that a value is not a secret.
_HARMLESS_WORDS = re.compile(
    r"passw|secret|token|test|demo|admin|default|hunter2|s3cr3t|p@ss|letmein"
    r"|process\.|environ|config|https?:|^/|\.(?:com|org|io|json|ya?ml|py|md|txt)\b",
    re.IGNORECASE,
)
_SYMBOL = re.compile(r"[!#%&*+/=?@^~]")
_SWITCH = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])")

_MIN_UNQUOTED = 12

_SWITCHES = 2
_SWITCHES_PLAIN = 4

_HARMLESS_HOST = re.compile(
    r"localhost|127\.|0\.0\.0\.0|\[?::1|host(?:name)?\b|(?:[\w-]+\.)*example\b"
    r"|[\w.-]+\.(?:example|test|invalid|localhost|local)\b",
    re.IGNORECASE,
)
_SHORTEST_IN_ADDRESS = 6

# App passwords of Bitbucket have twenty characters, and few names have as many.
_SHORTEST_LONE_TOKEN = 20

# A shorter private key is an example.
_MIN_KEY_CHARACTERS = 100

_MAX_DISPLAYED = 4
"""Characters displayed by issuers: identify a token, cannot use it."""


@dataclass(frozen=True, slots=True, order=True)
class FoundSecret:
    """Position of a secret, without the secret itself."""

    start: int
    end: int
    kind: str
    beginning: str
    """First characters; empty for a password chosen by a person."""


def find_secrets(text: str) -> Iterator[FoundSecret]:
    """Likely secrets in order, without examples.

    >>> [found.kind for found in find_secrets("https://ada:9fK2mQ7x@git.acme.dev")]
    ['password in an address']
    """
    end = 0
    # A token may be the value of something; then it is the one that comes first.
    for found in sorted(_find_candidates(text)):
        if found.start >= end:
            yield found
            end = found.end


def has_high_entropy(text: str) -> bool:
    """Whether a text has the entropy of a generated secret.

    >>> has_high_entropy("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxx"), has_high_entropy("9fK2mQ7xLw4Tz8Rb")
    (False, True)
    """
    return not _PLACEHOLDER.search(text) and _entropy(text) >= _MIN_ENTROPY_BITS


def is_password(text: str, *, is_quoted: bool) -> bool:
    """Whether the value of a name such as `password` is a real password.

    >>> is_password("correct-horse", is_quoted=True)
    False
    """
    if not has_high_entropy(text) or _HARMLESS_WORDS.search(text):
        return False
    switches = len(_SWITCH.findall(text))
    has_both = re.search(r"\d", text) and re.search(r"[A-Za-z]", text)
    if is_quoted:
        return switches >= _SWITCHES or bool(has_both and _SYMBOL.search(text))
    return len(text) >= _MIN_UNQUOTED and switches >= _SWITCHES_PLAIN


def is_likely_token(name: str) -> bool:
    """Whether a lone name in an address is a token and not a user.

    >>> is_likely_token("acme-platform-team"), is_likely_token("ghp_canary")
    (False, True)
    """
    is_long = len(name) >= _SHORTEST_LONE_TOKEN
    return bool(TOKEN.match(name)) or (is_long and is_password(name, is_quoted=False))


def is_url_password(text: str, user: str, host: str) -> bool:
    is_harmless = _HARMLESS_HOST.match(host) or text.casefold() == user.casefold()
    is_word = text.isalpha() or _PLACEHOLDER.search(text) or _HARMLESS_WORDS.search(text)
    return not is_harmless and not is_word and len(text) >= _SHORTEST_IN_ADDRESS


def _find_candidates(text: str) -> Iterator[FoundSecret]:
    for found in PRIVATE_KEY.finditer(text):
        if len(found["key"]) >= _MIN_KEY_CHARACTERS and has_high_entropy(found["key"]):
            yield FoundSecret(*found.span(), "private key", "")
    words = " ".join(word for word in text.split() if len(word) >= _SHORTEST_TOKEN)
    has_token = any(mark in words for mark in _TOKEN_MARKS)
    for found in TOKEN.finditer(text) if has_token else ():
        kind = TOKEN_KINDS[int((found.lastgroup or "k0")[1:])]
        if len(found[0]) >= kind.shortest and has_high_entropy(found[0]):
            yield FoundSecret(*found.span(), kind.name, found[0][:_MAX_DISPLAYED])
    yield from _find_contextual(text)


def _find_contextual(text: str) -> Iterator[FoundSecret]:
    for found in ADDRESS.finditer(text) if _ADDRESS_MARK.search(text) else ():
        if is_url_password(found["value"], found["user"], found["host"]):
            yield _to_found_secret(found, "password in an address")
    # As long as the text, so that places are the same.
    small = text.encode("ascii", "replace").lower()
    is_unusual = not text.isascii() and _UNUSUAL.search(text) is not None
    has_header = is_unusual or b"authorization" in small
    for found in AUTHORIZATION.finditer(text) if has_header else ():
        if has_high_entropy(found["value"]) and re.search(r"\d", found["value"]):
            yield _to_found_secret(found, "authorization header")
    positions = range(len(text)) if is_unusual else sorted(_find_assignment_starts(small))
    for found in _match_assignments(text, positions):
        if is_password(found["value"], is_quoted=found["quote"] is not None):
            yield _to_found_secret(found, "password or key")


def _find_assignment_starts(small: bytes) -> Iterator[int]:
    for name in _ASSIGNMENT_NAMES:
        position = small.find(name)
        while position >= 0:
            yield position
            position = small.find(name, position + 1)


def _match_assignments(text: str, positions: Iterable[int]) -> Iterator[re.Match[str]]:
    end = 0
    for position in positions:
        found = ASSIGNMENT.match(text, position) if position >= end else None
        if found:
            yield found
            end = found.end()


def _to_found_secret(found: re.Match[str], kind: str) -> FoundSecret:
    return FoundSecret(*found.span("value"), kind, "")


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    shares = (count / len(text) for count in counts)
    return -sum(share * math.log2(share) for share in shares)
