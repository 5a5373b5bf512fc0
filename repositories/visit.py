"""One server, one repository: what it says of it, and what that costs.

Run in a process of its own: `python -m repositories.visit folder PATH`, or
`… repository URL`, prints one line of JSON.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
from mcp.client.client import Client
from mcp_types import TextContent

from repositories.census import Told, ToldProblem
from skills_mcp.bootstrap import Options, build
from skills_mcp.errors import SkillsError
from skills_mcp.library import SkillLibrary
from skills_mcp.server.app import create_server
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.snapshots.skill_snapshot import Snapshot

_KIBIBYTES = 1024


@dataclass(frozen=True, slots=True)
class Visit:
    """What a server said, and what that cost."""

    told: Told
    servable_bytes: int
    """The size of the skills that are served, with all of their files."""
    reply_characters: int
    """The length of the first reply of `list_skills`."""
    cpu_seconds: float
    """Of the process and of Git, from its start to that reply."""
    peak_mebibytes: float
    """The largest resident memory of the process, without Git."""


def tell(snapshot: Snapshot) -> Told:
    """Return what is served of the only source, and what is wrong with the rest."""
    top = snapshot.content.parts[0].checkout.directory
    skills = {_place(skill, top): tuple(_files_of(skill, top)) for skill in snapshot.index}
    copies = tuple(_find_copies(snapshot, top))
    return Told(skills, copies, tuple(map(_tell_problem, snapshot.problems)))


def _find_copies(snapshot: Snapshot, top: Path) -> Iterator[str]:
    """Yield the files of packages for which an identical one is served."""
    for skill in snapshot.state.collection.table:
        kept = snapshot.index.get(skill.path)
        if kept is not None and kept.path != skill.path:
            yield _place(skill, top)


def visit(options: Options, environment: Mapping[str, str]) -> Visit:
    """Start a library as a server does, and ask it for its skills.  Blocking.

    Raises:
        SkillsError: Nothing is served.
    """
    library = build(options, environment).library
    library.sync()
    characters = anyio.run(_list_skills, library)
    # What follows reads every skill, which no server does.
    used = _cpu_seconds(), _peak_mebibytes()
    told = tell(library.view().snapshot)
    servable = sum(map(_size, library.view().snapshot.index))
    library.close()
    return Visit(told, servable, characters, *used)


async def _list_skills(library: SkillLibrary) -> int:
    async with Client(create_server(library)) as client:
        result = await client.call_tool("list_skills", {})
    return sum(len(b.text) for b in result.content if isinstance(b, TextContent))


def _place(skill: Skill, top: Path) -> str:
    if skill.location is None:
        raise TypeError(f"{skill.path} is no file")
    return skill.location.relative_to(top).as_posix()


def _files_of(skill: Skill, top: Path) -> list[str]:
    if skill.directory is None:
        return []
    folder = skill.directory.relative_to(top).as_posix()
    return [file if folder == "." else f"{folder}/{file}" for file in skill.files]


def _size(skill: Skill) -> int:
    files = sum(stamp.size_bytes for stamp in skill.files.values())
    is_among_them = skill.inventory is not None
    own = skill.location.stat().st_size if skill.location and not is_among_them else 0
    return files + own


def _tell_problem(problem: Problem) -> ToldProblem:
    return ToldProblem(
        problem.file,
        problem.rule,
        problem.level,
        problem.reason,
        problem.hint,
        problem.count,
    )


def _cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def _peak_mebibytes() -> float:
    """Return the peak of this program, where the system tells it (Linux)."""
    status = Path("/proc/self/status")
    # What `getrusage` says includes the process that has started this one.
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return max(peaks, default=0) / _KIBIBYTES


def main() -> None:
    """Print the visit, or the error as an object with `error`."""
    kind, place = sys.argv[1:]
    named = Options(repo=place) if kind == "repository" else Options(skills_dir=place)
    try:
        print(json.dumps(asdict(visit(named, os.environ))))
    except SkillsError as error:
        print(json.dumps({"error": f"{error.code}: {error}"}))
        sys.exit(1)


if __name__ == "__main__":
    main()
