"""Rules of validation, their levels and selection, and the baseline of known findings.

`error`: the file violates the Agent Skills standard, or is not served.
`warning`: it is served, but could be better.

Rule: a baseline ignores line and other numbers, so an edit above a finding does not
make it new.
"""

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from skills_mcp.files.durable import atomic_write
from skills_mcp.library import derive_loss
from skills_mcp.skills.model import Problem, escape_unprintable
from skills_mcp.text.rendering import abbreviate_value

OVERLAP = "skill-overlap"
"""Checked only if asked for."""
MOVED = "task-moved"
"""Checked against a baseline."""
_NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

RULE_LEVELS: Mapping[str, Literal["error", "warning"]] = MappingProxyType(
    {**dict.fromkeys(_NAMES["errors"], "error"), **dict.fromkeys(_NAMES["warnings"], "warning")}
)

RULES = frozenset((*RULE_LEVELS, *_NAMES["reader"]))
"""All rules; those of the reader set their own level."""

_MAX_LISTED_NAMES = 3


class RuleFinding(NamedTuple):
    """A finding, without its file."""

    rule: str
    reason: str
    hint: str
    line: int = 1

    def at(self, file: Path) -> Problem:
        reason, hint = escape_unprintable(self.reason), escape_unprintable(self.hint)
        level = RULE_LEVELS[self.rule]
        return Problem(str(file), reason, hint, level, rule=self.rule, line=self.line)


def enumerate_shortly(names: Iterable[object]) -> str:
    """Quote and join the first few names.

    >>> enumerate_shortly(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    return join_shortly([abbreviate_value(name) for name in names])


def join_shortly(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - _MAX_LISTED_NAMES} more" if len(parts) > _MAX_LISTED_NAMES else ""
    return ", ".join(parts[:_MAX_LISTED_NAMES]) + more


_MAX_SUGGESTIONS = 4  # of the names that a wrong one may mean


class UnknownRuleError(ValueError):
    """Unknown rule or pattern; the message suggests similar rules."""


@dataclass(frozen=True, slots=True)
class RuleSelection:
    selected: frozenset[str] = RULES
    ignored: frozenset[str] = frozenset()

    def reports(self, rule: str) -> bool:
        return rule in self.selected and rule not in self.ignored

    def within(self, select: Iterable[str], ignore: Iterable[str]) -> "RuleSelection":
        """Combine with the selection in the content's settings.

        The author's selection wins; ignored rules are united.

        Raises:
            UnknownRuleError: No rule has one of the names.
        """
        theirs = select_rules(select, ignore)
        is_open = self.selected == RULES
        selected = theirs.selected if is_open else self.selected
        return replace(self, selected=selected, ignored=self.ignored | theirs.ignored)


ALL_RULES = RuleSelection()


def select_rules(select: Iterable[str], ignore: Iterable[str]) -> RuleSelection:
    """Resolve names and patterns such as `link-*`; no selection selects all.

    Raises:
        UnknownRuleError: No rule has one of the names.
    """
    selected, ignored = frozenset(_resolve(select)), frozenset(_resolve(ignore))
    return RuleSelection(selected or RULES, ignored)


def _resolve(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        found = [rule for rule in RULES if fnmatchcase(rule, pattern)]
        if not found:
            raise UnknownRuleError(_describe_unknown(pattern))
        yield from found


def _describe_unknown(pattern: str) -> str:
    by_prefix = sorted(rule for rule in RULES if pattern and rule.startswith(pattern))
    alike = (
        get_close_matches(pattern, sorted(RULES), n=_MAX_SUGGESTIONS)
        or by_prefix[:_MAX_SUGGESTIONS]
    )
    hint = f"Did you mean {' or '.join(alike)}?" if alike else ""
    more = "skills-mcp validate prints the rule of each finding in brackets."
    return f"There is no rule {abbreviate_value(pattern)}. {hint or more}"


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


Answers = Mapping[str, Sequence[str]]
"""The paths of the answered skills, by example task."""


class Baseline(NamedTuple):
    findings: tuple[KnownFinding, ...]
    skills: tuple[str, ...] = ()
    """Served skills: their files as in `KnownFinding`, without `.md` or `/SKILL.md`."""
    tasks: Answers = MappingProxyType({})


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


def load_baseline(file: Path) -> Baseline:
    """Load the known findings and skills.

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
        findings = tuple(e for entry in data["findings"] for e in _parse(entry))
        tasks = {task: tuple(paths) for task, paths in data.get("tasks", {}).items()}
        return Baseline(findings, tuple(map(str, data.get("skills", ()))), tasks)
    except (KeyError, TypeError, AttributeError) as error:
        raise BaselineError(f"{file} is no baseline of validate: {_REMEDY}") from error


