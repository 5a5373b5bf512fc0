"""Bring the rules of coding agents here, as skills.

SOURCE is a folder, or the URL of a repository: .cursor/rules, .github/instructions,
AGENTS.md, CLAUDE.md, .windsurf/rules, .clinerules, Claude commands and agents. Nothing
that exists is changed without --force.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from skills_mcp.bootstrap import fetched_files
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import json_option
from skills_mcp.cli.terminal import open_console, print_json, shorten, tabulate
from skills_mcp.errors import SkillNotWrittenError
from skills_mcp.features.authoring.instruction_files import (
    ImportedSkill,
    ImportPlan,
    is_instruction_path,
    plan_import,
    render_imported_skill,
)
from skills_mcp.features.authoring.validation import Validation, validate_paths
from skills_mcp.files.durable import fsync_folder
from skills_mcp.files.paths import is_inside
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.skills.source_layout import SKILLS_FOLDER, FolderTree, Selection, find_layout
from skills_mcp.text.rendering import count_noun

_MAX_ROWS = 60
_MAX_CELL = 100
_MAX_NAMED = 5
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Written:
    target: Path
    plan: ImportPlan
    outside: Sequence[str]
    """Packages of the source that `target` hides from a server."""
    states: Mapping[str, str]
    """What became of each file: `written`, `replaced`, `unchanged` or `kept`."""
    validation: Validation | None
    """None if nothing was written."""


@click.command(
    "import",
    cls=SectionedCommand,
    examples=(
        "skills-mcp import . --dry-run",
        "skills-mcp import ~/src/shop --to ./skills",
        "skills-mcp import https://github.com/acme/shop --to ./skills",
    ),
)
@click.argument("source")
@click.option(
    "--to",
    "target",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of skills.  [default: skills/ in SOURCE; for a repository, ./skills]",
)
@click.option("--dry-run", "is_dry", is_flag=True, help="Print the table, and write nothing.")
@click.option("--force", "is_forced", is_flag=True, help="Replace files that exist.")
@json_option
def command(
    *, source: str, target: Path | None, is_dry: bool, is_forced: bool, as_json: bool
) -> None:
    with _opened(source) as folder:
        is_remote = str(folder) != os.path.abspath(os.path.expanduser(source))  # noqa: PTH100, PTH111
        target = target or (Path(SKILLS_FOLDER) if is_remote else _find_home(folder))
        target = target.absolute()
        plan = plan_import(folder, target)
        outside = [] if is_remote else [*_find_outside(folder, target, plan.packages)]
    if not plan.skills:
        raise SkillNotWrittenError(_explain_nothing(source, plan))
    states = {
        skill.file: _write(target, skill, is_dry=is_dry, is_forced=is_forced)
        for skill in plan.skills
    }
    validation = None if is_dry else validate_paths(target)
    written = _Written(target, plan, outside, states, validation)
    if as_json:
        print_json(_to_json(written))
    else:
        _print(written)


@contextmanager
def _opened(source: str) -> Iterator[Path]:
    if _URL.match(source):
        with fetched_files(source, os.environ, is_instruction_path) as folder:
            yield folder
        return
    folder = Path(os.path.abspath(os.path.expanduser(source)))  # noqa: PTH100, PTH111 - a link stays one
    if not folder.is_dir():
        raise click.UsageError(f"{source} is no folder, and no URL of a repository.")
    yield folder


def _find_home(folder: Path) -> Path:
    home = find_layout(FolderTree(folder), Selection()).homes[0].folder
    return folder / (home or SKILLS_FOLDER)


def _find_outside(folder: Path, target: Path, packages: Sequence[str]) -> Iterator[str]:
    """Packages that are served only as long as there is no `skills/`."""
    if target != folder / SKILLS_FOLDER:
        return
    homes = {home.folder for home in find_layout(FolderTree(folder), Selection()).homes}
    served = [*(homes - {""}), SKILLS_FOLDER]
    yield from (p for p in packages if not any(is_inside(p, home) for home in served))


def _explain_nothing(source: str, plan: ImportPlan) -> str:
    left = "".join(f" {file}: {reason}." for file, reason in [*plan.left_out.items()][:3])
    return (
        f"{source} has no instruction files of an agent, so nothing was written.{left} "
        "`skills-mcp import --help` lists what is known; a SKILL.md needs no import."
    )


def _write(target: Path, skill: ImportedSkill, *, is_dry: bool, is_forced: bool) -> str:
    file, text = target / skill.file, render_imported_skill(skill).encode()
    try:
        old = file.read_bytes() if file.is_file() else None
        if old == text:
            return "unchanged"
        state = "written" if old is None else "replaced" if is_forced else "kept"
        if not is_dry and state != "kept":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
            fsync_folder(file.parent)
    except OSError as error:
        raise SkillNotWrittenError(
            f"{file} cannot be written: {error.strerror}. Name another folder with --to."
        ) from error
    return state


def _print(written: _Written) -> None:
    plan, console = written.plan, open_console()
    rows = [_describe(skill, written.states[skill.file]) for skill in plan.skills]
    console.print(tabulate(("From", "Became", "Proposed keywords", "Note"), rows[:_MAX_ROWS]))
    if len(rows) > _MAX_ROWS:
        click.echo(f"and {len(rows) - _MAX_ROWS} more: --json lists all")
    if plan.left_out:
        click.echo(f"\nNot imported: {count_noun(len(plan.left_out), 'file')}")
        for file, reason in [*plan.left_out.items()][:_MAX_ROWS]:
            click.echo(f"  {escape_unprintable(file)}: {escape_unprintable(reason)}")
        if len(plan.left_out) > _MAX_ROWS:
            click.echo(f"  and {len(plan.left_out) - _MAX_ROWS} more: --json lists all")
    click.echo("")
    for line in _summarise(written):
        click.echo(line)


def _describe(skill: ImportedSkill, state: str) -> tuple[str, str, str, str]:
    sources = "\n".join(escape_unprintable(s.file) or "(added)" for s in skill.sources)
    notes = [note for source in skill.sources for note in source.notes]
    notes += [_STATES[state]] if state in _STATES else []
    cells = (", ".join(skill.keywords), "; ".join(notes))
    return sources, skill.file, *(shorten(cell, _MAX_CELL) for cell in cells)  # type: ignore[return-value]


_STATES = {
    "kept": "exists, and was kept: --force replaces it",
    "replaced": "replaced what was there",
    "unchanged": "is there already",
}


def _summarise(written: _Written) -> Iterator[str]:
    skills, states = written.plan.skills, [*written.states.values()]
    packages = sum(skill.is_package for skill in skills)
    made = f"{count_noun(len(skills) - packages, 'rule file')}, {count_noun(packages, 'package')}"
    if written.validation is None:
        yield f"{made} for {written.target}. Nothing was written: leave --dry-run out."
        yield from _describe_outside(written.outside)
        return
    kept = states.count("kept")
    more = f"; {count_noun(kept, 'file')} kept as it was" if kept else ""
    if states.count("unchanged") + kept == len(states):
        yield f"Nothing was written: {made} in {written.target} already{more}."
    else:
        yield f"{made} in {written.target}{more}."
    yield from _describe_outside(written.outside)
    found = written.validation
    counts = (
        f"{count_noun(found.error_count, 'error')}, {count_noun(found.warning_count, 'warning')}"
    )
    yield f"validate: {count_noun(found.skill_count, 'skill')}, {counts}. Next:"
    yield f"  skills-mcp validate {written.target}"
    yield f"  skills-mcp ask 'a task of yours' --skills-dir {written.target}"


def _describe_outside(packages: Sequence[str]) -> Iterator[str]:
    if not packages:
        return
    named = ", ".join(map(escape_unprintable, packages[:_MAX_NAMED]))
    more = f" and {len(packages) - _MAX_NAMED} more" if len(packages) > _MAX_NAMED else ""
    is_one = len(packages) == 1
    subject = "1 package is" if is_one else f"{len(packages):,} packages are"
    yield (
        f"{subject} not served beside a folder skills/: {named}{more}. Move "
        f"{'it' if is_one else 'them'} into skills/, or set everywhere: true for this source."
    )


def _to_json(written: _Written) -> dict[str, Any]:
    skills = [
        {
            "file": skill.file,
            "skill_path": skill.path,
            "kind": "package" if skill.is_package else "rule",
            "state": written.states[skill.file],
            "proposed_keywords": [*skill.keywords],
            "sources": [
                {"file": source.file, "host": source.host, "notes": [*source.notes]}
                for source in skill.sources
                if source.file
            ],
        }
        for skill in written.plan.skills
    ]
    found = written.validation
    return {
        "target": str(written.target),
        "skills": skills,
        "not_imported": [{"file": f, "reason": r} for f, r in written.plan.left_out.items()],
        "packages_outside": [*written.outside],
        "validation": found and {"errors": found.error_count, "warnings": found.warning_count},
    }
