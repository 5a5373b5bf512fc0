"""Suggested additions to skills for a terminal, and as a diff."""

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple

import click
from rich.table import Table

from skills_mcp.cli.terminal import open_console, shorten, tabulate
from skills_mcp.features.authoring.evaluation import Outcome
from skills_mcp.features.report.pick_evidence import MIN_TASKS, join_counts
from skills_mcp.features.report.skill_additions import (
    AcceptedAddition,
    Addition,
    Patch,
    RejectedAddition,
    RejectionReason,
    TaskAddition,
    WordAddition,
)
from skills_mcp.features.report.suggestion_review import SuggestionReview, TaskOrigin
from skills_mcp.features.report.usage_report import Span
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
        if reason == "no-gain":
            click.echo(
                "     If one of these words says what the skill is for, write it into "
                "its description: agents choose from a list by that."
            )


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
