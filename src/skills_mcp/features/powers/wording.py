"""Patterns of a few lines: hosts, paths and phrases.

Rule: each is linear; a repetition is bounded, and each is tried on lines with a mark alone.
"""

import re
import sys
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skills_mcp.features.powers.power import Kind, join_lines
from skills_mcp.text.unicode import lower_in_place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_I = re.IGNORECASE
_RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _read_pattern(text: str) -> str:
    """A pattern, perhaps on several lines, with its parts filled in."""
    pattern = join_lines(text)
    for name, part in _RULES["parts"].items():
        pattern = pattern.replace(f"{{{{{name}}}}}", part)
    return pattern


def _compile_hosts(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:^|\.)(?:{'|'.join(patterns)})$", _I)


URL = re.compile(r"(?:https?|wss?|ftp)://(?P<host>[^\s/\"'<>()\[\]{}`?#\\|,;]{1,253})", _I)
HOST = re.compile(r"(?:[\w-]{1,63}\.){1,8}[a-z][\w-]{1,62}|\d{1,3}(?:\.\d{1,3}){3}", _I)
_NO_HOST = re.compile(r"127\.|0\.0\.0\.0$|(?:^|\.)your|\.\.\.|xxx", _I)
_ADDRESS_HOST = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")
_PRIVATE_HOST = re.compile(
    r"(?:10|127|192\.168|172\.(?:1[6-9]|2\d|3[01])|0|169\.254"
    r"|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.|(?:1\.[01]\.[01]|8\.8\.[48]|9\.9\.9)\."
)
"""Of no network that the public reaches, or of a public resolver of names."""
_DROP_HOST = _compile_hosts(_RULES["drop_hosts"])
_SUSPECT_HOST = re.compile(
    r"evil|attack|malicious|malware|exfil|^c2[.-]|steal|payload|hack(?!athon|ernews|md|errank|erone)"
    r"|phish|collect(?:or)?[.-]|^drop|beacon|^telemetry|track(?:er|ing)?[.-]|sink|leak|rogue|backdoor"
    r"|shady|\.(?:invalid|top|tk|pw|icu|click|buzz)$"
)


def is_real_host(host: str) -> bool:
    return HOST.fullmatch(host) is not None and not _NO_HOST.search(host)


_INSTALLER_HOST = _compile_hosts(_RULES["installer_hosts"])


def is_installer_host(host: str) -> bool:
    """Whether the documentation of a common tool says to run what this host sends."""
    return _INSTALLER_HOST.search(host) is not None


def name_host(host: str) -> str:
    """The sign of a host: an address in place of a name, or a place to drop text."""
    if _ADDRESS_HOST.match(host):
        return "" if _PRIVATE_HOST.match(host) else "address-host"
    if _DROP_HOST.search(host):
        return "drop-host"
    return "suspect-host" if _SUSPECT_HOST.search(host) else "host"


PATH = re.compile(
    r"(?<![\w/.:-])(?:~|\$HOME|\$\{HOME\}|%(?:USERPROFILE|APPDATA|LOCALAPPDATA)%"
    r"|/(?:etc|root|home|Users|proc|Library|var|opt|usr/local|System)(?=/))"
    r"[/\\][\w.@*${}/\\-]{1,200}"
)
PARENT = re.compile(r"(?<![\w/.])(?:\.\./){2,8}[\w.@*/-]{1,200}")

CREDENTIALS = re.compile(
    r"\.ssh\b(?!\.)|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\.aws/(?:credentials|config)\b|\.netrc\b"
    r"|\.pypirc\b|\.git-credentials\b|\.gnupg\b|\.docker/config\.json|login\.keychain"
    r"|\bLogin Data\b|Cookies\b.{0,20}sqlite|wallet\.dat|/etc/shadow|serviceaccount/token"
    r"|\.config/gcloud|gcloud/application_default|\.config/gh/hosts|\.claude/\.credentials"
    r"|auth-profiles\.json|Local Storage/leveldb|\.electrum|\.bitcoin|keystore/UTC"
    r"|/(?:token|credentials?|client_secret|secrets?|oauth|api[_-]?keys?)\w{0,20}\.(?:json|ya?ml|txt|pickle|env)\b"
    r"|\.google/\w{1,30}\.json",
    _I,
)
ENV_FILE = re.compile(r"(?<![\w.])(?:[~/\w.-]{0,100}/)?\.env(?:\.(?:local|production))?(?![\w.(])")


PLACES: Sequence[tuple[str, Kind, re.Pattern[str]]] = [
    (row["sign"], row["kind"], re.compile(_read_pattern(row["pattern"]))) for row in _RULES["place"]
]
"""Places whose change outlives the task: sign, kind and pattern of a path."""
_PATH_MARKS: Sequence[str] = _RULES["path_marks"]

SECRET_NAME = re.compile(
    r"(?:TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|CREDENTIAL|MNEMONIC"
    r"|SEED_PHRASE)",
    _I,
)

