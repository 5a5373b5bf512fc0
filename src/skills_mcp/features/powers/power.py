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
    *("credential-file", "secret-value", "secret-argument", "piped-shell", "piped-known", "sudo"),
    *("send", "send-computed", "drop-host", "shell-start", "agent-config", "agent-settings"),
    *("hide", "override", "skip-confirmation", "disable-check", "exfiltrate", "any-tool"),
    *("invisible", "long", "memory-write", "document"),
    _DESCRIBED,
)

_ALONE = (
    {"wallet": 2.9, "spend": 2.8, "address-host": 3.9, "suspect-host": 2.2, "install-first": 1.7}
    | {"odd-install": 2.4, "hide": 2.4, "skip-confirmation": 1.2, "disable-check": 2.2}
    | {"spread": 3.9, "reassure": 3.2, "persist-fetch": 3.9, "all-permissions": 2.5}
    | {"background": 2.5, "make-executable": 1.8, "destroy": 2.8, "capture": 3.5, "mining": 3.9}
    | {"secret-argument": 1.6, "secret-value": 2.0, "any-tool": 1.2, "osascript": 2.8}
)
"""Signs that are a topic of their own."""
_RARE: tuple[Mapping[str, float], ...] = (
    (
        {"credential-file": 2.2, "browser-profile": 3.9, "read-secret": 1.9}
        | {"secret-in-request": 3.1, "all-variables": 2.9, "env-file": 1.1}
    ),
    {"send": 1.4, "send-address-host": 3.9, "send-drop-host": 3.5, "send-computed": 1.1},
    {"drop-host": 2.4, "web-hook": 3.0},
    {"url-data": 2.8, "copy-to": 3.9},
    {"exfiltrate": 1.7, "send-known": 3.2, "loot": 1.7, "ask-secret": 3.0},
    {"piped-shell": 2.4, "fetch-then-run": 2.6},
    (
        {"decode-run": 3.9, "run-decoded": 3.9, "obfuscate": 2.5, "encoded": 3.9}
        | {"run-text": 2.7, "decode": 2.1}
    ),
    {"socket": 2.6, "remote-shell": 3.0, "fingerprint": 2.4},
    {"run-first": 3.5, "paste": 3.1, "get-program": 2.5, "locked-archive": 3.9},
    {"polyglot": 3.9, "compiled": 3.9, "archive": 3.1, "program": 3.9},
    {"override": 2.1, "authority": 2.6, "self-priority": 2.8},
    {"shouted": 1.6, "must-first": 1.4},
    {"remote-instructions": 2.9, "self-update": 3.2},
    {"system-rights": 2.4, "world-writable": 2.8, "sudo": 1.9},
    {"agent-config": 2.6, "agent-settings": 1.6, "settings-write": 2.9},
    {"agent-memory": 3.0, "memory-write": 2.0},
    {"shell-start": 2.2, "service": 3.0, "git-hook": 2.6, "git-config": 3.2},
    {"comment": 2.8, "invisible": 2.6, "blank-run": 3.9},
    *({name: rarity} for name, rarity in _ALONE.items()),
)
"""Signs by topic, each with its rarity in good skills: 3.0 is one in a thousand.

The rarest sign of a topic counts for it.
"""
_TOPICS = {name: topic for topic, signs in enumerate(_RARE) for name in signs}
_RARITY = {name: rarity for signs in _RARE for name, rarity in signs.items()}
_RARE_ENOUGH = 2.5  # one of 300: it is reviewed wherever it is
_RARE_NAMES = (name for name, rarity in _RARITY.items() if rarity >= _RARE_ENOUGH)
_SIGN_LEVELS: Mapping[str, Level] = MappingProxyType(
    dict.fromkeys((*_REVIEWED, *_RARE_NAMES), "review")
)

_PURPOSES = {
    r"crypto|blockchain|on-?chain|wallet|token|defi\b|solana|ethereum|coins?\b|\bnft|web3|\berc-?\d"
    r"|\bevm\b|swap|trad(?:e|ing)|\busdc|smart contract|x402|\bpay|donat|stak(?:e|ing)": {
        *("wallet", "spend", "mining"),
    },
    r"memory|compaction|claude|codex|cursor|\bagents?\b|\bhooks?\b|\bmcp\b|plugin|skill|gemini": {
        *("agent-memory", "memory-write", "settings-write"),
        *("agent-config", "agent-settings", "all-permissions"),
    },
    r"\b(?:aws|gcp|azure|ssh|sftp|kubernetes|docker|npm|pypi)\b": {
        "credential-file",
        "read-secret",
    },
    r"server|\bvps\b|linux|remote|\bgpu\b|daemon|monitor|runner|schedul|\bcron|deploy|homelab|network|\bvpn\b"
    r"|kubernetes|docker|shell|\bssh\b|infrastructure|gitops|cluster": {
        *("service", "background", "sudo", "shell-start", "socket"),
    },
    r"\bgit\b|github|gitlab|commit|version|hook|\blint|monorepo": {"git-hook", "git-config"},
    r"encod|decod|base64|\bjwt\b|pagina|crypt|image|audio|attachment": {"decode"},
    r"telegram|discord|slack|webhook|notif|\bbots?\b|messag|channel": {"web-hook"},
    r"(?:install|updat|upgrad|manag|version)\w*\b.{0,40}\bskills?\b": {"self-update", "spread"},
    r"browser|scrap|chrome|playwright|web page|website|cookie": {"browser-profile", "capture"},
}
_EXPECTED = tuple((re.compile(topic, re.IGNORECASE), signs) for topic, signs in _PURPOSES.items())
"""Signs that do not count for a skill of this purpose, as its description says that it has them."""
_SECURITY = re.compile(
    r"secur|attack|exploit|malware|malicious|pentest|penetration|threat|vulnerab|forensic|red.?team"
    r"|\bctf\b|hack|hunting|suspicious|adversar|detect|audit|incident|phish|ransom|payload|injection|offensive|credential"
    r"|reverse.engineer|secret|guard|safety|fuzz|compliance|firewall|hardening",
    re.IGNORECASE,
)
_SECURITY_PENALTY = 1.5  # off for a skill that is about attacks: it names what it teaches to find

_LENGTH_PENALTY = 1.2  # for each tenfold length: a manual names more than a note does
_WEIGHTS = (1.0, 0.5)  # of the two rarest topics: signs of one purpose come together
_THRESHOLDS: tuple[tuple[Level, float], ...] = (("alarm", 1.5), ("review", 0.5))
"""Of good skills, 1 and 5 of a hundred reach it."""
