"""`skills-mcp show`: text and files of a skill, as delivered to an agent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Application
from skills_mcp.cli.sync import sync_and_load
from skills_mcp.cli.terminal import open_console, print_json, print_paged
from skills_mcp.library import sha256_of
from skills_mcp.skills.inheritance import section_title
from skills_mcp.skills.model import escape_unprintable

if TYPE_CHECKING:
    from skills_mcp.library.skill_preview import SkillPreview, TextSection

_SHORT_COMMIT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    name: str
    is_raw: bool
    with_files: bool
    as_json: bool
    is_paged: bool


def print_skill(application: Application, request: ShowOptions) -> None:
    """Sync, then print a skill: all of its text, its own file, or its files.

    Raises:
        SyncError: There is no content, old or new.
        SkillsError: No skill, several, or a hidden one; the subclass says which.
    """
    sync_and_load(application)
    library = application.library.view()
    preview = library.preview(request.name)
    raw = library.read_raw(request.name) if request.is_raw else None
    if request.as_json:
        print_json(_render(preview, raw))
    elif request.with_files:
        _print_files(preview)
    elif raw is not None:
        click.echo(raw, nl=not raw.endswith("\n"))
    elif open_console().is_terminal:
        parts = [part for section in preview.sections for part in show_section(section)]
        print_paged(parts, is_paged=request.is_paged)
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
    yield Markdown(printable_lines(section.body))
    yield ""


def printable_lines(text: str) -> str:
    """Remove control characters; lines and tabs stay."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


def _print_files(preview: "SkillPreview") -> None:
    if not preview.files:
        click.echo(f"{escape_unprintable(preview.skill.path)} has no file beside its text.")
        return
    table = Table()
    table.add_column("File", overflow="fold")
    table.add_column("Bytes", justify="right")
    table.add_column("From", overflow="fold")
    for file in preview.files:
        owner = "" if file.owner == preview.skill.path else escape_unprintable(file.owner)
        row = (escape_unprintable(file.file), f"{file.size_bytes:,}", owner)
        table.add_row(*map(escape, row))
    open_console().print(table)
