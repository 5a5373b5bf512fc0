"""Write the skills as folders that agents read without a server.

Only what differs is written, and nothing that an export did not write is touched.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.from_thread
import click

from skills_mcp.bootstrap import build
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import complete_folder, content_options, json_option, read_options
from skills_mcp.cli.terminal import print_json, progress_bar, sync_and_load
from skills_mcp.errors import ExportError
from skills_mcp.features.export.folder import (
    ExportReport,
    export_skills,
    plan_export,
    verify_folder,
)
from skills_mcp.features.export.layout import (
    EXPORT_LOCK_FILE,
    ExportLock,
    FolderFormat,
    LockedSettings,
    detect_format,
    read_lock,
)
from skills_mcp.library import LibraryView, SkillLibrary
from skills_mcp.skills.model import escape_unprintable

_BEHIND = 1
_SHOWN = 20


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp export --skills-dir ./skills --to .claude/skills",
        "skills-mcp export --skills-dir ./skills --to ./out --select 'ui/**'",
        "skills-mcp export --to .claude/skills --check",
        "skills-mcp export --to .claude/skills --frozen",
        "skills-mcp export --verify .claude/skills",
    ),
)
@click.option(
    "--to",
    "target",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    shell_complete=complete_folder,
    help="The folder to write, such as .claude/skills.",
)
@click.option(
    "--format",
    "folder_format",
    type=click.Choice(get_args(FolderFormat)),
    help="For whom.  [default: by the name of the folder]",
)
@click.option(
    "--select",
    metavar="PATTERN",
    multiple=True,
    help="Only skills whose path or name fits, such as ui/**; may be repeated.",
)
@click.option("--raw", "is_raw", is_flag=True, help="Without the rules above each skill.")
@click.option(
    "--check", "is_check", is_flag=True, help="Write nothing; fail if the folder is behind."
)
@click.option(
    "--frozen",
    "is_frozen",
    is_flag=True,
    help="Write exactly the commit and settings of skills.lock.",
)
@click.option("--watch", "is_watching", is_flag=True, help="Follow the skills until Ctrl-C.")
@click.option(
    "--verify",
    "verified",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    shell_complete=complete_folder,
    help="Only compare an exported folder with its lock; no repository is needed.",
)
@json_option
@content_options(log_level="error")
def command(
    *,
    target: Path | None,
    folder_format: FolderFormat | None,
    select: tuple[str, ...],
    is_raw: bool,
    is_check: bool,
    is_frozen: bool,
    is_watching: bool,
    verified: Path | None,
    as_json: bool,
    **values: Any,
) -> None:
    if verified and not target:
        sys.exit(_verify(verified, as_json=as_json))
    if verified or not target:
        raise click.UsageError("Give one of: --to FOLDER, --verify FOLDER.")
    if is_watching and (is_check or is_frozen):
        raise click.UsageError("--watch excludes --check and --frozen.")
    options, environment = read_options(**values)
    lock = _require_lock(target) if is_frozen else None
    if lock and options.repo and len(lock.sources) == 1 and lock.sources[0].commit:
        options = replace(options, branch="", pin=lock.sources[0].commit)
    options = replace(options, settings={"analytics": {"enabled": False}})
    library = build(options, environment).library
    sync_and_load(library)
    if lock:
        _require_commits(library, lock)
        settings = lock.settings
    else:
        chosen = folder_format or detect_format(target)
        settings = LockedSettings(format=chosen, raw=is_raw, select=select)
    show = partial(_print, target=target, is_check=is_check, as_json=as_json)
    if is_check:
        report = plan_export(_narrow(library, settings), target, settings)
        show(report)
        sys.exit(0 if report.is_current else _BEHIND)
    write = partial(_write, library, target, settings)
    show(write())
    if is_watching:
        anyio.run(_follow, library, settings, write, show)


def _verify(folder: Path, *, as_json: bool) -> int:
    """Compare a folder with its lock; 1 if anything differs."""
    lock, differences = verify_folder(folder)
    if as_json:
        print_json(
            {
                "ok": not differences,
                "sources": [item.model_dump() for item in lock.sources],
                "skills": len(lock.skills),
                "differences": [asdict(item) for item in differences],
            }
        )
    else:
        for item in differences:
            click.echo(escape_unprintable(f"{item.kind}: {item.file}"))
        if not differences:
            commits = ", ".join(filter(None, (item.commit for item in lock.sources)))
            at = f" of {commits}" if commits else ""
            click.echo(f"{len(lock.skills)} skills{at}: as the lock says.")
    return 1 if differences else 0


def _require_lock(target: Path) -> ExportLock:
    lock = read_lock(target)
    if lock is None:
        raise ExportError(f"{target} has no {EXPORT_LOCK_FILE}. Export once without --frozen.")
    return lock


def _require_commits(library: SkillLibrary, lock: ExportLock) -> None:
    found = {state.mount: state.commit for state in library.view().states()}
    for source in lock.sources:
        if found.get(source.mount) != source.commit:
            raise ExportError(
                f"{source.name} is at {found.get(source.mount)}, and {EXPORT_LOCK_FILE} wants "
                f"{source.commit}. Name it with --repo, or pin each source with ref in "
                "config.yaml."
            )


def _narrow(library: SkillLibrary, settings: LockedSettings) -> LibraryView:
    view = library.view()
    return view.narrow(settings.select, ()) if settings.select else view


def _write(library: SkillLibrary, target: Path, settings: LockedSettings) -> ExportReport:
    narrowed = _narrow(library, settings)
    with progress_bar("Exporting") as on_progress:
        return export_skills(narrowed, target, settings, on_progress=on_progress)


async def _follow(
    library: SkillLibrary,
    settings: LockedSettings,
    write: Callable[[], ExportReport],
    show: Callable[[ExportReport], None],
) -> None:
    """Export again after each change, until Ctrl-C."""
    changed = anyio.Event()

    def tell() -> None:
        changed.set()

    # Each change is told on the thread that has read it.
    access = _narrow(library, settings).access
    library.watch_changes(lambda _: anyio.from_thread.run_sync(tell), access)
    click.echo("Following the skills; Ctrl-C ends it.", err=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        library.refresher.wake()
        while True:
            await changed.wait()
            changed = anyio.Event()
            try:
                report = await anyio.to_thread.run_sync(write)
            except ExportError as error:  # the next change may find more room
                click.echo(f"skills-mcp: {error}", err=True)
                continue
            if not report.is_current:
                show(report)


def _print(report: ExportReport, *, target: Path, is_check: bool, as_json: bool) -> None:
    if as_json:
        data = {"current": report.is_current, **asdict(report)}
        print_json({"ok": report.is_current or not is_check, **data})
        return
    for name in report.kept:
        line = f"Kept {name}: it was edited, or no export has written it"
        click.echo(escape_unprintable(line), err=True)
    for remark in report.remarks:
        click.echo(escape_unprintable(remark), err=True)
    if is_check:
        _list("would be written", report.written)
        _list("would be removed", report.removed)
        if report.is_current:
            click.echo(f"{target} is up to date: {report.skills} skills.")
        elif not report.written and not report.removed:
            click.echo(f"{EXPORT_LOCK_FILE} is behind: the same skills are in a newer commit.")
        return
    noun = "skill" if report.skills == 1 else "skills"
    written, removed = len(report.written), len(report.removed)
    files = "file" if written == 1 else "files"
    click.echo(f"{report.skills} {noun} in {target}: {written} {files} written, {removed} removed.")


def _list(what: str, files: list[str]) -> None:
    for name in files[:_SHOWN]:
        click.echo(escape_unprintable(f"{what}: {name}"))
    if len(files) > _SHOWN:
        click.echo(f"and {len(files) - _SHOWN} more")