BASE64 = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{40,}={0,2}(?![\w+/=])")
HEX = re.compile(r"(?:\\x[0-9a-f]{2}){12,}|(?<![\w])(?:[0-9a-f]{2}){40,}(?!\w)", _I)
COMMAND_INSIDE = re.compile(
    r"\b(?:curl|wget|bash|/bin/sh|powershell|Invoke-\w+|IEX|python3?|eval|exec|os\.system"
    r"|subprocess|nc|chmod|rm|crontab|osascript|base64)\b|https?://|\bignore\b.{0,30}\binstruction",
    _I,
)


class Phrase(NamedTuple):
    """A wording, or a line of a program, that says more than a command does."""

    sign: str
    kind: Kind
    what: str
    marks: tuple[str, ...]
    """In lower case; one of them is in each match."""
    pattern: re.Pattern[str]
    """Of text in lower case."""
    is_cased: bool = False
    """Whether capitals matter."""


def _parse_phrase(row: Mapping[str, Any]) -> Phrase:
    patterns = [*map(_read_pattern, row.get("patterns", ()))]
    if words := "|".join(map(_read_pattern, row.get("words", ()))):
        patterns.append(rf"\b(?:{words})")  # one look at the place before a word for all of them
    return Phrase(
        sign=row["sign"],
        kind=row["kind"],
        what=row["what"],
        marks=tuple(row["marks"]),
        pattern=re.compile("|".join(patterns), re.MULTILINE),
        is_cased=row.get("is_cased", False),
    )


PHRASES = tuple(map(_parse_phrase, _RULES["phrase"]))
"""Looked for in the whole text of a file, code as well."""

_PROSE = tuple(
    phrase._replace(marks=tuple(max(mark.split(), key=len) for mark in phrase.marks))
    for phrase in PHRASES
    if phrase.kind == "agent-control"
)
"""Sentences, whose words may stand on two lines: a mark is one of these."""

_DESCRIBED = re.compile(
    r"inject|attack|untrusted|malicious|suspicious|red\s+flag|adversar|phish|vulnerab|\breject"
    r"|\brefus|\bdetect|\bexploit|threat|\bunsafe|\binsecure|anti-?pattern|\bviolat|dangerous\b"
    r"|\bblocks?\b|\bdeny\b|forbidden|prohibit"
)
_NEGATED = re.compile(
    r"(?:\bnever|n't|(?<!why )\bnot)\s+(?:(?!(?:fail|forget|hesitat|wait|worry|need|only|just|stop"
    r"|bother|mind|skip|miss|refus|neglect|omit|delay|ask|tell|mention|show)\w*\b)[\w-]+[\s/]+){0,3}"
    r"[\"'`]?$"
    r"|\b(?:avoid\w*|prevent\w*|without|no)\s+(?:(?:\w+ing|to|from|any|the|an?)\s+){0,2}[\"'`]?$"
)
"""Not before a verb that turns it round: who must not forget to do something shall do it."""
_CONDITION = re.compile(r"\b(?:until|unless|once|after|when|if|whether|before)\b[^;:,]{0,80}$")
_QUOTED = re.compile(r"[\"“'«`|]\s?$")
_SENTENCE_END = re.compile(r"[.!?]\s|[。！？\n]")
_COMMENTED = re.compile(r"\s*(?:#|//|--\s|\*|<!--)")

Mention = Literal["", "described", "negated"]
"""How a text speaks of a phrase: as an instruction, as what others do, or as what not to do."""
_MENTIONS: tuple[Mention, ...] = ("", "described", "negated")


class FoundPhrase(NamedTuple):
    """A match of a phrase, and whether the text instructs, describes or negates."""

    phrase: Phrase
    offset: int
    mention: Mention


class MarkedText(NamedTuple):
    """A whole file, with the marks that it is likely to have."""

    text: str
    lowered: str
    likely: frozenset[str]


def find_phrases(marked: MarkedText, code: Sequence[tuple[int, int]] = ()) -> Iterator[FoundPhrase]:
    """Find the first match of each sign; instructions go before other mentions.

    Args:
        marked: A file.
        code: Where its programs begin and end, in order: no prose in them softens a command.
    """
    found = {f.phrase.sign: f for f in _find_in(marked, PHRASES, code)}
    missing = [
        phrase
        for phrase in _PROSE
        if (phrase.sign not in found or found[phrase.sign].mention)
        and not marked.likely.isdisjoint(phrase.marks)
    ]
    if missing:
        text = _flow(marked.text)
        flowing = marked._replace(text=text, lowered=lower_in_place(text))
        for each in _find_in(flowing, missing, code):
            known = found.get(each.phrase.sign, each)
            found[each.phrase.sign] = min(known, each, key=lambda f: _MENTIONS.index(f.mention))
    yield from found.values()


_WRAP = re.compile(r"\n(?=[ \t>]*[^\W\d_])|\*|>|_(?:(?<![^\W_]_)|(?![^\W_]))")
_TAG = re.compile(r"</?[A-Za-z]\w{0,9}>")


def _flow(text: str) -> str:
    """A text whose paragraphs are lines without emphasis; each character keeps its place."""
    if "</" in text:
        text = _TAG.sub(lambda tag: " " * len(tag[0]), text)
    return _WRAP.sub(" ", text)


