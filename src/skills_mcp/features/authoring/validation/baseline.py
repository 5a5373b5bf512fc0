"""Findings that are known already, in a file beside the content.

Rule: an entry stands for a finding at any line of its file, so that an edit above
it does not make it new. Neither lines nor other numbers count.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from skills_mcp.files.durable import replacing
from skills_mcp.skills.model import Problem

_VERSION = 1
_NUMBER = re.compile(r"\d[\d,.]*")
_SHARED_MODE = 0o666  # less what the process masks out, as any file of a work tree
_HOW = "write it again with --write-baseline"


class BaselineError(ValueError):
    """The file cannot be used; the message says why, and what to do."""


class KnownFinding(NamedTuple):
    """What a finding is recognised by."""

    file: str
    """Relative to the folder of the baseline, with forward slashes."""
    rule: str
    reason: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """What two findings that are the same have in common."""
        return self.file, self.rule, _NUMBER.sub("0", self.reason)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The findings of a run beside those that are known."""

    new: tuple[Problem, ...]
    known_count: int
    gone: tuple[KnownFinding, ...]
    """Known findings that do not occur any more, each as often as it is missing."""


def compare_with(
    file: Path, known: Sequence[KnownFinding], problems: Iterable[Problem]
) -> Comparison:
    """Tell known findings from new ones.

    Args:
        file: The baseline.
        known: Its entries, without those of files and rules that were not checked.
        problems: All findings of this run, with absolute paths.
    """
    left = Counter(entry.identity for entry in known)
    new: list[Problem] = []
    total = 0
    for problem in problems:
        total += 1
        identity = _recognise(file, problem).identity
        if left[identity]:
            left[identity] -= 1
        else:
            new.append(problem)
    gone = []
    for entry in known:
        if left[entry.identity]:
            left[entry.identity] -= 1
            gone.append(entry)
    return Comparison(tuple(new), total - len(new), tuple(gone))


def load_baseline(file: Path) -> tuple[KnownFinding, ...]:
    """Read the known findings.

    Raises:
        BaselineError: There is no such file, or it is no baseline.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        reason = f"{file} does not exist: {_HOW}"
        raise BaselineError(reason) from error
    except OSError as error:
        raise BaselineError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{file} is not JSON: {_HOW}") from error
    try:
        if data["version"] != _VERSION:
            reason = f"{file} has version {data['version']!r}, not {_VERSION}: {_HOW}"
            raise BaselineError(reason)
        return tuple(e for each in data["findings"] for e in _parse(each))
    except (KeyError, TypeError) as error:
        raise BaselineError(f"{file} is no baseline of validate: {_HOW}") from error


def _parse(entry: Any) -> list[KnownFinding]:
    texts = entry["file"], entry["rule"], entry["reason"]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return [KnownFinding(*texts)] * int(entry.get("count", 1))


def write_baseline(
    file: Path, kept: Iterable[KnownFinding], problems: Iterable[Problem]
) -> int:
    """Replace the file; one line for each finding, so that its changes can be read.

    Args:
        file: The baseline, in a folder that exists.
        kept: Entries of files that were not checked.
        problems: The findings of this run.

    Returns:
        How many findings it holds.

    Raises:
        OSError: It cannot be written; the old file is as it was.
    """
    found = (_recognise(file, problem) for problem in problems)
    counts = Counter((*kept, *found))
    lines = [_render(entry, count) for entry, count in sorted(counts.items())]
    body = ",\n".join(lines)
    text = f'{{\n"version": {_VERSION},\n"findings": [\n{body}\n]\n}}\n'
    with replacing(file, _SHARED_MODE) as handle:
        handle.write(text.encode("utf-8"))
    return counts.total()


def _render(entry: KnownFinding, count: int) -> str:
    shown: dict[str, Any] = entry._asdict()
    if count > 1:
        shown["count"] = count
    # A name that is no Unicode stays what it is.
    is_text = shown["file"].isprintable()
    return json.dumps(shown, ensure_ascii=not is_text)


def find_file(baseline: Path, entry: KnownFinding) -> Path:
    """Return the absolute path of the file that an entry is about."""
    return Path(os.path.normpath(baseline.absolute().parent / entry.file))


def derive_fingerprint(problem: Problem, folder: Path) -> str:
    """Return what stays the same for a finding while lines above it change.

    Args:
        problem: With an absolute path.
        folder: What its path is taken relative to.
    """
    known = _recognise(folder / "baseline", problem)
    return sha256(json.dumps(known.identity).encode()).hexdigest()


def _recognise(baseline: Path, problem: Problem) -> KnownFinding:
    file = Path(problem.file)
    folder = baseline.absolute().parent
    try:
        place = os.path.relpath(file, folder)
    except ValueError:  # on another drive of Windows
        place = str(file)
    return KnownFinding(PurePath(place).as_posix(), problem.rule, problem.reason)
