"""`skills-mcp explain`: which skill a task matches, why, and what would change it."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Application
from skills_mcp.cli.sync import load_snapshot
from skills_mcp.cli.terminal import open_console, print_json
from skills_mcp.routing.decision import (
    Ambiguous,
    Decision,
    NoMatch,
    list_answers,
    name_decision,
)
from skills_mcp.routing.explanation import (
    Explanation,
    condense,
    pick_words,
    render_explanation,
)
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.remedies import Contender, describe_number
from skills_mcp.skills.scoping import Scoping


@dataclass(frozen=True, slots=True)
class Question:
    """The task to explain, and the skills to consider."""

    task: str
    skill_path: str | None
    """A skill to explain, too, even if it is not among the best."""
    scoping: Scoping


def print_explanation(
    application: Application, question: Question, *, as_json: bool
) -> None:
    """Sync, then print which skill a task matches, and why.

    Raises:
        SyncError: There is no content, old or new.
        SkillNotFoundError: There is no such skill, or none to choose from.
    """
    load_snapshot(application)
    library = application.library
    library.wait_for_vectors()
    explanation = library.explain(
        question.task, question.skill_path, scoping=question.scoping
    )
    if as_json:
        answers = [each.skill.path for each in list_answers(explanation.decision)]
        head = {"decision": name_decision(explanation.decision), "answers": answers}
        print_json(head | render_explanation(explanation))
    else:
        _print_tables(open_console(), explanation)


def _print_tables(console: Console, explanation: Explanation) -> None:
    said = f"{_describe(explanation.decision)} ({explanation.algorithm} algorithm)"
    console.print(escape(said), soft_wrap=True)
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
            return f"Match: {best.skill.path} with score {describe_number(best.score)}"
        case Ambiguous():
            named = ", ".join(
                f"{each.skill.path} ({describe_number(each.score)})"
                for each in decision.candidates
            )
            return f"Ambiguous: {named}"
        case NoMatch():
            return "No match"


def _tabulate_words(explanation: Explanation) -> Table:
    table = Table(title="Words of the task", title_justify="left")
    table.add_column("Word", overflow="fold")
    table.add_column("Weight", justify="right")
    table.add_column("Skills with it", justify="right")
    for word in pick_words(explanation):
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


def _rows(contender: Contender) -> Iterator[tuple[str, ...]]:
    """Yield a row with the score of a skill, then a row for each reason."""
    place = str(contender.place or "–")  # noqa: RUF001 - a dash stands for nothing
    path = f"[bold]{escape(contender.skill.path)}[/]"
    yield place, path, "", "", "", f"[bold]{describe_number(contender.score)}[/]"
    for each in condense(contender.evidence):
        said = (escape(text) for text in (each.word, each.where, each.found))
        yield ("", "", *said, f"{each.worth:+.3f}")
