"""`skills-mcp test`: test the routing of prompts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Options, build, is_folder, opened_baseline
from skills_mcp.cli.failures import PROMPTS_INVALID, print_failure_object
from skills_mcp.cli.routing_diff import render_test_markdown
from skills_mcp.cli.sync import sync_and_load
from skills_mcp.cli.terminal import open_console, print_json, progress_bar
from skills_mcp.features.authoring.evaluation import (
    AnswerChange,
    Outcome,
    RoutingScores,
    diff_outcomes,
    evaluate_snapshot,
    explain_failure,
    score_outcomes,
)
from skills_mcp.features.authoring.prompts import (
    Prompt,
    PromptsError,
    check_prompts,
    collect_evals,
    collect_examples,
    load_tasks,
    resolve_names,
)
from skills_mcp.library import Snapshot
from skills_mcp.routing.answer_explanation import format_rounded_down
from skills_mcp.routing.decision import answered_candidates, decision_kind
from skills_mcp.skills.skill_index import SkillIndex

_FAILED_EXIT = 1
_USAGE_EXIT = 2

_MOST_ROWS = 50  # --json has all of them
_MOST_CHARACTERS = 60  # of a prompt in a table; some are pages

_DIGITS = 4


_HOW_TO_BEGIN = """\
No skill has an example task yet, so nothing was tested.
Add tasks to the frontmatter of a skill, as a user would write them:
  examples:
    - add login to the checkout page
