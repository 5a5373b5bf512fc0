"""The statement of powers: kinds, signs, and the levels that combinations of signs have.

A sign is a fact about one place, such as a file of credentials.  Most signs are harmless
alone, so an alarm is a combination within one skill, over all of its files.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """The name in `_SIGN_LEVELS` and `_COMBINATIONS`; empty for a plain note."""


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


def derive_levels(files: Iterable[Iterable[Sign]]) -> Mapping[str, Level]:
    """Levels of the names of all signs of one skill, given by file."""
    by_file = [{sign.name for sign in signs} for signs in files]
    together = set[str]().union(*by_file)
    levels: dict[str, Level] = {name: _SIGN_LEVELS.get(name, "note") for name in together}
    for names in (together - _WEAK, *by_file):
        for combination in _COMBINATIONS:
            parts = [names & part for part in combination]
            if all(parts):
                levels |= dict.fromkeys(set[str]().union(*parts), "alarm")
    return levels


def is_at_least(level: Level, other: Level) -> bool:
    return LEVELS.index(level) >= LEVELS.index(other)


def find_highest(powers: Iterable[Power]) -> Level | None:
    return max((power.level for power in powers), key=LEVELS.index, default=None)


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

_SECRETS = frozenset({"credential-file", "all-variables"})
_SENDS = frozenset({"send", "send-address-host", "send-drop-host"})
_WEAK = frozenset({"send-computed", "outside", "agent-settings", "secret-argument", "env-file"})
"""Signs of many ordinary skills: they count together with others of their own file alone."""
_NAMELESS = frozenset({"send-address-host", "send-drop-host", "drop-host", "address-host"})
_RUNS = frozenset({"piped-shell", "decode-run"})
_STAYS = frozenset({"service", "shell-start", "agent-config", "git-hook"})
_COVERT = frozenset({"hide", "override"})


def _one(*names: str) -> frozenset[str]:
    return frozenset(names)


_COMBINATIONS: tuple[tuple[frozenset[str], ...], ...] = (
    (_SECRETS, _SENDS | _one("send-computed", "socket")),
    (_SECRETS | _SENDS | _RUNS | _one("send-computed", "piped-known"), _COVERT),
    (_RUNS, _STAYS | _NAMELESS | _one("outside", "agent-settings", "secret-argument")),
    (_one("decode-run"),),
    (_one("encoded"), _RUNS | _one("run-first", "run-text")),
    (_one("run-first", "locked-archive"), _NAMELESS | _one("archive")),
    (_one("locked-archive"), _one("run-first", "decode-run", "piped-shell")),
    (_one("send-drop-host"), _one("secret-variable", "secret-value", "env-file", "exfiltrate")),
    (_one("send-address-host"),),
    (_one("all-permissions"), _SENDS | _one("hide", "self-priority")),
    (_one("self-priority"), _RUNS | _SENDS | _one("hide")),
    (_one("authority"), _RUNS | _one("hide")),
    (_one("polyglot"),),
    (_one("comment", "invisible", "blank-run"), _SECRETS | _SENDS | _RUNS),
)
"""Each is an alarm if a skill has one sign of every part."""
