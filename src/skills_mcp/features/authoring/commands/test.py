"""Test that prompts match the skills that they should.

FILE has one prompt per line, or is the evals.json or trigger_eval.json of a skill;
those of the skills, and their examples, are tested without it.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Options, build, is_folder, opened_baseline
from skills_mcp.cli.command_group import (
    PROMPTS_INVALID,
    SectionedCommand,
    format_options,
    print_failure_object,
    repeat_options,
)
from skills_mcp.cli.options import algorithm_option, content_options, read_options
from skills_mcp.cli.terminal import (
    code_span,
    open_console,
    print_json,
    progress_bar,
    shorten,
    sync_and_load,
    tabulate,
)
from skills_mcp.config import Matching
from skills_mcp.features.authoring import OnProgress, evaluation, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, narrow_to_scope
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
from skills_mcp.routing.decision import (
    Ambiguous,
    answered_candidates,
    decision_kind,
    score_and_decide,
)
from skills_mcp.skills.skill_index import SkillIndex

MIN_TASKS = 30
"""With fewer tasks a threshold would be fitted to chance."""
MIN_REFUSED_TASKS = 10
"""Tasks with `expect: null` or `avoid`: without any, the lowest `min_score` is the best."""

COSTS: Mapping[str, float] = MappingProxyType(
    {
        "right": 0,  # the right skill alone, or none where none is right
        "listed": 0.2,  # a call more
        "near_miss": 0.5,  # an agent that goes on without a skill is not wrong
        "missing": 1,
        "needless_list": 0.5,  # read for nothing, and one of it may be taken
        "wrong_rules": 3,  # the agent follows them
    }
)
"""Effects of an answer, and the cost of each; a task without its skill costs 1."""

_VALUES: Mapping[str, Sequence[float]] = MappingProxyType(
    {
        "min_score": (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5),
        "ambiguity_threshold": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
    }
)
_DRAWS = 200
_SURE_SHARE = 0.9  # of the draws; less is the luck of a few tasks


@dataclass(frozen=True, slots=True)
class TriedValue:
    """A value of a setting, and the number of tasks with each effect."""

    value: float
    effects: Mapping[str, int]

    @property
    def cost(self) -> float:
        return sum(COSTS[effect] * count for effect, count in self.effects.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Values tried for one setting; the suggested one may be the current one."""

    setting: str
    current: float
    suggested: float
    tried: tuple[TriedValue, ...]

    @property
    def saving(self) -> float:
        cost = {each.value: each.cost for each in self.tried}
        return cost[self.current] - cost[self.suggested]


def count_missing_tasks(prompts: Sequence[Prompt]) -> tuple[int, int]:
    """Count the tasks missing for a suggestion: of any kind, and to be refused."""
    refused = sum(not prompt.expect or bool(prompt.avoid) for prompt in prompts)
    return max(MIN_TASKS - len(prompts), 0), max(MIN_REFUSED_TASKS - refused, 0)


def suggest_thresholds(
    prompts: Sequence[Prompt], snapshot: Snapshot, on_progress: OnProgress = ignore_progress
) -> Iterator[Suggestion]:
    """Yield a suggestion for each setting with enough tasks; the second builds on the first."""
    missing, missing_refused = count_missing_tasks(prompts)
    if missing:
        return
    matching = snapshot.config.matching
    settings = [name for name in _VALUES if name != "min_score" or not missing_refused]
    for done, setting in enumerate(settings):
        decide = _Trial(prompts, snapshot, matching, setting)
        found = _choose_value(decide.run, getattr(matching, setting), setting)
        matching = matching.model_copy(update={setting: found.suggested})
        on_progress(done + 1, len(settings))
        yield found


@dataclass(frozen=True, slots=True)
class _Trial:
    prompts: Sequence[Prompt]
    snapshot: Snapshot
    matching: Matching
    setting: str

    def run(self, value: float) -> list[str]:
        """The effect on each task of a value."""
        matching = self.matching.model_copy(update={self.setting: value})
        snapshot = self.snapshot
        look_up = cache(lambda scoping: narrow_to_scope(snapshot.index, scoping))
        decisions = (
            score_and_decide(snapshot.matcher, p.query, matching, within=look_up(p.scoping))
            for p in self.prompts
        )
        pairs = zip(self.prompts, decisions, strict=True)
        return [classify_effect(Outcome(prompt, decision, (), 0.0)) for prompt, decision in pairs]


