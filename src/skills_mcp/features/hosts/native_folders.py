"""Folders that hosts read themselves, and whether an export has written them.

A host that reads such a folder and uses the server, too, shows its model every skill
twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from skills_mcp.features.hosts.finding import Finding
from skills_mcp.features.hosts.host_names import HostName
from skills_mcp.skills.homes import EXPORT_LOCK

_READ: Mapping[str, tuple[HostName, ...]] = {
    ".claude/skills": ("claude-code", "opencode", "copilot", "vscode", "cursor"),
    ".agents/skills": ("codex", "gemini", "opencode", "copilot", "vscode", "cursor"),
    ".gemini/skills": ("gemini",),
    ".github/skills": ("copilot", "vscode"),
    ".copilot/skills": ("copilot",),
}
"""Which hosts read each folder, in a project and in the home of a person."""


def check_native_folders(
    used: Iterable[str], home: Path, project: Path
) -> Iterator[Finding]:
    """Find hosts that get the skills both from the server and from an export.

    Args:
        used: The names of the hosts that have an entry of ours.
        home: Of the person.
        project: The working directory.
    """
    for name in dict.fromkeys(used):
        for folder in find_exports(home, project):
            if name in _readers(folder):
                title = _find_titles()[name]
                yield Finding(
                    f"twice {name}",
                    is_ok=False,
                    message=f"{title} gets each skill twice: from this server, and "
                    f"from {folder}, which an export has written",
                    fix=f"skills-mcp install --client {name} --remove --yes, or delete "
                    f"the packages that {folder / EXPORT_LOCK} names",
                )


def describe_exports(home: Path, project: Path) -> Iterator[str]:
    """Yield a warning for each exported folder that a host may read beside us."""
    for folder in find_exports(home, project):
        titles = _find_titles()
        names = ", ".join(titles[name] for name in _readers(folder))
        yield (
            f"An export has written {folder}, which these read: {names}. One that uses "
            "this server, too, sees each skill twice; skills-mcp doctor says which"
        )


def find_exports(home: Path, project: Path) -> Iterator[Path]:
    """Iterate over the exported folders of a project and of a person."""
    for place in dict.fromkeys((project, home)):
        for folder in _READ:
            if (place / folder / EXPORT_LOCK).is_file():
                yield place / folder


def _readers(folder: Path) -> tuple[HostName, ...]:
    return _READ["/".join(folder.parts[-2:])]


def _find_titles() -> Mapping[str, str]:
    from skills_mcp.features.hosts.host import HOSTS  # late: nearly no start needs it

    return {host.name: host.title for host in HOSTS}
