"""`skills-mcp report --suggest`: what to add to skills, by what agents picked."""

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple

import click
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Options, build, find_home, load_rules
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
from skills_mcp.events.privacy import Privacy
from skills_mcp.features.authoring.evaluation import Outcome
from skills_mcp.features.report import EventFilesError, Span, derive_current_skills
from skills_mcp.features.report.report_text import HOW_TO_RECORD
from skills_mcp.features.report.suggestions.improvement import (
    Addition,
    DroppedAddition,
    KeptAddition,
    Reason,
    TaskAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestions.missing_words import LEAST_TASKS
from skills_mcp.features.report.suggestions.patch import Patch
from skills_mcp.features.report.suggestions.picks import (
    PICK_KINDS,
    PickTally,
    join_counts,
)
from skills_mcp.features.report.suggestions.recorded_tasks import Origin
from skills_mcp.features.report.suggestions.review import SET_CONTEXT, Review, suggest
from skills_mcp.features.report.suggestions.review_json import render_review
from skills_mcp.skills.model import printable
from skills_mcp.text.rendering import plural

_MOST_SHOWN = 5  # tasks of one suggestion, and pairs of skills; --json has all
_MOST_ROWS = 40  # of a table
_SHOWN_CHARACTERS = 100

_ROWS: Mapping[Origin, str] = {
    "library": "Examples and evals of the skills",
    "picked": "Recorded tasks with a known answer",
    "answered": "Recorded tasks that one skill answered",
}

_REASONS: Mapping[Reason, str] = {
    "no-gain": "no task gets a better answer by it",
    "harm": "the task in brackets would get a worse answer",
    "unsafe": "only a person can change the file safely",
    "limit": "too many were suggested",
}


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
    answer = derive_current_skills(load_snapshot(application)).answer
    application.library.wait_for_vectors()
    record = _load_picks(environment, wanted, span).derive(answer)
    with showing_progress("Trying suggestions") as on_progress:
        review = suggest(application.library, record, on_progress)
    patches = _choose(review.patches, wanted.source)
    notes = (*review.notes, *_describe_counting(review, options, environment, wanted))
    if wanted.as_json:
        print_json(render_review(review, span, patches, notes))
    else:
        _print(review, span, patches, notes)


def _refuse_others(wanted: ReportOptions) -> None:
    others = {"--html": wanted.html, "--by": wanted.by, "--around": wanted.around}
    if given := [name for name, value in others.items() if value]:
        raise click.UsageError(
            f"--suggest and {given[0]} exclude each other: the one is about what to "
            "change, the other about what was. Name one of them."
        )


def _load_picks(
    environment: Mapping[str, str], wanted: ReportOptions, span: Span
) -> PickTally:
    """Add up what agents picked.

    What is printed here may become a file that many people read, so the rules of
    `analytics.context: redacted` hold, also for tasks that were recorded in full.
    """
    privacy = Privacy(find_home(environment) / "analytics.key", environment)
    rules = Analytics(context="redacted")
    tally = PickTally(
        span, lambda task: str(privacy.hide({"context": task}, rules)["context"])
    )
    try:
        for event in _read_events(environment, wanted, span):
            tally.add(event)
    except EventFilesError as error:
        raise click.UsageError(str(error)) from error
    return tally


def _read_events(
    environment: Mapping[str, str], wanted: ReportOptions, span: Span
) -> Iterator[object]:
    if wanted.database is None:
        yield from read_events(environment, wanted)
        return
    store = open_database(wanted)
    try:
        yield from store.events(span.first, span.last, kinds=PICK_KINDS)
    finally:
        store.close()


def _choose(patches: Sequence[Patch], source: str | None) -> tuple[Patch, ...]:
    """Return the patches of the sources that are called so; all without a name.

    Raises:
        click.UsageError: Only sources that are called otherwise have changes.
    """
    if source is None or not patches:
        return tuple(patches)
    chosen = tuple(
        each for each in patches if source in {each.source.mount, each.source.name}
    )
    if not chosen:
        shown = ", ".join(each.name for each in patches)
        raise click.UsageError(
            f"--source: there is no diff of a source {source!r}. Those with a diff: "
            f"{shown}."
        )
    return chosen


def _describe_counting(
    review: Review,
    options: Options,
    environment: Mapping[str, str],
    wanted: ReportOptions,
) -> Iterator[str]:
    """Say what this machine has to record, if it has recorded no pick."""
    if review.record.picks or wanted.collected or wanted.database is not None:
        return
    counting = find_counting(options, environment)
    if counting == "refused":
        yield "DO_NOT_TRACK is set here, so nothing is recorded."
    elif counting == "off":
        yield f"Analytics are off on this machine. {HOW_TO_RECORD}"
    elif load_rules(options, environment).analytics.context in {"hashed", "none"}:
        yield f"The tasks that this machine records cannot be read. {SET_CONTEXT}"


# No line that is printed begins with a word of a task: `git apply` skips all that
# stands before the diff, as long as it does not look like one.


def _print(
    review: Review, span: Span, patches: Sequence[Patch], notes: Iterable[str]
) -> None:
    _say(_headline(review, span))
    for note in notes:
        _say(f"- {note}")
    _print_kept(review)
    _print_dropped(review)
    if not review.record.picks or review.record.unreadable:
        _print_pairs(review)
    if review.improvement.kept:
        _print_effect(review)
        _print_diff(patches)
    if sys.stderr.isatty() and not sys.stdout.isatty():
        click.echo(_describe_output(review, patches), err=True)


def _describe_output(review: Review, patches: Sequence[Patch]) -> str:
    """Say what a file holds now: its reader sees nothing else on the terminal."""
    if not patches:
        return "Nothing to change is suggested. The output says why; it has no diff."
    suggestions = plural(len(review.improvement.kept), "suggestion")
    if _are_apart(patches):
        return f"{suggestions}. The output has no diff yet: choose one with --source."
    return (
        f"{suggestions}. Read the output, then run git apply with it {patches[0].where}"
    )


def _headline(review: Review, span: Span) -> str:
    tasks = review.record.tasks
    counts = join_counts([each for task in tasks for each in task.right.values()])
    people = f" of {plural(len(counts.people), 'person')}" if counts.people else ""
    return (
        f"{span.first} to {span.last}: {plural(len(tasks), 'task')} with a known "
        f"answer, by {plural(counts.picks, 'pick')}{people}"
    )


def _print_kept(review: Review) -> None:
    if not review.improvement.kept:
        _say(f"\nNothing to change is suggested. {_describe_nothing(review)}".rstrip())
        return
    _say("\nSuggestions")
    for number, kept in enumerate(review.improvement.kept, 1):
        _say(f"  {number}. {_describe(kept.addition)}")
        _say(f"     {_describe_evidence(kept, review)}")
        if isinstance(kept.addition, WordAddition):
            _print_tasks(review.find_tasks(kept.addition))


def _describe_nothing(review: Review) -> str:
    """Say why there is no suggestion, if the tasks say it."""
    if review.improvement.dropped or not review.record.tasks:
        return ""
    effect = review.measure_effect("picked")
    open_tasks = effect.tasks - effect.right_before
    if not effect.tasks:
        return ""
    if not open_tasks:
        return "Every recorded task with a known answer gets that answer."
    return (
        f"Of {plural(effect.tasks, 'task')} with a known answer, {open_tasks:,} "
        f"could have a better one, but no word is in {LEAST_TASKS} of the same skill "
        "and in fewer of any other."
    )


def _describe(addition: Addition) -> str:
    skill = printable(addition.skill)
    if isinstance(addition, TaskAddition):
        return f"{skill}: add the example task {_shorten(addition.task)!r}"
    noun = "keyword" if len(addition.words) == 1 else "keywords"
    return f"{skill}: add the {noun} {', '.join(map(printable, addition.words))}"


def _describe_evidence(kept: KeptAddition, review: Review) -> str:
    counts = review.count_picks(kept.addition)
    tasks = len(review.find_tasks(kept.addition))
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
    _print_rest(len(tasks))


def _print_rest(number: int) -> None:
    if number > _MOST_SHOWN:
        _say(f"     and {number - _MOST_SHOWN} more: see --json")


def _print_dropped(review: Review) -> None:
    grouped: defaultdict[Reason, list[DroppedAddition]] = defaultdict(list)
    for each in review.improvement.dropped:
        grouped[each.reason].append(each)
    if grouped:
        _say("\nConsidered and left out of the diff")
    for reason, group in grouped.items():
        _say(f"  {len(group)}, because {_REASONS[reason]}:")
        for each in group[:_MOST_SHOWN]:
            detail = f" ({_shorten(each.detail)})" if each.detail else ""
            _say(f"     - {_describe(each.addition)}{detail}")
        _print_rest(len(group))
        if reason == "no-gain":
            _say(
                "     If one of these words says what the skill is for, write it into "
                "its description: agents choose from a list by that."
            )


def _print_pairs(review: Review) -> None:
    if review.pairs:
        _say("\nSkills that compete: agents got both of them to choose from")
    for each in review.pairs[:_MOST_SHOWN]:
        first, second = each.skills
        picks = each.picks
        picked = f", picked {picks[0]} and {picks[1]}" if picks else ""
        _say(f"     - {first} and {second}: {_times(each.count)}{picked}")


def _print_effect(review: Review) -> None:
    console = open_console()
    console.print()
    console.print(_tabulate_effect(review))
    if review.changes:
        console.print()
        console.print(_tabulate_changes(review.changes))


def _tabulate_effect(review: Review) -> Table:
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
    return escape("\n".join(map(printable, paths))) or "no skill"


def _print_diff(patches: Sequence[Patch]) -> None:
    if _are_apart(patches):
        _say("\nThe changes are of several repositories. Print the diff of one:")
        for each in patches:
            _say(f"     --source {each.name}  ({each.source.name})")
        return
    _say(
        "\nThe diff. Write this output to suggestions.patch, read it, and run "
        f"{patches[0].where}:"
    )
    folder = shlex.quote(patches[0].source.folder) if len(patches) == 1 else "."
    _say("     git apply suggestions.patch")
    _say(f"     skills-mcp test --skills-dir {folder}\n")
    diff = b"".join(each.diff for each in patches)
    if sys.stdout.isatty():
        diff = _escape(diff)
    click.echo(diff, nl=False)


def _are_apart(patches: Sequence[Patch]) -> bool:
    """Whether the patches are of several repositories."""
    return len({each.source.top for each in patches}) > 1


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