def _choose_value(run: Callable[[float], list[str]], current: float, setting: str) -> Suggestion:
    effects = {value: run(value) for value in sorted({*_VALUES[setting], current})}
    tried = tuple(TriedValue(value, Counter(found)) for value, found in effects.items())
    best = min(tried, key=lambda each: (round(each.cost, 6), abs(each.value - current))).value
    is_sure = _is_surely_better(effects[best], effects[current])
    return Suggestion(
        setting=setting, current=current, suggested=best if is_sure else current, tried=tried
    )


def _is_surely_better(effects: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the effects cost less in nearly all draws of the tasks."""
    pairs = zip(effects, others, strict=True)
    savings = [COSTS[other] - COSTS[effect] for effect, other in pairs]
    chance = random.Random(11)  # noqa: S311 - the same answer in every run
    draws = (sum(chance.choices(savings, k=len(savings))) for _ in range(_DRAWS))
    return sum(drawn > 0 for drawn in draws) >= _SURE_SHARE * _DRAWS


def classify_effect(outcome: Outcome) -> str:
    """Classify an answer by its effect on an agent: a key of `COSTS`."""
    kind = decision_kind(outcome.decision)
    has_avoided = not set(outcome.prompt.avoid).isdisjoint(outcome.answers)
    if not outcome.prompt.expect:
        is_wrong = has_avoided if outcome.prompt.avoid else bool(outcome.answers)
        if not is_wrong:
            return "right"
        return "needless_list" if isinstance(outcome.decision, Ambiguous) else "wrong_rules"
    if kind == "single":
        return "right" if outcome.is_found and not has_avoided else "wrong_rules"
    if not outcome.is_listed:
        return "missing"
    return "listed" if kind == "ambiguous" else "near_miss"


def _render_markdown(tested: "_Tested") -> Iterator[str]:
    """The lines of a comment: changed answers, failures, the numbers."""
    if tested.changes is not None:
        yield from _render_changes(tested.changes, tested.baseline)
    if tested.wrong:
        yield from _render_wrong(tested)
    yield from _render_suggestions(tested)
    yield from _summarise(tested)


def _render_changes(changes: Sequence[evaluation.AnswerChange], base: str) -> Iterator[str]:
    if not changes:
        yield f"### Every task finds the same skills as at {code_span(base)}"
        yield ""
        return
    count = "1 task changes its" if len(changes) == 1 else f"{len(changes)} tasks change their"
    yield f"### {count} skill"
    yield ""
    yield from tabulate_answers(changes, f"At {code_span(base)}", "Now")
    yield from _mention_more(len(changes))


def tabulate_answers(
    changes: Sequence[evaluation.AnswerChange], before: str, after: str
) -> Iterator[str]:
    """The rows of a table in Markdown, below the titles of two columns."""
    yield f"| Task | {before} | {after} | |"
    yield "| --- | --- | --- | --- |"
    for change in changes[:_MAX_ROWS]:
        cells = code_span(change.query), _join_code(change.before), _join_code(change.after)
        yield f"| {' | '.join(cells)} | {_judge(change)} |"


def _judge(change: evaluation.AnswerChange) -> str:
    if change.was_right == change.is_right:
        return "right before and now" if change.is_right else "wrong before and now"
    return "**repaired**" if change.is_right else "**now wrong**"


def _render_wrong(tested: "_Tested") -> Iterator[str]:
    wrong = tested.wrong
    count = "1 task finds" if len(wrong) == 1 else f"{len(wrong)} tasks find"
    yield f"### {count} a wrong skill"
    yield ""
    yield "| Task | Expected | Got | Why |"
    yield "| --- | --- | --- | --- |"
    for outcome in wrong[:_MAX_ROWS]:
        prompt, reason = outcome.prompt, tested.give_reason(outcome)
        is_avoiding = bool(prompt.avoid) and not prompt.expect
        expected = f"not {_join_code(prompt.avoid)}" if is_avoiding else _join_code(prompt.expect)
        cells = code_span(prompt.query), expected, _join_code(outcome.answers), code_span(reason)
        yield f"| {' | '.join(cells)} |"
    yield from _mention_more(len(wrong))


def _mention_more(number: int) -> Iterator[str]:
    yield ""
    if number > _MAX_ROWS:
        hint = repeat_options("skills-mcp test --json")
        yield f"and {number - _MAX_ROWS} more: see `{hint}`"
        yield ""


def _join_code(paths: Sequence[str]) -> str:
    return ", ".join(map(code_span, paths)) or "no skill"


_FAILED_EXIT = 1
_USAGE_EXIT = 2

_MAX_ROWS = 50  # --json has all; a comment has room for 65,536 characters
_MAX_CHARACTERS = 60  # of a prompt in a table; some are pages

_DIGITS = 4
_COST_DIGITS = 1


_HOW_TO_BEGIN = """\
No skill has an example task yet, so nothing was tested.
Add tasks to the frontmatter of a skill, as a user would write them:
  examples:
    - add login to the checkout page
In a package they stand below metadata, one on each line of one text. A file of tasks
does it, too: skills-mcp test tasks.yaml"""

TestFormat = Literal["text", "json", "markdown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    snapshot: Snapshot
    outcomes: tuple[evaluation.Outcome, ...]
    scores: evaluation.RoutingScores
    wrong: tuple[evaluation.Outcome, ...]
    min_accuracy: float | None
    baseline: str
    changes: tuple[evaluation.AnswerChange, ...] | None
    """None without `--baseline`."""
    suggestions: tuple[Suggestion, ...] | None
    """None without `--suggest`."""

    def give_reason(self, outcome: evaluation.Outcome) -> str:
        snapshot = self.snapshot
        matching = snapshot.config.matching
        return evaluation.explain_failure(outcome, snapshot.matcher, matching, snapshot.index)

    @property
    def shared(self) -> tuple[evaluation.Outcome, ...]:
        """Right answers that are one of several."""
        wrong = set(map(id, self.wrong))
        right = (outcome for outcome in self.outcomes if id(outcome) not in wrong)
        return tuple(outcome for outcome in right if len(outcome.answers) > 1)

    @property
    def has_failed(self) -> bool:
        if self.min_accuracy is None:
            return bool(self.wrong)
        return (self.scores.accuracy_at_1 or 0.0) < self.min_accuracy


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp test --skills-dir ./skills",
        "skills-mcp test prompts.yaml --baseline HEAD~1 --skills-dir ./skills",
        "skills-mcp test --baseline origin/main --format markdown --skills-dir .",
        "skills-mcp test prompts.jsonl --suggest --skills-dir ./skills",
    ),
)
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@algorithm_option
@format_options(get_args(TestFormat), "For people, programs, or a comment on a pull request.")
@click.option("--strict", "is_strict", is_flag=True, help="Fail on an ambiguous answer, too.")
@click.option(
    "--min-accuracy",
    metavar="X",
    type=click.FloatRange(0, 1),
    help="Fail only if accuracy_at_1 is below X.",
)
@click.option(
    "--baseline",
    metavar="REF",
    help="Compare with the skills of this commit, or of this folder: ./before.",
)
@click.option(
    "--suggest",
    "is_suggesting",
    is_flag=True,
    help="Suggest min_score and ambiguity_threshold from the prompts; nothing is changed.",
)
@click.option(
    "--no-examples",
    "has_examples",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Leave out the examples of the skills.",
)
@content_options(log_level="error")
def command(
    *,
    file: Path | None,
    report_format: TestFormat,
    as_json: bool,
    is_strict: bool,
    min_accuracy: float | None,
    baseline: str | None,
    is_suggesting: bool,
    has_examples: bool,
    **values: Any,
) -> None:
    options, environment = read_options(**values)
    try:
        # Errors of the file come first: they do not depend on the skills.
        named = load_tasks(file) if file else ()
        library = build(options, environment).library
        snapshot = sync_and_load(library)
        library.current.wait_for_vectors()
        index = snapshot.index
        examples = _collect_examples(index) if has_examples else ()
        prompts = tuple(dict.fromkeys((*resolve_names(named, index), *examples)))
        _require(prompts, min_accuracy, has_examples=has_examples)
        check_prompts(prompts, index)
    except PromptsError as error:
        sys.exit(_refuse(error))
    outcomes = _measure(prompts, snapshot)
    tested = _Tested(
        snapshot=snapshot,
        outcomes=outcomes,
        scores=evaluation.score_outcomes(outcomes),
        wrong=tuple(o for o in outcomes if not o.is_right(is_strict=is_strict)),
        min_accuracy=min_accuracy,
        baseline=baseline or "",
        changes=_compare(prompts, outcomes, options, environment, baseline),
        suggestions=_suggest(prompts, snapshot) if is_suggesting else None,
    )
    _print(tested, "json" if as_json else report_format)
    sys.exit(_FAILED_EXIT if tested.has_failed else 0)


def _print(tested: _Tested, report_format: TestFormat) -> None:
    match report_format:
        case "json":
            print_json(_to_json(tested))
        case "markdown" if tested.outcomes:
            for line in _render_markdown(tested):
                click.echo(line)
        case "text" if tested.outcomes:
            _print_tables(tested)
        case _:
            click.echo(_HOW_TO_BEGIN)


def _require(prompts: Sequence[Prompt], min_accuracy: float | None, *, has_examples: bool) -> None:
    if not prompts and not has_examples:
        raise click.UsageError(
            "There is no prompt to test. Name a FILE of prompts, or leave out --no-examples."
        )
    if min_accuracy is not None and not any(prompt.expect for prompt in prompts):
        raise click.UsageError("--min-accuracy: no prompt expects a skill.")


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


def _measure(prompts: Sequence[Prompt], snapshot: Snapshot) -> tuple[evaluation.Outcome, ...]:
    with progress_bar("Trying") as on_progress:
        return evaluation.evaluate_snapshot(prompts, snapshot, on_progress)


def _suggest(prompts: Sequence[Prompt], snapshot: Snapshot) -> tuple[Suggestion, ...]:
    with progress_bar("Trying other thresholds") as on_progress:
        return tuple(suggest_thresholds(prompts, snapshot, on_progress))


def _compare(
    prompts: Sequence[Prompt],
    outcomes: Sequence[evaluation.Outcome],
    options: Options,
    environment: Mapping[str, str],
    ref: str | None,
) -> tuple[evaluation.AnswerChange, ...] | None:
    if ref is None:
        return None
    if not (options.skills_dir or options.repo or is_folder(ref)):
        raise click.UsageError("--baseline needs --skills-dir or --repo.")
    with opened_baseline(options, environment, ref) as library:
        library.current.wait_for_vectors()
        return tuple(evaluation.diff_outcomes(_measure(prompts, library.view().snapshot), outcomes))


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
    if tested.suggestions is not None:
        missing, missing_refused = _count_missing_tasks(tested)
        data["suggestions"] = {
            "missing": missing,
            "missing_refused": missing_refused,
            "settings": [_suggestion(each) for each in tested.suggestions],
        }
    return data


def _suggestion(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "setting": suggestion.setting,
        "current": suggestion.current,
        "suggested": suggestion.suggested,
        "tried": [
            {"value": each.value, **{effect: each.effects[effect] for effect in _EFFECTS}}
            | {"cost": round(each.cost, _COST_DIGITS)}
            for each in suggestion.tried
        ],
    }


def _count_missing_tasks(tested: _Tested) -> tuple[int, int]:
    return count_missing_tasks([outcome.prompt for outcome in tested.outcomes])


def _failure(outcome: evaluation.Outcome, tested: _Tested) -> dict[str, Any]:
    best = next(iter(answered_candidates(outcome.decision)), None)
    return {
        "query": outcome.prompt.query,
        "expect": list(outcome.prompt.expect) or None,
        "avoid": list(outcome.prompt.avoid) or None,
        "got": list(outcome.answers),
        "decision": decision_kind(outcome.decision),
        "score": round(best.score, _DIGITS) if best else None,
        "why": tested.give_reason(outcome),
        "origin": outcome.prompt.origin,
    }


def _print_tables(tested: _Tested) -> None:
    console = open_console()
    if tested.wrong:
        console.print(_tabulate_failures(tested))
        _say_more(console, len(tested.wrong))
    if tested.changes:
        console.print(_tabulate_changes(tested.changes, tested.baseline))
        _say_more(console, len(tested.changes))
    elif tested.changes is not None:
        message = f"Every prompt matches the same skills as at {tested.baseline}."
        console.print(escape(message))
    for outcome in tested.shared[:_MAX_ROWS]:
        query = shorten(outcome.prompt.query, _MAX_CHARACTERS)
        line = f"Ambiguous, with the right one: {query!r} gets {', '.join(outcome.answers)}"
        console.print(line, soft_wrap=True, markup=False)
    _say_more(console, len(tested.shared))
    for suggestion in tested.suggestions or ():
        console.print(_tabulate_values(suggestion))
    for line in (*_describe_suggestions(tested), *_summarise(tested)):
        console.print(line, soft_wrap=True, markup=False)


_EFFECTS: Mapping[str, str] = {
    "right": "Right",
    "listed": "In a list",
    "near_miss": "Near miss",
    "missing": "Missing",
    "needless_list": "Needless list",
    "wrong_rules": "Wrong rules",
}
"""Effects of answers, as the columns of a table."""


def _tabulate_values(suggestion: Suggestion) -> Table:
    columns = (suggestion.setting, *_EFFECTS.values(), "Cost", "")
    rows = list(_list_values(suggestion))
    return tabulate(columns, rows, title="Other values", numbers=columns[:-1])


def _list_values(suggestion: Suggestion) -> Iterator[tuple[str, ...]]:
    names = {suggestion.suggested: "suggested"} | {suggestion.current: "now"}
    for each in suggestion.tried:
        counts = (str(each.effects[effect]) for effect in _EFFECTS)
        yield (f"{each.value:g}", *counts, f"{each.cost:.1f}", names.get(each.value, ""))


def _describe_suggestions(tested: _Tested) -> Iterator[str]:
    if tested.suggestions is None:
        return
    missing, missing_refused = _count_missing_tasks(tested)
    if missing:
        yield f"No threshold is suggested: {_count_tasks(missing)} missing"
        return
    if missing_refused:
        some = _count_tasks(missing_refused)
        yield f"No min_score is suggested: {some} missing with expect: null, or with avoid"
    changed = [each for each in tested.suggestions if each.suggested != each.current]
    for each in tested.suggestions:
        if each not in changed:
            yield f"Keep {each.setting} {each.current:g}: no other value is surely better"
    if changed:
        costs = " and ".join(f"{e.setting} by {e.saving:.1f}" for e in changed)
        yield f"Suggested, which lowers the cost ({costs}); write it into config.yaml yourself:"
        yield "  matching:"
        yield from (f"    {each.setting}: {each.suggested:g}" for each in changed)


def _count_tasks(number: int) -> str:
    return "1 task is" if number == 1 else f"{number} tasks are"


def _render_suggestions(tested: _Tested) -> Iterator[str]:
    for suggestion in tested.suggestions or ():
        columns = (f"`{suggestion.setting}`", *_EFFECTS.values(), "Cost", "")
        yield f"| {' | '.join(columns)} |"
        yield f"| {' | '.join('---' for _ in columns)} |"
        yield from (f"| {' | '.join(row)} |" for row in _list_values(suggestion))
        yield ""
    yield from (f"{line}  " for line in _describe_suggestions(tested))


def _tabulate_failures(tested: _Tested) -> Table:
    rows = [
        (
            shorten(outcome.prompt.query, _MAX_CHARACTERS),
            _list_expected(outcome.prompt),
            _list(outcome.answers),
            "\n".join(
                format_rounded_down(candidate.exact_score)
                for candidate in answered_candidates(outcome.decision)
            ),
            tested.give_reason(outcome),
        )
        for outcome in tested.wrong[:_MAX_ROWS]
    ]
    columns = ("Prompt", "Expected", "Got", "Score", "Why")
    return tabulate(columns, rows, title="Wrong", show_lines=True)


def _tabulate_changes(changes: Sequence[evaluation.AnswerChange], ref: str) -> Table:
    rows = [
        (shorten(change.query, _MAX_CHARACTERS), _list(change.before), _list(change.after))
        for change in changes[:_MAX_ROWS]
    ]
    title = f"Changed since {escape(ref)}"
    return tabulate(("Prompt", "Before", "After"), rows, title=title, show_lines=True)


def _list(paths: Sequence[str]) -> str:
    return "\n".join(paths) or "no skill"


def _list_expected(prompt: Prompt) -> str:
    if prompt.avoid and not prompt.expect:
        return "\n".join(f"not {path}" for path in prompt.avoid)
    return _list(prompt.expect)


def _say_more(console: Console, number: int) -> None:
    if number > _MAX_ROWS:
        console.print(f"and {number - _MAX_ROWS} more: see --json")


def _summarise(tested: _Tested) -> Iterator[str]:
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
    if tested.min_accuracy is not None and tested.has_failed:
        yield f"The accuracy is below {tested.min_accuracy:g}"
