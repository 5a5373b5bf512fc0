"""The review of suggestions: evidence, effect and patches."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, evaluate_snapshot
from skills_mcp.features.report.suggestions.improvement import (
    Addition,
    Improvement,
    TaskAddition,
    WordAddition,
    rate_outcome,
    try_additions,
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
    MAX_RECORDED,
    TaskOrigin,
    collect_answered,
    collect_known,
    derive_origin,
    find_example_tasks,
    is_unanswered,
)
from skills_mcp.features.report.usage_report import Rivalry
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import count_noun, join_names

_LISTED, _RIGHT = 1, 2  # of `rate_outcome`
_MOST_NAMED = 5  # skills in one note

SET_CONTEXT = (
    "Set analytics.context to redacted, in your own config.yaml or as "
    "ANALYTICS_CONTEXT=redacted on each machine; tasks that are recorded already "
    "do not change."
)
"""Advice for tasks recorded as hashes, or not at all."""


@dataclass(frozen=True, slots=True)
class PatchEffect:
    """Numbers of tasks with the right skill, and with it in a list."""

    tasks: int
    right_before: int
    right_after: int
    listed_before: int
    listed_after: int


@dataclass(frozen=True, slots=True)
class SuggestionReview:
    """Suggestions with the evidence for and against them."""

    record: PickRecord
    algorithm: str
    """Of the skills: `keyword` or `ranked`."""
    words: Mapping[tuple[str, str], MissingWord]
    """Evidence by skill and word."""
    improvement: Improvement
    patches: tuple[Patch, ...]
    """One for each changed source."""
    unserved: Mapping[str, int]
    """Tasks of right skills not served now, by the first of these."""

    @property
    def changes(self) -> tuple[tuple[Outcome, Outcome], ...]:
        """Changed answers, before and after."""
        pairs = zip(self.improvement.before, self.improvement.after, strict=True)
        return tuple(p for p in pairs if set(p[0].answers) != set(p[1].answers))

    @property
    def pairs(self) -> tuple[Rivalry, ...]:
        """Pairs of skills still competing."""
        return tuple(e for e in self.record.rivalries if e.is_still is not False)

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            *_describe_record(self.record),
            *_describe_limits(self.record),
            *_describe_unserved(self.unserved),
            *_describe_doubts(self),
        )

    def find_tasks(self, addition: Addition) -> tuple[str, ...]:
        """The evidence for an addition; of an example, itself."""
        if isinstance(addition, TaskAddition):
            return (addition.task,)
        found = (self.words[addition.skill, word] for word in addition.words)
        return tuple(dict.fromkeys(task for missing in found for task in missing.tasks))

    def count_picks(self, addition: Addition) -> PickCounts:
        tasks = set(self.find_tasks(addition))
        return join_counts(
            [
                task.right[addition.skill]
                for task in self.record.tasks
                if task.task in tasks and addition.skill in task.right
            ]
        )

    def measure_effect(self, origin: TaskOrigin) -> PatchEffect:
        """Effect of the patches on the tasks of one origin."""
        old, new = (
            Counter(rate_outcome(o) for o in outcomes if derive_origin(o.prompt) == origin)
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
) -> SuggestionReview:
    """Suggest additions to the served skills.  Blocking.

    The library has loaded its vectors; `on_progress` is called after each trial.

    Raises:
        SyncError: The content cannot be copied.
    """
    with library.edited_copy() as copy:
        snapshot = copy.served
        index, matcher = snapshot.index, snapshot.matcher
        known = collect_known(index, record)
        outcomes = evaluate_snapshot(known, snapshot)
        unsettled = {
            item.prompt.query for item in outcomes if item.prompt.expect and is_unanswered(item)
        }
        words = derive_missing_words(record.tasks, unsettled, index, matcher)
        improvement = try_additions(
            copy,
            (*known, *collect_answered(snapshot, record)),
            [WordAddition(item.skill, (item.word,)) for item in words],
            partial(find_example_tasks, index, record, words),
            on_progress,
        )
    return SuggestionReview(
        record=record,
        algorithm=matcher.algorithm,
        words={(item.skill, item.word): item for item in words},
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
            f"{record.unreadable:,} of {count_noun(record.picks, 'pick')} cannot be read: "
            f"only a hash of the task was recorded, or nothing. {SET_CONTEXT}"
        )


def _describe_limits(record: PickRecord) -> Iterator[str]:
    kinds = {
        "with a known answer": record.tasks,
        "that one skill answered": record.answered,
    }
    for kind, tasks in kinds.items():
        if len(tasks) > MAX_RECORDED:
            yield (
                f"Of {len(tasks):,} recorded tasks {kind}, the {MAX_RECORDED} most "
                "frequent ones are tried."
            )


def _describe_unserved(unserved: Mapping[str, int]) -> Iterator[str]:
    if unserved:
        names = join_names(sorted(map(escape_unprintable, unserved)), _MOST_NAMED)
        yield (
            f"Left out: {count_noun(sum(unserved.values()), 'task')} whose right skill is "
            f"not served now: {names}. If its file cannot be read, skills-mcp tree "
            "--problems says why."
        )


def _describe_doubts(review: SuggestionReview) -> Iterator[str]:
    if review.improvement.accepted and not review.measure_effect("library").tasks:
        yield (
            "No skill has an example task, so only recorded tasks say whether an "
            "answer gets worse. Look at the diff with that in mind."
        )
