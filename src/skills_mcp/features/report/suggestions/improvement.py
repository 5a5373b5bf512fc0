"""Which additions to skills help tasks to find them, and take no skill from a task.

Rule: an addition is judged by the answers that the same matcher gives with it, over all
tasks whose right skills are known, and never by an estimate.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, Prompt, measure_snapshot
from skills_mcp.features.report.suggestions.additions import (
    UnsafeAdditionError,
    add_example,
    add_keywords,
)
from skills_mcp.features.report.suggestions.patch import ChangedText
from skills_mcp.library import EditableText, EditedCopy, Snapshot, UneditableError
from skills_mcp.skills.model import Skill
from skills_mcp.skills.package import is_main

MOST_TRIED = 60
"""Additions that are tried: each builds an index and routes every task."""

MOST_TOGETHER = 3
"""Words of one skill that are tried together; more would fit these tasks alone."""

MOST_EXAMPLES = 3
"""Example tasks that are added to one skill at once."""

_MISREAD = "its frontmatter would not be read as before"

Reason = Literal["no-gain", "harm", "unsafe", "limit"]
"""Why an addition is left out of the diff."""


@dataclass(frozen=True, slots=True)
class WordAddition:
    """Keywords for a skill."""

    skill: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskAddition:
    """An example task for a skill."""

    skill: str
    task: str


Addition = WordAddition | TaskAddition


@dataclass(frozen=True, slots=True)
class KeptAddition:
    """An addition that is in the diff."""

    addition: Addition
    gains: tuple[str, ...]
    """The tasks that get a better answer by it; none for an example task."""


@dataclass(frozen=True, slots=True)
class DroppedAddition:
    """An addition that is not in the diff."""

    addition: Addition
    reason: Reason
    detail: str
    """What a person can do about it, or which task would lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """What is left of the additions, and what it does to all tasks."""

    kept: tuple[KeptAddition, ...]
    dropped: tuple[DroppedAddition, ...]
    texts: tuple[ChangedText, ...]
    """In the order of their files."""
    before: tuple[Outcome, ...]
    after: tuple[Outcome, ...]
    """Of the same tasks, with all that is kept."""


def rate_outcome(outcome: Outcome) -> int:
    """Return how good an answer is: 2 for the right skill, 1 for a list that has it."""
    return outcome.is_right() + outcome.is_right(is_strict=True)


def improve(
    copy: EditedCopy,
    prompts: Sequence[Prompt],
    words: Sequence[WordAddition],
    find_tasks: Callable[[Sequence[KeptAddition]], Iterable[TaskAddition]],
    on_progress: OnProgress = ignore_progress,
) -> Improvement:
    """Try additions one after the other, and keep those that help and harm no task.

    Blocking.

    Args:
        copy: Of what is served.
        prompts: All tasks with known answers.
        words: Keywords, the best ones first.
        find_tasks: Returns example tasks, by the keywords that are kept. The first ones
            of a skill are added, if it is the answer then.
        on_progress: Called after each addition.
    """
    trials = _Trials(copy, prompts)
    queue = words[:MOST_TRIED]
    for each in words[MOST_TRIED:]:
        trials.drop(each, "limit", f"only {MOST_TRIED} additions are tried at once")
    for done, each in enumerate(queue, 1):
        trials.try_words(each)
        on_progress(done, len(queue))
    for each in _join(trials.idle):
        trials.try_words(each)
    trials.add_tasks(find_tasks(tuple(trials.kept)))
    return trials.conclude()


def _join(idle: Mapping[str, Sequence[str]]) -> Iterator[WordAddition]:
    """Iterate over words that change nothing alone, as they may together."""
    for skill, words in idle.items():
        for number in range(2, min(len(words), MOST_TOGETHER) + 1):
            yield WordAddition(skill, tuple(words[:number]))


