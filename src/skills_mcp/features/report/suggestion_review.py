"""The review of suggestions: recorded tasks, evidence, effect and patches.

`PickTally` learns the right skills from events, `derive_missing_words` names the words
these skills lack, `try_additions` accepts the helpful ones on a copy of the content,
and
`SuggestionReview` has the result.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal, get_args

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, evaluate_snapshot
from skills_mcp.features.authoring.prompts import Prompt, collect_evals, collect_examples
from skills_mcp.features.report.pick_evidence import (
    KnownTask,
    MissingWord,
    PickCounts,
    PickRecord,
    derive_missing_words,
    join_counts,
)
from skills_mcp.features.report.skill_additions import (
    AcceptedAddition,
    Addition,
    Improvement,
    Patch,
    RejectedAddition,
    TaskAddition,
    WordAddition,
    compose_patches,
    rate_outcome,
    try_additions,
)
from skills_mcp.features.report.usage_report import Rivalry, Span
from skills_mcp.library import SkillLibrary, Snapshot
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.text.redaction import REDACTED
from skills_mcp.text.rendering import count_noun, join_names

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


def render_review(
    review: SuggestionReview, span: Span, patches: Iterable[Patch], notes: Sequence[str]
) -> dict[str, Any]:
    """A review as one JSON object, with the requested patches."""
    improvement, record = review.improvement, review.record
    return {
        "since": span.first.isoformat(),
        "until": span.last.isoformat(),
        "algorithm": review.algorithm,
        "picks": record.picks,
        "unreadable": record.unreadable,
        "suggestions": [_render_accepted(item, review) for item in improvement.accepted],
        "left_out": [_render_rejected(item, review) for item in improvement.rejected],
        "effect": {o: asdict(review.measure_effect(o)) for o in get_args(TaskOrigin)},
        "changes": [_render_change(*item) for item in review.changes],
        "pairs": [_render_pair(item) for item in review.pairs],
        "sources": [_render_patch(item) for item in patches],
        "notes": list(notes),
    }


def _render_accepted(addition: AcceptedAddition, review: SuggestionReview) -> dict[str, Any]:
    return {
        **_render_addition(addition.addition, review),
        "better": list(addition.gains),
    }


def _render_rejected(dropped: RejectedAddition, review: SuggestionReview) -> dict[str, Any]:
    shared = _render_addition(dropped.addition, review)
    return {**shared, "reason": dropped.reason, "detail": dropped.detail}


def _render_addition(addition: Addition, review: SuggestionReview) -> dict[str, Any]:
    words = addition.words if isinstance(addition, WordAddition) else ()
    counts = review.count_picks(addition)
    return {
        "skill": addition.skill,
        "kind": "keywords" if words else "example",
        "keywords": list(words),
        "tasks": list(review.find_tasks(addition)),
        "picks": counts.picks,
        "people": len(counts.people),
        "days": len(counts.days),
    }


def _render_change(old: Outcome, new: Outcome) -> dict[str, Any]:
    return {
        "task": new.prompt.query,
        "expect": list(new.prompt.expect),
        "avoid": list(new.prompt.avoid),
        "before": list(old.answers),
        "after": list(new.answers),
        "origin": derive_origin(new.prompt),
    }


def _render_pair(pair: Rivalry) -> dict[str, Any]:
    picks = None if pair.picks is None else list(pair.picks)
    return {"skills": list(pair.skills), "count": pair.count, "picks": picks}


def _render_patch(patch: Patch) -> dict[str, Any]:
    source = patch.source
    return {
        "source": source.name,
        "mount": source.mount,
        "diff": patch.diff.decode("utf-8"),
    }