def _find_in(
    marked: MarkedText, phrases: Iterable[Phrase], code: Sequence[tuple[int, int]]
) -> Iterator[FoundPhrase]:
    lowered = marked.lowered
    for phrase in phrases:
        marks = [mark for mark in phrase.marks if mark in marked.likely]
        if not marks:
            continue
        source = marked.text if phrase.is_cased else lowered
        best: FoundPhrase | None = None
        for offset in _find_offsets(phrase.pattern, source, _find_passages(lowered, marks)):
            each = FoundPhrase(phrase, offset, _judge_mention(phrase, lowered, offset, code))
            if best is None or _MENTIONS.index(each.mention) < _MENTIONS.index(best.mention):
                best = each
            if not best.mention:
                break
        if best:
            yield best


def _find_offsets(
    pattern: re.Pattern[str], source: str, passages: Iterable[tuple[int, int]]
) -> Iterator[int]:
    for first, last in passages:
        found = pattern.search(source, first, last)
        while found:
            yield found.start()
            found = pattern.search(source, found.start() + 1, last)


def _judge_mention(
    phrase: Phrase, lowered: str, at: int, code: Sequence[tuple[int, int]]
) -> Mention:
    first = max(lowered.rfind("\n", 0, at) + 1, at - _MAX_NEAR)
    is_command = phrase.kind != "agent-control" and _is_inside(at, code)
    if is_command and not _COMMENTED.match(lowered, first, at):
        return ""
    ends = [end.end() for end in _SENTENCE_END.finditer(lowered, first, at)]
    before = lowered[ends[-1] if ends else first : at]
    if before.count("`") % 2:
        before = before[: before.rindex("`") + 1]  # what a command says itself is no warning
    if _NEGATED.search(before[-60:]):
        return "negated"
    if phrase.sign == "authority" and _CONDITION.search(before):
        return "negated"  # what must come first is not claimed
    if _DESCRIBED.search(before):
        return "described"
    if phrase.kind == "agent-control" and _QUOTED.search(before[-3:]):
        last = lowered.find("\n", at, at + _MAX_NEAR)
        end = last if last >= 0 else at + _MAX_NEAR
        return "described" if _DESCRIBED.search(lowered, first, end) else ""
    return ""


_MAX_NEAR = 300  # characters at each side: more is another thought


def _is_inside(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    index = bisect_right(spans, (at, sys.maxsize)) - 1
    return index >= 0 and at < spans[index][1]


def mark_text(text: str) -> MarkedText:
    """Find the marks whose every three bytes are somewhere: few of all need a closer look."""
    import numpy as np

    lowered = lower_in_place(text)
    marks, rows = _hash_marks()
    is_present = np.zeros(_BUCKETS, dtype=bool)
    is_present[_hash_threes(lowered.encode("utf-8", "replace"))] = True
    found = np.flatnonzero(is_present[rows].all(axis=1))
    return MarkedText(text, lowered, _SHORT.union(marks[int(each)] for each in found))


_BUCKETS = 1 << 16
_MARKS = frozenset(mark for phrase in (*PHRASES, *_PROSE) for mark in phrase.marks) | {*_PATH_MARKS}
_SHORT = frozenset(mark for mark in _MARKS if not mark.encode()[2:])


def _hash_threes(text: bytes) -> "NDArray[np.uint16]":
    import numpy as np

    data = np.frombuffer(text, dtype=np.uint8).astype(np.uint16)
    hashes: NDArray[np.uint16] = data[:-2] * 1021 + data[1:-1] * 61 + data[2:]
    return hashes


@cache
def _hash_marks() -> "tuple[Sequence[str], NDArray[np.uint16]]":
    import numpy as np

    marks = tuple(_MARKS - _SHORT)
    hashes = [_hash_threes(mark.encode()) for mark in marks]
    width = max(map(len, hashes))
    return marks, np.stack([np.resize(each, width) for each in hashes])


def _find_passages(lowered: str, marks: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Lines with a mark, each with the two lines below it; none is passed twice."""
    starts = sorted({first for mark in marks for first in _find_lines(lowered, mark)})
    start, end = -1, -1
    for first in starts:
        if first > end:
            if start >= 0:
                yield start, end
            start = first
        end = _find_end(lowered, min(_find_end(lowered, first) + 1, len(lowered)))
    if start >= 0:
        yield start, end


def _find_lines(lowered: str, mark: str) -> Iterator[int]:
    """Where the lines with a mark begin."""
    at = lowered.find(mark)
    while at >= 0:
        yield lowered.rfind("\n", 0, at) + 1
        last = lowered.find("\n", at)
        at = lowered.find(mark, last) if last >= 0 else -1


def find_place_lines(marked: MarkedText) -> Sequence[tuple[int, int]]:
    """Lines that may name a path outside the project."""
    marks = filter(marked.likely.__contains__, _PATH_MARKS)
    starts = {first for mark in marks for first in _find_lines(marked.lowered, mark)}
    return [(first, _find_end(marked.text, first)) for first in sorted(starts)]


def _find_end(text: str, first: int) -> int:
    last = text.find("\n", first)
    return last if last >= 0 else len(text)
