"""Results of runs, kept as evidence: one line of JSON each, in a file of the content.

Rule: a line is written when its run has ended, in one write, so that neither Ctrl-C nor
another process loses one.  Git merges two branches by keeping the lines of both.

The interval of a lift has two parts and the wider one counts on each side: a bootstrap over
cases, whose percentiles are widened for few cases (Hesterberg 2015, "What teachers
should know about the bootstrap", section 4), and the interval of Newcombe (1998, method
10) for the runs, without which three equal results would seem certain.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from hashlib import sha256
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple
from weakref import WeakKeyDictionary

from skills_mcp.errors import MissingFileError
from skills_mcp.events.privacy import UserText
from skills_mcp.events.tracker import Tracker
from skills_mcp.features.effect import EVAL_RESULTS
from skills_mcp.files.durable import append_line
from skills_mcp.files.opening import open_inside
from skills_mcp.library import Snapshot
from skills_mcp.skills.composition import compose_skill
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import SkillIndex

if TYPE_CHECKING:
    from pydantic import TypeAdapter


Verdict = Literal["helps", "no_effect", "harms", "does_not_discriminate", "too_few_runs"]

_CONFIDENCE = 0.95
_DRAWS = 4000  # the percentiles move by less than half a point
_DIGITS = 4
_SEED = 43  # equal results have equal intervals

_PASSES = 0.95
"""Pass rate from which an arm passes: of 40 runs, two may fail by chance."""
_NO_LIFT = 0.1
"""A smaller estimate counts as none, if the interval holds zero."""
_MAX_MARGIN = 0.5
"""An interval that reaches further from zero says nothing about it."""

Runs = Mapping[str, Sequence[bool]]
"""Outcomes of the runs of one arm, by case."""


@dataclass(frozen=True, slots=True)
class Lift:
    """Difference of two pass rates, -1 to 1, with its interval of 95 %."""

    estimate: float
    low: float
    high: float


def compute_lift(treated: Runs, control: Runs) -> Lift | None:
    """Lift over the cases that both arms have; None without any."""
    cases = [case for case in treated if treated[case] and control.get(case)]
    if not cases:
        return None
    pairs = [(_rate(treated[case]), _rate(control[case])) for case in cases]
    differences = [first - second for first, second in pairs]
    estimate = sum(differences) / len(differences)
    low, high = _bootstrap(differences)
    counts = (sum(len(runs[case]) for case in cases) for runs in (treated, control))
    rates = (sum(rate) / len(cases) for rate in zip(*pairs, strict=True))
    below, above = _newcombe(*rates, *counts)
    limits = max(-1.0, min(low, below)), min(1.0, max(high, above))
    return Lift(*(round(value, _DIGITS) for value in (estimate, *limits)))


def _rate(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / len(outcomes)


def _bootstrap(differences: Sequence[float]) -> tuple[float, float]:
    import numpy as np  # late: --help needs none

    count = len(differences)
    if count == 1:
        return differences[0], differences[0]
    values = np.asarray(differences)
    drawn = np.random.default_rng(_SEED).integers(0, count, (_DRAWS, count))
    means = values[drawn].mean(axis=1)
    tail = NormalDist().cdf(-_student_quantile(count - 1) * sqrt(count / (count - 1)))
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def _student_quantile(freedom: int) -> float:
    """Quantile of Student's t for the interval (Cornish and Fisher; exact for 1 and 2)."""
    exact = {1: 12.706, 2: 4.303}
    if freedom in exact:
        return exact[freedom]
    z = NormalDist().inv_cdf(0.5 + _CONFIDENCE / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _newcombe(treated: float, control: float, runs: int, others: int) -> tuple[float, float]:
    low, high = _wilson(treated, runs)
    other_low, other_high = _wilson(control, others)
    difference = treated - control
    below = sqrt((treated - low) ** 2 + (other_high - control) ** 2)
    above = sqrt((high - treated) ** 2 + (control - other_low) ** 2)
    return difference - below, difference + above


def _wilson(rate: float, runs: int) -> tuple[float, float]:
    z = NormalDist().inv_cdf(0.5 + _CONFIDENCE / 2)
    centre = (rate + z * z / (2 * runs)) / (1 + z * z / runs)
    spread = z * sqrt(rate * (1 - rate) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return max(0.0, centre - spread), min(1.0, centre + spread)


def decide_verdict(lift: Lift | None, rates: Sequence[float]) -> Verdict:
    """Decide the verdict of a lift.

    Args:
        lift: Of the skill over what it is compared with.
        rates: Pass rates of all arms of that skill, but the one before a change.
    """
    if lift is None:
        return "too_few_runs"
    if lift.low > 0:
        return "helps"
    if lift.high < 0:
        return "harms"
    if min(rates) >= _PASSES:
        return "does_not_discriminate"
    is_narrow = max(-lift.low, lift.high) <= _MAX_MARGIN
    return "no_effect" if is_narrow and abs(lift.estimate) <= _NO_LIFT else "too_few_runs"


DIGITS = 16
"""Of a digest, in hexadecimal."""


_MAX_BYTES = 64 * 1024 * 1024  # 100,000 runs


def derive_text_digest(index: SkillIndex, skill: Skill) -> str:
    """Digest of the composed text of a skill, by which evidence is found again."""
    return digest_text(skill, compose_skill(index, skill).instructions)


def digest_text(skill: Skill, text: str) -> str:
    data = json.dumps((skill.name, skill.description, text)).encode()
    return sha256(data).hexdigest()[:DIGITS]


class RunKey(NamedTuple):
    """What decides about the outcome of a run."""

    package: str
    case: str
    agent: str
    model: str
    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Outcome of one run, as a line of the file."""

    id: str
    at: str
    """Time of its end, in UTC."""
    skill: str
    arm: str
    digest: str = ""
    """Digest of the composed text; empty without the skill."""
    package: str = ""
    """Digest of all files that the agent got."""
    case: str
    case_digest: str
    agent: str
    model: str = ""
    """The model that was asked for; empty for the agent's own choice."""
    via: str
    state: str
    """`ended`, `timeout` or `stopped`."""
    passed: bool
    checks: Sequence[bool] = ()
    judged: Sequence[bool] = ()
    reasons: Sequence[str] = ()
    """Why checks and assertions have failed, and the judge's reasons."""
    seconds: float = 0.0
    cost: float | None = None
    tokens: int | None = None
    turns: int | None = None
    version: str = ""
    reported_model: str = ""
    sandbox: str = ""

    @property
    def key(self) -> RunKey:
        return RunKey(self.package, self.case_digest, self.agent, self.model, self.via)


@cache
def _open_adapter() -> "TypeAdapter[Result]":
    from pydantic import TypeAdapter

    return TypeAdapter(Result)


def parse_results(data: bytes) -> Iterator[Result]:
    """Parse lines; those of another shape, such as marks of a merge, are skipped."""
    for line in data.splitlines():
        with suppress(ValueError):
            yield _open_adapter().validate_json(line)


def read_results(top: Path) -> tuple[Result, ...]:
    """Read the results of a content folder, each once; none without a file."""
    try:
        with open_inside(top, tuple(EVAL_RESULTS.split("/"))) as handle:
            return _parse_once(handle.read(_MAX_BYTES))
    except (OSError, MissingFileError):
        return ()


@lru_cache(maxsize=16)
def _parse_once(data: bytes) -> tuple[Result, ...]:
    return tuple({result.id: result for result in parse_results(data)}.values())


_ROOTS: WeakKeyDictionary[SkillIndex, Mapping[Path | None, None]] = WeakKeyDictionary()
"""Roots of each set of skills in use: each page asks, and to list them decodes every skill."""


def read_snapshot_results(snapshot: Snapshot) -> tuple[Result, ...]:
    """Read the results of every source: at its top, or in a folder of its skills."""
    roots = _ROOTS.get(snapshot.index)
    if roots is None:
        roots = _ROOTS[snapshot.index] = dict.fromkeys(skill.root for skill in snapshot.index)
    tops = (part.checkout.directory for part in snapshot.content.parts)
    folders = dict.fromkeys(filter(None, (*tops, *roots)))
    found = (result for folder in folders for result in read_results(folder))
    return tuple({result.id: result for result in found}.values())


def append_result(file: Path, result: Result) -> None:
    """Append a line.

    Raises:
        OSError: It cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    known = {name: value for name, value in asdict(result).items() if value not in (None, (), "")}
    line = json.dumps(known, ensure_ascii=False)
    with file.open("ab", buffering=0) as handle:
        if handle.tell() and not _ends_with_newline(file):
            line = f"\n{line}"  # an editor, or a merge, took the last one away
        append_line(handle, line.encode("utf-8", "replace") + b"\n")


def _ends_with_newline(file: Path) -> bool:
    with file.open("rb") as handle:
        handle.seek(-1, 2)
        return handle.read(1) == b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """Figures of one arm; cost, seconds, tokens and turns are means of a run."""

    runs: int
    passed: int
    pass_rate: float
    cost: float | None
    seconds: float | None
    tokens: float | None
    turns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSkill:
    """What the runs of a skill say about it."""

    path: str
    digest: str
    arms: Mapping[str, ArmFigures]
    """In the order of `without`, `with`, `inherited`, `before`."""
    lift: Lift | None
    """Of the skill over nothing."""
    adds: Lift | None
    """Of the skill over the rules that it inherits; None where it inherits none."""
    change: Lift | None
    """Of the skill over the one at the baseline."""
    verdict: Verdict
    agents: Sequence[str]
    models: Sequence[str]
    last_run: str
    agreement: float | None = None
    """Share of runs in which judge and checks agree; None without both."""
    results: Sequence[Result] = field(default=(), repr=False)


def summarise(path: str, digest: str, results: Iterable[Result]) -> MeasuredSkill:
    """Summarise the results of one skill, each with the arm that it counts for."""
    arms: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    kept = tuple(results)
    for result in kept:
        arms[result.arm][result.case_digest].append(result)
    outcomes = {
        arm: {case: [result.passed for result in found] for case, found in cases.items()}
        for arm, cases in arms.items()
    }
    lifts = {
        other: compute_lift(outcomes.get("with", {}), outcomes.get(other, {}))
        for other in ("without", "inherited", "before")
    }
    figures = {arm: _describe_arm(cases) for arm, cases in arms.items()}
    rates = [figure.pass_rate for arm, figure in figures.items() if arm != "before"]
    decisive = lifts["inherited"] or lifts["without"] or lifts["before"]
    return MeasuredSkill(
        path=path,
        digest=digest,
        arms=figures,
        lift=lifts["without"],
        adds=lifts["inherited"],
        change=lifts["before"],
        verdict=decide_verdict(decisive, rates),
        agents=sorted({result.agent for result in kept}),
        models=sorted({r.reported_model or r.model for r in kept if r.reported_model or r.model}),
        last_run=max((result.at for result in kept), default=""),
        agreement=_compute_agreement(kept),
        results=kept,
    )


def _describe_arm(cases: Mapping[str, Sequence[Result]]) -> ArmFigures:
    results = [result for found in cases.values() for result in found]
    rates = [sum(r.passed for r in found) / len(found) for found in cases.values()]
    return ArmFigures(
        runs=len(results),
        passed=sum(result.passed for result in results),
        pass_rate=round(sum(rates) / len(rates), 4),
        cost=_mean([result.cost for result in results]),
        seconds=_mean([result.seconds for result in results]),
        tokens=_mean([result.tokens for result in results]),
        turns=_mean([result.turns for result in results]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if isinstance(value, int | float)]
    return round(sum(known) / len(known), 4) if known else None


def _compute_agreement(results: Iterable[Result]) -> float | None:
    both = [all(r.checks) == all(r.judged) for r in results if r.checks and r.judged]
    return sum(both) / len(both) if both else None


def track_effect(tracker: Tracker, effect: MeasuredSkill) -> None:
    """Record what runs have brought, for the organisation's database of events."""
    lift = effect.lift or effect.adds
    tracker.track(
        "skill_evaluated",
        skill_path=effect.path,
        digest=effect.digest,
        verdict=effect.verdict,
        lift=lift and lift.estimate,
        low=lift and lift.low,
        high=lift and lift.high,
        runs=sum(figures.runs for figures in effect.arms.values()),
        agent=UserText(", ".join(effect.agents)),
        models=list(effect.models),
    )


class LiftEvidence(NamedTuple):
    """Known lift of a skill, and the day of the last run."""

    verdict: Verdict
    lift: Lift | None
    date: str
    runs: int
    is_old: bool
    """Whether it is about an older text."""

    def __str__(self) -> str:
        points = f", {100 * self.lift.estimate:+.0f} points" if self.lift else ""
        older = ", for an older text" if self.is_old else ""
        return f"{self.verdict.replace('_', ' ')}{points} on {self.date}{older}"


def find_evidence(snapshot: Snapshot) -> Mapping[str, LiftEvidence]:
    """Find the evidence for each skill: about its text, else about the last one before."""
    by_skill: defaultdict[str, list[Result]] = defaultdict(list)
    without: defaultdict[str, list[Result]] = defaultdict(list)
    for result in read_snapshot_results(snapshot):
        (without[result.case_digest] if result.arm == "without" else by_skill[result.skill]).append(
            result
        )
    found: dict[str, LiftEvidence] = {}
    for path, results in by_skill.items():
        skill = snapshot.index.get(path)
        if skill and any(result.arm == "with" for result in results):
            digest = derive_text_digest(snapshot.index, skill)
            found[skill.path] = _weigh(skill.path, digest, results, without)
    return found


def _weigh(
    path: SkillPath, digest: str, results: Sequence[Result], without: Mapping[str, Sequence[Result]]
) -> LiftEvidence:
    treated = [result for result in results if result.arm == "with"]
    current = [result for result in treated if result.digest == digest]
    newest = max(current or treated, key=lambda result: result.at)
    cases = {result.case_digest for result in treated if result.digest == newest.digest}
    same = (newest.agent, newest.model, newest.via)
    above = [result for result in results if result.arm == "inherited"]
    rules = max(above, key=lambda result: result.at).package if above else ""
    chosen = [r for r in treated if r.digest == newest.digest]
    chosen += [r for r in above if r.package == rules]
    chosen += [r for case in cases for r in without.get(case, ())]
    effect = summarise(
        path, newest.digest, [r for r in chosen if (r.agent, r.model, r.via) == same]
    )
    runs = sum(figures.runs for figures in effect.arms.values())
    day = _parse_day(effect.last_run)
    return LiftEvidence(effect.verdict, effect.lift or effect.adds, day, runs, not current)


def _parse_day(moment: str) -> str:
    try:
        return datetime.fromisoformat(moment).date().isoformat()
    except ValueError:
        return ""
