"""Intervals that hold: how often they cover the truth, and what a verdict needs."""

import numpy as np
import pytest

from skills_mcp.features.effect.evidence import Lift, compute_lift, decide_verdict

TRUE, FALSE = [True] * 3, [False] * 3


@pytest.mark.parametrize(
    "cases, repetitions, treated, control",
    [(10, 3, 0.7, 0.7), (10, 3, 0.7, 0.3), (5, 3, 0.7, 0.7), (3, 3, 0.7, 0.3), (20, 5, 0.7, 0.5)],
)
def test_intervals_of_a_flaky_agent_cover_the_truth_in_95_of_100_evaluations(
    cases: int, repetitions: int, treated: float, control: float
) -> None:
    random = np.random.default_rng(43)

    def run(rate: float) -> dict[str, list[bool]]:
        return {str(case): list(random.random(repetitions) < rate) for case in range(cases)}

    lifts = [compute_lift(run(treated), run(control)) for _ in range(200)]

    truth = treated - control
    covered = sum(lift.low <= truth <= lift.high for lift in lifts if lift)
    widths = [lift.high - lift.low for lift in lifts if lift]
    assert covered >= 190
    assert sum(widths) / len(widths) < 3.4 / (cases * repetitions) ** 0.5


def test_a_verdict_needs_an_interval_that_allows_it() -> None:
    verdicts = {
        "helps": ({"a": TRUE}, {"a": FALSE}),
        "harms": ({"a": FALSE}, {"a": TRUE}),
        "does_not_discriminate": ({"a": TRUE}, {"a": TRUE}),
        "no_effect": ({"a": TRUE, "b": FALSE}, {"a": TRUE, "b": FALSE}),
        "too_few_runs": ({"a": FALSE}, {"a": FALSE}),
    }

    found = {
        verdict: decide_verdict(
            compute_lift(first, second), [sum(map(sum, r.values())) / 3 / len(r) for r in arms]
        )
        for verdict, arms in verdicts.items()
        for first, second in [arms]
    }

    assert found == {verdict: verdict for verdict in verdicts}
    assert decide_verdict(Lift(0.2, -0.05, 0.45), [0.5, 0.3]) == "too_few_runs"
    assert decide_verdict(None, [1.0]) == "too_few_runs"


def test_a_lift_compares_the_cases_that_both_arms_have() -> None:
    lift = compute_lift({"a": TRUE, "b": FALSE}, {"a": FALSE, "c": TRUE})

    assert lift is not None
    assert lift.estimate == 1.0
    assert compute_lift({"a": TRUE}, {"b": TRUE}) is None
