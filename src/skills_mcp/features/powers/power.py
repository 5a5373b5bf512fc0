"""The statement of powers: kinds, signs, and the levels that combinations of signs have.

A sign is a fact about one place, such as a file of credentials.  An alarm takes what good
skills of that length and purpose rarely have.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from skills_mcp.skills.model import SkillPath

Kind = Literal[
    "network",
    "command",
    "install",
    "outside-path",
    "credentials",
    "environment",
    "permissions",
    "persistence",
    "agent-control",
    "hidden-content",
    "encoded-content",
    "binary",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
SENDS_TEXT = ", sends text"
Level = Literal["note", "review", "alarm"]
LEVELS: tuple[Level, ...] = get_args(Level)


class Sign(NamedTuple):
    """A fact about one place of a file."""

    kind: Kind
    what: str
    line: int | None
    """None for a binary."""
    name: str = ""
    """The name in `_SIGN_LEVELS` and `_RARITY`; empty for a plain note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A thing that a skill tells an agent to reach or to do."""

    skill: SkillPath
    kind: Kind
    what: str
    file: str
    """Relative to the root of the content."""
    line: int | None
    level: Level
    inherited_by: int = 0
    """Other skills that are served with the text of this one."""

    @property
    def subject(self) -> str:
        """The text for patterns of `powers.yaml`: a host without its suffix."""
        return self.what.removesuffix(SENDS_TEXT)

    @property
    def identity(self) -> tuple[str, ...]:
        """What a comparison looks at: an edit above it moves a line, and adds nothing."""
        return self.skill, self.kind, self.what, self.level


def derive_levels(
    names: Collection[str], size_bytes: int, purpose: str = ""
) -> Mapping[str, Level]:
    """Levels of the names of all signs of one skill.

    Args:
        names: Of its signs.
        size_bytes: Of its text.
        purpose: Its name and description.
    """
    levels: dict[str, Level] = {name: _SIGN_LEVELS.get(name, "note") for name in names}
    expected = {name for topic, signs in _EXPECTED if topic.search(purpose) for name in signs}
    discount = _LENGTH_PENALTY * log10(max(size_bytes, 1_000) / 1_000)
    rarity = {
        name: _RARITY[name] - discount
        for name in {*names} - expected
        if _RARITY.get(name, 0) > discount
    }
    topics: dict[int, list[str]] = defaultdict(list)
    for name in sorted(rarity, key=lambda name: (-rarity[name], name)):
        topics[_TOPICS[name]].append(name)
    rarest = list(topics.values())[: len(_WEIGHTS)]
    score = sum(rarity[topic[0]] * weight for topic, weight in zip(rarest, _WEIGHTS, strict=False))
    if _SECURITY.search(purpose):
        score -= _SECURITY_PENALTY
    reached = next((each for each, threshold in _THRESHOLDS if score >= threshold), None)
    if reached:
        counted = {name for topic in rarest for name in topic}
        levels |= {name: max(levels[name], reached, key=LEVELS.index) for name in counted}
    return levels


def name_mention(sign: str, mention: str) -> str:
    """The sign of a phrase that is described or negated: it counts for no alarm.

    One word before it is soon written, so what is described stays to be reviewed.
    """
    if not mention:
        return sign
    return _DESCRIBED if mention == "described" and _SIGN_LEVELS.get(sign) == "review" else ""


def is_at_least(level: Level, other: Level) -> bool:
    return LEVELS.index(level) >= LEVELS.index(other)


def compare_powers(
    before: Sequence[Power], after: Sequence[Power]
) -> tuple[tuple[Power, ...], tuple[Power, ...]]:
    """The powers that are added, and those that are removed."""
    old, new = _identities(before), _identities(after)
    added = tuple(power for power in after if power.identity not in old)
    return added, tuple(power for power in before if power.identity not in new)


def _identities(powers: Iterable[Power]) -> Collection[tuple[str, ...]]:
    return {power.identity for power in powers}


_DESCRIBED = "described"
_REVIEWED = (
    *("credential-file", "secret-value", "all-variables", "secret-argument"),
    *("piped-shell", "piped-known", "decode-run", "encoded", "run-text", "sudo", "socket"),
    *("send", "send-computed", "send-address-host", "send-drop-host", "drop-host", "address-host"),
    *("shell-start", "service", "git-hook", "agent-config", "agent-settings", "git-config"),
    *("hide", "override", "skip-confirmation", "disable-check", "all-permissions", "authority"),
    *("exfiltrate", "send-known", "ask-secret", "self-priority", "locked-archive", "run-first"),
    *("any-tool", "world-writable", "invisible", "blank-run", "comment", "long", "agent-memory"),
    *("memory-write", "settings-write", "remote-instructions"),
    *("program", "archive", "document", "compiled", "polyglot"),
    _DESCRIBED,
)
_SIGN_LEVELS: Mapping[str, Level] = MappingProxyType(dict.fromkeys(_REVIEWED, "review"))

_RARE: tuple[Mapping[str, float], ...] = (
    {
        "credential-file": 2.2,
        "browser-profile": 3.0,
        "read-secret": 1.7,
        "secret-in-request": 3.0,
        "all-variables": 2.8,
        "env-file": 1.1,
    },
    {"wallet": 2.6},
    {"spend": 2.2},
    {"send": 1.3, "send-address-host": 3.5, "send-drop-host": 3.5, "send-computed": 1.0},
    {"drop-host": 2.2, "web-hook": 3.0},
    {"address-host": 3.5},
    {"suspect-host": 2.1, "beacon": 3.0},
    {"url-data": 2.8, "copy-to": 3.5},
    {"exfiltrate": 1.4, "send-known": 3.0, "loot": 1.6, "ask-secret": 2.8},
    {"piped-shell": 2.2, "piped-known": 2.2, "fetch-then-run": 2.6},
    {
        "decode-run": 3.5,
        "run-decoded": 3.0,
        "obfuscate": 2.5,
        "encoded": 3.5,
        "run-text": 2.8,
        "decode": 1.7,
    },
    {"socket": 2.4, "remote-shell": 3.5, "fingerprint": 2.2},
    {"run-first": 3.5, "paste": 3.0, "get-program": 2.2, "locked-archive": 3.5},
    {"install-first": 1.9},
    {"get-release": 1.9},
    {"odd-install": 2.3},
    {"polyglot": 3.5, "compiled": 3.5, "archive": 3.0, "program": 3.5},
    {"hide": 2.2},
    {"override": 2.2, "authority": 2.6, "self-priority": 3.5},
    {"skip-confirmation": 1.2},
    {"disable-check": 2.3},
    {"shouted": 1.6, "must-first": 1.3},
    {"remote-instructions": 3.0},
    {"all-permissions": 2.6},
    {"system-rights": 2.6, "world-writable": 3.5, "sudo": 1.9},
    {"agent-config": 2.4, "agent-settings": 1.3, "settings-write": 2.5},
    {"agent-memory": 2.8, "memory-write": 1.5},
    {"shell-start": 2.0, "service": 2.4, "git-hook": 2.1, "git-config": 2.6},
    {"background": 2.4},
    {"make-executable": 1.8},
    {"destroy": 3.0},
    {"capture": 3.0},
    {"mining": 3.0},
    {"comment": 3.0, "invisible": 2.3, "blank-run": 3.5},
    {"secret-argument": 1.4},
    {"secret-value": 1.8},
    {"any-tool": 1.1},
    {"osascript": 2.6},
)
"""Signs by topic, each with its rarity in good skills: 3.0 is one in a thousand.

