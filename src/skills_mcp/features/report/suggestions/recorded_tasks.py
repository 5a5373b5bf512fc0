"""Recorded tasks as prompts whose answers are compared, and as example tasks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from skills_mcp.features.authoring.evaluation import (
    Outcome,
    Prompt,
    collect_evals,
    collect_examples,
    measure_snapshot,
)
from skills_mcp.features.report.suggestions.improvement import (
    KeptAddition,
    TaskAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestions.missing_words import MissingWord
from skills_mcp.features.report.suggestions.picks import KnownTask, PickRecord
from skills_mcp.library import Snapshot
from skills_mcp.skills.index import SkillIndex
from skills_mcp.text.redaction import HIDDEN

MOST_RECORDED = 500
"""Recorded tasks that are routed again with each addition; those with most picks."""

_MOST_CHARACTERS = 200
"""Of an example task: a longer one is a page that was pasted."""

_OFTEN = 2
"""Picks of one task that make it an example by itself."""

_BOTH_RIGHT = 4
"""A skill that is picked a quarter as often as another is right as well."""

Origin = Literal["library", "picked", "answered"]
"""Where a task is from: a skill's own, known by picks, or answered by one skill."""


def origin_of(prompt: Prompt) -> Origin:
    """Return where a prompt is from; that of a skill is its file."""
    if prompt.origin == "picked":
        return "picked"
    return "answered" if prompt.origin == "answered" else "library"


def collect_known(index: SkillIndex, record: PickRecord) -> tuple[Prompt, ...]:
    """Return the tasks with a known answer: of the skills, and recorded ones.

    What an author says of a task counts more than what agents have picked.
    """
    evals, _ = collect_evals(index)
    own = tuple(dict.fromkeys((*collect_examples(index), *evals)))
    queries = {prompt.query for prompt in own}
    picked = (
        prompt
        for task in record.tasks
        if task.task not in queries and (prompt := _derive_prompt(task, index))
    )
    return (*own, *islice(picked, MOST_RECORDED))


def _derive_prompt(task: KnownTask, index: SkillIndex) -> Prompt | None:
    """Return a recorded task as a prompt; None if its skills are not served now."""
    right = [path for path in task.right if index.get(path)]
    wrong = tuple(path for path in task.wrong if index.get(path))
    if not right and not wrong:
        return None
    picks = [task.right[path].picks for path in right]
    return Prompt(
        query=task.task,
        expect=tuple(right),
        avoid=wrong,
        is_ambiguous=any(each * _BOTH_RIGHT > picks[0] for each in picks[1:]),
        origin="picked",
    )


def collect_answered(snapshot: Snapshot, record: PickRecord) -> tuple[Prompt, ...]:
    """Return tasks that one skill answered without a complaint, and answers now.

    They say nothing about what is missing, but an addition may not take their skill.
    """
    prompts = [
        Prompt(query=each.task, expect=(each.skill,), origin="answered")
        for each in record.answered[:MOST_RECORDED]
    ]
    outcomes = measure_snapshot(prompts, snapshot)
    return tuple(each.prompt for each in outcomes if not is_open(each))


def is_open(outcome: Outcome) -> bool:
    """Whether one right skill is not the answer."""
    return not outcome.is_right(is_strict=True)


def find_example_tasks(
    index: SkillIndex,
    record: PickRecord,
    words: Sequence[MissingWord],
    kept: Sequence[KeptAddition],
) -> Iterator[TaskAddition]:
    """Iterate over tasks that show what a word is for, and frequent ones."""
    shown = set(_find_shown(words, kept))
    known = {example for skill in index for example in skill.examples}
    for task in record.tasks:
        path = next(iter(task.right), "")
        if not index.get(path) or task.task in known or not _is_fit(task.task):
            continue
        is_frequent = task.right[path].picks >= _OFTEN
        if is_frequent or (path, task.task) in shown:
            yield TaskAddition(path, task.task)


def _find_shown(
    words: Iterable[MissingWord], kept: Iterable[KeptAddition]
) -> Iterator[tuple[str, str]]:
    """Iterate over skills and the tasks that speak for their new keywords."""
    added = {
        (each.addition.skill, word)
        for each in kept
        if isinstance(each.addition, WordAddition)
        for word in each.addition.words
    }
    for each in words:
        if (each.skill, each.word) in added:
            yield from ((each.skill, task) for task in each.tasks)


def _is_fit(task: str) -> bool:
    """Whether a task can stand in a skill: it is short, and tells nothing private."""
    return len(task) <= _MOST_CHARACTERS and HIDDEN not in task
