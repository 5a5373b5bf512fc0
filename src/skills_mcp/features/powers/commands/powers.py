"""List the powers of skills: hosts, commands, files; and those that a change adds.

PATHS are content repositories, folders of skills, packages or single files; without
any, the working folder is read.  Nothing in them is run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

import click
from rich.text import Text

from skills_mcp.cli.command_group import SectionedCommand, format_options
from skills_mcp.cli.terminal import open_console, print_json, progress_bar
from skills_mcp.features.authoring.commands.validate import render_sarif
from skills_mcp.features.powers.authored_powers import (
    ComparedPowers,
    compare_paths,
    describe_power,
    read_paths,
    to_problem,
)
from skills_mcp.features.powers.power import LEVELS, Level, Power, is_at_least
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import count_noun

PowersFormat = Literal["text", "json", "markdown", "sarif"]

_STYLES = {"alarm": "bold red", "review": "yellow", "note": "dim"}
_SARIF_LEVELS = {"alarm": "error", "review": "warning", "note": "note"}
_MAX_NAMED = 12  # powers of one skill in a comment; --json has all
_MAX_SKILLS = 50  # a comment has room for 65,536 characters
_FOUND = "Found is not all that there is: no list of powers says that a skill is safe."


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp powers ./skills",
        "skills-mcp powers . --against origin/main --format markdown",
        "skills-mcp powers ./skills/deploy --level note --json",
        "skills-mcp powers . --against ../before",
    ),
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--against",
    metavar="COMMIT|FOLDER",
    help="Print only what is added or removed since this commit, or this folder: ./before.",
)
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    help="The lowest level to print.  [default: note in JSON and with --against, else review]",
)
@format_options(
    get_args(PowersFormat), "For people, programs, a comment on a pull request, or code scanning."
)
def command(
    *,
    paths: tuple[Path, ...],
    against: str | None,
    level: Level | None,
    report_format: PowersFormat,
    as_json: bool,
) -> None:
    report_format = "json" if as_json else report_format
    paths = paths or (Path(),)
    with progress_bar("Reading") as on_progress:
        found = (
            compare_paths(paths, against, on_progress)
            if against
            else ComparedPowers(read_paths(paths, on_progress))
        )
    if level is None:
        level = "note" if against or report_format == "json" else "review"
    shown = found.select(lambda power: is_at_least(power.level, level))
    match report_format:
        case "json":
            print_json(_to_json(shown))
        case "sarif":
            print_json(_render_sarif(shown))
        case "markdown":
            for line in _render_markdown(shown):
                click.echo(line)
        case "text":
            _print(shown, found)


def _to_json(found: ComparedPowers) -> dict[str, Any]:
    data = {"powers": [asdict(power) for power in found.powers]}
    if found.added is not None:
        data["added"] = [asdict(power) for power in found.added]
        data["removed"] = [asdict(power) for power in found.removed]
    return data


def _render_sarif(found: ComparedPowers) -> dict[str, Any]:
    powers = found.powers if found.added is None else found.added
    log = render_sarif([to_problem(power) for power in powers])
    for power, result in zip(powers, log["runs"][0]["results"], strict=True):
        result["level"] = _SARIF_LEVELS[power.level]
    return log


def _render_markdown(found: ComparedPowers) -> Iterator[str]:
    if found.added is None:
        yield f"### {count_noun(len(found.powers), 'power')}"
        yield from _render_skills(found.powers, "")
    elif not (found.added or found.removed):
        yield "### No power is added or removed"
    else:
        yield f"### {count_noun(len(found.added), 'power')} added, {len(found.removed)} removed"
        yield from _render_skills(found.added, "new ")
        yield from _render_skills(found.removed, "no more ")
    yield ""
    yield _FOUND


def _render_skills(powers: Sequence[Power], word: str) -> Iterator[str]:
    groups = [(skill, list(group)) for skill, group in _group(powers)]
    if groups:
        yield ""
    for skill, group in groups[:_MAX_SKILLS]:
        parts = [f"{word}{describe_power(power, _code)}" for power in group[:_MAX_NAMED]]
        if len(group) > _MAX_NAMED:
            parts.append(f"and {len(group) - _MAX_NAMED} more")
        mark = "**alarm** " if any(power.level == "alarm" for power in group) else ""
        yield f"- {mark}{_code(skill)}: {'; '.join(parts)}{_reach(group[0])}"
    if len(groups) > _MAX_SKILLS:
        yield f"- and {len(groups) - _MAX_SKILLS} more skills: see `--json`"


def _reach(power: Power) -> str:
    number = power.inherited_by
    return f"; reaches {count_noun(number, 'skill')}" if number else ""


def _group(powers: Iterable[Power]) -> Iterator[tuple[str, Iterator[Power]]]:
    """By skill, with what matters most first."""
    ordered = sorted(powers, key=lambda power: (power.skill, -LEVELS.index(power.level)))
    return groupby(ordered, lambda power: power.skill)


def _code(text: str) -> str:
    """A code span: it can neither mention a person nor break a line."""
    plain = escape_unprintable(text).replace("`", "'")
    return f"`{plain}`"


def _print(shown: ComparedPowers, found: ComparedPowers) -> None:
    console = open_console()
    parts = (
        (("", shown.powers),)
        if shown.added is None
        else (("added ", shown.added), ("removed ", shown.removed))
    )
    for word, powers in parts:
        for skill, group in _group(powers):
            for power in group:
                console.print(_render_line(word, skill, power), soft_wrap=True)
    console.print(_summarise(shown, found), soft_wrap=True)
    console.print(_FOUND, soft_wrap=True)


def _render_line(word: str, skill: str, power: Power) -> Text:
    place = power.file if power.line is None else f"{power.file}:{power.line}"
    what = escape_unprintable(f"{power.what}{_reach(power)}")
    return Text.assemble(
        f"{escape_unprintable(place)}: {word}",
        (f"{power.level}[{power.kind}]", _STYLES[power.level]),
        f" {escape_unprintable(skill)}: {what}",
    )


def _summarise(shown: ComparedPowers, found: ComparedPowers) -> str:
    if found.added is not None:
        return f"{count_noun(len(found.added), 'power')} added, {len(found.removed)} removed"
    counts = ", ".join(
        f"{sum(power.level == level for power in found.powers)} {level}"
        for level in reversed(LEVELS)
    )
    hidden = len(found.powers) - len(shown.powers)
    more = f"; --level note prints {hidden} more" if hidden else ""
    return f"{count_noun(len(found.powers), 'power')}: {counts}{more}"
