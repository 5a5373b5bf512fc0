"""The review of suggestions: recorded tasks, evidence, effect, patches and branches.

`PickTally` learns the right skills from events, `derive_missing_words` names the words
these skills lack, `try_additions` accepts the helpful ones on a copy of the content,
`SuggestionReview` has the result, and `propose` sends a branch for each skill.

Rule: an addition is proposed once. What was sent is recorded on this machine, and in a
trailer of each commit, so that a machine without the record knows the branches that are
there, and what was merged, also in part.
"""

import json
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import date
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import click
from rich.table import Table

from skills_mcp.cli.terminal import open_console, shorten, tabulate
from skills_mcp.errors import SyncError
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, diff_outcomes, evaluate_snapshot
from skills_mcp.features.authoring.prompts import Prompt, collect_evals, collect_examples
from skills_mcp.features.report.pick_evidence import (
    MIN_TASKS,
    KnownTask,
    MissingWord,
    PickCounts,
    PickRecord,
    derive_missing_words,
    find_terms,
    join_counts,
)
from skills_mcp.features.report.skill_additions import (
    MAX_WORDS_TOGETHER,
    AcceptedAddition,
    Addition,
    ChangedText,
    ClauseAddition,
    Improvement,
    LaterAdditions,
    Patch,
    RejectedAddition,
    RejectionReason,
    TaskAddition,
    UnsafeAdditionError,
    WordAddition,
    add_deprecation,
    compose_patches,
    rate_outcome,
    try_additions,
)
from skills_mcp.features.report.usage_report import Rivalry, Span, UsageReport
from skills_mcp.files.durable import write_text_atomically
from skills_mcp.library import (
    RemoteBranch,
    SkillLibrary,
    Snapshot,
    TextReplacement,
    UneditableError,
    WorkingCopy,
)
from skills_mcp.library.source_edits import SkillReview, SkillTarget, propose_skill
from skills_mcp.routing.lexicon import stem
from skills_mcp.skills.model import Skill, escape_unprintable
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.skills.skill_parser import derive_slug
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


