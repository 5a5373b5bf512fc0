"""The statement of powers: kinds, signs, and the levels that combinations of signs have.

A sign is a fact about one place, such as a file of credentials.  Most signs are harmless
alone, so an alarm takes two that good skills of that length rarely have.
"""

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


def derive_levels(names: Collection[str], size_bytes: int) -> Mapping[str, Level]:
    """Levels of the names of all signs of one skill, of which `size_bytes` are text."""
    levels: dict[str, Level] = {name: _SIGN_LEVELS.get(name, "note") for name in names}
    discount = _DISCOUNT * log10(max(size_bytes, 1_000) / 1_000)
    rarity = {name: _RARITY[name] - discount for name in names if _RARITY.get(name, 0) > discount}
    topics: dict[int, list[str]] = defaultdict(list)
    for name in sorted(rarity, key=rarity.__getitem__, reverse=True):
        topics[_TOPICS[name]].append(name)
    rarest, others = list(topics.values())[:_COUNTED], len(topics) - _COUNTED
    score = sum(rarity[topic[0]] for topic in rarest) - _MANUAL * max(others, 0)
    reached: Level | None = next((each for each, least in _LEAST if score >= least), None)
    if reached:
        counted = {name for topic in rarest for name in topic}
        levels |= {name: max(levels[name], reached, key=LEVELS.index) for name in counted}
    return levels


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


_REVIEWED = (
    *("credential-file", "secret-value", "all-variables", "secret-argument"),
    *("piped-shell", "piped-known", "decode-run", "encoded", "run-text", "sudo", "socket"),
    *("send", "send-computed", "send-address-host", "send-drop-host", "drop-host", "address-host"),
    *("shell-start", "service", "git-hook", "agent-config", "agent-settings", "git-config"),
    *("hide", "override", "skip-confirmation", "disable-check", "all-permissions", "authority"),
    *("exfiltrate", "self-priority", "locked-archive", "run-first", "any-tool", "world-writable"),
    *("invisible", "blank-run", "comment", "long", "agent-memory"),
    *("program", "archive", "document", "compiled", "polyglot"),
)
_SIGN_LEVELS: Mapping[str, Level] = MappingProxyType(dict.fromkeys(_REVIEWED, "review"))

_RARE: tuple[Mapping[str, float], ...] = (
    {
        "credential-file": 3.1,
        "browser-profile": 3.3,
        "read-secret": 2.5,
        "secret-in-request": 3.5,
        "all-variables": 3.8,
    },
    {"wallet": 2.8},
    {"spend": 3.3},
    {"send": 2.8, "send-address-host": 4.5, "send-drop-host": 4.0, "send-computed": 2.3},
    {"drop-host": 3.6, "web-hook": 4.0},
    {"address-host": 4.0},
    {"suspect-host": 2.9},
    {"url-data": 3.7},
    {"exfiltrate": 2.4, "loot": 2.4},
    {"piped-shell": 3.3, "piped-known": 3.2, "fetch-then-run": 4.5},
    {"decode-run": 4.5, "run-decoded": 2.9, "obfuscate": 3.3, "encoded": 3.8, "run-text": 3.3},
    {"socket": 3.2, "remote-shell": 3.2},
    {"run-first": 3.3, "paste": 3.4, "get-program": 2.9, "locked-archive": 4.5},
    {"odd-install": 3.2},
    {"polyglot": 4.5, "compiled": 4.5, "archive": 3.8},
    {"hide": 3.0, "despite-user": 2.1},
    {"override": 2.9},
    {"authority": 3.3},
    {"skip-confirmation": 2.1},
    {"disable-check": 2.4},
    {"self-priority": 3.3, "shouted": 2.5, "must-first": 2.3},
    {"remote-instructions": 2.9},
    {"all-permissions": 3.3},
    {"system-rights": 2.7, "world-writable": 3.7},
    {"agent-config": 4.0, "agent-settings": 2.6, "settings-write": 3.6},
    {"agent-memory": 3.8, "memory-write": 2.9},
    {"shell-start": 3.2, "service": 3.4, "git-hook": 3.6},
    {"background": 2.8},
    {"make-executable": 2.8},
    {"destroy": 2.6},
    {"capture": 3.2},
    {"mining": 4.0},
    {"comment": 3.5, "invisible": 3.7, "blank-run": 4.5},
    {"secret-argument": 3.0},
    {"secret-value": 3.2},
)
"""Signs by topic, each with its rarity in good skills of a thousand characters: 3.0 is one in
a thousand.  The rarest sign of a topic counts for it."""
_TOPICS = {name: topic for topic, signs in enumerate(_RARE) for name in signs}
_RARITY = {name: rarity for signs in _RARE for name, rarity in signs.items()}

_DISCOUNT = 0.8  # for each tenfold length: a manual names more than a note does
_COUNTED = 2  # topics: a third is more often a book about attacks than an attack
_MANUAL = 0.3  # off for each further topic, for the same reason
_LEAST: tuple[tuple[Level, float], ...] = (("alarm", 4.5), ("review", 2.5))
"""Of good skills, 1 and 9 of a hundred reach it."""
