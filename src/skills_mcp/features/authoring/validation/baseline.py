"""Baseline of known findings."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from skills_mcp.files.durable import atomic_write
from skills_mcp.skills.model import Problem

_VERSION = 1
_NUMBER = re.compile(r"\d[\d,.]*")
_SHARED_MODE = 0o666  # less what the process masks out, as any file of a work tree
_REMEDY = "write it again with --write-baseline"


class BaselineError(ValueError):
    """Unusable baseline; the message has the reason and the remedy."""


class KnownFinding(NamedTuple):
    file: str
    """Relative to the folder of the baseline, with forward slashes."""
    rule: str
    reason: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equality key, with numbers masked."""
        return self.file, self.rule, _NUMBER.sub("0", self.reason)


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """The findings of a run against the baseline."""

    new: tuple[Problem, ...]
    known_count: int
    gone: tuple[KnownFinding, ...]
    """Entries without a finding, once per missing occurrence."""


def compare_baseline(
    file: Path, known: Sequence[KnownFinding], problems: Iterable[Problem]
) -> BaselineComparison:
    """Split findings into known and new ones.

    `known` holds only the entries for checked files and rules.
    """
    left = Counter(entry.identity for entry in known)
    new: list[Problem] = []
    total = 0
    for problem in problems:
        total += 1
        identity = _to_entry(file, problem).identity
        if left[identity]:
            left[identity] -= 1
        else:
            new.append(problem)
    gone = []
    for entry in known:
        if left[entry.identity]:
            left[entry.identity] -= 1
            gone.append(entry)
    return BaselineComparison(tuple(new), total - len(new), tuple(gone))


def load_baseline(file: Path) -> tuple[KnownFinding, ...]:
    """Load the known findings.

    Raises:
        BaselineError: The file is missing or invalid.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        reason = f"{file} does not exist: {_REMEDY}"
        raise BaselineError(reason) from error
    except OSError as error:
        raise BaselineError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{file} is not JSON: {_REMEDY}") from error
    try:
        if data["version"] != _VERSION:
            reason = f"{file} has version {data['version']!r}, not {_VERSION}: {_REMEDY}"
            raise BaselineError(reason)
        return tuple(e for entry in data["findings"] for e in _parse(entry))
    except (KeyError, TypeError) as error:
        raise BaselineError(f"{file} is no baseline of validate: {_REMEDY}") from error


def _parse(entry: Any) -> list[KnownFinding]:
    texts = entry["file"], entry["rule"], entry["reason"]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return [KnownFinding(*texts)] * int(entry.get("count", 1))


def write_baseline(
    file: Path, unchecked: Iterable[KnownFinding], problems: Iterable[Problem]
) -> int:
    """Replace the file, one line per finding for readable diffs; return their number.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    found = (_to_entry(file, problem) for problem in problems)
    counts = Counter((*unchecked, *found))
    lines = [_render(entry, count) for entry, count in sorted(counts.items())]
    body = ",\n".join(lines)
    text = f'{{\n"version": {_VERSION},\n"findings": [\n{body}\n]\n}}\n'
    with atomic_write(file, _SHARED_MODE) as handle:
        handle.write(text.encode("utf-8"))
    return counts.total()


def _render(entry: KnownFinding, count: int) -> str:
    values: dict[str, Any] = entry._asdict()
    if count > 1:
        values["count"] = count
    # A name that is no Unicode stays what it is.
    is_text = values["file"].isprintable()
    return json.dumps(values, ensure_ascii=not is_text)


def resolve_entry_path(baseline: Path, entry: KnownFinding) -> Path:
    """Absolute path of an entry's file."""
    return Path(os.path.normpath(baseline.absolute().parent / entry.file))


def derive_fingerprint(problem: Problem, folder: Path) -> str:
    """Hash of a finding, stable under edits above it."""
    known = _to_entry(folder / "baseline", problem)
    return sha256(json.dumps(known.identity).encode()).hexdigest()


def _to_entry(baseline: Path, problem: Problem) -> KnownFinding:
    file = Path(problem.file)
    folder = baseline.absolute().parent
    try:
        relative = os.path.relpath(file, folder)
    except ValueError:  # on another drive of Windows
        relative = str(file)
    return KnownFinding(PurePath(relative).as_posix(), problem.rule, problem.reason)
