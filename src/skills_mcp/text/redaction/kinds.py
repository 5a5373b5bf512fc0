"""Texts that show by themselves that they are secrets, one kind for each issuer.

One table, so that what is found in content is also taken out of a log.  Libraries of
detectors were weighed: they judge files and not lines of a log, want a list of known
findings beside the content, and take `password: string` for a secret.
"""

import re
from dataclasses import dataclass

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class SecretKind:
    """What an issuer's secrets look like."""

    name: str
    """For a person, as in `has what looks like a GitHub token`."""
    pattern: str
    """What is taken out; it begins at the start of a word."""
    shortest: int
    """Whoever looks for secrets takes anything shorter for an example."""


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
    SecretKind(
        "OpenAI key", r"sk-(?:proj|svcacct|admin)-[\w-]{20,}|sk-[A-Za-z0-9]{32,}", 35
    ),
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


def kind_of(found: re.Match[str]) -> SecretKind:
    """Return the kind of a match of `TOKEN`."""
    return TOKEN_KINDS[int((found.lastgroup or "k0")[1:])]


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
"""An address with a user and a password."""

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
"""Something that is called a secret, and its value."""
