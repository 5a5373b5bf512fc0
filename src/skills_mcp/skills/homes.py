"""Where in a content repository its skills begin."""

from dataclasses import dataclass
from pathlib import Path

from skills_mcp.skills.index import ROOT
from skills_mcp.skills.model import Scope
from skills_mcp.skills.package import is_main
from skills_mcp.skills.walk import SKIPPED


@dataclass(frozen=True, slots=True)
class Home:
    """A folder in which skills begin, and the place of these skills in the tree."""

    directory: Path
    prefix: str = ""
    """Stands before every path and file, such as `teams/web/`."""
    packages_only: bool = False
    """Whether it is a hidden folder, in which only packages are skills."""
    scope: Scope = "org"


def find_homes(directory: Path, subfolder: str = "") -> tuple[Home, ...]:
    """Return where the skills of a content repository begin.

    A repository keeps them in `skills/`, beside which a hidden folder
    such as `.github/skills` may have more for its own agents; or at its top.
    """
    if subfolder:
        return (Home(directory / subfolder),)
    inner = directory / "skills"
    if not _is_folder(inner) or _is_skill(directory):
        return (Home(directory),)
    hidden = (
        Home(path / "skills", f"{path.name}/skills/", packages_only=True)
        for path in sorted(directory.glob(".*"))
        if path.name.isprintable() and path.name not in SKIPPED
        if _is_folder(path) and _is_folder(path / "skills")
    )
    return (Home(inner), *hidden)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink()
    except OSError:
        return False  # its own folder may not be looked into


def _is_skill(directory: Path) -> bool:
    """Whether the top itself says something to every task, or is a package."""
    try:
        names = [path.name for path in directory.iterdir() if path.is_file()]
    except OSError:
        return False
    return any(name == f"{ROOT}.md" or is_main(name) for name in names)
