"""`skills-mcp show`: the text of a skill as an agent gets it, and its files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from skills_mcp.bootstrap import Application
from skills_mcp.cli.sync import load_snapshot
from skills_mcp.cli.terminal import open_console, print_json, print_paged
from skills_mcp.library import derive_sha256
from skills_mcp.skills.inheritance import derive_title
from skills_mcp.skills.model import printable

if TYPE_CHECKING:
    from skills_mcp.library.preview import SkillPreview, TextSection

_SHORT_COMMIT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """What `show` was asked for."""

    name: str
    is_raw: bool
    with_files: bool
    as_json: bool
    is_paged: bool


def print_skill(application: Application, wanted: ShowOptions) -> None:
    """Sync, then print a skill: all of its text, its own file, or its files.

    Raises:
        SyncError: There is no content, old or new.
        SkillsError: No skill, several, or a hidden one; the subclass says which.
    """
    load_snapshot(application)
    library = application.library
    preview = library.preview(wanted.name)
    raw = library.read_raw(wanted.name) if wanted.is_raw else None
    if wanted.as_json:
        print_json(_render(preview, raw))
    elif wanted.with_files:
        _print_files(preview)
    elif raw is not None:
        click.echo(raw, nl=not raw.endswith("\n"))
    elif open_console().is_terminal:
        parts = [part for each in preview.sections for part in show_section(each)]
        print_paged(parts, is_paged=wanted.is_paged)
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
        "sha256": derive_sha256(preview.guidance),
        "digest": preview.digest,
        "commit": preview.provenance.commit,
        "path": preview.provenance.path,
        "parts": [_render_section(each) for each in preview.sections],
        "files": [
            {"file": each.file, "size_bytes": each.size_bytes, "from": each.owner}
            for each in preview.files
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
    """Yield a part of a text as a terminal shows it, below where it comes from."""
    from rich.markdown import Markdown
    from rich.rule import Rule

    commit = f" at {section.commit[:_SHORT_COMMIT]}" if section.commit else ""
    origin = escape(printable(f"{section.file}{commit}"))
    title = escape(printable(derive_title(section.path)))
    yield Rule(f"[bold]{title}[/]  [dim]{origin}[/]", align="left")
    yield ""
    yield Markdown(printable_lines(section.body))
    yield ""


def printable_lines(text: str) -> str:
    """Return a text without what would steer a terminal; lines and tabs stay."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


def _print_files(preview: "SkillPreview") -> None:
    if not preview.files:
        click.echo(f"{printable(preview.skill.path)} has no file beside its text.")
        return
    table = Table()
    table.add_column("File", overflow="fold")
    table.add_column("Bytes", justify="right")
    table.add_column("From", overflow="fold")
    for each in preview.files:
        owner = "" if each.owner == preview.skill.path else printable(each.owner)
        row = (printable(each.file), f"{each.size_bytes:,}", owner)
        table.add_row(*map(escape, row))
    open_console().print(table)
