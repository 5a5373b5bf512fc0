"""The sets of tasks in `benchmarks/tasks`, and the public skills that they are for.

The tasks are our own and the skills are not: each set names where its skills are from
(`sources.json`), and they are fetched once, with Git or npm, into `.task-sets`. There
they are read as a server reads a folder. What a set has in its two files says
`benchmarks/tasks/README.md`.
"""

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from skills_mcp.bootstrap import Options, build
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.skill_snapshot import Snapshot

TASKS = Path(__file__).parent / "tasks"
FETCHED = Path(__file__).parents[1] / ".task-sets"
"""Where what was fetched is kept; it may be deleted at any time."""

SOURCES = "sources.json"
"""The file of a set that says where its skills are from."""
QUERIES = "queries.jsonl"
"""The file of a set with a task on each line."""

_TEMPORARY = "fetching-"
_DIGEST_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSource:
    """Files of a repository at a commit, or of a version of an npm package."""

    folder: str
    """The name of its folder in the set, with which expected paths begin."""
    paths: Sequence[str]
    """The folders and files that belong to the set."""
    without: Sequence[str] = ()
    """What of them does not."""
    documents: str = ""
    """A folder of tasks, each a Markdown file with the name of its skill's folder."""
    git: str = ""
    commit: str = ""
    npm: str = ""

    def fetch(self, into: Path, at_hand: Path | None = None) -> None:
        """Write the files into a folder.

        Args:
            into: The folder of the set.
            at_hand: A folder that may have a folder with the name of this source,
                which is then copied and not fetched.

        Raises:
            SystemExit: They cannot be fetched.
        """
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as temporary:
            whole = Path(temporary)
            if at_hand and (at_hand / self.folder).is_dir():
                whole = at_hand / self.folder
            elif self.npm:
                whole = _fetch_package(self.npm, whole)
            else:
                _fetch_commit(self.git, self.commit, whole)
            for path in (*self.paths, *filter(None, [self.documents])):
                _copy(whole / path, into / self.folder / path)
        for path in self.without:
            _remove(into / self.folder / path)


class ServedSkills(NamedTuple):
    """Skills as a server has them, and where they are from."""

    skills: tuple[Skill, ...]
    paths: Mapping[str, str]
    """The path of the skill that is served for a file or its folder.

    Of identical packages one is served for all.
    """


def find_skills(folder: Path, at_hand: Path | None = None) -> ServedSkills:
    """Return the skills of the set in a folder; they are fetched if they were not yet.

    Raises:
        SystemExit: They cannot be fetched.
    """
    place = _find_place(folder)
    if not place.is_dir():
        FETCHED.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=FETCHED) as temporary:
            for source in _load_sources(folder):
                source.fetch(Path(temporary) / "whole", at_hand)
            (Path(temporary) / "whole").replace(place)
    return _read(place)


def _find_place(folder: Path) -> Path:
    # Other sources, or another version of them, are not what was fetched.
    digest = hashlib.sha256((folder / SOURCES).read_bytes()).hexdigest()[:_DIGEST_DIGITS]
    return FETCHED / f"{folder.name}-{digest}"


def _load_sources(folder: Path) -> list[SkillSource]:
    return [SkillSource(**row) for row in json.loads((folder / SOURCES).read_bytes())]


def read_documents(folder: Path, paths: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield the fetched tasks of a set whose tasks are not ours, as rows of `queries.jsonl`.

    Documents about no skill of the set are left out.
    """
    skills = {PurePosixPath(name).name: name for name in paths if not name.endswith(".md")}
    for source in _load_sources(folder):
        top = _find_place(folder) / source.folder
        found = sorted((top / source.documents).rglob("*.md")) if source.documents else []
        for file in found:
            if file.stem in skills:
                yield {"query": file.read_text(encoding="utf-8"), "expect": [skills[file.stem]]}


def _read(place: Path) -> ServedSkills:
    """Return the skills of a folder, as a server that has no other content."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "SKILLS_MCP_HOME": home}
        options = Options(skills_dir=str(place), discover=False, keeps_index=False)
        library = build(options, environment).library
        try:
            library.sync()
            return _tell(library.view().snapshot)
        finally:
            library.close()


def _tell(snapshot: Snapshot) -> ServedSkills:
    paths: dict[str, str] = {}
    for skill in snapshot.state.collection.table:
        served = snapshot.index.get(skill.path)
        if served is not None:
            file = PurePosixPath(skill.file)
            paths |= {str(file): served.path, str(file.parent): served.path}
    return ServedSkills(tuple(snapshot.index), paths)


def place_expected(
    rows: Iterable[Mapping[str, Any]], paths: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of tasks with the paths by which their skills are served.

    Raises:
        SystemExit: A task names what is not served.
    """
    for row in rows:
        named = {key: row[key] for key in ("expect", "negated") if key in row}
        for name in chain.from_iterable(named.values()):
            if name not in paths:
                raise SystemExit(f"no skill is served from {name}")
        yield {**row, **{key: [paths[n] for n in names] for key, names in named.items()}}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copyfile(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _fetch_commit(url: str, commit: str, into: Path) -> None:
    _run("git", "init", "--quiet", str(into))
    _run("git", "-C", str(into), "fetch", "--quiet", "--depth=1", url, commit)
    _run("git", "-C", str(into), "checkout", "--quiet", "FETCH_HEAD")


def _fetch_package(name: str, into: Path) -> Path:
    _run("npm", "pack", "--silent", "--pack-destination", str(into), name)
    for archive in into.glob("*.tgz"):
        with tarfile.open(archive) as files:
            files.extractall(into, filter="data")
    return into / "package"


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"the skills of a set cannot be fetched: {error}") from error
