"""Results of `skills-mcp test` as Markdown, for a pull request comment."""

import re
from collections.abc import Iterable, Iterator, Sequence

from skills_mcp.cli.terminal import shorten
from skills_mcp.features.authoring.evaluation import AnswerChange, Outcome

_MOST_ROWS = 50  # a comment has room for 65,536 characters
_MOST_CHARACTERS = 200  # of a task; some are pages
_TICKS = re.compile("`+")


def render_test_markdown(
    changes: Sequence[AnswerChange] | None,
    base: str,
    wrong: Sequence[tuple[Outcome, str]],
    summary: Iterable[str],
) -> Iterator[str]:
    """The lines: changed answers, failures, the numbers.

    Args:
        changes: Tasks with another skill; None without a comparison.
        base: The baseline.
        wrong: Failed tasks, each with the reason.
        summary: Lines with the numbers.
    """
    if changes is not None:
        yield from _render_changes(changes, base)
    if wrong:
        yield from _render_wrong(wrong)
    yield from summary


def _render_changes(changes: Sequence[AnswerChange], base: str) -> Iterator[str]:
    if not changes:
        yield f"### Every task finds the same skills as at {_code(base)}"
        yield ""
        return
    count = "1 task changes its" if len(changes) == 1 else f"{len(changes)} tasks change their"
    yield f"### {count} skill"
    yield ""
    yield f"| Task | At {_code(base)} | Now | |"
    yield "| --- | --- | --- | --- |"
    for change in changes[:_MOST_ROWS]:
        cells = _code(change.query), _list(change.before), _list(change.after)
        yield f"| {' | '.join(cells)} | {_judge(change)} |"
    yield from _say_more(len(changes))


def _judge(change: AnswerChange) -> str:
    if change.was_right == change.is_right:
        return "right before and now" if change.is_right else "wrong before and now"
    return "**repaired**" if change.is_right else "**now wrong**"


def _render_wrong(wrong: Sequence[tuple[Outcome, str]]) -> Iterator[str]:
    count = "1 task finds" if len(wrong) == 1 else f"{len(wrong)} tasks find"
    yield f"### {count} a wrong skill"
    yield ""
    yield "| Task | Expected | Got | Why |"
    yield "| --- | --- | --- | --- |"
    for outcome, reason in wrong[:_MOST_ROWS]:
        prompt = outcome.prompt
        is_avoiding = bool(prompt.avoid) and not prompt.expect
        expected = f"not {_list(prompt.avoid)}" if is_avoiding else _list(prompt.expect)
        cells = _code(prompt.query), expected, _list(outcome.answers), _code(reason)
        yield f"| {' | '.join(cells)} |"
    yield from _say_more(len(wrong))


def _say_more(number: int) -> Iterator[str]:
    yield ""
    if number > _MOST_ROWS:
        yield f"and {number - _MOST_ROWS} more: see `skills-mcp test --json`"
        yield ""


def _list(paths: Sequence[str]) -> str:
    return ", ".join(map(_code, paths)) or "no skill"


def _code(text: str) -> str:
    """A code span: it can neither mention a person nor break a table."""
    line = shorten(text, _MOST_CHARACTERS)
    longest = max(map(len, _TICKS.findall(line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    escaped = line.replace("|", "\\|")
    return f"{fence}{space}{escaped}{space}{fence}"
