"""`skills-mcp export`: write skills as folders for agents without a server."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import click

from skills_mcp.bootstrap import Application, Options, build
from skills_mcp.cli.sync import sync_and_load
from skills_mcp.cli.terminal import print_json, progress_bar
from skills_mcp.errors import ExportError
from skills_mcp.features.export.folder import ExportReport, export_skills, plan_export
from skills_mcp.features.export.layout import (
    EXPORT_LOCK_FILE,
    FolderFormat,
    LockedSettings,
    detect_format,
    read_lock,
)
from skills_mcp.library import LibraryView
from skills_mcp.skills.model import escape_unprintable

_BEHIND = 1
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    target: Path
    folder_format: FolderFormat | None
    select: tuple[str, ...]
    is_raw: bool
    is_check: bool
    is_frozen: bool
    is_watching: bool
    as_json: bool


def run_export(options: Options, environment: Mapping[str, str], request: ExportOptions) -> int:
    """Sync, then write the skills into a folder, or print the differences.

    Returns:
        The exit code: with `--check` 1 if the folder is behind.

    Raises:
        SyncError: There is no content, old or new.
        ExportError: The folder or its lock cannot be used.
    """
    if request.is_frozen:
        options, request = _freeze(options, request)
    application = build(replace(options, settings={"analytics": {"enabled": False}}), environment)
    sync_and_load(application)
    library, settings = application.library.view(), _settle(request)
    if request.is_frozen:
        _require_commits(library, request.target)
    if request.is_check:
        report = plan_export(_narrow(library, settings), request.target, settings)
        _print(report, request)
        return 0 if report.is_current else _BEHIND
    _print(_write(library, request, settings), request)
    if request.is_watching:
        anyio.run(_follow, application, request, settings)
    return 0


def _settle(request: ExportOptions) -> LockedSettings:
    chosen = request.folder_format or detect_format(request.target)
    return LockedSettings(format=chosen, raw=request.is_raw, select=request.select)


def _freeze(options: Options, request: ExportOptions) -> tuple[Options, ExportOptions]:
    """Options for the exact commit and settings of the lock."""
    lock = read_lock(request.target)
    if lock is None:
        raise ExportError(
            f"{request.target} has no {EXPORT_LOCK_FILE}. Export once without --frozen."
        )
    commits = {source.commit for source in lock.sources}
    if options.repo and len(lock.sources) == 1 and None not in commits:
        options = replace(options, branch="", pin=str(commits.pop()))
    settings = lock.settings
    locked_format: Any = settings.format
    return options, replace(
        request,
        folder_format=locked_format,
        is_raw=settings.raw,
        select=tuple(settings.select),
    )


def _require_commits(library: LibraryView, target: Path) -> None:
    lock = read_lock(target)
    found = {state.mount: state.commit for state in library.states()}
    for source in lock.sources if lock else ():
        if found.get(source.mount) != source.commit:
            raise ExportError(
                f"{source.name} is at {found.get(source.mount)}, and {EXPORT_LOCK_FILE} wants "
                f"{source.commit}. Name it with --repo, or pin each source with ref in "
                "config.yaml."
            )


def _narrow(library: LibraryView, settings: LockedSettings) -> LibraryView:
    return library.narrow(settings.select, ()) if settings.select else library


def _write(library: LibraryView, request: ExportOptions, settings: LockedSettings) -> ExportReport:
    narrowed = _narrow(library, settings)
    with progress_bar("Exporting") as on_progress:
        return export_skills(narrowed, request.target, settings, on_progress=on_progress)


async def _follow(
    application: Application, request: ExportOptions, settings: LockedSettings
) -> None:
    """Export again after each change, until Ctrl-C."""
    changed = anyio.Event()

    def tell() -> None:
        changed.set()

    library = application.library
    # Each change is told on the thread that has read it.
    access = _narrow(library.view(), settings).access
    library.watch_changes(lambda _: anyio.from_thread.run_sync(tell), access)
    click.echo("Following the skills; Ctrl-C ends it.", err=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.refresher.run)
        library.refresher.wake()
        while True:
            await changed.wait()
            changed = anyio.Event()
            try:
                report = await anyio.to_thread.run_sync(
                    partial(_write, library.view(), request, settings)
                )
            except ExportError as error:  # the next change may find more room
                click.echo(f"skills-mcp: {error}", err=True)
                continue
            if not report.is_current:
                _print(report, request)


def _print(report: ExportReport, request: ExportOptions) -> None:
    if request.as_json:
        print_json({"ok": report.is_current or not request.is_check, **_render(report)})
        return
    for name in report.kept:
        line = f"Kept {name}: it was edited, or no export has written it"
        click.echo(escape_unprintable(line), err=True)
    for remark in report.remarks:
        click.echo(escape_unprintable(remark), err=True)
    if request.is_check:
        _list("would be written", report.written)
        _list("would be removed", report.removed)
        if report.is_current:
            click.echo(f"{request.target} is up to date: {report.skills} skills.")
        elif not report.written and not report.removed:
            click.echo(f"{EXPORT_LOCK_FILE} is behind: the same skills are in a newer commit.")
        return
    noun = "skill" if report.skills == 1 else "skills"
    written, removed = len(report.written), len(report.removed)
    files = "file" if written == 1 else "files"
    click.echo(
        f"{report.skills} {noun} in {request.target}: {written} {files} written, {removed} removed."
    )


def _list(what: str, files: list[str]) -> None:
    for name in files[:_SHOWN]:
        click.echo(escape_unprintable(f"{what}: {name}"))
    if len(files) > _SHOWN:
        click.echo(f"and {len(files) - _SHOWN} more")


def _render(report: ExportReport) -> dict[str, Any]:
    data = asdict(report)
    return {"current": report.is_current, **data}
