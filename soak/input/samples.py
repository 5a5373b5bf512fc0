"""Texts that hide something, and texts that only seem to.

The secrets are drawn here and open nothing; no line of this file is one, so that the
scanners of others stay quiet, too.
"""

import base64
import random
import string
from collections.abc import Mapping

_LETTERS = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_DRAW = random.Random(52)  # noqa: S311 - the same ones every time


def _draw(count: int, characters: str = _LETTERS) -> str:
    return "".join(_DRAW.choices(characters, k=count))


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _key(kind: str) -> str:
    lines = "\n".join(_draw(64, _LETTERS + "+/") for _ in range(8))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


def _token(subject: str) -> str:
    head = _encode('{"alg":"RS256","typ":"JWT"}')
    return f"{head}.{_encode(subject)}.{_draw(43)}"


SECRETS: Mapping[str, str] = {
    "GitHub, personal": "ghp" + "_" + _draw(36),
    "GitHub, of an app": "ghs" + "_" + _draw(36),
    "GitHub, fine-grained": "github" + "_pat_" + _draw(22) + "_" + _draw(59),
    "GitLab": "glpat" + "-" + _draw(20),
    "Slack, of a bot": "xoxb" + "-" + _draw(12, string.digits) + "-" + _draw(24),
    "Slack, an address": f"https://hooks.slack.com/services/T{_draw(8)}/B{_draw(8)}/{_draw(24)}",
    "AWS, identity": "AKIA" + _draw(16, string.ascii_uppercase + string.digits),
    "AWS, key": f'aws_secret_access_key = "{_draw(40)}"',
    "Google": "AIza" + _draw(35),
    "Google, of a client": "GOCSPX" + "-" + _draw(28),
    "Stripe": "sk" + "_live_" + _draw(24),
    "Stripe, restricted": "rk" + "_live_" + _draw(24),
    "npm": "npm" + "_" + _draw(36),
    "PyPI": "pypi" + "-AgEIcHlwaS5vcmc" + _draw(60),
    "OpenAI": "sk" + "-proj-" + _draw(48),
    "OpenAI, old": "sk" + "-" + _draw(48),
    "Anthropic": "sk" + "-ant-api03-" + _draw(93),
    "Hugging Face": "hf" + "_" + _draw(34),
    "SendGrid": "SG" + "." + _draw(22) + "." + _draw(43),
    "DigitalOcean": "dop" + "_v1_" + _draw(64, _HEX),
    "Docker": "dckr" + "_pat_" + _draw(27),
    "Vault": "hvs" + "." + _draw(90),
    "Databricks": "dapi" + _draw(32, _HEX),
    "Shopify": "shpat" + "_" + _draw(32, _HEX),
    "Grafana": "glsa" + "_" + _draw(32) + "_" + _draw(8, _HEX),
    "age": "AGE-SECRET" + "-KEY-1" + _draw(58, string.ascii_uppercase + string.digits),
    "Azure, storage": "AccountKey" + "=" + _draw(86, _LETTERS + "+/") + "==",
    "Azure, of a client": f"client_secret: '{_draw(3)}8Q~{_draw(34)}'",
    "JSON Web Token": _token('{"sub":"ada","scope":"admin"}'),
    "header": f"Authorization: Bearer {_draw(40)}",
    "header of curl": f"curl -H 'Authorization: token {_draw(40, _HEX)}' https://a.dev",
    "RSA": _key("RSA " + "PRIVATE KEY"),
    "SSH": _key("OPENSSH " + "PRIVATE KEY"),
    "PKCS 8": _key("PRIVATE" + " KEY"),
    "PGP": _key("PGP " + "PRIVATE KEY BLOCK"),
    "database": f"postgresql://app:{_draw(14)}@db.acme.dev:5432/parcels",
    "proxy": f"http://ada:{_draw(8)}7!@proxy.acme.dev:3128",
    "password in Python": f'password = "{_draw(9)}4x9Q&"',
    "password in YAML": f"db_password: {_draw(6)}7k2m9Xq4w",
    "variable": f"export SERVICE_API_KEY={_draw(14)}3f8Z1k6T",
    "JSON": f'{{"client_secret": "{_draw(20)}5b7R"}}',
    "mapping": f"'private_key' => '{_draw(24)}8d2W'",
}
"""One secret of each provider, by its name."""

_TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
_BITS = "".join(chr(0xE0100 + byte) for byte in b"obey")
_PRIVATE_USE = chr(0xE000) + chr(0xF0001)

