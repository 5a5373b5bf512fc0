"""Thresholds suggested from the tasks of a repository, with the cost of each value."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from skills_mcp.config import Matching
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, narrow_to_scope
from skills_mcp.features.authoring.prompts import Prompt
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import Ambiguous, decision_kind, score_and_decide

MIN_TASKS = 30
"""With fewer tasks a threshold would be fitted to chance."""
MIN_REFUSED_TASKS = 10
"""Tasks with `expect: null` or `avoid`: without any, the lowest `min_score` is the best."""

COSTS: Mapping[str, float] = MappingProxyType(
    {
        "right": 0,  # the right skill alone, or none where none is right
        "listed": 0.2,  # a call more
        "near_miss": 0.5,  # an agent that goes on without a skill is not wrong
        "missing": 1,
        "needless_list": 0.5,  # read for nothing, and one of it may be taken
        "wrong_rules": 3,  # the agent follows them
    }
)
"""Effects of an answer, and the cost of each; a task without its skill costs 1."""

_VALUES: Mapping[str, Sequence[float]] = MappingProxyType(
    {
        "min_score": (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5),
        "ambiguity_threshold": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
    }
)
_DRAWS = 200
_SURE_SHARE = 0.9  # of the draws; less is the luck of a few tasks


@dataclass(frozen=True, slots=True)
class TriedValue:
    """A value of a setting, and the number of tasks with each effect."""

    value: float
    effects: Mapping[str, int]

    @property
    def cost(self) -> float:
        return sum(COSTS[effect] * count for effect, count in self.effects.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Values tried for one setting; the suggested one may be the current one."""

    setting: str
    current: float
    suggested: float
    tried: tuple[TriedValue, ...]

    @property
    def saving(self) -> float:
        cost = {each.value: each.cost for each in self.tried}
        return cost[self.current] - cost[self.suggested]


def count_missing_tasks(prompts: Sequence[Prompt]) -> tuple[int, int]:
    """Count the tasks missing for a suggestion: of any kind, and to be refused."""
    refused = sum(not prompt.expect or bool(prompt.avoid) for prompt in prompts)
    return max(MIN_TASKS - len(prompts), 0), max(MIN_REFUSED_TASKS - refused, 0)


def suggest_thresholds(
    prompts: Sequence[Prompt], snapshot: Snapshot, on_progress: OnProgress = ignore_progress
) -> Iterator[Suggestion]:
    """Yield a suggestion for each setting with enough tasks; the second builds on the first."""
    missing, missing_refused = count_missing_tasks(prompts)
    if missing:
        return
    matching = snapshot.config.matching
    settings = [name for name in _VALUES if name != "min_score" or not missing_refused]
    for done, setting in enumerate(settings):
        decide = _Trial(prompts, snapshot, matching, setting)
        found = _choose_value(decide.run, getattr(matching, setting), setting)
        matching = matching.model_copy(update={setting: found.suggested})
        on_progress(done + 1, len(settings))
        yield found


@dataclass(frozen=True, slots=True)
class _Trial:
    prompts: Sequence[Prompt]
    snapshot: Snapshot
    matching: Matching
    setting: str

    def run(self, value: float) -> list[str]:
        """The effect on each task of a value."""
        matching = self.matching.model_copy(update={self.setting: value})
        snapshot = self.snapshot
        look_up = cache(lambda scoping: narrow_to_scope(snapshot.index, scoping))
        decisions = (
            score_and_decide(snapshot.matcher, p.query, matching, within=look_up(p.scoping))
            for p in self.prompts
        )
        pairs = zip(self.prompts, decisions, strict=True)
        return [classify_effect(Outcome(prompt, decision, (), 0.0)) for prompt, decision in pairs]


def _choose_value(run: Callable[[float], list[str]], current: float, setting: str) -> Suggestion:
    effects = {value: run(value) for value in sorted({*_VALUES[setting], current})}
    tried = tuple(TriedValue(value, Counter(found)) for value, found in effects.items())
    best = min(tried, key=lambda each: (round(each.cost, 6), abs(each.value - current))).value
    is_sure = _is_surely_better(effects[best], effects[current])
    return Suggestion(
        setting=setting, current=current, suggested=best if is_sure else current, tried=tried
    )


def _is_surely_better(effects: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the effects cost less in nearly all draws of the tasks."""
    pairs = zip(effects, others, strict=True)
    savings = [COSTS[other] - COSTS[effect] for effect, other in pairs]
    chance = random.Random(11)  # noqa: S311 - the same answer in every run
    draws = (sum(chance.choices(savings, k=len(savings))) for _ in range(_DRAWS))
    return sum(drawn > 0 for drawn in draws) >= _SURE_SHARE * _DRAWS


def classify_effect(outcome: Outcome) -> str:
    """Classify an answer by its effect on an agent: a key of `COSTS`."""
    kind = decision_kind(outcome.decision)
    has_avoided = not set(outcome.prompt.avoid).isdisjoint(outcome.answers)
    if not outcome.prompt.expect:
        is_wrong = has_avoided if outcome.prompt.avoid else bool(outcome.answers)
        if not is_wrong:
            return "right"
        return "needless_list" if isinstance(outcome.decision, Ambiguous) else "wrong_rules"
    if kind == "single":
        return "right" if outcome.is_found and not has_avoided else "wrong_rules"
    if not outcome.is_listed:
        return "missing"
    return "listed" if kind == "ambiguous" else "near_miss"
