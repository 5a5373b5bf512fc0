"""Show what an agent gets for a task, as get_skill answers it.

It is not recorded as a use of the skill.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from skills_mcp.cli import options
from skills_mcp.cli.command_group import SectionedCommand, repeat_options
from skills_mcp.cli.commands.show import show_section
from skills_mcp.cli.terminal import open_console, print_json, print_paged, sync_and_load, tabulate
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.model import escape_unprintable

if TYPE_CHECKING:
    from skills_mcp.server.replies import Reply

_DIGITS = 2


@click.command(
    cls=SectionedCommand,
    examples=(
        'skills-mcp ask "add a login page" --skills-dir ./skills',
        'skills-mcp ask "add a login page" --within ui --json',
    ),
)
@click.argument("task")
@click.option("--skill", metavar="PATH", help="Take this skill, as an agent that has chosen it.")
@options.narrowing_options
@options.project_option
@options.json_option
@options.pager_option
@options.content_options()
def command(
    *,
    task: str,
    skill: str | None,
    within: str,
    category: str,
    project: str,
    as_json: bool,
    is_paged: bool,
    **values: Any,
) -> None:
    from skills_mcp.server.replies import with_core_skills

    library = options.build_application(is_recorded=False, **values).library
    options.choose_project(library, project)
    reply = call_tool(
        library, "get_skill", context=task, skill_path=skill, within=within, category=category
    )
    data = with_core_skills(reply, library.view().core_skills()).data
    path = data.get("skill_path")
    if as_json:
        print_json(data)
    elif path is None:
        open_console().print(*_describe_list(data, task), sep="\n")
    elif open_console().is_terminal:
        view, paths = library.view(), data.get("skill_paths", [path])
        parts_by_path = {s.path: s for each in paths for s in view.preview(each).sections}
        lines = filter(None, (_name_match(data), data.get("applies")))
        parts: list[RenderableType] = [*map(escape, lines), ""]
        parts += [part for s in parts_by_path.values() for part in show_section(s)]
        print_paged([*parts, *_describe_files(data)], is_paged=is_paged)
    else:
        click.echo(f"{_name_match(data)}\n\n{data['content']}")


def call_tool(library: SkillLibrary, tool: str, **arguments: Any) -> "Reply":
    """Sync, then call a tool as a client does; empty options are left out.

    Raises:
        SyncError: There is no content, old or new.
        SkillsError: The tool refuses the arguments; the subclass says why.
    """
    import anyio

    from skills_mcp.server.tools import CORE_TOOLS, PACKAGE_TOOLS, parse_arguments

    sync_and_load(library)
    library.current.wait_for_vectors()
    spec = {spec.name: spec for spec in (*CORE_TOOLS, *PACKAGE_TOOLS)}[tool]
    fields = spec.arguments.model_fields
    values = {key: value for key, value in arguments.items() if value or fields[key].is_required()}
    parsed = parse_arguments(spec.arguments, tool, values)
    return anyio.run(partial(spec.answer, library.view(), parsed))


def _name_match(data: Mapping[str, Any]) -> str:
    """One line: the skill, its score, and the matched words."""
    score = f"score {data['score']:.{_DIGITS}f}"
    words = ", ".join(data["matched_keywords"])
    paths = " and ".join(data.get("skill_paths", [data["skill_path"]]))
    return escape_unprintable("  ".join(filter(None, (paths, score, words))))


def _describe_list(data: Mapping[str, Any], task: str) -> Iterator[RenderableType]:
    yield escape(data["message"])
    if skills := data.get("candidates") or data.get("near"):
        yield tabulate_skills(skills)
        chosen = shlex.join((task, "--skill", _find_path(skills[0])))
        yield escape(repeat_options(f"To take one: skills-mcp ask {chosen}"))
    yield escape(repeat_options(f"To see why: skills-mcp explain {shlex.quote(task)}"))


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


def _find_path(skill: Mapping[str, Any]) -> str:
    path: str = skill.get("skill_path") or skill["path"]
    return path


def tabulate_skills(skills: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            escape_unprintable(_find_path(skill)),
            f"{skill['score']:.{_DIGITS}f}",
            escape_unprintable(skill["description"]),
        )
        for skill in skills
    ]
    return tabulate(("Skill", "Score", "Description"), rows, numbers=("Score",))
