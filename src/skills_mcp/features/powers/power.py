"""The statement of powers: kinds, signs, levels of combinations, and allowances.

A sign is a fact about one place, such as a file of credentials.  An alarm takes what good
skills of that length and purpose rarely have.  `powers.yaml` at the top of the content says
which powers are allowed, and where.
"""

import os
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from skills_mcp.errors import ConfigError, MissingFileError
from skills_mcp.features.powers import POWERS_FILE
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import compile_patterns
from skills_mcp.skills.model import SkillPath
from skills_mcp.text import safe_yaml
from skills_mcp.text.rendering import abbreviate_value

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


def join_lines(text: str) -> str:
    """A pattern that is written on several lines."""
    return "".join(map(str.strip, text.splitlines()))


def is_at_least(level: Level, other: Level) -> bool:
    return LEVELS.index(level) >= LEVELS.index(other)


def compare_powers(
    before: Sequence[Power], after: Sequence[Power]
) -> tuple[tuple[Power, ...], tuple[Power, ...]]:
    """The powers that are added, and those that are removed."""
    old, new = ({power.identity for power in powers} for powers in (before, after))
    added = tuple(power for power in after if power.identity not in old)
    return added, tuple(power for power in before if power.identity not in new)


_DESCRIBED = "described"
_RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_RARE: Sequence[Mapping[str, float]] = _RULES["topics"]
_TOPICS = {name: topic for topic, signs in enumerate(_RARE) for name in signs}
_RARITY = {name: rarity for signs in _RARE for name, rarity in signs.items()}
_RARE_ENOUGH = 2.5  # one of 300: it is reviewed wherever it is
_RARE_NAMES = (name for name, rarity in _RARITY.items() if rarity >= _RARE_ENOUGH)
_SIGN_LEVELS: Mapping[str, Level] = MappingProxyType(
    dict.fromkeys((*_RULES["reviewed"], *_RARE_NAMES), "review")
)

_EXPECTED: Sequence[tuple[re.Pattern[str], Collection[str]]] = [
    (re.compile(join_lines(row["topic"]), re.IGNORECASE), frozenset(row["signs"]))
    for row in _RULES["purpose"]
]
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


_MAX_BYTES = 4 * safe_yaml.MAX_YAML_CHARACTERS + 1  # as none is wider; one is too many
_IN = "in"
_SHAPE = (
    "write allow: [{in: infra/**, network: [registry.example.com], install: true}], with the "
    f"kinds {', '.join(KINDS)}"
)

Fits = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Allowance:
    """One entry: patterns of skill paths, and for each kind those of its subjects."""

    covers: Fits
    kinds: Mapping[str, Fits]

    def allows(self, power: Power) -> bool:
        fits = self.kinds.get(power.kind)
        return fits is not None and self.covers(power.skill) and fits(power.subject)


def load_allowances(top: Path) -> Sequence[Allowance] | None:
    """The entries of the file; None without one.

    Raises:
        ConfigError: It cannot be used; the message says what to write.
    """
    try:
        with open_inside(top, (POWERS_FILE,)) as handle:
            text = handle.read(_MAX_BYTES).decode("utf-8", "replace")
    except MissingFileError as error:
        if not os.path.lexists(top / POWERS_FILE):
            return None
        raise ConfigError(
            f"{POWERS_FILE} cannot be read: make it a readable file, not a link or a folder"
        ) from error
    try:
        data, repeated = safe_yaml.parse_yaml(text), safe_yaml.parse_yaml_strings(text).repeated
    except safe_yaml.YamlError as error:
        raise ConfigError(f"{POWERS_FILE} is no YAML: {error}") from error
    if repeated:
        raise ConfigError(f"{POWERS_FILE} has {repeated[0]} twice in one mapping: join the two")
    entries = data.get("allow") if isinstance(data, dict) and set(data) == {"allow"} else None
    if not isinstance(entries, list):
        raise ConfigError(f"{POWERS_FILE} has not one list `allow`: {_SHAPE}")
    return tuple(map(_parse_entry, entries))


def _parse_entry(entry: Any) -> Allowance:
    if not isinstance(entry, dict) or not isinstance(entry.get(_IN), str):
        reason = f"an entry without `in`, {abbreviate_value(entry)}"
        raise ConfigError(f"{POWERS_FILE} has {reason}: {_SHAPE}")
    unknown = [key for key in entry if key not in {_IN, *KINDS}]
    if unknown:
        raise ConfigError(
            f"{POWERS_FILE} names {abbreviate_value(unknown[0])}, which is no kind: {_SHAPE}"
        )
    pattern = entry[_IN]
    covered = (pattern, pattern.removesuffix("/**"))
    kinds = {key: _parse_patterns(key, entry[key]) for key in entry if key != _IN}
    return Allowance(compile_patterns(covered), kinds)


def _parse_patterns(kind: str, value: Any) -> Fits:
    if isinstance(value, bool):
        return lambda _subject: value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return compile_patterns(value)
    raise ConfigError(
        f"{POWERS_FILE}: {kind} is {abbreviate_value(value)}; write true, or a list of patterns"
    )


def find_excess(powers: Iterable[Power], allowances: Sequence[Allowance]) -> list[Power]:
    """The powers that no entry allows."""
    return [power for power in powers if not any(each.allows(power) for each in allowances)]
