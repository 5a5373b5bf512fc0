"""What is suggested, the evidence for it and its effect: all that a reviewer reads."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, measure_snapshot
from skills_mcp.features.report.suggestions.improvement import (
    Addition,
    Improvement,
    TaskAddition,
    WordAddition,
    improve,
    rate_outcome,
)
from skills_mcp.features.report.suggestions.missing_words import (
    MissingWord,
    derive_missing_words,
)
from skills_mcp.features.report.suggestions.patch import Patch, compose_patches
from skills_mcp.features.report.suggestions.picks import (
    PickCounts,
    PickRecord,
    join_counts,
)
from skills_mcp.features.report.suggestions.recorded_tasks import (
    MOST_RECORDED,
    Origin,
    collect_answered,
    collect_known,
    find_example_tasks,
    is_open,
    origin_of,
)
from skills_mcp.features.report.usage_report import Rivalry
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import printable
from skills_mcp.text.rendering import name_some, plural

_LISTED, _RIGHT = 1, 2  # of `rate_outcome`
_MOST_NAMED = 5  # skills in one note

SET_CONTEXT = (
    "Set analytics.context to redacted, in your own config.yaml or as "
    "ANALYTICS_CONTEXT=redacted on each machine; tasks that are recorded already "
    "do not change."
)
"""Advice where tasks are recorded as hashes, or not at all."""


@dataclass(frozen=True, slots=True)
class PatchEffect:
    """How many tasks get the right skill, and how many a list that has it."""

    tasks: int
    right_before: int
    right_after: int
    listed_before: int
    listed_after: int


@dataclass(frozen=True, slots=True)
class Review:
    """What is suggested, with all that speaks for and against it."""

    record: PickRecord
    algorithm: str
    """Of the skills: `keyword` or `ranked`."""
    words: Mapping[tuple[str, str], MissingWord]
    """What speaks for a word, by the skill and the word."""
    improvement: Improvement
    patches: tuple[Patch, ...]
    """One for each source that has changes."""
    unserved: Mapping[str, int]
    """The tasks whose right skills are not served now, by the first of them."""

    @property
    def changes(self) -> tuple[tuple[Outcome, Outcome], ...]:
        """The answers before and after of the tasks whose answer changes."""
        pairs = zip(self.improvement.before, self.improvement.after, strict=True)
        return tuple(p for p in pairs if set(p[0].answers) != set(p[1].answers))

    @property
    def pairs(self) -> tuple[Rivalry, ...]:
        """The pairs of skills that may still compete."""
        return tuple(e for e in self.record.rivalries if e.is_still is not False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the suggestions lack, and what to set."""
        return (
            *_describe_record(self.record),
            *_describe_limits(self.record),
            *_describe_unserved(self.unserved),
            *_describe_doubts(self),
        )

    def find_tasks(self, addition: Addition) -> tuple[str, ...]:
        """Return the tasks that speak for an addition; of an example, itself."""
        if isinstance(addition, TaskAddition):
            return (addition.task,)
        found = (self.words[addition.skill, word] for word in addition.words)
        return tuple(dict.fromkeys(task for each in found for task in each.tasks))

    def count_picks(self, addition: Addition) -> PickCounts:
        """Count the picks that speak for an addition."""
        tasks = set(self.find_tasks(addition))
        return join_counts(
            [
                task.right[addition.skill]
                for task in self.record.tasks
                if task.task in tasks and addition.skill in task.right
            ]
        )

    def measure_effect(self, origin: Origin) -> PatchEffect:
        """Return what the patches do to the tasks of one origin."""
        old, new = (
            Counter(rate_outcome(o) for o in outcomes if origin_of(o.prompt) == origin)
            for outcomes in (self.improvement.before, self.improvement.after)
        )
        return PatchEffect(
            tasks=old.total(),
            right_before=old[_RIGHT],
            right_after=new[_RIGHT],
            listed_before=old[_LISTED],
            listed_after=new[_LISTED],
        )


def suggest(
    library: SkillLibrary,
    record: PickRecord,
    on_progress: OnProgress = ignore_progress,
) -> Review:
    """Suggest what to add to the skills that a library serves.  Blocking.

    Args:
        library: Serves the skills; vectors that are wanted are there.
        record: What agents picked.
        on_progress: Called after each addition that was tried.

    Raises:
        SyncError: The content cannot be copied.
    """
    with library.edited_copy() as copy:
        snapshot = copy.served
        index, matcher = snapshot.index, snapshot.matcher
        known = collect_known(index, record)
        outcomes = measure_snapshot(known, snapshot)
        unsettled = {
            each.prompt.query
            for each in outcomes
            if each.prompt.expect and is_open(each)
        }
        words = derive_missing_words(record.tasks, unsettled, index, matcher)
        improvement = improve(
            copy,
            (*known, *collect_answered(snapshot, record)),
            [WordAddition(each.skill, (each.word,)) for each in words],
            partial(find_example_tasks, index, record, words),
            on_progress,
        )
    return Review(
        record=record,
        algorithm=matcher.algorithm,
        words={(each.skill, each.word): each for each in words},
        improvement=improvement,
        patches=compose_patches(improvement.texts),
        unserved=_count_unserved(record, index),
    )


def _count_unserved(record: PickRecord, index: SkillIndex) -> Counter[str]:
    return Counter(
        next(iter(task.right))
        for task in record.tasks
        if task.right and not any(map(index.get, task.right))
    )


def _describe_record(record: PickRecord) -> Iterator[str]:
    if not record.picks:
        yield (
            "No agent has picked a skill from a list of candidates or near misses in "
            "these days, so there is nothing to learn from. What was recorded: "
            "skills-mcp report"
        )
    if record.unreadable:
        yield (
            f"{record.unreadable:,} of {plural(record.picks, 'pick')} cannot be read: "
            f"only a hash of the task was recorded, or nothing. {SET_CONTEXT}"
        )


def _describe_limits(record: PickRecord) -> Iterator[str]:
    kinds = {
        "with a known answer": record.tasks,
        "that one skill answered": record.answered,
    }
    for kind, tasks in kinds.items():
        if len(tasks) > MOST_RECORDED:
            yield (
                f"Of {len(tasks):,} recorded tasks {kind}, the {MOST_RECORDED} most "
                "frequent ones are tried."
            )


def _describe_unserved(unserved: Mapping[str, int]) -> Iterator[str]:
    if unserved:
        names = name_some(sorted(map(printable, unserved)), _MOST_NAMED)
        yield (
            f"Left out: {plural(sum(unserved.values()), 'task')} whose right skill is "
            f"not served now: {names}. If its file cannot be read, skills-mcp tree "
            "--problems says why."
        )


def _describe_doubts(review: Review) -> Iterator[str]:
    if review.improvement.kept and not review.measure_effect("library").tasks:
        yield (
            "No skill has an example task, so only recorded tasks say whether an "
            "answer gets worse. Look at the diff with that in mind."
        )
