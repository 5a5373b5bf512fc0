"""Past of a project: files, packages and commands that it has no longer.

Rule: only what its Git history knows counts, so that an example in a text is no finding.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from skills_mcp.errors import SkillsError
from skills_mcp.library import WorkTree
from skills_mcp.library.lock_files import MAX_MANIFEST_BYTES, find_format, parse_package_file
from skills_mcp.library.project import Project

_MAX_COMMITS = 5_000
_MAX_MANIFESTS = 30
_MAX_VERSIONS = 40
"""Of one manifest, the newest: each is read from Git by itself."""

_MAKEFILE_TARGET = re.compile(r"^([A-Za-z][\w.-]*)(?:\s+[\w.-]+)*\s*:(?!=)", re.MULTILINE)
_SCRIPT_RUNNERS = ("npm run", "pnpm run", "yarn run", "yarn", "pnpm", "bun run")
_BARE_SCRIPTS = {"test": "npm test", "start": "npm start"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPast:
    """Names that a project once had and has no longer."""

    top: Path
    files: frozenset[str] = frozenset()
    """Paths from the top of the project."""
    packages: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    origin: tuple[str, str] = ("", "")
    """Host of its remote, and the path of the repository there."""
    reason: str = field(default="", compare=False)
    """Why nothing is known; empty if it is."""

    @property
    def organisation(self) -> str:
        """Owner of the repository, at its host."""
        return self.origin[1].rpartition("/")[0]


def read_project_past(folder: Path) -> ProjectPast:
    """Read the history of a project.  Blocking, without the network."""
    work_tree = WorkTree.find(folder)
    if work_tree is None:
        return ProjectPast(top=folder, reason=f"{folder} is in no work tree of Git")
    try:
        log = work_tree.read_log(_MAX_COMMITS)
    except SkillsError as error:
        return ProjectPast(top=work_tree.top, reason=str(error))
    known: dict[str, list[str]] = {}
    for commit in log.commits:
        for file in commit.files:
            known.setdefault(file, []).append(commit.commit)
    past = _PastNames(work_tree, folder)
    return ProjectPast(
        top=work_tree.top,
        files=frozenset(file for file in known if not (work_tree.top / file).exists()),
        packages=frozenset(past.find_lost(known, _find_packages) - past.list_packages()),
        commands=frozenset(past.find_lost(known, _find_commands)),
        origin=parse_origin(work_tree.read_origin()),
        reason="" if log.commits else "its history is not here; clone it with more than one commit",
    )


def parse_origin(address: str) -> tuple[str, str]:
    """Parse the host and the path of a remote.

    >>> parse_origin("git@github.com:acme/shop.git"), parse_origin("https://a:b@x.org/acme/shop")
    (('github.com', 'acme/shop'), ('x.org', 'acme/shop'))
    """
    if "://" not in address and ":" in address:
        host, _, path = address.partition(":")
        address = f"ssh://{host}/{path}"
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return "", ""
    return host, parts.path.strip("/").removesuffix(".git") if host else ""


_Find = Callable[[str, str], Iterable[str]]
"""Names in a file, by its name and text."""


@dataclass(frozen=True, slots=True)
class _PastNames:
    work_tree: WorkTree
    folder: Path

    def find_lost(self, known: dict[str, list[str]], find: _Find) -> set[str]:
        """Find the names in earlier versions of files that no file has now."""
        manifests = [file for file in known if _is_manifest(Path(file).name)][:_MAX_MANIFESTS]
        once, now = set[str](), set[str]()
        for file in manifests:
            name = Path(file).name
            for commit in known[file][:_MAX_VERSIONS]:
                once.update(find(name, self.work_tree.read_file(commit, file) or ""))
            now.update(find(name, _read_text(self.work_tree.top / file)))
        return once - now

    def list_packages(self) -> set[str]:
        files = Project(self.folder).read_files()
        return {name for file in files for name in file.versions}


def _is_manifest(name: str) -> bool:
    known = find_format(name)
    is_written = known is not None and known.max_bytes == MAX_MANIFEST_BYTES
    return is_written or name == "Makefile"


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_MANIFEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _find_packages(name: str, text: str) -> Iterator[str]:
    if find_format(name) and (parsed := parse_package_file(name, text.encode())):
        yield from parsed.versions


def _find_commands(name: str, text: str) -> Iterator[str]:
    if name == "Makefile":
        yield from (f"make {target}" for target in _MAKEFILE_TARGET.findall(text))
    if name != "package.json":
        return
    try:
        scripts = json.loads(text).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return
    for script in scripts if isinstance(scripts, dict) else ():
        yield from (f"{runner} {script}" for runner in _SCRIPT_RUNNERS)
        if script in _BARE_SCRIPTS:
            yield _BARE_SCRIPTS[script]
