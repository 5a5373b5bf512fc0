"""Write a new skill: a rule file, or a package with a SKILL.md.

PATH is its place in the tree, such as ui/react/forms. Nothing that exists is
changed.
"""

import shlex
from pathlib import Path

import click

from skills_mcp.cli.command_group import WHERE, SectionedCommand, SectionOption
from skills_mcp.cli.options import complete_folder, json_option
from skills_mcp.cli.terminal import print_json
from skills_mcp.features.authoring.drafting import Draft, WrittenSkill, write_draft


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp new ui/react/forms --skills-dir ./skills",
        "skills-mcp new office/pdf --package --skills-dir ./skills",
        "skills-mcp new ui/_index --keywords ui,css --skills-dir ./skills",
    ),
)
@click.argument("path")
@click.option(
    "--skills-dir",
    "folder",
    cls=SectionOption,
    section=WHERE,
    envvar="SKILLS_DIR",
    metavar="FOLDER",
    required=True,
    type=click.Path(path_type=Path),
    shell_complete=complete_folder,
    help="The folder with the skills; it is made if there is none.",
)
@click.option(
    "--package", "is_package", is_flag=True, help="Write a package: a folder with a SKILL.md."
)
@click.option(
    "--description",
    metavar="TEXT",
    default="",
    help="What it is for, and when to use it.  [default: made of PATH]",
)
@click.option(
    "--keywords",
    metavar="WORDS",
    default="",
    help="What a developer would type, separated by commas.  [default: made of PATH]",
)
@json_option
def command(
    *, path: str, folder: Path, is_package: bool, description: str, keywords: str, as_json: bool
) -> None:
    draft = Draft(
        path=path,
        kind="package" if is_package else "rule",
        description=" ".join(description.split()),
        keywords=tuple(filter(None, map(str.strip, keywords.split(",")))),
    )
    written = write_draft(folder, draft)
    commands = [*map(shlex.join, _next(folder, written))]
    if as_json:
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
    for line in commands:
        click.echo(f"  {line}")


def _next(folder: Path, written: WrittenSkill) -> tuple[tuple[str, ...], ...]:
    where = ("--skills-dir", str(folder))
    return (
        ("skills-mcp", "ask", written.task, *where),
        ("skills-mcp", "show", written.path, *where),
        ("skills-mcp", "validate", str(folder)),
        ("skills-mcp", "test", *where),
    )
