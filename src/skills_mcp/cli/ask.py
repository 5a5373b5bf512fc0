"""`skills-mcp ask` and `search`: what an agent gets from `get_skill`, `search_skills`.

They call the tools themselves, so that a reply is the one of the server.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Application
from skills_mcp.cli.show import show_section
from skills_mcp.cli.sync import load_snapshot
from skills_mcp.cli.terminal import open_console, print_json, print_paged
from skills_mcp.skills.model import printable

if TYPE_CHECKING:
    from skills_mcp.server.replies import Reply

_DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """What `ask` was asked for; the first four are the arguments of `get_skill`."""

    task: str
    skill: str | None
    within: str
    category: str
    as_json: bool
    is_paged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """What `search` was asked for; the first four are those of `search_skills`."""

    query: str
    limit: int | None
    within: str
    category: str
    as_json: bool


def print_answer(application: Application, wanted: AskOptions) -> None:
    """Sync, then print what `get_skill` answers to a task.

    Raises:
        SyncError: There is no content, old or new.
        SkillsError: The tool refuses the arguments; the subclass says why.
    """
    from skills_mcp.server.replies import with_core_skills

    arguments = {
        "context": wanted.task,
        "skill_path": wanted.skill,
        "within": wanted.within,
        "category": wanted.category,
    }
    reply = _call(application, "get_skill", arguments)
    library = application.library
    data = with_core_skills(reply, library.core_skills()).data
    if wanted.as_json:
        print_json(data)
        return
    path = data.get("skill_path")
    if path is None:
        open_console().print(*_describe_list(data), sep="\n")
        return
    if not open_console().is_terminal:
        click.echo(_name_match(data))
        click.echo()
        click.echo(data["content"])
        return
    sections = library.preview(path).sections
    parts: list[RenderableType] = [escape(_name_match(data)), ""]
    parts += [part for each in sections for part in show_section(each)]
    print_paged([*parts, *_describe_files(data)], is_paged=wanted.is_paged)


def print_found(application: Application, wanted: SearchOptions) -> None:
    """Sync, then print what `search_skills` answers to a query.

    Raises:
        SyncError: There is no content, old or new.
        SkillsError: The tool refuses the arguments; the subclass says why.
    """
    arguments = {
        "query": wanted.query,
        "limit": wanted.limit,
        "within": wanted.within,
        "category": wanted.category,
    }
    data = _call(application, "search_skills", arguments).data
    if wanted.as_json:
        print_json(data)
    elif data["skills"]:
        open_console().print(_tabulate(data["skills"]))
        if data["truncated"]:
            click.echo("There are more: raise --limit.")
    else:
        click.echo(data["message"])


def _call(application: Application, tool: str, arguments: Mapping[str, Any]) -> "Reply":
    import anyio

    from skills_mcp.server.arguments import parse
    from skills_mcp.server.core_tools import CORE_TOOLS
    from skills_mcp.server.package_tools import PACKAGE_TOOLS

    load_snapshot(application)
    application.library.wait_for_vectors()
    spec = next(each for each in (*CORE_TOOLS, *PACKAGE_TOOLS) if each.name == tool)
    given = {key: value for key, value in arguments.items() if value}
    parsed = parse(spec.arguments, tool, given)
    return anyio.run(partial(spec.handler, application.library, parsed))


def _name_match(data: Mapping[str, Any]) -> str:
    """Return one line: the skill, its score, and the words that it owes it to."""
    score = f"score {data['score']:.{_DIGITS}f}"
    words = ", ".join(data["matched_keywords"])
    return printable("  ".join(filter(None, (data["skill_path"], score, words))))


def _describe_list(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the message of a reply without a text, and the skills that it lists."""
    yield escape(data["message"])
    if skills := data.get("candidates") or data.get("near"):
        yield _tabulate(skills)


def _describe_files(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    files = [
        f"{each['file']}{_describe_origin(each)}"
        for key in ("assets", "scripts", "inherited_assets", "inherited_scripts")
        for each in data.get(key, ())
    ]
    if files:
        yield escape(printable(f"Files: {', '.join(files)}"))
    if named := data.get("core_skills"):
        yield escape(printable(f"Core skills: {', '.join(named)}"))


def _describe_origin(entry: Mapping[str, Any]) -> str:
    return f" (from {entry['from']})" if "from" in entry else ""


def _tabulate(skills: Sequence[Mapping[str, Any]]) -> Table:
    table = Table()
    table.add_column("Skill", overflow="fold")
    table.add_column("Score", justify="right")
    table.add_column("Description", overflow="fold")
    for each in skills:
        path = each.get("skill_path") or each["path"]
        row = (printable(path), f"{each['score']:.{_DIGITS}f}")
        table.add_row(*map(escape, (*row, printable(each["description"]))))
    return table
