"""Powers of skills on disk, before they are served, and of the same paths before a change."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from skills_mcp.bootstrap import opened_revision
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.rules import RuleFinding
from skills_mcp.features.authoring.validation import (
    AuthoredSkill,
    PathFilter,
    SkillTree,
    ValidationTarget,
    find_validation_target,
    load_tree,
)
from skills_mcp.features.powers.power import (
    Allowance,
    Power,
    compare_powers,
    find_excess,
    is_at_least,
)
from skills_mcp.features.powers.statement import state_powers
from skills_mcp.skills.model import Problem, Skill


@dataclass(frozen=True, slots=True)
class ComparedPowers:
    """All powers; with those that a change adds and removes, if there is one."""

    powers: tuple[Power, ...]
    added: tuple[Power, ...] | None = None
    """None if nothing is compared."""
    removed: tuple[Power, ...] = ()

    def select(self, is_selected: Callable[[Power], bool]) -> "ComparedPowers":
        added = None if self.added is None else tuple(filter(is_selected, self.added))
        powers, removed = filter(is_selected, self.powers), filter(is_selected, self.removed)
        return ComparedPowers(tuple(powers), added, tuple(removed))


def read_paths(
    paths: Iterable[Path], on_progress: OnProgress = ignore_progress
) -> tuple[Power, ...]:
    """The powers of the skills at these paths; their files are named from the working folder."""
    targets = [find_validation_target(path) for path in paths]
    return _read_targets(targets, [target.top for target in targets], on_progress)


def compare_paths(
    paths: Iterable[Path], ref: str, on_progress: OnProgress = ignore_progress
) -> ComparedPowers:
    """Compare with a commit, or with a folder that has the content of the same root.

    Raises:
        SyncError: There is no such commit, or no such baseline.
    """
    targets = [find_validation_target(path) for path in paths]
    before: list[Power] = []
    for target in targets:
        with opened_revision(target.top, ref) as folder:
            before += _read_targets([target], [folder.absolute()], on_progress)
    after = _read_targets(targets, [target.top for target in targets], on_progress)
    added, removed = compare_powers(tuple(dict.fromkeys(before)), after)
    return ComparedPowers(after, added, removed)


def _read_targets(
    targets: Sequence[ValidationTarget], tops: Sequence[Path], on_progress: OnProgress
) -> tuple[Power, ...]:
    """Powers of all targets, each once: targets may overlap."""
    found: dict[Power, None] = {}
    for target, top in zip(targets, tops, strict=True):
        tree = load_tree(top, target.subfolder)
        focus = PathFilter([top / target.focus.relative_to(target.top)])
        chosen = tuple(
            each.served for each in tree.skills if each.served and focus.covers(each.path)
        )
        for done, (skill, powers) in enumerate(state_powers(tree.snapshot.index, chosen), 1):
            on_progress(done, len(chosen))
            prefix = _find_prefix(skill, top, target.top)
            found |= dict.fromkeys(replace(p, file=f"{prefix}{p.file}") for p in powers)
    return tuple(found)


def _find_prefix(skill: Skill, top: Path, shown: Path) -> str:
    """What stands before a file of a skill, from the working folder."""
    location = (skill.location or top / skill.file).relative_to(top).as_posix()
    inside = location.removesuffix(skill.file)
    if not shown.is_relative_to(Path.cwd()):
        return f"{shown.as_posix()}/{inside}"  # a long row of .. is harder to read
    folder = shown.relative_to(Path.cwd()).as_posix()
    return f"{'' if folder == '.' else f'{folder}/'}{inside}"


def describe_power(power: Power, code: Callable[[str], str]) -> str:
    """A power in words, such as ``new host `example.net`, sends text at line 3``."""
    what, comma, detail = power.what.partition(", ")
    noun = "host" if power.kind == "network" else power.kind
    place = "" if power.line is None else f" at line {power.line}"
    name = PurePosixPath(power.file).name
    is_main = name == "SKILL.md" or power.file.endswith(f"{power.skill}.md")
    return f"{noun} {code(what)}{comma}{detail}{place}{'' if is_main else f' of {code(name)}'}"


_REVIEW = "see what it is for; powers.yaml at the top of the content says what is allowed where"
_ALLOW = "take it out, or allow it in powers.yaml: allow: [{{in: {skill}, {kind}: [{subject}]}}]"


def to_problem(power: Power) -> Problem:
    """A finding for code scanning, whose rule is the kind."""
    reason = f"{power.level}: {power.skill} has the power {power.kind}, {power.what}"
    file = Path.cwd() / power.file
    return Problem(str(file), reason, _REVIEW, rule=f"power-{power.kind}", line=power.line or 1)


def report_powers(
    tree: SkillTree, skills: Iterable[AuthoredSkill], allowances: Sequence[Allowance] | None
) -> Iterator[Problem]:
    """Findings of `validate`: powers beyond the allowance, or without one those to review."""
    served = [skill.served for skill in skills if skill.served]
    for skill, powers in state_powers(tree.snapshot.index, served):
        top = Path(str(skill.location).removesuffix(skill.file))
        if allowances is None:
            found = [power for power in powers if is_at_least(power.level, "review")]
        else:
            found = find_excess(powers, allowances)
        for power in found:
            yield _to_finding(power, is_allowed=allowances is None).at(top / power.file)


def _to_finding(power: Power, *, is_allowed: bool) -> RuleFinding:
    what = f"the power {power.kind}, {power.what}"
    line = power.line or 1
    if is_allowed:
        return RuleFinding("power-found", f"has {what} ({power.level})", _REVIEW, line)
    hint = _ALLOW.format(skill=_quote(power.skill), kind=power.kind, subject=_quote(power.subject))
    return RuleFinding("power-not-allowed", f"has {what}, which is not allowed here", hint, line)


def _quote(text: str) -> str:
    """A pattern in YAML that covers this text alone."""
    return json.dumps(text.replace("[", "[[]"), ensure_ascii=False)
