"""`skills-mcp report --suggest`: additions to skills from agents' picks."""

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple

import click
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Options, build, find_home, load_operator_config
from skills_mcp.cli.report import (
    ReportOptions,
    find_recording_state,
    open_report_store,
    parse_span,
    read_events,
)
from skills_mcp.cli.sync import sync_and_load
from skills_mcp.cli.terminal import open_console, print_json, progress_bar
from skills_mcp.config import Analytics
from skills_mcp.events.privacy import Privacy
from skills_mcp.features.authoring.evaluation import Outcome
from skills_mcp.features.report import EventFilesError, Span, derive_current_skills
from skills_mcp.features.report.pick_evidence import (
    MIN_TASKS,
    PICK_KINDS,
    PickTally,
    join_counts,
)
from skills_mcp.features.report.report_text import HOW_TO_RECORD
from skills_mcp.features.report.skill_additions import (
    AcceptedAddition,
    Addition,
    Patch,
    RejectedAddition,
    RejectionReason,
    TaskAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestion_review import (
    SET_CONTEXT,
    SuggestionReview,
    TaskOrigin,
    render_review,
    suggest,
)
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import count_noun

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


def print_suggestions(
    options: Options, environment: Mapping[str, str], request: ReportOptions
) -> None:
    """Suggest additions, and print them with their effect and as a diff.

    Raises:
        ConfigError: The settings cannot be used.
        SyncError: There is no content.
    """
    _refuse_others(request)
    span = parse_span(request)
    application = build(options, environment)
    answer = derive_current_skills(sync_and_load(application)).answer
    application.library.current.wait_for_vectors()
    record = _load_picks(environment, request, span).derive(answer)
    with progress_bar("Trying suggestions") as on_progress:
        review = suggest(application.library, record, on_progress)
    patches = _choose(review.patches, request.source)
    notes = (*review.notes, *_describe_recording(review, options, environment, request))
    if request.as_json:
        print_json(render_review(review, span, patches, notes))
    else:
        _print(review, span, patches, notes)


def _refuse_others(request: ReportOptions) -> None:
    others = {"--html": request.html, "--by": request.by, "--around": request.around}
    if used := [name for name, value in others.items() if value]:
        raise click.UsageError(
            f"--suggest and {used[0]} exclude each other: the one is about what to "
            "change, the other about what was. Name one of them."
        )


def _load_picks(environment: Mapping[str, str], request: ReportOptions, span: Span) -> PickTally:
    """Aggregate the picks.

    The output may become a file for many readers, so `analytics.context: redacted`
    applies,
    even to tasks recorded in full.
    """
    privacy = Privacy(find_home(environment) / "analytics.key", environment)
    rules = Analytics(context="redacted")
    tally = PickTally(
        span,
        lambda task: str(privacy.redact_fields({"context": task}, rules)["context"]),
    )
    try:
        for event in _read_events(environment, request, span):
            tally.add(event)
    except EventFilesError as error:
        raise click.UsageError(str(error)) from error
    return tally


def _read_events(
    environment: Mapping[str, str], request: ReportOptions, span: Span
) -> Iterator[object]:
    if request.database is None:
        yield from read_events(environment, request)
        return
    store = open_report_store(request)
    try:
        yield from store.events(span.first, span.last, kinds=PICK_KINDS)
    finally:
        store.close()


def _choose(patches: Sequence[Patch], source: str | None) -> tuple[Patch, ...]:
    """Patches of the requested sources; all without a name.

    Raises:
        click.UsageError: Only other sources have changes.
    """
    if source is None or not patches:
        return tuple(patches)
    chosen = tuple(patch for patch in patches if source in {patch.source.mount, patch.source.name})
    if not chosen:
        names = ", ".join(patch.name for patch in patches)
        raise click.UsageError(
            f"--source: there is no diff of a source {source!r}. Those with a diff: {names}."
        )
    return chosen


def _describe_recording(
    review: SuggestionReview,
    options: Options,
    environment: Mapping[str, str],
    request: ReportOptions,
) -> Iterator[str]:
    """Advice to record picks, if this machine has recorded none."""
    if review.record.picks or request.collected or request.database is not None:
        return
    counting = find_recording_state(options, environment)
    if counting == "refused":
        yield "DO_NOT_TRACK is set here, so nothing is recorded."
    elif counting == "off":
        yield f"Analytics are off on this machine. {HOW_TO_RECORD}"
    elif load_operator_config(options, environment).analytics.context in {
        "hashed",
        "none",
    }:
        yield f"The tasks that this machine records cannot be read. {SET_CONTEXT}"


# No line that is printed begins with a word of a task: `git apply` skips all that
# stands before the diff, as long as it does not look like one.


def _print(
    review: SuggestionReview, span: Span, patches: Sequence[Patch], notes: Iterable[str]
) -> None:
    _say(_headline(review, span))
    for note in notes:
        _say(f"- {note}")
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
        _say(f"\nNothing to change is suggested. {_describe_nothing(review)}".rstrip())
        return
    _say("\nSuggestions")
    for number, addition in enumerate(review.improvement.accepted, 1):
        _say(f"  {number}. {_describe(addition.addition)}")
        _say(f"     {_describe_evidence(addition, review)}")
        if isinstance(addition.addition, WordAddition):
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
    noun = "keyword" if len(addition.words) == 1 else "keywords"
    return f"{skill}: add the {noun} {', '.join(map(escape_unprintable, addition.words))}"


def _describe_evidence(addition: AcceptedAddition, review: SuggestionReview) -> str:
    counts = review.count_picks(addition.addition)
    tasks = len(review.find_tasks(addition.addition))
    evidence = f"picked {_times(counts.picks)} on {count_noun(len(counts.days), 'day')}"
    if counts.people:
        evidence += f" by {count_noun(len(counts.people), 'person')}"
    if isinstance(addition.addition, TaskAddition):
        return evidence
    return f"{count_noun(tasks, 'task')}, {evidence}; better answers: {len(addition.gains)}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _print_tasks(tasks: Sequence[str]) -> None:
    for task in tasks[:_MAX_PRINTED]:
        _say(f"     - {_shorten(task)}")
    _print_rest(len(tasks))


def _print_rest(number: int) -> None:
    if number > _MAX_PRINTED:
        _say(f"     and {number - _MAX_PRINTED} more: see --json")


def _print_rejected(review: SuggestionReview) -> None:
    grouped: defaultdict[RejectionReason, list[RejectedAddition]] = defaultdict(list)
    for addition in review.improvement.rejected:
        grouped[addition.reason].append(addition)
    if grouped:
        _say("\nConsidered and left out of the diff")
    for reason, group in grouped.items():
        _say(f"  {len(group)}, because {_REASONS[reason]}:")
        for addition in group[:_MAX_PRINTED]:
            detail = f" ({_shorten(addition.detail)})" if addition.detail else ""
            _say(f"     - {_describe(addition.addition)}{detail}")
        _print_rest(len(group))
        if reason == "no-gain":
            _say(
                "     If one of these words says what the skill is for, write it into "
                "its description: agents choose from a list by that."
            )


def _print_pairs(review: SuggestionReview) -> None:
    if review.pairs:
        _say("\nSkills that compete: agents got both of them to choose from")
    for pair in review.pairs[:_MAX_PRINTED]:
        first, second = pair.skills
        picks = pair.picks
        picked = f", picked {picks[0]} and {picks[1]}" if picks else ""
        _say(f"     - {first} and {second}: {_times(pair.count)}{picked}")


def _print_effect(review: SuggestionReview) -> None:
    console = open_console()
    console.print()
    console.print(_tabulate_effect(review))
    if review.changes:
        console.print()
        console.print(_tabulate_changes(review.changes))


def _tabulate_effect(review: SuggestionReview) -> Table:
    table = Table(title="Effect on all tasks", title_justify="left")
    for column in ("", "Tasks", "Right before", "after", "In a list before", "after"):
        table.add_column(column, justify="right" if column else "left")
    for origin, name in _ROWS.items():
        numbers = astuple(review.measure_effect(origin))
        table.add_row(name, *(f"{number:,}" for number in numbers))
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
    return escape("\n".join(map(escape_unprintable, paths))) or "no skill"


def _print_diff(patches: Sequence[Patch]) -> None:
    if _are_separate_repositories(patches):
        _say("\nThe changes are of several repositories. Print the diff of one:")
        for patch in patches:
            _say(f"     --source {patch.name}  ({patch.source.name})")
        return
    _say(
        f"\nThe diff. Write this output to suggestions.patch, read it, and run {patches[0].where}:"
    )
    folder = shlex.quote(patches[0].source.folder) if len(patches) == 1 else "."
    _say("     git apply suggestions.patch")
    _say(f"     skills-mcp test --skills-dir {folder}\n")
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


def _say(text: str) -> None:
    click.echo(text)


def _shorten(text: str) -> str:
    line = escape_unprintable(" ".join(text.split()))
    is_long = len(line) > _SHOWN_CHARACTERS
    return f"{line[: _SHOWN_CHARACTERS - 1]}…" if is_long else line
