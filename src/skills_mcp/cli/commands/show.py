"""Show the text of a skill exactly as an agent gets it.

PATH is a path or a name, as tree shows it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.markup import escape

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import build_application, content_options, json_option, pager_option
from skills_mcp.cli.terminal import open_console, print_json, print_paged, sync_and_load, tabulate
from skills_mcp.library import sha256_of
from skills_mcp.skills.inheritance import section_title
from skills_mcp.skills.model import escape_unprintable

if TYPE_CHECKING:
    from skills_mcp.library.skill_folder import SkillPreview, TextSection

_SHORT_COMMIT = 7


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp show ui/react/auth --skills-dir ./skills",
        "skills-mcp show ui/react/auth --files",
        "skills-mcp show ui/react/auth --raw --skills-dir ./skills",
    ),
)
@click.argument("name", metavar="PATH")
@click.option("--raw", "is_raw", is_flag=True, help="Show the file alone, as its author wrote it.")
@click.option(
    "--files",
    "with_files",
    is_flag=True,
    help="List the files that come with it instead of the text.",
)
@json_option
@pager_option
@content_options()
def command(
    *, name: str, is_raw: bool, with_files: bool, as_json: bool, is_paged: bool, **values: Any
) -> None:
    if is_raw and with_files:
        raise click.UsageError("--raw and --files exclude each other.")
    library = build_application(is_recorded=False, **values).library
    sync_and_load(library)
    view = library.view()
    preview = view.preview(name)
    raw = view.read_raw(name) if is_raw else None
    if as_json:
        print_json(_render(preview, raw))
    elif with_files:
        _print_files(preview)
    elif raw is not None:
        click.echo(raw, nl=not raw.endswith("\n"))
    elif open_console().is_terminal:
        parts = [part for section in preview.sections for part in show_section(section)]
        print_paged([*parts, f"[dim]{preview.cost}[/]"], is_paged=is_paged)
    else:
        click.echo(preview.guidance)  # to the letter, for a file or another program


def _render(preview: "SkillPreview", raw: str | None) -> dict[str, Any]:
    skill = preview.skill
    data: dict[str, Any] = {
        "skill_path": skill.path,
        "name": skill.name,
        "description": skill.description,
        "keywords": list(skill.keywords),
        "content": preview.guidance,
        **preview.cost.render(),
        "sha256": sha256_of(preview.guidance),
        "digest": preview.digest,
        "commit": preview.provenance.commit,
        "path": preview.provenance.path,
        "parts": [_render_section(part) for part in preview.sections],
        "files": [
            {"file": part.file, "size_bytes": part.size_bytes, "from": part.owner}
            for part in preview.files
        ],
    }
    return data if raw is None else {**data, "raw": raw}


def _render_section(section: "TextSection") -> dict[str, Any]:
    return {
        "skill_path": section.path,
        "path": section.file,
        "commit": section.commit,
        "content": section.body,
    }


def show_section(section: "TextSection") -> Iterator[RenderableType]:
    """Render a section below its source."""
    from rich.markdown import Markdown
    from rich.rule import Rule

    commit = f" at {section.commit[:_SHORT_COMMIT]}" if section.commit else ""
    origin = escape(escape_unprintable(f"{section.file}{commit}"))
    title = escape(escape_unprintable(section_title(section.path)))
    yield Rule(f"[bold]{title}[/]  [dim]{origin}[/]", align="left")
    yield ""
    yield Markdown("".join(c for c in section.body if c.isprintable() or c in "\n\t"))
    yield ""


def _print_files(preview: "SkillPreview") -> None:
    if not preview.files:
        click.echo(f"{escape_unprintable(preview.skill.path)} has no file beside its text.")
        return
    rows = [
        (
            escape_unprintable(file.file),
            f"{file.size_bytes:,}",
            "" if file.owner == preview.skill.path else escape_unprintable(file.owner),
        )
        for file in preview.files
    ]
    open_console().print(tabulate(("File", "Bytes", "From"), rows, numbers=("Bytes",)))
