"""Trials of additions to skills: only improvements are kept."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, Prompt, evaluate_snapshot
from skills_mcp.features.report.suggestions.additions import (
    UnsafeAdditionError,
    add_example,
    add_keywords,
)
from skills_mcp.features.report.suggestions.patch import ChangedText
from skills_mcp.library import EditableText, Snapshot, UneditableError, WorkingCopy
from skills_mcp.skills.model import Skill
from skills_mcp.skills.package import is_skill_md

MAX_TRIALS = 60
"""Additions to try: each builds an index and routes every task."""

MAX_WORDS_TOGETHER = 3
"""Words of one skill to try together; more would overfit these tasks."""

MAX_ADDED_EXAMPLES = 3
"""Example tasks to add to one skill."""

_MISREAD = "its frontmatter would not be read as before"

RejectionReason = Literal["no-gain", "harm", "unsafe", "limit"]
"""Why an addition is left out of the diff."""


@dataclass(frozen=True, slots=True)
class WordAddition:
    skill: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskAddition:
    skill: str
    task: str


Addition = WordAddition | TaskAddition


@dataclass(frozen=True, slots=True)
class AcceptedAddition:
    addition: Addition
    gains: tuple[str, ...]
    """Tasks with a better answer; none for an example task."""


@dataclass(frozen=True, slots=True)
class RejectedAddition:
    addition: Addition
    reason: RejectionReason
    detail: str
    """Advice to a person, or a task with a worse answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """The remaining additions, and their effect on all tasks."""

    accepted: tuple[AcceptedAddition, ...]
    rejected: tuple[RejectedAddition, ...]
    texts: tuple[ChangedText, ...]
    """In the order of their files."""
    before: tuple[Outcome, ...]
    after: tuple[Outcome, ...]
    """Of the same tasks, with all kept additions."""


def rate_outcome(outcome: Outcome) -> int:
    """2 for the right skill, 1 for a list with it, else 0."""
    return outcome.is_right() + outcome.is_right(is_strict=True)


def try_additions(
    copy: WorkingCopy,
    prompts: Sequence[Prompt],
    words: Sequence[WordAddition],
    find_tasks: Callable[[Sequence[AcceptedAddition]], Iterable[TaskAddition]],
    on_progress: OnProgress = ignore_progress,
) -> Improvement:
    """Try additions in order, and keep those with better and no worse answers.

    Blocking.

    Args:
        copy: Of the served content.
        prompts: All tasks with known answers.
        words: Keywords, the best ones first.
        find_tasks: Example tasks for the kept keywords. The first ones of a skill are
            added, if the skill then answers them.
        on_progress: Called after each addition.
    """
    trials = _Trials(copy, prompts)
    queue = words[:MAX_TRIALS]
    for addition in words[MAX_TRIALS:]:
        trials.reject(addition, "limit", f"only {MAX_TRIALS} additions are tried at once")
    for done, addition in enumerate(queue, 1):
        trials.try_words(addition)
        on_progress(done, len(queue))
    for addition in _combine_words(trials.idle):
        trials.try_words(addition)
    trials.add_tasks(find_tasks(tuple(trials.accepted)))
    return trials.conclude()


def _combine_words(idle: Mapping[str, Sequence[str]]) -> Iterator[WordAddition]:
    """Combine words without an effect of their own, by skill."""
    for skill, words in idle.items():
        for number in range(2, min(len(words), MAX_WORDS_TOGETHER) + 1):
            yield WordAddition(skill, tuple(words[:number]))


