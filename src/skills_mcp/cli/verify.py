"""`skills-mcp verify`: whether an exported folder is as its lock says."""

from dataclasses import asdict
from pathlib import Path

import click

from skills_mcp.cli.terminal import print_json
from skills_mcp.features.export import verify_folder
from skills_mcp.skills.model import printable

_DIFFERS = 1


def print_verification(folder: Path, *, as_json: bool) -> int:
    """Compare a folder with its lock; no source is needed.

    Returns:
        The exit code: 1 if anything differs.

    Raises:
        ExportError: The folder has no lock that can be read.
    """
    lock, differences = verify_folder(folder)
    if as_json:
        print_json(
            {
                "ok": not differences,
                "sources": [each.model_dump() for each in lock.sources],
                "skills": len(lock.skills),
                "differences": [asdict(each) for each in differences],
            }
        )
    else:
        for each in differences:
            click.echo(printable(f"{each.kind}: {each.file}"))
        if not differences:
            commits = ", ".join(filter(None, (each.commit for each in lock.sources)))
            at = f" of {commits}" if commits else ""
            click.echo(f"{len(lock.skills)} skills{at}: as the lock says.")
    return _DIFFERS if differences else 0