def _parse(entry: Any) -> list[KnownFinding]:
    texts = entry["file"], entry["rule"], entry["reason"]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return [KnownFinding(*texts)] * int(entry.get("count", 1))


def write_baseline(
    file: Path,
    unchecked: Iterable[KnownFinding],
    problems: Iterable[Problem],
    skills: Iterable[str],
    tasks: Answers,
) -> int:
    """Replace the file, one line per finding for readable diffs; return their number.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    found = (_to_entry(file, problem) for problem in problems)
    counts = Counter((*unchecked, *found))
    body = ",\n".join([_render(entry, count) for entry, count in sorted(counts.items())])
    served = ",\n".join(map(json.dumps, sorted(skills)))
    answers = ",\n".join(
        f"{json.dumps(task)}: {json.dumps(paths)}" for task, paths in sorted(tasks.items())
    )
    text = f'{{\n"version": {_VERSION},\n"findings": [\n{body}\n],\n"skills": [\n{served}\n],\n'
    text += f'"tasks": {{\n{answers}\n}}\n}}\n'
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


def resolve_entry_path(baseline: Path, file: str) -> Path:
    """Absolute path of a file that a baseline names."""
    return Path(os.path.normpath(baseline.absolute().parent / file))


def name_in_baseline(baseline: Path, files: Iterable[Path]) -> list[str]:
    """Name skills for a baseline; see `Baseline.skills`."""
    names = (PurePath(_relate(baseline, file)) for file in files)
    return sorted(
        (name.parent if name.stem == "SKILL" else name.with_suffix("")).as_posix() for name in names
    )


def report_removed(
    baseline: Path, known: Collection[str], served: Collection[str]
) -> Problem | None:
    """A finding if most skills of a baseline are not served any more."""
    loss = derive_loss(known, served, now=0.0)
    if loss is None:
        return None
    hint = f"If they are meant to be, {_REMEDY}"
    return RuleFinding("skills-removed", str(loss), hint).at(baseline.absolute())


def describe_moved(task: str, before: Sequence[str], now: Sequence[str]) -> tuple[str, str]:
    """Reason and hint of a task with another answer than in the baseline."""
    old, new = (enumerate_shortly(paths) if paths else "no skill" for paths in (before, now))
    reason = f"the task {abbreviate_value(task)} gets {new}, and in the baseline {old}"
    return reason, f"if that is meant, {_REMEDY}; else part the words of these skills"


def derive_fingerprint(problem: Problem, folder: Path) -> str:
    """Hash of a finding, stable under edits above it."""
    known = _to_entry(folder / "baseline", problem)
    return sha256(json.dumps(known.identity).encode()).hexdigest()


def _to_entry(baseline: Path, problem: Problem) -> KnownFinding:
    return KnownFinding(_relate(baseline, Path(problem.file)), problem.rule, problem.reason)


def _relate(baseline: Path, file: Path) -> str:
    folder = baseline.absolute().parent
    try:
        relative = os.path.relpath(file, folder)
    except ValueError:  # on another drive of Windows
        relative = str(file)
    return PurePath(relative).as_posix()