class _Trials:
    """State of the trials: kept additions and the answers with them."""

    def __init__(self, copy: WorkingCopy, prompts: Sequence[Prompt]) -> None:
        self._copy = copy
        self._served = copy.served
        self._prompts = prompts
        self._before = evaluate_snapshot(prompts, copy.served)
        self._outcomes = self._before
        self._locations: dict[Path, EditableText] = {}
        self._texts: dict[Path, bytes] = {}
        self.accepted: list[AcceptedAddition] = []
        self._dropped: dict[Addition, RejectedAddition] = {}
        self.idle: defaultdict[str, list[str]] = defaultdict(list)
        """By skill, the words that no task gets better by when they are alone."""

    def reject(self, addition: Addition, reason: RejectionReason, detail: str) -> None:
        self._dropped[addition] = RejectedAddition(addition, reason, detail)

    def try_words(self, addition: WordAddition) -> None:
        """Keep keywords if a task gets better, and none worse."""
        is_joined = len(addition.words) > 1
        if is_joined and not set(addition.words) <= set(self.idle[addition.skill]):
            return  # one of them was kept with others meanwhile
        skill = self._served.index.require(addition.skill)
        try:
            location, new, snapshot = self._serve(
                skill, partial(add_keywords, words=addition.words)
            )
        except (UnsafeAdditionError, UneditableError) as error:
            self.reject(addition, "unsafe", str(error))
            return
        outcomes = evaluate_snapshot(self._prompts, snapshot)
        gains, losses = _compare(self._outcomes, outcomes)
        if losses:
            self.reject(addition, "harm", losses[0])
        elif not gains:
            if not is_joined:
                self.idle[addition.skill] += addition.words
                self.reject(addition, "no-gain", "")
        else:
            self._accept(AcceptedAddition(addition, gains), location, new)
            self._outcomes = outcomes

    def add_tasks(self, additions: Iterable[TaskAddition]) -> None:
        """Keep the first example tasks of each skill, if it answers them."""
        number: Counter[str] = Counter()
        before = dict(self._texts)
        for addition in additions:
            if number[addition.skill] < MAX_ADDED_EXAMPLES and self._answers(addition):
                number[addition.skill] += 1
                self._add_task(addition)
        # An example changes no answer, so that all of them are served at once.
        snapshot = self._copy.serve(self._texts) if number else self._served
        for skill in map(self._served.index.require, number):
            if not _is_unchanged(skill, snapshot):
                self._revert_tasks(skill, before)

    def _answers(self, addition: TaskAddition) -> bool:
        return any(
            outcome.answers == (addition.skill,) and outcome.is_right(is_strict=True)
            for outcome in self._outcomes
            if outcome.prompt.query == addition.task
        )

    def _add_task(self, addition: TaskAddition) -> None:
        skill = self._served.index.require(addition.skill)
        try:
            location, new = self._edit(skill, partial(add_example, task=addition.task))
        except (UnsafeAdditionError, UneditableError) as error:
            self.reject(addition, "unsafe", str(error))
        else:
            self._accept(AcceptedAddition(addition, ()), location, new)

    def _revert_tasks(self, skill: Skill, before: Mapping[Path, bytes]) -> None:
        """Revert the example tasks of a skill: they broke it."""
        location = self._locate(skill)
        del self._texts[location]
        if location in before:
            self._texts[location] = before[location]
        for accepted in tuple(self.accepted):
            addition = accepted.addition
            if isinstance(addition, TaskAddition) and addition.skill == skill.path:
                self.accepted.remove(accepted)
                self.reject(addition, "unsafe", _MISREAD)

    def conclude(self) -> Improvement:
        """Judge all kept additions together once more."""
        after = self._before
        if self._texts:
            after = evaluate_snapshot(self._prompts, self._copy.serve(self._texts))
        texts = (
            ChangedText(self._locations[location], new) for location, new in self._texts.items()
        )
        return Improvement(
            accepted=tuple(self.accepted),
            rejected=tuple(self._dropped.values()),
            texts=tuple(sorted(texts, key=lambda t: (t.editable.source.name, t.editable.file))),
            before=self._before,
            after=after,
        )

    def _accept(self, addition: AcceptedAddition, location: Path, new: bytes) -> None:
        self.accepted.append(addition)
        self._texts[location] = new
        if isinstance(addition.addition, WordAddition):
            skill, words = addition.addition.skill, addition.addition.words
            idle = self.idle[skill]
            self.idle[skill] = [word for word in idle if word not in words]
            for word in words:
                self._dropped.pop(WordAddition(skill, (word,)), None)

    def _serve(self, skill: Skill, change: Callable[..., bytes]) -> tuple[Path, bytes, Snapshot]:
        """Load a snapshot with the changed text of a skill.

        Raises:
            UnsafeAdditionError: The skill would change in more than the addition.
            UneditableError: The text cannot be changed.
        """
        location, new = self._edit(skill, change)
        snapshot = self._copy.serve({**self._texts, location: new})
        if not _is_unchanged(skill, snapshot):
            raise UnsafeAdditionError(_MISREAD)
        return location, new, snapshot

    def _locate(self, skill: Skill) -> Path:
        assert skill.location is not None, "it was read"  # noqa: S101
        return skill.location

    def _edit(self, skill: Skill, change: Callable[..., bytes]) -> tuple[Path, bytes]:
        text = self._copy.read(skill)
        location = self._locate(skill)
        self._locations[location] = text
        raw = self._texts.get(location, text.raw)
        is_package = is_skill_md(skill.file.rpartition("/")[2])
        return location, change(raw, is_package=is_package)


def _is_unchanged(skill: Skill, snapshot: Snapshot) -> bool:
    """Whether a skill is unchanged but for additions."""
    after = snapshot.index.get(skill.path)
    return after is not None and _describe(after) == _describe(skill)


def _describe(skill: Skill) -> tuple[object, ...]:
    return (
        *(skill.name, skill.description, skill.body, skill.inherit, skill.priority),
        *(skill.assets, skill.scripts, skill.category, skill.owner, skill.entry),
    )


def _compare(
    before: Sequence[Outcome], after: Sequence[Outcome]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tasks with better answers, and with worse ones."""
    rated = [
        (new.prompt.query, rate_outcome(new) - rate_outcome(old))
        for old, new in zip(before, after, strict=True)
    ]
    gains = tuple(query for query, change in rated if change > 0)
    return gains, tuple(query for query, change in rated if change < 0)