class _Trials:
    """What was kept so far, and what it does."""

    def __init__(self, copy: EditedCopy, prompts: Sequence[Prompt]) -> None:
        self._copy = copy
        self._served = copy.served
        self._prompts = prompts
        self._before = measure_snapshot(prompts, copy.served)
        self._outcomes = self._before
        self._places: dict[Path, EditableText] = {}
        self._texts: dict[Path, bytes] = {}
        self.kept: list[KeptAddition] = []
        self._dropped: dict[Addition, DroppedAddition] = {}
        self.idle: defaultdict[str, list[str]] = defaultdict(list)
        """By skill, the words that no task gets better by when they are alone."""

    def drop(self, addition: Addition, reason: Reason, detail: str) -> None:
        """Leave an addition out of the diff."""
        self._dropped[addition] = DroppedAddition(addition, reason, detail)

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
            self.drop(addition, "unsafe", str(error))
            return
        outcomes = measure_snapshot(self._prompts, snapshot)
        gains, losses = _compare(self._outcomes, outcomes)
        if losses:
            self.drop(addition, "harm", losses[0])
        elif not gains:
            if not is_joined:
                self.idle[addition.skill] += addition.words
                self.drop(addition, "no-gain", "")
        else:
            self._keep(KeptAddition(addition, gains), location, new)
            self._outcomes = outcomes

    def add_tasks(self, additions: Iterable[TaskAddition]) -> None:
        """Keep the first example tasks of each skill whose answer it is."""
        number: Counter[str] = Counter()
        before = dict(self._texts)
        for each in additions:
            if number[each.skill] < MOST_EXAMPLES and self._answers(each):
                number[each.skill] += 1
                self._add_task(each)
        # An example changes no answer, so that all of them are served at once.
        snapshot = self._copy.serve(self._texts) if number else self._served
        for skill in map(self._served.index.require, number):
            if not _is_kept(skill, snapshot):
                self._take_tasks_back(skill, before)

    def _answers(self, addition: TaskAddition) -> bool:
        return any(
            each.answers == (addition.skill,) and each.is_right(is_strict=True)
            for each in self._outcomes
            if each.prompt.query == addition.task
        )

    def _add_task(self, addition: TaskAddition) -> None:
        skill = self._served.index.require(addition.skill)
        try:
            location, new = self._edit(skill, partial(add_example, task=addition.task))
        except (UnsafeAdditionError, UneditableError) as error:
            self.drop(addition, "unsafe", str(error))
        else:
            self._keep(KeptAddition(addition, ()), location, new)

    def _take_tasks_back(self, skill: Skill, before: Mapping[Path, bytes]) -> None:
        """Leave the example tasks of a skill out again: they broke it."""
        location = self._locate(skill)
        del self._texts[location]
        if location in before:
            self._texts[location] = before[location]
        for each in tuple(self.kept):
            addition = each.addition
            if isinstance(addition, TaskAddition) and addition.skill == skill.path:
                self.kept.remove(each)
                self.drop(addition, "unsafe", _MISREAD)

    def conclude(self) -> Improvement:
        """Return what is left, judged together once more."""
        after = self._before
        if self._texts:
            after = measure_snapshot(self._prompts, self._copy.serve(self._texts))
        texts = (
            ChangedText(self._places[each], new) for each, new in self._texts.items()
        )
        return Improvement(
            kept=tuple(self.kept),
            dropped=tuple(self._dropped.values()),
            texts=tuple(
                sorted(texts, key=lambda t: (t.place.source.name, t.place.file))
            ),
            before=self._before,
            after=after,
        )

    def _keep(self, kept: KeptAddition, location: Path, new: bytes) -> None:
        self.kept.append(kept)
        self._texts[location] = new
        if isinstance(kept.addition, WordAddition):
            skill, words = kept.addition.skill, kept.addition.words
            idle = self.idle[skill]
            self.idle[skill] = [word for word in idle if word not in words]
            for word in words:
                self._dropped.pop(WordAddition(skill, (word,)), None)

    def _serve(
        self, skill: Skill, change: Callable[..., bytes]
    ) -> tuple[Path, bytes, Snapshot]:
        """Return what would be served if the text of a skill were changed, too.

        Raises:
            UnsafeAdditionError: The skill would not be the same in all else.
            UneditableError: The text cannot be changed.
        """
        location, new = self._edit(skill, change)
        snapshot = self._copy.serve({**self._texts, location: new})
        if not _is_kept(skill, snapshot):
            raise UnsafeAdditionError(_MISREAD)
        return location, new, snapshot

    def _locate(self, skill: Skill) -> Path:
        assert skill.location is not None, "it was read"  # noqa: S101
        return skill.location

    def _edit(self, skill: Skill, change: Callable[..., bytes]) -> tuple[Path, bytes]:
        text = self._copy.read(skill)
        location = self._locate(skill)
        self._places[location] = text
        raw = self._texts.get(location, text.raw)
        is_package = is_main(skill.file.rpartition("/")[2])
        return location, change(raw, is_package=is_package)


def _is_kept(skill: Skill, snapshot: Snapshot) -> bool:
    """Whether a skill is the same in all that no addition may change."""
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
    """Return the tasks whose answers are better, and those whose are worse."""
    rated = [
        (new.prompt.query, rate_outcome(new) - rate_outcome(old))
        for old, new in zip(before, after, strict=True)
    ]
    gains = tuple(query for query, change in rated if change > 0)
    return gains, tuple(query for query, change in rated if change < 0)
