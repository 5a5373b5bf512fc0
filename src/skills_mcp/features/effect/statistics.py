"""Lift of a skill: paired difference of pass rates with its interval, and the verdict.

The interval has two parts and the wider one counts on each side: a bootstrap over
cases, whose percentiles are widened for few cases (Hesterberg 2015, "What teachers
should know about the bootstrap", section 4), and the interval of Newcombe (1998, method
10) for the runs, without which three equal results would seem certain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal

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