In a package they stand below metadata, one on each line of one text. A file of tasks
does it, too: skills-mcp test tasks.yaml"""

TestFormat = Literal["text", "json", "markdown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTestOptions:
    file: Path | None
    report_format: TestFormat
    is_strict: bool
    min_accuracy: float | None
    baseline: str | None
    has_examples: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    snapshot: Snapshot
    outcomes: tuple[Outcome, ...]
    scores: RoutingScores
    wrong: tuple[Outcome, ...]
    changes: tuple[AnswerChange, ...] | None
    """None without `--baseline`."""

    def give_reason(self, outcome: Outcome) -> str:
        snapshot = self.snapshot
        matching = snapshot.config.matching
        return explain_failure(outcome, snapshot.matcher, matching, snapshot.index)


def print_test(options: Options, environment: Mapping[str, str], request: PromptTestOptions) -> int:
    """Test the prompts, print the results, and return the exit code.

    Raises:
        ConfigError: The settings cannot be used.
        SyncError: There is no content, or not that of the baseline.
    """
    try:
        # Errors of the file come first: they do not depend on the skills.
        named = load_tasks(request.file) if request.file else ()
        application = build(options, environment)
        snapshot = sync_and_load(application)
        application.library.current.wait_for_vectors()
        prompts = _collect(named, snapshot, request)
        check_prompts(prompts, snapshot.index)
    except PromptsError as error:
        return _refuse(error)
    outcomes = _measure(prompts, snapshot)
    tested = _Tested(
        snapshot=snapshot,
        outcomes=outcomes,
        scores=score_outcomes(outcomes),
        wrong=tuple(o for o in outcomes if not o.is_right(is_strict=request.is_strict)),
        changes=_compare(outcomes, options, environment, request.baseline),
    )
    _print(tested, request)
    return _decide_exit(tested, request.min_accuracy)


def _print(tested: _Tested, request: PromptTestOptions) -> None:
    match request.report_format:
        case "json":
            print_json(_to_json(tested))
        case "markdown" if tested.outcomes:
            wrong = [(outcome, tested.give_reason(outcome)) for outcome in tested.wrong]
            summary = _summarise(tested, request.min_accuracy)
            base = request.baseline or ""
            for line in render_test_markdown(tested.changes, base, wrong, summary):
                click.echo(line)
        case "text" if tested.outcomes:
            _print_tables(tested, request)
        case _:
            click.echo(_HOW_TO_BEGIN)


def _collect(
    named: tuple[Prompt, ...], snapshot: Snapshot, request: PromptTestOptions
) -> tuple[Prompt, ...]:
    index = snapshot.index
    examples = _collect_examples(index) if request.has_examples else ()
    prompts = tuple(dict.fromkeys((*resolve_names(named, index), *examples)))
    if not prompts and not request.has_examples:
        raise click.UsageError(
            "There is no prompt to test. Name a FILE of prompts, or leave out --no-examples."
        )
    if request.min_accuracy is not None and not any(p.expect for p in prompts):
        raise click.UsageError("--min-accuracy: no prompt expects a skill.")
    return prompts


def _collect_examples(index: SkillIndex) -> tuple[Prompt, ...]:
    """Example tasks of the skills; a skill file without any is reported."""
    evals, findings = collect_evals(index)
    for finding in findings:
        click.echo(f"skills-mcp: left out: {finding}", err=True)
    return (*collect_examples(index), *evals)


def _refuse(error: PromptsError) -> int:
    findings = [asdict(finding) for finding in error.findings]
    print_failure_object(PROMPTS_INVALID, str(error), errors=findings)
    click.echo(f"skills-mcp: the prompts cannot be used.\n{error}", err=True)
    return _USAGE_EXIT


def _measure(prompts: Sequence[Prompt], snapshot: Snapshot) -> tuple[Outcome, ...]:
    with progress_bar("Trying") as on_progress:
        return evaluate_snapshot(prompts, snapshot, on_progress)


def _compare(
    outcomes: Sequence[Outcome],
    options: Options,
    environment: Mapping[str, str],
    ref: str | None,
) -> tuple[AnswerChange, ...] | None:
    if ref is None:
        return None
    if not (options.skills_dir or options.repo or is_folder(ref)):
        raise click.UsageError("--baseline needs --skills-dir or --repo.")
    prompts = [outcome.prompt for outcome in outcomes]
    with opened_baseline(options, environment, ref) as library:
        return tuple(diff_outcomes(_measure(prompts, library.view().snapshot), outcomes))


def _decide_exit(tested: _Tested, min_accuracy: float | None) -> int:
    if min_accuracy is None:
        return _FAILED_EXIT if tested.wrong else 0
    accuracy = tested.scores.accuracy_at_1 or 0.0
    return 0 if accuracy >= min_accuracy else _FAILED_EXIT


def _to_json(tested: _Tested) -> dict[str, Any]:
    data = asdict(tested.scores) | {
        "algorithm": tested.snapshot.matcher.algorithm,
        "skills": len(tested.snapshot.index),
        "failures": [_failure(outcome, tested) for outcome in tested.wrong],
    }
    if tested.changes is not None:
        data["baseline"] = [
            {"query": c.query, "before": list(c.before), "after": list(c.after)}
            for c in tested.changes
        ]
    return data


def _failure(outcome: Outcome, tested: _Tested) -> dict[str, Any]:
    best = next(iter(answered_candidates(outcome.decision)), None)
    return {
        "query": outcome.prompt.query,
        "expect": list(outcome.prompt.expect) or None,
        "avoid": list(outcome.prompt.avoid) or None,
        "got": list(outcome.answers),
        "decision": decision_kind(outcome.decision),
        "score": round(float(best.score), _DIGITS) if best else None,
        "why": tested.give_reason(outcome),
        "origin": outcome.prompt.origin,
    }


def _print_tables(tested: _Tested, request: PromptTestOptions) -> None:
    console = open_console()
    if tested.wrong:
        console.print(_tabulate_failures(tested))
        _say_more(console, len(tested.wrong))
    if tested.changes:
        console.print(_tabulate_changes(tested.changes, request.baseline or ""))
        _say_more(console, len(tested.changes))
    elif tested.changes is not None:
        message = f"Every prompt matches the same skills as at {request.baseline}."
        console.print(escape(message))
    for line in _summarise(tested, request.min_accuracy):
        console.print(line, soft_wrap=True, markup=False)


def _tabulate_failures(tested: _Tested) -> Table:
    table = _table("Wrong", ("Prompt", "Expected", "Got", "Score", "Why"))
    for outcome in tested.wrong[:_MOST_ROWS]:
        answers = answered_candidates(outcome.decision)
        table.add_row(
            _shorten(outcome.prompt.query),
            _list_expected(outcome.prompt),
            _list(outcome.answers),
            "\n".join(format_rounded_down(candidate.score) for candidate in answers),
            escape(tested.give_reason(outcome)),
        )
    return table


def _tabulate_changes(changes: Sequence[AnswerChange], ref: str) -> Table:
    table = _table(f"Changed since {escape(ref)}", ("Prompt", "Before", "After"))
    for change in changes[:_MOST_ROWS]:
        table.add_row(_shorten(change.query), _list(change.before), _list(change.after))
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", show_lines=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _list(paths: Sequence[str]) -> str:
    return escape("\n".join(paths)) or "no skill"


def _list_expected(prompt: Prompt) -> str:
    if prompt.avoid and not prompt.expect:
        return escape("\n".join(f"not {path}" for path in prompt.avoid))
    return _list(prompt.expect)


def _shorten(query: str) -> str:
    line = " ".join(query.split())
    is_long = len(line) > _MOST_CHARACTERS
    return escape(f"{line[: _MOST_CHARACTERS - 1]}…" if is_long else line)


def _say_more(console: Console, number: int) -> None:
    if number > _MOST_ROWS:
        console.print(f"and {number - _MOST_ROWS} more: see --json")


def _summarise(tested: _Tested, min_accuracy: float | None) -> Iterator[str]:
    scores, wrong = tested.scores, len(tested.wrong)
    prompts = "1 prompt" if scores.queries == 1 else f"{scores.queries} prompts"
    parts = [f"{prompts}: {scores.queries - wrong} right, {wrong} wrong"]
    if scores.accuracy_at_1 is not None:
        parts.append(
            f"accuracy {scores.accuracy_at_1:.3f}, among the first five {scores.hit_at_5:.3f}"
        )
    parts.append(
        f"{scores.single} single, {scores.ambiguous} ambiguous, {scores.no_match} without a match"
    )
    skills = len(tested.snapshot.index)
    algorithm = tested.snapshot.matcher.algorithm
    parts.append(f"{algorithm} algorithm, {skills} skill{'' if skills == 1 else 's'}")
    yield "; ".join(parts)
    if min_accuracy is not None and _decide_exit(tested, min_accuracy):
        yield f"The accuracy is below {min_accuracy:g}"
