"""`skills-mcp verify`: compare an exported folder with its lock."""

from dataclasses import asdict
from pathlib import Path

import click

from skills_mcp.cli.terminal import print_json
from skills_mcp.features.export.folder import verify_folder
from skills_mcp.skills.model import escape_unprintable

_DIFFERS = 1


def print_verification(folder: Path, *, as_json: bool) -> int:
    """Compare a folder with its lock; no source is needed.

    Returns:
        The exit code: 1 if anything differs.

    Raises:
        ExportError: The folder has no readable lock.
    """
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
    return _DIFFERS if differences else 0
