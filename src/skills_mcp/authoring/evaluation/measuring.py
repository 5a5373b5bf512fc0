"""What each prompt gets, and how long routing takes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from skills_mcp.authoring.evaluation.prompts import Prompt
from skills_mcp.config import Matching
from skills_mcp.errors import SkillNotFoundError
from skills_mcp.routing.choosing import choose
from skills_mcp.routing.decision import Ambiguous, Candidate, Decision
from skills_mcp.routing.explanation import list_answers
from skills_mcp.routing.matcher import Mask, Matcher
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.scoping import Scoping, narrow

DEPTH = 10
"""How far the order is looked at: nobody reads on, and MRR gains nothing."""

Report = Callable[[int, int], None]
"""Is told how many prompts are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a prompt got."""

    prompt: Prompt
    decision: Decision
    """The answer of `get_skill`."""
    ranked: tuple[Candidate, ...]
    """The first `DEPTH` skills, however low they score."""
    seconds: float
    """What the answer took, without the order."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The skill, or the candidates, that the answer names."""
        return tuple(each.skill.path for each in list_answers(self.decision))

    @property
    def place(self) -> int | None:
        """Where the first right skill stands, from 1; None beyond `DEPTH`."""
        expected = set(self.prompt.expect)
        paths = enumerate((each.skill.path for each in self.ranked), 1)
        return next((place for place, path in paths if path in expected), None)

    @property
    def is_kept(self) -> bool:
        """Whether a right skill is the answer, or among the candidates."""
        return not set(self.prompt.expect).isdisjoint(self.answers)

    def is_right(self, *, is_strict: bool = False) -> bool:
        """Whether the prompt got what it should.

        Args:
            is_strict: An ambiguous answer is wrong, unless the prompt allows it.
        """
        if not self.prompt.expect:
            return not self.answers
        is_open = is_strict and not self.prompt.is_ambiguous
        return self.is_kept and not (is_open and isinstance(self.decision, Ambiguous))


def measure(
    prompts: Sequence[Prompt],
    matcher: Matcher,
    matching: Matching,
    index: SkillIndex,
    report: Report = lambda _done, _all: None,
) -> tuple[Outcome, ...]:
    """Route every prompt as `get_skill` does, and look at the order behind it.

    Args:
        prompts: What to route.
        matcher: Of the same snapshot as `index`.
        matching: The settings in force.
        index: The skills, in the order in which they are numbered.
        report: Is told how far it is.
    """
    if prompts:  # what is built when it is first needed is no prompt's fault
        choose(matcher, prompts[0].query, matching)
    look_up = cache(lambda scoping: _narrow(index, scoping))
    outcomes = []
    for done, prompt in enumerate(prompts, 1):
        within = look_up(prompt.scoping)
        started = time.perf_counter()
        decision = choose(matcher, prompt.query, matching, within=within)
        seconds = time.perf_counter() - started
        ranked = matcher.score(prompt.query, most=DEPTH, within=within)
        outcomes.append(Outcome(prompt, decision, ranked, seconds))
        report(done, len(prompts))
    return tuple(outcomes)


def _narrow(index: SkillIndex, scoping: Scoping) -> Mask:
    """Return the skills of a part; none of all where there is no such part.

    An older state of the content may lack a folder that a prompt is about.
    """
    try:
        return narrow(index, scoping)
    except SkillNotFoundError:
        import numpy as np  # late: the first answer first

        return np.zeros(len(index), np.bool_)
