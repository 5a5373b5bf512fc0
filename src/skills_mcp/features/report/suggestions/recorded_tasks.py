"""The review of suggestions: recorded tasks, evidence, effect and patches.

`PickTally` learns the right skills from events, `derive_missing_words` names the words
these skills lack, `try_additions` accepts the helpful ones on a copy of the content,
and
`SuggestionReview` has the result.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from skills_mcp.features.authoring.evaluation import (
    Outcome,
    Prompt,
    collect_evals,
    collect_examples,
    evaluate_snapshot,
)
from skills_mcp.features.report.suggestions.improvement import (
    AcceptedAddition,
    TaskAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestions.missing_words import MissingWord
from skills_mcp.features.report.suggestions.picks import KnownTask, PickRecord
from skills_mcp.library import Snapshot
from skills_mcp.skills.index import SkillIndex
from skills_mcp.text.redaction import REDACTED

MAX_RECORDED = 500
"""Recorded tasks to route with each addition; those with most picks."""

_MAX_EXAMPLE_LENGTH = 200
"""Of an example task: a longer one is a pasted page."""

_FREQUENT_PICKS = 2
"""Picks of one task to make it an example by itself."""

_BOTH_RIGHT = 4
"""A skill picked a quarter as often as another is right as well."""

TaskOrigin = Literal["library", "picked", "answered"]
"""Origin of a task: a skill's own, known by picks, or answered by one skill."""


def derive_origin(prompt: Prompt) -> TaskOrigin:
    if prompt.origin == "picked":
        return "picked"
    return "answered" if prompt.origin == "answered" else "library"


def collect_known(index: SkillIndex, record: PickRecord) -> tuple[Prompt, ...]:
    """Tasks with a known answer: those of skills, and recorded ones.

    The author's answer counts more than agents' picks.
    """
    evals, _ = collect_evals(index)
    own = tuple(dict.fromkeys((*collect_examples(index), *evals)))
    queries = {prompt.query for prompt in own}
    picked = (
        prompt
        for task in record.tasks
        if task.task not in queries and (prompt := _derive_prompt(task, index))
    )
    return (*own, *islice(picked, MAX_RECORDED))


def _derive_prompt(task: KnownTask, index: SkillIndex) -> Prompt | None:
    """None if its skills are not served now."""
    right = [path for path in task.right if index.get(path)]
    wrong = tuple(path for path in task.wrong if index.get(path))
    if not right and not wrong:
        return None
    picks = [task.right[path].picks for path in right]
    return Prompt(
        query=task.task,
        expect=tuple(right),
        avoid=wrong,
        is_ambiguous=any(pick * _BOTH_RIGHT > picks[0] for pick in picks[1:]),
        origin="picked",
    )


def collect_answered(snapshot: Snapshot, record: PickRecord) -> tuple[Prompt, ...]:
    """Tasks with one answer, no complaint, and the same answer now.

    They are no evidence for a missing word, but an addition must not change their
    answer.
    """
    prompts = [
        Prompt(query=answered.task, expect=(answered.skill,), origin="answered")
        for answered in record.answered[:MAX_RECORDED]
    ]
    outcomes = evaluate_snapshot(prompts, snapshot)
    return tuple(answered.prompt for answered in outcomes if not is_unanswered(answered))


def is_unanswered(outcome: Outcome) -> bool:
    """Whether one right skill is not the answer."""
    return not outcome.is_right(is_strict=True)


def find_example_tasks(
    index: SkillIndex,
    record: PickRecord,
    words: Sequence[MissingWord],
    accepted: Sequence[AcceptedAddition],
) -> Iterator[TaskAddition]:
    """Tasks with the new keywords, and frequent ones."""
    illustrated = set(_find_illustrated(words, accepted))
    known = {example for skill in index for example in skill.examples}
    for task in record.tasks:
        path = next(iter(task.right), "")
        if not index.get(path) or task.task in known or not _is_fit(task.task):
            continue
        is_frequent = task.right[path].picks >= _FREQUENT_PICKS
        if is_frequent or (path, task.task) in illustrated:
            yield TaskAddition(path, task.task)


def _find_illustrated(
    words: Iterable[MissingWord], accepted: Iterable[AcceptedAddition]
) -> Iterator[tuple[str, str]]:
    """Skills and the tasks with their new keywords."""
    added = {
        (item.addition.skill, word)
        for item in accepted
        if isinstance(item.addition, WordAddition)
        for word in item.addition.words
    }
    for item in words:
        if (item.skill, item.word) in added:
            yield from ((item.skill, task) for task in item.tasks)


def _is_fit(task: str) -> bool:
    """Whether a task can be an example: short, and without personal data."""
    return len(task) <= _MAX_EXAMPLE_LENGTH and REDACTED not in task
