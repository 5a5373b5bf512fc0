"""`skills-mcp ask` and `search`: replies of `get_skill` and `search_skills`.

They call the tools themselves, so that a reply is that of the server.
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
from skills_mcp.cli.sync import sync_and_load
from skills_mcp.cli.terminal import open_console, print_json, print_paged
from skills_mcp.skills.model import escape_unprintable

if TYPE_CHECKING:
    from skills_mcp.server.replies import Reply

_DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """The first four are the arguments of `get_skill`."""

    task: str
    skill: str | None
    within: str
    category: str
    as_json: bool
    is_paged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The first four are the arguments of `search_skills`."""

    query: str
    limit: int | None
    within: str
    category: str
    as_json: bool


def print_answer(application: Application, request: AskOptions) -> None:
    """Sync, then print the answer of `get_skill` to a task.

    Raises:
        SyncError: There is no content, old or new.
        SkillsError: The tool refuses the arguments; the subclass says why.
    """
    from skills_mcp.server.replies import with_core_skills

    arguments = {
        "context": request.task,
        "skill_path": request.skill,
        "within": request.within,
        "category": request.category,
    }
    reply = _call(application, "get_skill", arguments)
    library = application.library.view()
    data = with_core_skills(reply, library.core_skills()).data
    if request.as_json:
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
    parts += [part for section in sections for part in show_section(section)]
    print_paged([*parts, *_describe_files(data)], is_paged=request.is_paged)


def print_found(application: Application, request: SearchOptions) -> None:
    """Sync, then print the results of `search_skills`.

    Raises:
        SyncError: There is no content, old or new.
        SkillsError: The tool refuses the arguments; the subclass says why.
    """
    arguments = {
        "query": request.query,
        "limit": request.limit,
        "within": request.within,
        "category": request.category,
    }
    data = _call(application, "search_skills", arguments).data
    if request.as_json:
        print_json(data)
    elif data["skills"]:
        open_console().print(_tabulate(data["skills"]))
        if data["truncated"]:
            click.echo("There are more: raise --limit.")
    else:
        click.echo(data["message"])


def _call(application: Application, tool: str, arguments: Mapping[str, Any]) -> "Reply":
    import anyio

    from skills_mcp.server.package_tools import PACKAGE_TOOLS
    from skills_mcp.server.tools import CORE_TOOLS, parse_arguments

    sync_and_load(application)
    application.library.current.wait_for_vectors()
    spec = next(
        spec_candidate
        for spec_candidate in (*CORE_TOOLS, *PACKAGE_TOOLS)
        if spec_candidate.name == tool
    )
    values = {key: value for key, value in arguments.items() if value}
    parsed = parse_arguments(spec.arguments, tool, values)
    return anyio.run(partial(spec.handler, application.library.view(), parsed))


def _name_match(data: Mapping[str, Any]) -> str:
    """One line: the skill, its score, and the matched words."""
    score = f"score {data['score']:.{_DIGITS}f}"
    words = ", ".join(data["matched_keywords"])
    return escape_unprintable("  ".join(filter(None, (data["skill_path"], score, words))))


def _describe_list(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield escape(data["message"])
    if skills := data.get("candidates") or data.get("near"):
        yield _tabulate(skills)


def _describe_files(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    files = [
        f"{file['file']}{_describe_origin(file)}"
        for key in ("assets", "scripts", "inherited_assets", "inherited_scripts")
        for file in data.get(key, ())
    ]
    if files:
        yield escape(escape_unprintable(f"Files: {', '.join(files)}"))
    if named := data.get("core_skills"):
        yield escape(escape_unprintable(f"Core skills: {', '.join(named)}"))


def _describe_origin(entry: Mapping[str, Any]) -> str:
    return f" (from {entry['from']})" if "from" in entry else ""


def _tabulate(skills: Sequence[Mapping[str, Any]]) -> Table:
    table = Table()
    table.add_column("Skill", overflow="fold")
    table.add_column("Score", justify="right")
    table.add_column("Description", overflow="fold")
    for skill in skills:
        path = skill.get("skill_path") or skill["path"]
        row = (escape_unprintable(path), f"{skill['score']:.{_DIGITS}f}")
        table.add_row(*map(escape, (*row, escape_unprintable(skill["description"]))))
    return table
