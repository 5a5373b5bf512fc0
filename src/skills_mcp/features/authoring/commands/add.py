"""Add a skill from an archive to a folder of skills.

PACKAGE is a .zip, .skill or .tar.gz with SKILL.md at its top or in its one folder. It is
checked and shown before anything is written; the version before is kept.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import json_option
from skills_mcp.cli.terminal import confirm, print_json, render_problem
from skills_mcp.errors import PackageNotAddedError
from skills_mcp.features.authoring.package_archive import UnpackedPackage, unpacked_package
from skills_mcp.features.authoring.version_store import VersionStore
from skills_mcp.skills.model import escape_unprintable

_SHOWN_FILES = 40


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp add pdf-forms.zip --to ./skills",
        "skills-mcp add --restore pdf-forms --to ./skills",
    ),
)
@click.argument(
    "package", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--to",
    "target",
    metavar="FOLDER",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of skills that takes it.",
)
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask.")
@click.option(
    "--keep",
    "max_versions",
    metavar="N",
    type=click.IntRange(min=1, max=1000),
    default=10,
    show_default=True,
    help="How many earlier versions of the skill to keep.",
)
@click.option("--list", "listed", metavar="NAME", help="Print the versions of a skill.")
@click.option(
    "--restore",
    "restored",
    metavar="NAME",
    help="Put an earlier version of this skill in place again.",
)
@click.option("--version", metavar="VERSION", help="The version to restore.  [default: the newest]")
@json_option
def command(
    *,
    package: Path | None,
    target: Path,
    is_confirmed: bool,
    max_versions: int,
    listed: str | None,
    restored: str | None,
    version: str | None,
    as_json: bool,
) -> None:
    if sum(action is not None for action in (package, restored, listed)) != 1:
        raise click.UsageError("Give one of: PACKAGE, --restore NAME, --list NAME.")
    if version and not restored:
        raise click.UsageError("--version goes with --restore NAME.")
    store = VersionStore(target, max_versions)
    if listed is not None:
        versions = store.versions(listed)
        message = "\n".join(versions)
        data = {"name": listed, "versions": [*versions]}
    elif restored is not None:
        version = store.restore(restored, version, datetime.now(UTC))
        message = f"{restored} is {version} again, in {target}."
        data = {"name": restored, "version": version, "path": str(target / restored)}
    elif package is not None:
        message, data = _add(package, target, store, is_confirmed=is_confirmed, as_json=as_json)
    if as_json:
        print_json(data)
    elif message:
        click.echo(message)
    else:
        click.echo(f"No earlier version of {listed} is kept in {target}", err=True)


def _add(
    archive: Path, target: Path, store: VersionStore, *, is_confirmed: bool, as_json: bool
) -> tuple[str, dict[str, Any]]:
    """Install the package, and describe the result: a message, and the same as data."""
    with unpacked_package(archive) as package:
        if not as_json:
            _show(package, target)
        if not is_confirmed:
            confirm(
                f"Add {package.name}?",
                PackageNotAddedError,
                done="added",
                preview="the package without --json",
                listing="list",
                as_json=as_json,
            )
        replaced = store.put(package.folder, package.name, datetime.now(UTC))
    path = target / package.name
    message = f"{package.name} is in {path}."
    if replaced:
        message += (
            f"\nThe version before is kept as {replaced}; to go back: skills-mcp add "
            f"--restore {package.name} --to {target}"
        )
    return message, {**_render(package), "kept_version": replaced, "path": str(path)}


def _render(package: UnpackedPackage) -> dict[str, Any]:
    return {
        "name": package.name,
        "description": package.description,
        "sha256": package.digest,
        "files": [{"file": file, "size_bytes": size} for file, size in package.files],
        "problems": [render_problem(problem) for problem in package.problems],
    }


def _show(package: UnpackedPackage, target: Path) -> None:
    total = sum(size for _, size in package.files)
    click.echo(f"Name         {package.name}")
    click.echo(f"Description  {escape_unprintable(package.description)}")
    click.echo(f"SHA-256      {package.digest}")
    click.echo(f"Files        {len(package.files)}, {total:,} bytes")
    for path, size in package.files[:_SHOWN_FILES]:
        click.echo(f"  {size:>10,}  {path}")
    if len(package.files) > _SHOWN_FILES:
        click.echo(f"  and {len(package.files) - _SHOWN_FILES} more")
    for problem in package.problems:
        location = f"{escape_unprintable(problem.file)}:{problem.line}"
        hint = problem.hint[:1].upper() + problem.hint[1:]
        click.echo(f"{location}: {problem.level}[{problem.rule}] {problem.reason}. {hint}")
    if (target / package.name).exists():
        click.echo(f"It replaces {target / package.name}, which is kept.")
