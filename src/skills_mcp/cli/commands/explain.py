"""Explain which skill a task matches, and why."""

from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skills_mcp.cli import options
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.terminal import open_console, print_json, sync_and_load, tabulate
from skills_mcp.routing.answer_explanation import (
    ExplainedCandidate,
    Explanation,
    format_rounded_down,
    heaviest_words,
    render_explanation,
    summarize_evidence,
)
from skills_mcp.routing.decision import (
    Ambiguous,
    Decision,
    NoMatch,
    answered_candidates,
    decision_kind,
)
from skills_mcp.routing.matcher import Candidate
from skills_mcp.skills.skill_index import SkillFilter


@click.command(
    cls=SectionedCommand,
    examples=(
        'skills-mcp explain "add a login page" --skills-dir ./skills',
        'skills-mcp explain "add a login page" --skill ui/react/auth',
    ),
)
@click.argument("task")
@options.algorithm_option
@click.option(
    "--skill",
    metavar="PATH",
    help="Explain this skill, too, by path or name, such as why it is not the answer.",
)
@options.narrowing_options
@options.project_option
@options.json_option
@options.content_options()
def command(
    *,
    task: str,
    skill: str | None,
    within: str,
    category: str,
    project: str,
    as_json: bool,
    **values: Any,
) -> None:
    library = options.build_application(**values).library
    options.choose_project(library, project)
    sync_and_load(library)
    library.current.wait_for_vectors()
    explanation = library.view().explain(task, skill, scoping=SkillFilter(within, category))
    if as_json:
        answers = [candidate.skill.path for candidate in answered_candidates(explanation.decision)]
        head = {"decision": decision_kind(explanation.decision), "answers": answers}
        print_json(head | render_explanation(explanation))
    else:
        _print_tables(open_console(), explanation)


def _print_tables(console: Console, explanation: Explanation) -> None:
    title = f"{_describe(explanation.decision)} ({explanation.algorithm} algorithm)"
    console.print(escape(title), soft_wrap=True)
    if explanation.words:
        console.print(_tabulate_words(explanation))
    if explanation.ignored:
        ignored = ", ".join(explanation.ignored)
        console.print(escape(f"Ignored words: {ignored}"), soft_wrap=True)
    if explanation.contenders:
        console.print(_tabulate_evidence(explanation))
    for note in explanation.notes:
        console.print(escape(f"- {note}"), soft_wrap=True)


def _describe(decision: Decision) -> str:
    match decision:
        case Candidate() as best:
            both = f", and {best.also.skill.path} for its second intent" if best.also else ""
            score = format_rounded_down(best.exact_score)
            return f"Match: {best.skill.path} with score {score}{both}"
        case Ambiguous():
            named = ", ".join(
                f"{candidate.skill.path} ({format_rounded_down(candidate.exact_score)})"
                for candidate in decision.candidates
            )
            return f"Ambiguous: {named}"
        case NoMatch():
            return "No match"


def _tabulate_words(explanation: Explanation) -> Table:
    columns = ("Word", "Weight", "Skills with it")
    rows = [
        (word.typed, f"{word.weight:.3f}", str(word.skills)) for word in heaviest_words(explanation)
    ]
    return tabulate(columns, rows, title="Words of the task", numbers=columns[1:])


def _tabulate_evidence(explanation: Explanation) -> Table:
    columns = ("Rank", "Skill", "Word", "Where", "Found", "Score")
    table = tabulate(columns, (), title="Evidence for the best skills", numbers=("Score",))
    for contender in explanation.contenders:
        for row in _rows(contender):
            table.add_row(*row)
        table.add_section()
    return table


def _rows(contender: ExplainedCandidate) -> Iterator[tuple[str | Text, ...]]:
    """A row with the score of a skill, then a row for each reason."""
    rank = str(contender.rank or "–")  # noqa: RUF001 - a dash stands for nothing
    path = Text(contender.skill.path, style="bold")
    yield rank, path, "", "", "", Text(format_rounded_down(contender.score), style="bold")
    for evidence in summarize_evidence(contender.evidence):
        cells = map(Text, (evidence.word, evidence.where, evidence.found))
        yield ("", "", *cells, f"{evidence.worth:+.3f}")
