"""`skills-mcp explain`: the routing of a task, and what would change it."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Application
from skills_mcp.cli.sync import sync_and_load
from skills_mcp.cli.terminal import open_console, print_json
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


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """A task, and a filter for the skills."""

    task: str
    skill_path: str | None
    """A skill to explain, even if it is not among the best."""
    scoping: SkillFilter


def print_explanation(application: Application, request: ExplainOptions, *, as_json: bool) -> None:
    """Sync, then print the routing of a task.

    Raises:
        SyncError: There is no content, old or new.
        SkillNotFoundError: There is no such skill, or none to choose from.
    """
    sync_and_load(application)
    library = application.library
    library.current.wait_for_vectors()
    explanation = library.view().explain(request.task, request.skill_path, scoping=request.scoping)
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
            return f"Match: {best.skill.path} with score {format_rounded_down(best.score)}"
        case Ambiguous():
            named = ", ".join(
                f"{candidate.skill.path} ({format_rounded_down(candidate.score)})"
                for candidate in decision.candidates
            )
            return f"Ambiguous: {named}"
        case NoMatch():
            return "No match"


def _tabulate_words(explanation: Explanation) -> Table:
    table = Table(title="Words of the task", title_justify="left")
    table.add_column("Word", overflow="fold")
    table.add_column("Weight", justify="right")
    table.add_column("Skills with it", justify="right")
    for word in heaviest_words(explanation):
        table.add_row(escape(word.typed), f"{word.weight:.3f}", str(word.skills))
    return table


def _tabulate_evidence(explanation: Explanation) -> Table:
    table = Table(title="Evidence for the best skills", title_justify="left")
    for column in ("Rank", "Skill", "Word", "Where", "Found"):
        table.add_column(column, overflow="fold")
    table.add_column("Score", justify="right")
    for contender in explanation.contenders:
        for row in _rows(contender):
            table.add_row(*row)
        table.add_section()
    return table


def _rows(contender: ExplainedCandidate) -> Iterator[tuple[str, ...]]:
    """A row with the score of a skill, then a row for each reason."""
    rank = str(contender.rank or "–")  # noqa: RUF001 - a dash stands for nothing
    path = f"[bold]{escape(contender.skill.path)}[/]"
    yield rank, path, "", "", "", f"[bold]{format_rounded_down(contender.score)}[/]"
    for evidence in summarize_evidence(contender.evidence):
        cells = (escape(text) for text in (evidence.word, evidence.where, evidence.found))
        yield ("", "", *cells, f"{evidence.worth:+.3f}")