def find_clauses(
    index: SkillIndex,
    words: Sequence[MissingWord],
    idle: Mapping[str, Sequence[str]],
    outcomes: Sequence[Outcome],
) -> Iterator[ClauseAddition]:
    """Clauses with words that change no answer: of their skill, and of those listed with it."""
    answers = {each.prompt.query: each for each in outcomes}
    for skill, left in idle.items():
        known = [item for item in words if item.skill == skill and item.word in left]
        chosen = known[:MAX_WORDS_TOGETHER]
        if chosen:
            yield ClauseAddition(skill, tuple(item.word for item in chosen))
        tasks = dict.fromkeys(task for item in chosen for task in item.tasks)
        listed = Counter(
            path
            for task in tasks
            if task in answers
            for path in set(answers[task].answers).difference(answers[task].prompt.expect)
        )
        for rival in sorted(path for path, count in listed.items() if count >= MIN_TASKS):
            terms = find_terms(index.require(rival))
            foreign = tuple(item.word for item in chosen if stem(item.word) not in terms)
            if foreign:
                yield ClauseAddition(rival, foreign, skill)


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
        right = find_right(addition)
        found = (self.words[right, word] for word in addition.words)
        return tuple(dict.fromkeys(task for missing in found for task in missing.tasks))

    def count_picks(self, addition: Addition) -> PickCounts:
        tasks, right = set(self.find_tasks(addition)), find_right(addition)
        return join_counts(
            [
                task.right[right]
                for task in self.record.tasks
                if task.task in tasks and right in task.right
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


def find_right(addition: Addition) -> str:
    """The skill that was picked."""
    other = addition.other if isinstance(addition, ClauseAddition) else ""
    return other or addition.skill


def suggest(
    library: SkillLibrary,
    record: PickRecord,
    on_progress: OnProgress = ignore_progress,
    is_settled: Callable[[str, str], bool] = lambda _skill, _text: False,
) -> SuggestionReview:
    """Suggest additions to the served skills.  Blocking.

    A keyword, a clause or an example of a skill is left out if `is_settled`.

    The library has loaded its vectors; `on_progress` is called after each trial.

    Raises:
        SyncError: The content cannot be copied.
    """

    def is_open(addition: Addition) -> bool:
        return not any(is_settled(addition.skill, key) for key in addition.keys)

    with library.edited_copy() as copy:
        snapshot = copy.served
        index, matcher = snapshot.index, snapshot.matcher
        known = collect_known(index, record)
        outcomes = evaluate_snapshot(known, snapshot)
        unsettled = {
            item.prompt.query for item in outcomes if item.prompt.expect and is_unanswered(item)
        }
        missing = derive_missing_words(record.tasks, unsettled, index, matcher)
        words = [item for item in missing if not is_settled(item.skill, item.word)]

        def find_open_clauses(
            idle: Mapping[str, Sequence[str]], outcomes: Sequence[Outcome]
        ) -> Iterable[ClauseAddition]:
            return filter(is_open, find_clauses(index, words, idle, outcomes))

        def find_open_tasks(accepted: Sequence[AcceptedAddition]) -> Iterable[TaskAddition]:
            return filter(is_open, find_example_tasks(index, record, words, accepted))

        improvement = try_additions(
            copy,
            (*known, *collect_answered(snapshot, record)),
            [WordAddition(item.skill, (item.word,)) for item in words],
            LaterAdditions(find_open_clauses, find_open_tasks),
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
        "suggestions": [
            {**_render_addition(item.addition, review), "better": list(item.gains)}
            for item in improvement.accepted
        ],
        "left_out": [_render_rejected(item, review) for item in improvement.rejected],
        "effect": {o: asdict(review.measure_effect(o)) for o in get_args(TaskOrigin)},
        "changes": [_render_change(*item) for item in review.changes],
        "pairs": [_render_pair(item) for item in review.pairs],
        "sources": [_render_patch(item) for item in patches],
        "notes": list(notes),
    }


def _render_rejected(dropped: RejectedAddition, review: SuggestionReview) -> dict[str, Any]:
    shared = _render_addition(dropped.addition, review)
    return {**shared, "reason": dropped.reason, "detail": dropped.detail}


_KINDS = {WordAddition: "keywords", ClauseAddition: "clause", TaskAddition: "example"}


def _render_addition(addition: Addition, review: SuggestionReview) -> dict[str, Any]:
    counts = review.count_picks(addition)
    return {
        "skill": addition.skill,
        "kind": _KINDS[type(addition)],
        "keywords": list(addition.words) if isinstance(addition, WordAddition) else [],
        "clause": addition.text if isinstance(addition, ClauseAddition) else "",
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


_MAX_PRINTED = 5  # tasks of one suggestion, and pairs of skills; --json has all
_MOST_ROWS = 40  # of a table
_SHOWN_CHARACTERS = 100

_ROWS: Mapping[TaskOrigin, str] = {
    "library": "Examples and evals of the skills",
    "picked": "Recorded tasks with a known answer",
    "answered": "Recorded tasks that one skill answered",
}

_REASONS: Mapping[RejectionReason, str] = {
    "no-gain": "no task gets a better answer by it",
    "harm": "the task in brackets would get a worse answer",
    "unsafe": "only a person can change the file safely",
    "limit": "too many were suggested",
}


# No line that is printed begins with a word of a task: `git apply` skips all that
# stands before the diff, as long as it does not look like one.


def print_review(
    review: SuggestionReview, span: Span, patches: Sequence[Patch], notes: Iterable[str]
) -> None:
    click.echo(_headline(review, span))
    for note in notes:
        click.echo(f"- {note}")
    _print_accepted(review)
    _print_rejected(review)
    if not review.record.picks or review.record.unreadable:
        _print_pairs(review)
    if review.improvement.accepted:
        _print_effect(review)
        _print_diff(patches)
    if sys.stderr.isatty() and not sys.stdout.isatty():
        click.echo(_describe_output(review, patches), err=True)


def _describe_output(review: SuggestionReview, patches: Sequence[Patch]) -> str:
    """Describe the written file: nothing else is on the terminal."""
    if not patches:
        return "Nothing to change is suggested. The output says why; it has no diff."
    suggestions = count_noun(len(review.improvement.accepted), "suggestion")
    if _are_separate_repositories(patches):
        return f"{suggestions}. The output has no diff yet: choose one with --source."
    return f"{suggestions}. Read the output, then run git apply with it {patches[0].where}"


def _headline(review: SuggestionReview, span: Span) -> str:
    tasks = review.record.tasks
    counts = join_counts([pick_counts for task in tasks for pick_counts in task.right.values()])
    people = f" of {count_noun(len(counts.people), 'person')}" if counts.people else ""
    return (
        f"{span.first} to {span.last}: {count_noun(len(tasks), 'task')} with a known "
        f"answer, by {count_noun(counts.picks, 'pick')}{people}"
    )


def _print_accepted(review: SuggestionReview) -> None:
    if not review.improvement.accepted:
        click.echo(f"\nNothing to change is suggested. {_describe_nothing(review)}".rstrip())
        return
    click.echo("\nSuggestions")
    for number, addition in enumerate(review.improvement.accepted, 1):
        click.echo(f"  {number}. {_describe(addition.addition)}")
        click.echo(f"     {_describe_evidence(addition, review)}")
        if not isinstance(addition.addition, TaskAddition):
            _print_tasks(review.find_tasks(addition.addition))


def _describe_nothing(review: SuggestionReview) -> str:
    """Explain the absence of suggestions."""
    if review.improvement.rejected or not review.record.tasks:
        return ""
    effect = review.measure_effect("picked")
    open_tasks = effect.tasks - effect.right_before
    if not effect.tasks:
        return ""
    if not open_tasks:
        return "Every recorded task with a known answer gets that answer."
    return (
        f"Of {count_noun(effect.tasks, 'task')} with a known answer, {open_tasks:,} "
        f"could have a better one, but no word is in {MIN_TASKS} of the same skill "
        "and in fewer of any other."
    )


def _describe(addition: Addition) -> str:
    skill = escape_unprintable(addition.skill)
    if isinstance(addition, TaskAddition):
        return f"{skill}: add the example task {_shorten(addition.task)!r}"
    if isinstance(addition, ClauseAddition):
        return f"{skill}: add to the description {escape_unprintable(addition.text)!r}"
    noun = "keyword" if len(addition.words) == 1 else "keywords"
    return f"{skill}: add the {noun} {', '.join(map(escape_unprintable, addition.words))}"


def _describe_evidence(addition: AcceptedAddition, review: SuggestionReview) -> str:
    counts = review.count_picks(addition.addition)
    tasks = len(review.find_tasks(addition.addition))
    right = find_right(addition.addition)
    other = f"{escape_unprintable(right)} " if right != addition.addition.skill else ""
    evidence = f"{other}picked {_times(counts.picks)} on {count_noun(len(counts.days), 'day')}"
    if counts.people:
        evidence += f" by {count_noun(len(counts.people), 'person')}"
    if isinstance(addition.addition, TaskAddition):
        return evidence
    return f"{count_noun(tasks, 'task')}, {evidence}; better answers: {len(addition.gains)}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _print_tasks(tasks: Sequence[str]) -> None:
    for task in tasks[:_MAX_PRINTED]:
        click.echo(f"     - {_shorten(task)}")
    _print_rest(len(tasks))


def _print_rest(number: int) -> None:
    if number > _MAX_PRINTED:
        click.echo(f"     and {number - _MAX_PRINTED} more: see --json")


def _print_rejected(review: SuggestionReview) -> None:
    grouped: defaultdict[RejectionReason, list[RejectedAddition]] = defaultdict(list)
    for addition in review.improvement.rejected:
        grouped[addition.reason].append(addition)
    if grouped:
        click.echo("\nConsidered and left out of the diff")
    for reason, group in grouped.items():
        click.echo(f"  {len(group)}, because {_REASONS[reason]}:")
        for addition in group[:_MAX_PRINTED]:
            detail = f" ({_shorten(addition.detail)})" if addition.detail else ""
            click.echo(f"     - {_describe(addition.addition)}{detail}")
        _print_rest(len(group))


def _print_pairs(review: SuggestionReview) -> None:
    if review.pairs:
        click.echo("\nSkills that compete: agents got both of them to choose from")
    for pair in review.pairs[:_MAX_PRINTED]:
        first, second = pair.skills
        picks = pair.picks
        picked = f", picked {picks[0]} and {picks[1]}" if picks else ""
        click.echo(f"     - {first} and {second}: {_times(pair.count)}{picked}")


def _print_effect(review: SuggestionReview) -> None:
    console = open_console()
    console.print()
    console.print(_tabulate_effect(review))
    if review.changes:
        console.print()
        console.print(_tabulate_changes(review.changes))


def _tabulate_effect(review: SuggestionReview) -> Table:
    columns = ("", "Tasks", "Right before", "after", "In a list before", "after")
    rows = [
        (name, *(f"{number:,}" for number in astuple(review.measure_effect(origin))))
        for origin, name in _ROWS.items()
    ]
    return tabulate(columns, rows, title="Effect on all tasks", numbers=columns[1:])


def _tabulate_changes(changes: Sequence[tuple[Outcome, Outcome]]) -> Table:
    rows = [
        (
            _shorten(new.prompt.query),
            _list(new.prompt.expect) if new.prompt.expect else "another skill",
            _list(old.answers),
            _list(new.answers),
        )
        for old, new in changes[:_MOST_ROWS]
    ]
    columns = ("Task", "Right", "Before", "After")
    table = tabulate(columns, rows, title="Answers that change", show_lines=True)
    if len(changes) > _MOST_ROWS:
        table.caption = f"and {len(changes) - _MOST_ROWS} more: see --json"
    return table


def _list(paths: Iterable[str]) -> str:
    return "\n".join(map(escape_unprintable, paths)) or "no skill"


def _print_diff(patches: Sequence[Patch]) -> None:
    if _are_separate_repositories(patches):
        click.echo("\nThe changes are of several repositories. Print the diff of one:")
        for patch in patches:
            click.echo(f"     --source {patch.name}  ({patch.source.name})")
        return
    click.echo(
        f"\nThe diff. Write this output to suggestions.patch, read it, and run {patches[0].where}:"
    )
    folder = shlex.quote(patches[0].source.folder) if len(patches) == 1 else "."
    click.echo("     git apply suggestions.patch")
    click.echo(f"     skills-mcp test --skills-dir {folder}\n")
    diff = b"".join(patch.diff for patch in patches)
    if sys.stdout.isatty():
        diff = _escape(diff)
    click.echo(diff, nl=False)


def _are_separate_repositories(patches: Sequence[Patch]) -> bool:
    return len({patch.source.top for patch in patches}) > 1


def _escape(diff: bytes) -> bytes:
    """Remove control characters from a diff for the terminal; Git reads the raw one."""
    lines = diff.decode("utf-8").split("\n")
    escaped = ("\t".join(map(escape_unprintable, line.split("\t"))) for line in lines)
    return "\n".join(escaped).encode("utf-8")


def _shorten(text: str) -> str:
    return shorten(escape_unprintable(" ".join(text.split())), _SHOWN_CHARACTERS)


_BRANCHES = "skills/suggest-"
_BRANCH_DIGITS = 12
_MAX_SLUG = 64
_MAX_TASKS = 5  # of one addition in a message
_UNSERVED = "No agent got it"
_TRAILER = "Skills-Suggestion"
_MAX_COMMITS = 1000  # in which the last change of a skill is looked for


@dataclass(frozen=True, slots=True)
class SentSuggestion:
    skill: str
    review: SkillReview | None
    """None if it was not sent."""
    reason: str = ""
    """Why it was not sent."""


class ProposalRecord:
    """The additions that were proposed from this machine; digests, as tasks are private."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def load(self) -> frozenset[str]:
        try:
            return frozenset(map(str, json.loads(self._file.read_text("utf-8"))))
        except FileNotFoundError:
            return frozenset()

    def add(self, keys: Collection[str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        known = sorted(self.load() | set(keys))
        write_text_atomically(self._file, f"{json.dumps(known, indent=1)}\n")


def load_known(library: SkillLibrary, record: ProposalRecord) -> frozenset[str]:
    """Load the keys of this machine's record, and of the repositories.

    Raises:
        SyncError: A repository does not answer.
    """
    repositories = (mount.source for mount in library.mounts.mounts)
    read = (
        each.read_trailers(_TRAILER, _BRANCHES)
        for each in repositories
        if isinstance(each, RemoteBranch)
    )
    return record.load().union(*read)


def derive_key(skill: str, text: str) -> str:
    """Key of one word, clause or example of a skill."""
    return sha256(json.dumps([skill, text]).encode()).hexdigest()


def propose(
    library: SkillLibrary, review: SuggestionReview, record: ProposalRecord
) -> Iterator[SentSuggestion]:
    """Push a branch for each changed skill of a repository, and yield its outcome."""
    texts = dict(zip(_find_skills(library, review), review.improvement.texts, strict=True))
    for skill, text in texts.items():
        accepted = [a for a in review.improvement.accepted if a.addition.skill == skill]
        mount = library.mounts.find(text.editable.source.mount)
        repository = mount.source if mount else None
        if not isinstance(repository, RemoteBranch):
            yield SentSuggestion(skill, None, "its source is a folder: apply the diff")
            continue
        target = SkillTarget(Path(), "", "", repository)
        additions = [each.addition for each in accepted]
        keys = [derive_key(each.skill, key) for each in additions for key in each.keys]
        change = _compose_change(skill, text, _compose_message(skill, accepted, review), keys)
        try:
            sent = propose_skill(target, change, library.config.web.forges)
        except SyncError as error:
            yield SentSuggestion(skill, None, str(error))
            continue
        record.add(keys)
        yield SentSuggestion(skill, sent)


def propose_deprecations(
    library: SkillLibrary, report: UsageReport, record: ProposalRecord, known: Collection[str]
) -> Iterator[SentSuggestion]:
    """Push a branch for each skill that no agent got in the days of a report.

    Left out is a skill that has changed in these days, and all where events do not go
    back to the first of them.
    """
    if not report.skills or report.counts.oldest is None or report.counts.oldest > report.since:
        return
    snapshot = library.view().snapshot
    reason = f"{_UNSERVED} from {report.since} to {report.until}."
    with library.edited_copy() as copy:
        for unserved in report.unserved or ():
            skill = snapshot.index.require(unserved.skill)
            key = derive_key(skill.path, _UNSERVED)
            if skill.always_apply or skill.lifecycle.marked_status or key in known:
                continue
            try:
                sent = _deprecate(library, copy, skill, report.since, reason)
            except (SyncError, UneditableError, UnsafeAdditionError) as error:
                yield SentSuggestion(skill.path, None, str(error))
                continue
            if sent:
                record.add([key])
                yield SentSuggestion(skill.path, sent)


def _deprecate(
    library: SkillLibrary, copy: WorkingCopy, skill: Skill, since: date, reason: str
) -> SkillReview | None:
    """Push the branch of one skill; None if it is of a folder, or has changed since."""
    editable = copy.read(skill)
    mount = library.mounts.find(editable.source.mount)
    repository = mount.source if mount else None
    commit = library.view().snapshot.content.commit
    if not isinstance(repository, RemoteBranch) or commit is None or skill.location is None:
        return None
    history = repository.history.read(commit, [editable.file], _MAX_COMMITS)
    if not history or history[0].at.date() >= since:
        return None
    new = add_deprecation(editable.raw, reason)
    before, after = copy.serve({}), copy.serve({skill.location: new})
    marked = after.index.get(skill.path)
    if marked is None or not marked.lifecycle.is_deprecated:
        raise UnsafeAdditionError("its frontmatter cannot be read with the mark")
    tasks = collect_examples(before.index)
    outcomes = (evaluate_snapshot(tasks, each) for each in (before, after))
    changed = sum(1 for _ in diff_outcomes(*outcomes))
    message = (
        f"Deprecate {skill.path}\n\n{reason}\n\nOf {count_noun(len(tasks), 'example task')}, "
        f"{changed:,} would get another answer. Merge it, name what replaces the skill, or "
        "decline it: it is proposed once.\n"
    )
    key = derive_key(skill.path, _UNSERVED)
    change = _compose_change(skill.path, ChangedText(editable, new), message, [key])
    target = SkillTarget(Path(), "", "", repository)
    return propose_skill(target, change, library.config.web.forges)


def _find_skills(library: SkillLibrary, review: SuggestionReview) -> Iterator[str]:
    """The skill of each changed text."""
    snapshot = library.view().snapshot
    skills = dict.fromkeys(each.addition.skill for each in review.improvement.accepted)
    with library.edited_copy() as copy:
        files = {
            (read.source, read.file): path
            for path in skills
            for read in (copy.read(snapshot.index.require(path)),)
        }
    for text in review.improvement.texts:
        yield files[text.editable.source, text.editable.file]


def _compose_change(
    skill: str, text: ChangedText, message: str, keys: Sequence[str]
) -> TextReplacement:
    trailers = "".join(f"{_TRAILER}: {key}\n" for key in keys)
    digest = sha256(text.editable.raw + b"\0" + text.new).hexdigest()[:_BRANCH_DIGITS]
    branch = f"{_BRANCHES}{derive_slug(skill)[:_MAX_SLUG]}-{digest}"
    texts = (text.editable.raw, text.new)
    return TextReplacement(text.editable.file, *texts, branch, f"{message}\n{trailers}")


def _compose_message(
    skill: str, accepted: Sequence[AcceptedAddition], review: SuggestionReview
) -> str:
    lines = [f"Let more tasks find {skill}", ""]
    for each in accepted:
        lines += _describe_accepted(each, review.count_picks(each.addition))
    lines += ["", "All suggestions of this report together:"]
    for origin in ("picked", "answered", "library"):
        effect = review.measure_effect(origin)
        lines.append(
            f"- {count_noun(effect.tasks, 'task')} ({origin}): the right skill answered "
            f"{effect.right_before}, and now {effect.right_after}"
        )
    return "\n".join((*lines, ""))


def _describe_accepted(accepted: AcceptedAddition, counts: PickCounts) -> Iterator[str]:
    addition = accepted.addition
    if isinstance(addition, WordAddition):
        yield f"Keywords: {', '.join(addition.words)}"
    elif isinstance(addition, ClauseAddition):
        yield f"Clause: {addition.text}"
        if not accepted.gains:
            yield "- no answer changes: agents choose from a list by descriptions"
    else:
        yield f"Example: {addition.task}"
    right = find_right(addition)
    other = f" of {right}" if right != addition.skill else ""
    yield f"- {count_noun(counts.picks, 'pick')}{other} on {count_noun(len(counts.days), 'day')}"
    yield from (f"- now found: {task}" for task in accepted.gains[:_MAX_TASKS])
    if more := len(accepted.gains[_MAX_TASKS:]):
        yield f"- and {count_noun(more, 'more task')}"
