"""Evaluations: which runs are missing, in which order they go, and when to stop."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import anyio
import click

from skills_mcp.errors import SkillsError
from skills_mcp.features.authoring.cases import Case
from skills_mcp.features.effect.agents import Agent, Via
from skills_mcp.features.effect.case_runner import Arm, CaseRunner, RunFaultError
from skills_mcp.features.effect.evidence import MeasuredSkill, Result, RunKey, summarise
from skills_mcp.text.rendering import count_noun

ASSUMED_TOKENS = 150_000
"""Of a run, where no earlier one is known: ten turns of an agent, each with its tools."""
_MAX_FAULTS = 3
"""So many runs at the start that do not work are the agent's set-up, and no chance."""

_BUDGET = re.compile(
    r"\$?(?P<number>\d+(?:\.\d+)?)\s*(?P<factor>[kM]?)\s*(?P<unit>\$|usd|tokens?)?"
)
_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6}


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper limit of money or tokens for new runs."""

    limit: float
    is_money: bool

    def spent(self, results: Iterable[Result]) -> float:
        used = (result.cost if self.is_money else result.tokens for result in results)
        return sum(number or 0.0 for number in used)


def parse_budget(text: str) -> Budget:
    """Parse an amount of money or tokens.

    >>> parse_budget("2.50"), parse_budget("300k tokens")
    (Budget(limit=2.5, is_money=True), Budget(limit=300000.0, is_money=False))

    Raises:
        UsageError: It is neither.
    """
    found = _BUDGET.fullmatch(text.strip())
    if found is None:
        raise click.UsageError("--budget: write money, such as 2.50usd, or tokens: 300ktokens")
    limit = float(found["number"]) * _FACTORS[found["factor"]]
    return Budget(limit, is_money=not (found["unit"] or "").startswith("token"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedSkill:
    """A skill with its cases and the arms to compare."""

    path: str
    cases: Sequence[Case]
    arms: Sequence[Arm]

    @property
    def digest(self) -> str:
        return next((arm.digest for arm in self.arms if arm.name == "with"), "")


class PlannedRun(NamedTuple):
    skill: TestedSkill
    case: Case
    arm: Arm


@dataclass(slots=True)
class Experiment:
    """Results of an experiment, known ones and new ones."""

    agent: Agent
    via: Via
    skills: Sequence[TestedSkill]
    known: Mapping[RunKey, Sequence[Result]]
    repetitions: int
    jobs: int
    budget: Budget | None = None
    new: list[Result] = field(default_factory=list)
    faults: list[tuple[PlannedRun, str]] = field(default_factory=list)
    stopped: str = ""
    """Why runs are missing; empty if none is."""

    def key(self, case: Case, arm: Arm) -> RunKey:
        return RunKey(arm.package, case.digest, self.agent.name, self.agent.model, self.via)

    def plan(self) -> Iterator[PlannedRun]:
        """Missing runs: one of each case and arm, then the second ones, and so on.

        An experiment that stops early so has pairs to compare.
        """
        given: Counter[RunKey] = Counter()
        for number in range(self.repetitions):
            for skill in self.skills:
                for case in skill.cases:
                    for arm in skill.arms:
                        key = self.key(case, arm)
                        if len(self.known.get(key, ())) + given[key] <= number:
                            given[key] += 1
                            yield PlannedRun(skill, case, arm)

    def summarise(self) -> list[MeasuredSkill]:
        found = index_results((*chain.from_iterable(self.known.values()), *self.new))
        return [
            summarise(
                skill.path,
                skill.digest,
                (
                    replace(result, arm=arm.name, skill=skill.path, case=case.id)
                    for case in skill.cases
                    for arm in skill.arms
                    for result in found.get(self.key(case, arm), ())
                ),
            )
            for skill in self.skills
        ]

    def refuse_next(self, running: int) -> str:
        """Reason for which no further run starts; empty if one may."""
        budget = self.budget
        if len(self.faults) >= _MAX_FAULTS and not self.new:
            return f"the agent does not work: {self.faults[-1][1]}"
        if budget is None or not self.new:
            return ""
        spent = budget.spent(self.new)
        if not spent:
            what = "cost" if budget.is_money else "tokens"
            return f"the agent does not say its {what}, so the budget cannot be held"
        mean = spent / len(self.new)
        return "the budget is spent" if spent + mean * (running + 1) > budget.limit else ""


def index_results(results: Iterable[Result]) -> Mapping[RunKey, Sequence[Result]]:
    found: defaultdict[RunKey, list[Result]] = defaultdict(list)
    for result in results:
        found[result.key].append(result)
    return found


def describe_estimate(experiment: Experiment, results: Iterable[Result]) -> str:
    """Describe the expected usage of the missing runs, from earlier runs of this agent."""
    agent, runs = experiment.agent, sum(1 for _ in experiment.plan())
    if not runs:
        return "Nothing to run: all results are known"
    alike = [r for r in results if (r.agent, r.model) == (agent.name, agent.model)]
    costs = [r.cost for r in alike if r.cost is not None]
    tokens = [r.tokens for r in alike if r.tokens is not None]
    mean = sum(tokens) / len(tokens) if tokens else ASSUMED_TOKENS
    basis = "as in earlier runs" if tokens else "assumed: no earlier run is known"
    money = f", about ${runs * sum(costs) / len(costs):.2f}" if costs else ""
    return f"{count_noun(runs, 'run')}: about {runs * mean:,.0f} tokens{money} ({basis})"


OnResult = Callable[[Result, str], None]


async def run_experiment(
    experiment: Experiment,
    runner: CaseRunner,
    on_result: OnResult,
    on_progress: Callable[[int, int], None],
) -> None:
    """Make the missing runs; pass on each result at the end of its run.

    Raises:
        SkillsError: The agent is not installed, or a required sandbox is missing.
    """
    planned = list(experiment.plan())
    waiting = iter(planned)
    running = 0
    errors: list[SkillsError] = []

    async def work() -> None:
        nonlocal running
        while not (experiment.stopped or errors):
            experiment.stopped = experiment.refuse_next(running)
            if experiment.stopped or (run := next(waiting, None)) is None:
                return
            running += 1
            try:
                result, transcript = await runner.run(run.skill.path, run.case, run.arm)
            except RunFaultError as error:
                experiment.faults.append((run, str(error)))
            except SkillsError as error:  # a group would wrap it
                errors.append(error)
            else:
                experiment.new.append(result)
                on_result(result, transcript)
            finally:
                running -= 1
            on_progress(len(experiment.new) + len(experiment.faults), len(planned))

    async with anyio.create_task_group() as tasks:
        for _ in range(experiment.jobs):
            tasks.start_soon(work)
    if errors:
        raise errors[0]
    if experiment.stopped and next(waiting, None) is None and not experiment.faults:
        experiment.stopped = ""  # nothing was left to refuse
