"""`skills-mcp report --suggest`: what to add to skills, by what agents picked."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from skills_mcp.analytics.privacy import Privacy
from skills_mcp.authoring.evaluation import (
    Outcome,
    Prompt,
    collect_evals,
    collect_examples,
    measure,
)
from skills_mcp.authoring.improvement import (
    ChangedText,
    DroppedAddition,
    Improvement,
    KeptAddition,
    TaskAddition,
    WordAddition,
    improve,
    rate_outcome,
)
from skills_mcp.bootstrap import Options, build, find_home
from skills_mcp.cli.report import (
    ReportOptions,
    find_counting,
    open_database,
    parse_span,
    read_events,
)
from skills_mcp.cli.sync import load_snapshot
from skills_mcp.cli.terminal import open_console, print_json, showing_progress
from skills_mcp.config import Analytics
from skills_mcp.library import SkillLibrary, Snapshot
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import printable
from skills_mcp.text.redaction import HIDDEN
from skills_mcp.text.rendering import plural
from skills_mcp.usage import EventFilesError, Span, derive_current_skills
from skills_mcp.usage.picks import (
    PICK_KINDS,
    KnownTask,
    PickCounts,
    PickRecord,
    PickTally,
    join_counts,
)
from skills_mcp.usage.suggestions import (
    LEAST_TASKS,
    WordSuggestion,
    derive_word_suggestions,
)
from skills_mcp.usage.usage_report import Rivalry

_MOST_TASKS = 500
"""Recorded tasks that are routed again with each addition; those with most picks."""

_MOST_CHARACTERS = 200
"""Of an example task: a longer one is a page that somebody pasted."""

_OFTEN = 2
"""Picks of one task that make it an example by itself."""

_BOTH_RIGHT = 4
"""A skill that is picked a quarter as often as another is right as well."""

_MOST_SHOWN = 5  # tasks of one suggestion, and pairs of skills; --json has all
_MOST_ROWS = 40  # of a table
_SHOWN_CHARACTERS = 100

_PICKED, _ANSWERED = "picked", "answered"
"""The origins of recorded tasks: agents have shown what is right, or have not."""

_ROWS = (
    ("library", "Examples and evals of the skills"),
    (_PICKED, "Recorded tasks with a known answer"),
    (_ANSWERED, "Recorded tasks that one skill answered"),
)

_SET_CONTEXT = (
    "Set analytics.context to redacted, in your own config.yaml or as "
    "ANALYTICS_CONTEXT=redacted on each machine; tasks that are recorded already "
    "do not change."
)

_REASONS = {
    "no-gain": "no task gets a better answer by it",
    "harm": "another task would get a worse answer",
    "unsafe": "its frontmatter cannot be changed safely",
    "limit": "too many were suggested",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suggested:
    """All that is printed."""

    span: Span
    record: PickRecord
    snapshot: Snapshot
    evidence: Mapping[tuple[str, str], WordSuggestion]
    """By the skill and the word."""
    improvement: Improvement
    chosen: tuple[ChangedText, ...]
    """Those of the source whose diff is printed."""
    notes: tuple[str, ...]


def print_suggestions(
    options: Options, environment: Mapping[str, str], wanted: ReportOptions
) -> None:
    """Suggest additions, and print them with their effect and as a diff.

    Raises:
        ConfigError: The settings cannot be used.
        SyncError: There is no content.
    """
    _refuse_others(wanted)
    span = parse_span(wanted)
    application = build(options, environment)
    snapshot = load_snapshot(application)
    application.library.wait_for_vectors()
    answer = derive_current_skills(snapshot).answer
    record = _load_record(environment, wanted, span).derive(answer)
    prompts = _collect_prompts(snapshot.index, record)
    words = _derive_words(snapshot, record, prompts)
    prompts += _derive_answered(snapshot, record)
    improvement = _try(application.library, snapshot, record, prompts, words)
    suggested = _Suggested(
        span=span,
        record=record,
        snapshot=snapshot,
        evidence={(each.skill, each.word): each for each in words},
        improvement=improvement,
        chosen=_choose(improvement.texts, wanted.source),
        notes=(
            *_derive_notes(options, environment, wanted, record),
            *_derive_doubts(improvement),
        ),
    )
    if wanted.as_json:
        print_json(_render(suggested))
    else:
        _print(suggested)


def _refuse_others(wanted: ReportOptions) -> None:
    others = {"--html": wanted.html, "--by": wanted.by, "--around": wanted.around}
    if given := [name for name, value in others.items() if value]:
        raise click.UsageError(
            f"--suggest and {given[0]} exclude each other: the one is about what to "
            "change, the other about what was. Name one of them."
        )


def _load_record(
    environment: Mapping[str, str], wanted: ReportOptions, span: Span
) -> PickTally:
    tally = PickTally(span, partial(_hide, environment))
    if not wanted.database:
        try:
            for event in read_events(environment, wanted):
                tally.add(event)
        except EventFilesError as error:
            raise click.UsageError(str(error)) from error
        return tally
    store = open_database(wanted)
    try:
        for event in store.events(span.first, span.last, kinds=PICK_KINDS):
            tally.add(event)
    finally:
        store.close()
    return tally


def _hide(environment: Mapping[str, str], text: str) -> str:
    """Return a task without secrets, addresses and names of folders.

    What is printed here may become a file that many people read, so the rules of
    `analytics.context: redacted` hold, also for tasks that were recorded in full.
    """
    privacy = Privacy(find_home(environment) / "analytics.key", environment)
    hidden = privacy.hide({"context": text}, Analytics(context="redacted"))
    return str(hidden["context"])


def _collect_prompts(index: SkillIndex, record: PickRecord) -> tuple[Prompt, ...]:
    """Return all tasks whose answers may not become worse.

    What an author says of a task counts more than what agents have picked.
    """
    evals, _ = collect_evals(index)
    own = tuple(dict.fromkeys((*collect_examples(index), *evals)))
    known = {prompt.query for prompt in own}
    asked = (
        prompt
        for task in record.tasks
        if task.task not in known and (prompt := _derive_prompt(task, index))
    )
    return (*own, *islice(asked, _MOST_TASKS))


def _derive_answered(snapshot: Snapshot, record: PickRecord) -> tuple[Prompt, ...]:
    """Return tasks that one skill answered without a complaint, and answers now.

    They say nothing about what is missing, but an addition may not take their skill.
    """
    prompts = [
        Prompt(query=each.task, expect=(each.skill,), origin=_ANSWERED)
        for each in record.answered[:_MOST_TASKS]
    ]
    return tuple(o.prompt for o in _measure(prompts, snapshot) if not _is_open(o))


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
        origin=_PICKED,
    )


def _derive_words(
    snapshot: Snapshot, record: PickRecord, prompts: Sequence[Prompt]
) -> tuple[WordSuggestion, ...]:
    outcomes = _measure(prompts, snapshot)
    unsettled = {o.prompt.query for o in outcomes if o.prompt.expect and _is_open(o)}
    index, matcher = snapshot.index, snapshot.matcher
    return derive_word_suggestions(record.tasks, unsettled, index, matcher)


def _measure(prompts: Sequence[Prompt], snapshot: Snapshot) -> tuple[Outcome, ...]:
    matching = snapshot.config.matching
    return measure(prompts, snapshot.matcher, matching, snapshot.index)


def _is_open(outcome: Outcome) -> bool:
    """Whether one right skill is not the answer."""
    return not outcome.is_right(is_strict=True)


def _try(
    library: SkillLibrary,
    snapshot: Snapshot,
    record: PickRecord,
    prompts: Sequence[Prompt],
    words: Sequence[WordSuggestion],
) -> Improvement:
    additions = [WordAddition(each.skill, (each.word,)) for each in words]
    find_tasks = partial(_find_tasks, snapshot.index, record, words)
    with (
        library.edited_copy() as copy,
        showing_progress("Trying suggestions") as on_progress,
    ):
        return improve(copy, prompts, additions, find_tasks, on_progress)


def _find_tasks(
    index: SkillIndex,
    record: PickRecord,
    words: Sequence[WordSuggestion],
    kept: Sequence[KeptAddition],
) -> tuple[TaskAddition, ...]:
    """Return example tasks: those that show what a word is for, and frequent ones."""
    shown = {
        (each.skill, task)
        for each in words
        for addition in _word_additions(kept)
        if addition.skill == each.skill and each.word in addition.words
        for task in each.tasks
    }
    known = {example for skill in index for example in skill.examples}
    found = []
    for task in record.tasks:
        path = next(iter(task.right), "")
        if index.get(path) and _is_fit(task, known):
            is_frequent = task.right[path].picks >= _OFTEN
            if is_frequent or (path, task.task) in shown:
                found.append(TaskAddition(path, task.task))
    return tuple(found)


def _word_additions(kept: Iterable[KeptAddition]) -> Iterator[WordAddition]:
    return (k.addition for k in kept if isinstance(k.addition, WordAddition))


def _is_fit(task: KnownTask, known: set[str]) -> bool:
    """Whether a task can stand in a skill: it is short, and tells nothing private."""
    is_short = len(task.task) <= _MOST_CHARACTERS
    return is_short and HIDDEN not in task.task and task.task not in known


def _choose(
    texts: Sequence[ChangedText], source: str | None
) -> tuple[ChangedText, ...]:
    """Return the changes of one source: `git apply` works in one repository.

    Raises:
        click.UsageError: No source that has changes is called so.
    """
    names = _name_sources(texts)
    if source is None:
        return tuple(texts) if len(names) <= 1 else ()
    wanted = {name for name in names if source in name}
    if not wanted:
        shown = ", ".join(_name(each) for each in names) or "none"
        raise click.UsageError(
            f"--source: there is no diff of a source {source!r}. Those with a diff: "
            f"{shown}."
        )
    return tuple(each for each in texts if _source_of(each) in wanted)


def _source_of(text: ChangedText) -> tuple[str, str]:
    return text.place.source.mount, text.place.source.name


def _name_sources(texts: Iterable[ChangedText]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(map(_source_of, texts)))


def _name(source: tuple[str, str]) -> str:
    """Return what `--source` takes: the place in the tree, or else the address."""
    mount, name = source
    return mount or name


def _derive_notes(
    options: Options,
    environment: Mapping[str, str],
    wanted: ReportOptions,
    record: PickRecord,
) -> Iterator[str]:
    if not record.picks:
        yield (
            "No agent has picked a skill from a list of candidates or near misses in "
            "these days, so there is nothing to learn from."
        )
        is_here = not (wanted.collected or wanted.database)
        if is_here and find_counting(options, environment) == "off":
            yield "Nothing is recorded on this machine: set analytics.enabled to true."
    if record.unreadable:
        yield (
            f"{record.unreadable:,} of {plural(record.picks, 'pick')} cannot be read: "
            f"only a hash of the task was recorded, or nothing. {_SET_CONTEXT}"
        )
    kinds = {
        "with a known answer": record.tasks,
        "that one skill answered": record.answered,
    }
    for kind, tasks in kinds.items():
        if len(tasks) > _MOST_TASKS:
            yield (
                f"Of {len(tasks):,} recorded tasks {kind}, the {_MOST_TASKS} most "
                "frequent ones are tried."
            )


def _derive_doubts(improvement: Improvement) -> Iterator[str]:
    if improvement.kept and not _count(improvement, "library")["tasks"]:
        yield (
            "No skill has an example task, so only recorded tasks say whether an "
            "answer gets worse. Look at the diff with that in mind."
        )


# What programs read


def _render(suggested: _Suggested) -> dict[str, Any]:
    improvement, record = suggested.improvement, suggested.record
    texts = suggested.chosen or improvement.texts
    return {
        "since": suggested.span.first.isoformat(),
        "until": suggested.span.last.isoformat(),
        "algorithm": suggested.snapshot.matcher.algorithm,
        "picks": record.picks,
        "unreadable": record.unreadable,
        "suggestions": [_render_kept(each, suggested) for each in improvement.kept],
        "left_out": [_render_dropped(each, suggested) for each in improvement.dropped],
        "effect": {name: _count(improvement, name) for name, _ in _ROWS},
        "changes": [_render_change(*each) for each in _find_changes(improvement)],
        "pairs": [_render_pair(each) for each in _find_pairs(record)],
        "sources": [_render_source(each, texts) for each in _name_sources(texts)],
        "notes": list(suggested.notes),
    }


def _render_kept(kept: KeptAddition, suggested: _Suggested) -> dict[str, Any]:
    return {**_render_words(kept.addition, suggested), "better": list(kept.gains)}


def _render_dropped(dropped: DroppedAddition, suggested: _Suggested) -> dict[str, Any]:
    shared = _render_words(dropped.addition, suggested)
    return {**shared, "reason": dropped.reason, "detail": dropped.detail}


def _render_change(old: Outcome, new: Outcome) -> dict[str, Any]:
    return {
        "task": new.prompt.query,
        "expect": list(new.prompt.expect),
        "avoid": list(new.prompt.avoid),
        "before": list(old.answers),
        "after": list(new.answers),
        "origin": _find_row(new.prompt),
    }


def _render_pair(pair: Rivalry) -> dict[str, Any]:
    picks = None if pair.picks is None else list(pair.picks)
    return {"skills": list(pair.skills), "count": pair.count, "picks": picks}


def _render_source(
    source: tuple[str, str], texts: Iterable[ChangedText]
) -> dict[str, Any]:
    diff = b"".join(each.diff for each in texts if _source_of(each) == source)
    mount, name = source
    return {"source": name, "mount": mount, "diff": diff.decode("utf-8")}


def _render_words(
    addition: WordAddition | TaskAddition, suggested: _Suggested
) -> dict[str, Any]:
    is_words = isinstance(addition, WordAddition)
    counts = _find_counts(addition, suggested)
    return {
        "skill": addition.skill,
        "kind": "keywords" if is_words else "example",
        "keywords": list(addition.words) if isinstance(addition, WordAddition) else [],
        "tasks": list(_find_evidence(addition, suggested)),
        "picks": counts.picks,
        "people": len(counts.people),
        "days": len(counts.days),
    }


def _find_evidence(
    addition: WordAddition | TaskAddition, suggested: _Suggested
) -> tuple[str, ...]:
    if isinstance(addition, TaskAddition):
        return (addition.task,)
    found = (suggested.evidence[addition.skill, word] for word in addition.words)
    return tuple(dict.fromkeys(task for each in found for task in each.tasks))


def _find_counts(
    addition: WordAddition | TaskAddition, suggested: _Suggested
) -> PickCounts:
    tasks = set(_find_evidence(addition, suggested))
    return join_counts(
        [
            task.right[addition.skill]
            for task in suggested.record.tasks
            if task.task in tasks and addition.skill in task.right
        ]
    )


def _count(improvement: Improvement, row: str) -> dict[str, int]:
    """Count the tasks that get the right skill, and a list that has it."""
    rated = [
        (rate_outcome(old), rate_outcome(new))
        for old, new in zip(improvement.before, improvement.after, strict=True)
        if _find_row(new.prompt) == row
    ]
    before, after = (
        (Counter(each) for each in zip(*rated, strict=True))
        if rated
        else (
            Counter(),
            Counter(),
        )
    )
    return {
        "tasks": len(rated),
        "right_before": before[2],
        "right_after": after[2],
        "listed_before": before[1],
        "listed_after": after[1],
    }


def _find_row(prompt: Prompt) -> str:
    is_recorded = prompt.origin in {_PICKED, _ANSWERED}
    return prompt.origin if is_recorded else "library"


def _find_changes(improvement: Improvement) -> list[tuple[Outcome, Outcome]]:
    pairs = zip(improvement.before, improvement.after, strict=True)
    return [(old, new) for old, new in pairs if set(old.answers) != set(new.answers)]


def _find_pairs(record: PickRecord) -> tuple[Rivalry, ...]:
    """Return the pairs of skills that may still compete."""
    return tuple(each for each in record.rivalries if each.is_still is not False)


# What people read. No line begins with a word of a task: `git apply` skips all that
# stands before the diff, as long as it does not look like one.


def _print(suggested: _Suggested) -> None:
    improvement = suggested.improvement
    _say(_headline(suggested))
    for note in suggested.notes:
        _say(f"- {note}")
    _print_kept(suggested)
    _print_dropped(suggested)
    if not suggested.record.picks or suggested.record.unreadable:
        _print_pairs(suggested.record)
    if improvement.kept:
        _print_effect(improvement)
        _print_diff(suggested)


def _headline(suggested: _Suggested) -> str:
    tasks = suggested.record.tasks
    counts = join_counts([each for task in tasks for each in task.right.values()])
    people = f" of {plural(len(counts.people), 'person')}" if counts.people else ""
    return (
        f"{suggested.span.first} to {suggested.span.last}: "
        f"{plural(len(tasks), 'task')} with a known answer, by "
        f"{plural(counts.picks, 'pick')}{people}"
    )


def _print_kept(suggested: _Suggested) -> None:
    if not suggested.improvement.kept:
        _say(
            f"\nNothing to change is suggested. {_describe_nothing(suggested)}".rstrip()
        )
        return
    _say("\nSuggestions")
    for number, kept in enumerate(suggested.improvement.kept, 1):
        _say(f"  {number}. {_describe(kept.addition)}")
        _say(f"     {_describe_evidence(kept, suggested)}")
        if isinstance(kept.addition, WordAddition):
            _print_tasks(_find_evidence(kept.addition, suggested))


def _describe_nothing(suggested: _Suggested) -> str:
    """Say why there is no suggestion, if the tasks say it."""
    if suggested.improvement.dropped or not suggested.record.tasks:
        return ""
    counted = _count(suggested.improvement, _PICKED)
    open_tasks = counted["tasks"] - counted["right_before"]
    if not open_tasks:
        return "Every recorded task with a known answer gets that answer."
    return (
        f"Of {plural(counted['tasks'], 'task')} with a known answer, {open_tasks:,} "
        f"could have a better one, but no word is in {LEAST_TASKS} of the same skill "
        "and in fewer of any other."
    )


def _describe(addition: WordAddition | TaskAddition) -> str:
    skill = printable(addition.skill)
    if isinstance(addition, TaskAddition):
        return f"{skill}: add the example task {_shorten(addition.task)!r}"
    noun = "keyword" if len(addition.words) == 1 else "keywords"
    return f"{skill}: add the {noun} {', '.join(map(printable, addition.words))}"


def _describe_evidence(kept: KeptAddition, suggested: _Suggested) -> str:
    counts = _find_counts(kept.addition, suggested)
    tasks = len(_find_evidence(kept.addition, suggested))
    said = f"picked {_times(counts.picks)} on {plural(len(counts.days), 'day')}"
    if counts.people:
        said += f" by {plural(len(counts.people), 'person')}"
    if isinstance(kept.addition, TaskAddition):
        return said
    return f"{plural(tasks, 'task')}, {said}; better answers: {len(kept.gains)}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _print_tasks(tasks: Sequence[str]) -> None:
    for task in tasks[:_MOST_SHOWN]:
        _say(f"     - {_shorten(task)}")
    if len(tasks) > _MOST_SHOWN:
        _say(f"     and {len(tasks) - _MOST_SHOWN} more: see --json")


def _print_dropped(suggested: _Suggested) -> None:
    dropped = suggested.improvement.dropped
    if not dropped:
        return
    _say("\nConsidered and left out of the diff")
    grouped: defaultdict[str, list[DroppedAddition]] = defaultdict(list)
    for each in dropped:
        grouped[each.reason].append(each)
    for reason, group in grouped.items():
        _say(f"  {len(group)}, because {_REASONS[reason]}:")
        for each in group[:_MOST_SHOWN]:
            detail = f" ({_shorten(each.detail)})" if each.detail else ""
            _say(f"     - {_describe(each.addition)}{detail}")
        if len(group) > _MOST_SHOWN:
            _say(f"     and {len(group) - _MOST_SHOWN} more: see --json")
        if reason == "no-gain":
            _say(
                "     If one of these words says what the skill is for, write it into "
                "its description: agents choose from a list by that."
            )


def _print_pairs(record: PickRecord) -> None:
    pairs = _find_pairs(record)
    if pairs:
        _say("\nSkills that compete: agents got both of them to choose from")
    for each in pairs[:_MOST_SHOWN]:
        first, second = each.skills
        picks = each.picks
        picked = f", picked {picks[0]} and {picks[1]}" if picks else ""
        _say(f"     - {first} and {second}: {_times(each.count)}{picked}")


def _print_effect(improvement: Improvement) -> None:
    console = open_console()
    console.print()
    console.print(_tabulate_effect(improvement))
    changes = _find_changes(improvement)
    if changes:
        console.print()
        console.print(_tabulate_changes(changes))


def _tabulate_effect(improvement: Improvement) -> Table:
    table = Table(title="Effect on all tasks", title_justify="left")
    for column in ("", "Tasks", "Right before", "after", "In a list before", "after"):
        table.add_column(column, justify="right" if column else "left")
    for row, name in _ROWS:
        counted = _count(improvement, row)
        table.add_row(name, *(f"{number:,}" for number in counted.values()))
    return table


def _tabulate_changes(changes: Sequence[tuple[Outcome, Outcome]]) -> Table:
    table = Table(title="Answers that change", title_justify="left", show_lines=True)
    for column in ("Task", "Right", "Before", "After"):
        table.add_column(column, overflow="fold")
    for old, new in changes[:_MOST_ROWS]:
        right = _list(new.prompt.expect) if new.prompt.expect else "another skill"
        table.add_row(
            escape(_shorten(new.prompt.query)),
            right,
            _list(old.answers),
            _list(new.answers),
        )
    if len(changes) > _MOST_ROWS:
        table.caption = f"and {len(changes) - _MOST_ROWS} more: see --json"
    return table


def _list(paths: Iterable[str]) -> str:
    return escape("\n".join(map(printable, paths))) or "no skill"


def _print_diff(suggested: _Suggested) -> None:
    if not suggested.chosen:
        names = _name_sources(suggested.improvement.texts)
        _say("\nThe changes are of several repositories. Print the diff of one:")
        for each in names:
            _say(f"     --source {_name(each)}  ({each[1]})")
        return
    [source, *_] = _name_sources(suggested.chosen)
    _say(
        f"\nThe diff, for {source[1]}. If this output is in suggestions.patch, run this"
    )
    _say("at the top of a clone of it:")
    _say("     git apply suggestions.patch\n")
    diff = b"".join(each.diff for each in suggested.chosen)
    if sys.stdout.isatty():
        diff = _escape(diff)
    click.echo(diff, nl=False)


def _escape(diff: bytes) -> bytes:
    """Return a diff that gives no orders to a terminal; what Git reads has them."""
    lines = diff.decode("utf-8").split("\n")
    shown = ("\t".join(map(printable, line.split("\t"))) for line in lines)
    return "\n".join(shown).encode("utf-8")


def _say(text: str) -> None:
    click.echo(text)


def _shorten(text: str) -> str:
    line = printable(" ".join(text.split()))
    is_long = len(line) > _SHOWN_CHARACTERS
    return f"{line[: _SHOWN_CHARACTERS - 1]}…" if is_long else line
