"""What came out for all prompts together, in numbers.  Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skills_mcp.authoring.evaluation.measuring import Outcome
from skills_mcp.routing.explanation import name_decision

_DIGITS = 4  # of a share: a tenth of a prompt in a thousand
_MILLISECONDS_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Shares are 0 to 1, and None where there is nothing to take a share of."""

    queries: int
    served: int
    """Prompts that expect a skill; all shares but `abstained_right` are of these."""
    unserved: int
    """Prompts that no skill should answer."""
    accuracy_at_1: float | None
    """Where a right skill is the first in the order, however low it scores."""
    hit_at_3: float | None
    hit_at_5: float | None
    mrr: float | None
    """The mean of 1 / place of the first right skill; 0 beyond the tenth place."""
    abstained_right: float | None
    """The share of `unserved` that got no skill."""
    kept: float | None
    """Where a right skill is the answer, or among the candidates."""
    single: int
    ambiguous: int
    no_match: int
    single_right: int
    """Single answers that are right."""
    p50_ms: float | None
    p99_ms: float | None
    """Milliseconds of routing alone."""


def score_outcomes(outcomes: Sequence[Outcome]) -> Scores:
    """Return what came out for all prompts together."""
    served = [outcome for outcome in outcomes if outcome.prompt.expect]
    unserved = [outcome for outcome in outcomes if not outcome.prompt.expect]
    places = [outcome.place for outcome in served]
    kinds = Counter(name_decision(outcome.decision) for outcome in outcomes)
    singles = [o for o in served if name_decision(o.decision) == "single"]
    return Scores(
        queries=len(outcomes),
        served=len(served),
        unserved=len(unserved),
        accuracy_at_1=_mean([place == 1 for place in places]),
        hit_at_3=_mean([place is not None and place <= 3 for place in places]),  # noqa: PLR2004 - its name
        hit_at_5=_mean([place is not None and place <= 5 for place in places]),  # noqa: PLR2004 - its name
        mrr=_mean([1 / place if place else 0.0 for place in places]),
        abstained_right=_mean([not outcome.answers for outcome in unserved]),
        kept=_mean([outcome.is_kept for outcome in served]),
        single=kinds["single"],
        ambiguous=kinds["ambiguous"],
        no_match=kinds["no_match"],
        single_right=sum(outcome.is_kept for outcome in singles),
        p50_ms=_percentile(outcomes, 50),
        p99_ms=_percentile(outcomes, 99),
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), _DIGITS) if values else None


def _percentile(outcomes: Sequence[Outcome], percent: int) -> float | None:
    """Return the milliseconds that so many per cent of the answers do not exceed."""
    if not outcomes:
        return None
    seconds = sorted(outcome.seconds for outcome in outcomes)
    at = -(-len(seconds) * percent // 100) - 1  # the nearest rank, rounded up
    return round(1000 * seconds[at], _MILLISECONDS_DIGITS)
