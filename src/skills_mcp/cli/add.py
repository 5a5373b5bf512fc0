"""`skills-mcp add`: inspect an archive, then install the package into a folder."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from skills_mcp.cli.terminal import print_json, render_problem
from skills_mcp.errors import PackageNotAddedError
from skills_mcp.features.authoring.package_archive import UnpackedPackage, unpacked_package
from skills_mcp.features.authoring.version_store import VersionStore
from skills_mcp.skills.model import escape_unprintable

_SHOWN_FILES = 40


@dataclass(frozen=True, slots=True)
class AddOptions:
    package: Path | None
    target: Path
    kept: int
    is_confirmed: bool
    restored: str | None
    version: str | None
    listed: str | None
    as_json: bool


def run_add(options: AddOptions) -> None:
    """Install, list or restore a package, and print the result.

    Raises:
        PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
        PackageNotAddedError: The folder cannot take it, or the answer was no.
        UsageError: The options name no action, or several.
    """
    actions = (options.package, options.restored, options.listed)
    if sum(action is not None for action in actions) != 1:
        raise click.UsageError("Give one of: PACKAGE, --restore NAME, --list NAME.")
    if options.version and not options.restored:
        raise click.UsageError("--version goes with --restore NAME.")
    shelf = VersionStore(options.target, options.kept)
    if options.listed:
        _list(options.listed, shelf, as_json=options.as_json)
        return
    now = datetime.now(UTC)
    if options.restored:
        version = shelf.restore(options.restored, options.version, now)
        _print_result(
            options,
            f"{options.restored} is {version} again, in {options.target}.",
            {"name": options.restored, "version": version},
        )
        return
    if options.package is not None:
        _add(options, options.package, shelf, now)


def _list(name: str, shelf: VersionStore, *, as_json: bool) -> None:
    versions = shelf.versions(name)
    if as_json:
        print_json({"name": name, "versions": [*versions]})
        return
    for version in versions:
        click.echo(version)


def _print_result(options: AddOptions, message: str, data: Mapping[str, Any]) -> None:
    """Print the result as a sentence, or as JSON with the path of the skill."""
    if options.as_json:
        print_json({**data, "path": str(options.target / data["name"])})
    else:
        click.echo(message)


def _add(options: AddOptions, archive: Path, shelf: VersionStore, now: datetime) -> None:
    with unpacked_package(archive) as package:
        if not options.as_json:
            _show(package, options.target)
        if not options.is_confirmed:
            _ask(package.name, as_json=options.as_json)
        replaced = shelf.put(package.folder, package.name, now)
    message = f"{package.name} is in {options.target / package.name}."
    if replaced:
        message += (
            f"\nThe version before is kept as {replaced}; to go back: skills-mcp add "
            f"--restore {package.name} --to {options.target}"
        )
    _print_result(options, message, {**_render(package), "kept_version": replaced})


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
        click.echo(f"{location}: {problem.level}[{problem.rule}] {problem.reason}. {problem.hint}")
    if (target / package.name).exists():
        click.echo(f"It replaces {target / package.name}, which is kept.")


def _ask(name: str, *, as_json: bool) -> None:
    if as_json:
        raise PackageNotAddedError(
            "Nothing was added: --json does not ask. Look at the package "
            "without --json, and call it again with --yes"
        )
    if not sys.stdin.isatty():
        raise PackageNotAddedError(
            "Nothing was added: there is no terminal to ask at. Look at the list "
            "above, and call it again with --yes"
        )
    if not click.confirm(f"Add {name}?"):
        raise PackageNotAddedError("Nothing was added")
