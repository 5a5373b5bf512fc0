"""Folders read natively by hosts, written by an export.

A host with both such a folder and the server shows its model every skill twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from skills_mcp.features.hosts.doctor_checks import CheckResult, failed
from skills_mcp.features.hosts.host_names import HostName
from skills_mcp.skills.source_layout import EXPORT_LOCK

_HOSTS_BY_FOLDER: Mapping[str, tuple[HostName, ...]] = {
    ".claude/skills": ("claude-code", "opencode", "copilot", "vscode", "cursor"),
    ".agents/skills": ("codex", "gemini", "opencode", "copilot", "vscode", "cursor"),
    ".gemini/skills": ("gemini",),
    ".github/skills": ("copilot", "vscode"),
    ".copilot/skills": ("copilot",),
}
"""Hosts per folder, in a project and in the home of a person."""


def check_native_folders(used: Iterable[str], home: Path, project: Path) -> Iterator[CheckResult]:
    """Find hosts with the skills both from the server and from an export."""
    for name in dict.fromkeys(used):
        for folder in find_exports(home, project):
            if name in _find_hosts(folder):
                title = _find_titles()[name]
                yield failed(
                    f"twice {name}",
                    f"{title} gets each skill twice: from this server, and "
                    f"from {folder}, which an export has written",
                    f"skills-mcp install --client {name} --remove --yes, or delete "
                    f"the packages that {folder / EXPORT_LOCK} names",
                )


def describe_exports(home: Path, project: Path) -> Iterator[str]:
    """Yield a warning per exported folder."""
    for folder in find_exports(home, project):
        titles = _find_titles()
        names = ", ".join(titles[name] for name in _find_hosts(folder))
        yield (
            f"An export has written {folder}, which these read: {names}. One that uses "
            "this server, too, sees each skill twice; skills-mcp doctor says which"
        )


def find_exports(home: Path, project: Path) -> Iterator[Path]:
    for base in dict.fromkeys((project, home)):
        for folder in _HOSTS_BY_FOLDER:
            if (base / folder / EXPORT_LOCK).is_file():
                yield base / folder


def _find_hosts(folder: Path) -> tuple[HostName, ...]:
    return _HOSTS_BY_FOLDER["/".join(folder.parts[-2:])]


def _find_titles() -> Mapping[str, str]:
    from skills_mcp.features.hosts.host import HOSTS  # late: nearly no start needs it

    return {host.name: host.title for host in HOSTS}
