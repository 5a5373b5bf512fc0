"""`skills-mcp new`: create a skill, and print the next steps."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from skills_mcp.cli.terminal import print_json
from skills_mcp.features.authoring.drafting import Draft, WrittenSkill, write_draft


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOptions:
    path: str
    folder: Path
    is_package: bool
    description: str
    keywords: str
    as_json: bool


def run_new(options: NewOptions) -> None:
    """Create a skill, and print its file and commands to try it.

    Raises:
        InvalidPathError: The path is not portable.
        SkillNotWrittenError: It cannot be written there; nothing was changed.
    """
    words = (word.strip() for word in options.keywords.split(","))
    draft = Draft(
        path=options.path,
        kind="package" if options.is_package else "rule",
        description=" ".join(options.description.split()),
        keywords=tuple(filter(None, words)),
    )
    written = write_draft(options.folder, draft)
    commands = [*map(shlex.join, _next(options.folder, written))]
    if options.as_json:
        print_json(
            {
                "file": str(written.file),
                "skill_path": written.path,
                "kind": written.kind,
                "next": commands,
            }
        )
        return
    click.echo(f"Wrote {written.file}. Write its rules, then try it:")
    for command in commands:
        click.echo(f"  {command}")


def _next(folder: Path, written: WrittenSkill) -> tuple[tuple[str, ...], ...]:
    where = ("--skills-dir", str(folder))
    return (
        ("skills-mcp", "ask", written.task, *where),
        ("skills-mcp", "show", written.path, *where),
        ("skills-mcp", "validate", str(folder)),
        ("skills-mcp", "test", *where),
    )