HIDDEN: Mapping[str, str] = {
    "tags": f"Fine.{_TAGS}",
    "selectors as data": f"\N{GRINNING FACE}{_BITS}",
    "short selectors as data": "a\ufe00b\ufe0dc",
    "selectors behind a symbol": "\N{WARNING SIGN}\ufe0f\ufe01\ufe02",
    "private use": f"Fine.{_PRIVATE_USE}",
    "override": "access\u202egnp.exe",
    "embedding": "a \u202ab\u202c c",
    "isolate": "a \u2066b\u2069 c",
    "marks of direction": "ab\u200ecd\u200f",
    "Arabic mark": "ab\u061ccd",
    "zero width space": "ig\u200bnore",
    "zero width joiner": "ig\u200dnore",
    "zero width non-joiner": "ig\u200cnore",
    "word joiner": "ig\u2060nore",
    "invisible operators": "ig\u2061\u2062\u2063\u2064nore",
    "byte order mark inside": "ig\ufeffnore",
    "soft hyphen": "ig\u00adnore",
    "grapheme joiner": "ig\u034fnore",
    "Hangul fillers": "\u115f\u1160\u3164\uffa0",
    "Khmer vowels": "ig\u17b4\u17b5nore",
    "Mongolian selectors": "ig\u180b\u180enore",
    "blank Braille": "ig\u2800nore",
    "deprecated format": "ig\u206a\u206fnore",
    "notes between lines": "a\ufff9b\ufffac\ufffb",
    "music": "ig\U0001d173nore",
    "shorthand": "ig\U0001bca0nore",
    "no characters": "ig\ufdd0nore\uffff",
    "reserved": "ig\u2065nore\ufff0",
    "an escape of YAML": 'description: "ig\\u200bnore"',
}

CONTROLS: Mapping[str, str] = {
    "hidden by a terminal": "\x1b[8mobey\x1b[0m",
    "title of a terminal": "\x1b]0;obey\x07",
    "cleared screen": "\x9b2J",
    "backspaces": "rm\x08\x08ls",
    "carriage return": "Obey.\rFine.",
    "NUL": "Fine.\x00obey",
    "delete": "Fine.\x7f",
    "vertical tab": "Fine.\x0bobey",
    "other line ends": "Fine.\u2028obey\u2029obey",
    "next line": "Fine.\x85obey",
}

MIXED: Mapping[str, str] = {
    "Cyrillic inside": "p\u0430ypal.com",
    "Cyrillic at first": "\u0440aypal.com",
    "Greek inside": "g\u03bfogle.com",
}

CLEAN: tuple[str, ...] = (
    "token = get_token()",
    'api_key = os.environ["SERVICE_API_KEY"]',
    "password: string",
    "password: ${DB_PASSWORD}",
    "PASSWORD=$(pass show db/parcels)",
    'password = "<your-password>"',
    'password: "{{ vault_db_password }}"',
    "'password' => 'required|min:8|confirmed',",
    'API_KEY="your-api-key-here"',
    "api_key: xxxxxxxxxxxxxxxxxxxxxxxx",
    'token: "ghp_' + "x" * 36 + '"',
    "ghp_…",
    "ghp_abc123",
    "AKIA" + "IOSFODNN7" + "EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
    "sk_live_...",
    "sk-your-key",
    "const accessToken = response.data.accessToken2Value;",
    'secretName: "parcels-tls-2024"',
    "secretKeyRef: {name: parcels-db, key: password}",
    "token_budget: 4096",
    "max_tokens = 128000",
    'tokenizer = "o200k_base-v2.1"',
    "https://user:password@example.com/parcels.git",
    "postgres://postgres:postgres@localhost:5432/parcels",
    "redis://:secret@127.0.0.1:6379/0",
    "mongodb+srv://<user>:<password>@cluster.acme.dev",
    "git@github.com:acme/skills.git and ssh://git@acme.dev/skills",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "-H 'Authorization: Bearer YOUR_ACCESS_TOKEN_1'",
    "-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----",
    "-----BEGIN PUBLIC KEY-----\n" + "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKC\n" * 4,
    _token('{"sub":"1234567890","name":"John Doe"}'),
    "commit 8f6d0c2e4b1a9f7e3d5c6b8a0f1e2d3c4b5a6978",
    "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id: 3f2b8c1e-9d47-4a6b-8e05-7c1f2a9d3b64",
    'integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8w"',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "npm_config_registry and npm_package_version",
    "task-force, risk-free, disk-space-monitor-for-production-hosts",
    "\N{WARNING SIGN}\ufe0f \N{WOMAN}\u200d\N{PERSONAL COMPUTER} 1\ufe0f\u20e3",
    "\N{WAVING BLACK FLAG}\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "שלום (x)\u200f and می\u200cخواهم and क्\u200dष",  # noqa: RUF001
    "ภาษา\u200bไทย, 葛\U000e0100, ᠠ\u180b, 0\ufe00, ≨\ufe00",
    "⠓⠑⠇⠇⠕\u2800⠺⠕⠗⠇⠙",
    "Сервис отдаёт JSON через API, кэш в Redis",
    "Δx = μ · λ, Ωm, αβ-test",
    "Café, naïve, Å, e\u0301, Größe",
    "Chapter 1\n\x0c\nChapter 2",
    "Title\n=====\n\n=== RUN   TestLogin\n\n    a === b",
    "Windows\r\nends\r\nlines so.",
)
"""Harmless texts that look like secrets."""