The rarest sign of a topic counts for it.
"""
_TOPICS = {name: topic for topic, signs in enumerate(_RARE) for name in signs}
_RARITY = {name: rarity for signs in _RARE for name, rarity in signs.items()}

_PURPOSES = {
    r"crypto|blockchain|on-?chain|wallet|token|defi\b|solana|ethereum|bitcoin|\bnft|web3"
    r"|swap|trad(?:e|ing)|\busdc|smart contract|x402|\bpay|donat|stak(?:e|ing)": {
        "wallet",
        "spend",
    },
    r"memory|claude|codex|cursor|\bagents?\b|\bhooks?\b|\bmcp\b|plugin|skill|gemini": {
        *("agent-memory", "memory-write", "settings-write"),
        *("agent-config", "agent-settings", "all-permissions"),
    },
    r"\b(?:aws|gcp|azure|ssh|sftp|kubernetes|docker|npm|pypi)\b": {
        "credential-file",
        "read-secret",
    },
    r"browser|scrap|chrome|playwright|web page|website|cookie": {"browser-profile", "capture"},
}
_EXPECTED = tuple((re.compile(topic, re.IGNORECASE), signs) for topic, signs in _PURPOSES.items())
"""Signs that do not count for a skill of this purpose, as its description says that it has them."""
_SECURITY = re.compile(
    r"secur|attack|exploit|malware|malicious|pentest|penetration|threat|vulnerab|forensic|red.?team"
    r"|\bctf\b|hack|detect|audit|incident|phish|ransom|payload|injection|offensive|credential"
    r"|reverse.engineer|secret|guard|safety|fuzz|compliance|firewall|hardening",
    re.IGNORECASE,
)
_SECURITY_PENALTY = 1.0  # off for a skill that is about attacks: it names what it teaches to find

_LENGTH_PENALTY = 1.2  # for each tenfold length: a manual names more than a note does
_WEIGHTS = (1.0, 0.5)  # of the two rarest topics: signs of one purpose come together
_THRESHOLDS: tuple[tuple[Level, float], ...] = (("alarm", 1.7), ("review", 0.5))
"""Of good skills, 1 and 5 of a hundred reach it."""
