"""`powers.yaml` at the top of the content: the powers that are allowed, and where."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skills_mcp.errors import ConfigError, MissingFileError
from skills_mcp.features.powers import POWERS_FILE
from skills_mcp.features.powers.power import KINDS, Power
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import compile_patterns
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.safe_yaml import YamlError, parse_yaml

_MAX_BYTES = 256 * 1024  # of a file that people write
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
            raw = handle.read(_MAX_BYTES + 1)
    except MissingFileError:
        return None
    if len(raw) > _MAX_BYTES:
        raise ConfigError(f"{POWERS_FILE} has more than {_MAX_BYTES:,} bytes: shorten it")
    return parse_allowances(raw.decode("utf-8", "replace"))


def parse_allowances(text: str) -> Sequence[Allowance]:
    """Parse the file.

    Raises:
        ConfigError: It cannot be used; the message says what to write.
    """
    try:
        data = parse_yaml(text)
    except YamlError as error:
        raise ConfigError(f"{POWERS_FILE} is no YAML: {error}") from error
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
