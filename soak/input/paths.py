"""Hostile paths through every tool that takes one, over a real client: promise 29."""

import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from skills_mcp.library.skill_library import SkillLibrary
from soak.input.hostile_paths import invent_paths
from soak.scenario import Figure, Scale, Scenario
from tests.clients import ERAS, connected
from tests.support import open_library, skill_text, write

_FEWEST_PATHS, _FEWEST_CLASSES = 150, 15
_CANARY = "CANARY-OF-ANOTHER-FOLDER"
_TASK = "log in"

_RUN: dict[str, Any] = {"skill_path": "auth", "file": "run.sh", "args": {}}
_TOOLS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "get_asset": lambda path: {"skill_path": "auth", "file": path},
    "get_asset of": lambda path: {"skill_path": path, "file": "assets/x.txt"},
    "read_skill_file": lambda path: {"skill_name": "pdf", "file_path": path},
    "read_skill_file of": lambda path: {"skill_name": path, "file_path": "x.txt"},
    "run_script": lambda path: {"skill_path": "auth", "file": path, "args": {}},
    "run_script in": lambda path: {
        **_RUN,
        "cwd": path,
    },
    "list_skills": lambda path: {"path": path},
    "find_skill_files": lambda path: {"skill_name": "pdf", "pattern": path},
    "get_skill": lambda path: {"context": _TASK, "skill_path": path},
    "get_skill within": lambda path: {"context": _TASK, "within": path},
    "get_skill of": lambda path: {"context": _TASK, "category": path},
    "get_skill known": lambda path: {"context": _TASK, "known_digest": path},
    "search_skills within": lambda path: {"query": _TASK, "within": path},
    "load_skill": lambda path: {"skill_name": path},
    "load_skill_examples": lambda path: {"skill_name": path, "query": _TASK},
    "find_skill_files of": lambda path: {"skill_name": path},
    "find_skill_files with": lambda path: {"skill_name": "pdf", "contains": path},
    "report_usage": lambda path: {"skill_path": path, "useful": True},
}
"""The arguments of each call; two of one name differ in the hostile argument."""

_MAY_ANSWER = frozenset(
    {"list_skills", "find_skill_files", "find_skill_files with"}
    | {"get_skill known", "report_usage"}
)
"""A pattern, a text or the top of the tree: such words are no path to a file."""

_PARTS = frozenset({"get_skill within", "get_skill of", "search_skills within"})
"""Arguments that choose a part of the tree; an empty one, or slashes, means all."""

_MEAN_NOTHING = (None, "")
"""Values that count as a missing argument, where it is optional."""


@dataclass(slots=True)
class _Tally:
    """The outcome of the calls."""

    calls: int = 0
    leaks: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    echoes: list[str] = field(default_factory=list)


def refuse_paths(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Pass every hostile path, in every argument that takes a path."""
    tally = _Tally()
    root = folder / "content"
    paths = tuple(invent_paths(root / "auth", folder / "outside"))
    with _hostile_content(folder):
        settings = {"toolsets": ["core", "packages"]}
        for era in ERAS if scale.is_full else ("auto",):
            library = open_library(root, settings=settings)
            anyio.run(_ask_everything, library, era, paths, tally, str(folder))
    yield _none("led outside", tally.leaks, tally.calls)
    yield _none("were answered with a file or a run", tally.served, tally.calls)
    yield _none("failed in another way than by a code", tally.untyped, tally.calls)
    yield _none("were refused with an absolute path", tally.echoes, tally.calls)
    classes = {name for name, _ in paths}
    enough = len(paths) >= _FEWEST_PATHS and len(classes) >= _FEWEST_CLASSES
    what = f"as many paths as promised: {len(paths)} in {len(classes)} classes"
    yield Figure.every(29, what, enough, 1)


def _none(what: str, found: list[str], calls: int) -> Figure:
    first = f" ({'; '.join(found[:3])})" if found else ""
    return Figure.none(29, f"hostile paths that {what}{first}", len(found), calls)


@contextmanager
def _hostile_content(folder: Path) -> Iterator[None]:
    """Write skills, secrets beside them, and every kind of link between the two."""
    outside, root = folder / "outside", folder / "content"
    for place in (outside, folder, folder / "content-evil", root / "other"):
        write(place / "secret.txt", _CANARY)
    write(root / "other.md", skill_text())
    write(root / "pdf/SKILL.md", "---\nname: pdf\ndescription: D\n---\nText.\n")
    for skill in (root / "auth", root / "pdf"):
        write(skill / "assets/x.txt", "inside")
        write(skill / "special/undeclared", _CANARY)
        _link(skill / "links", outside, root)
    (root / "pdf/special/undeclared").unlink()  # a package declares what it has
    write(root / "auth/run.sh", "echo ran")
    write(root / "auth/other.sh", f"echo {_CANARY}")
    declared = ["assets/x.txt", "special/pipe", "special/socket", "special"]
    declared += [f"links/{each.name}" for each in (root / "auth/links").iterdir()]
    scripts = [{"file": "run.sh", "description": "R", "execution": "server"}]
    assets = [{"file": file, "description": "A"} for file in declared]
    write(root / "auth.md", skill_text(assets=assets, scripts=scripts))
    os.mkfifo(root / "auth/special/pipe")
    os.mkfifo(root / "pdf/special/pipe")
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as end:
        os.chdir(root / "auth/special")  # the name of a socket may not be long
        try:
            end.bind("socket")
        finally:
            os.chdir(here)
        yield


def _link(links: Path, outside: Path, root: Path) -> None:
    links.mkdir()
    targets: dict[str, str | Path] = {
        "absolute": outside / "secret.txt",
        "relative": "../../../outside/secret.txt",
        "folder": outside,
        "itself": "itself",
        "loop": ".",
        "dangling": "nowhere",
        "other-skill": root / "other/secret.txt",
        "chain": "absolute",
        "proc": "/proc/self/environ",
        "root": "/",
        "inside": "../assets/x.txt",
    }
    for name, target in targets.items():
        (links / name).symlink_to(target)


async def _ask_everything(
    library: SkillLibrary,
    era: str,
    paths: tuple[tuple[str, Any], ...],
    tally: _Tally,
    secret_place: str,
) -> None:
    async with _client(library, era) as client:
        for name, path in paths:
            for tool, arguments in _TOOLS.items():
                tally.calls += 1
                label = f"{tool}, {name}: {str(path)[:40]!r}"
                reply = await _call(client, tool.split()[0], arguments(path))
                _judge(tally, label, tool, path, reply, secret_place)


@asynccontextmanager
async def _client(library: SkillLibrary, era: str) -> AsyncIterator[Client]:
    async with connected(library, era) as client:
        yield client


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """Return the text of the answer; of an error of the protocol, nothing."""
    try:
        with anyio.fail_after(30):
            result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return f"protocol error: {error}"
    [*_, block] = result.content
    return block.text if isinstance(block, TextContent) else ""


def _judge(  # noqa: PLR0913, PLR0917 - what was asked, and what was answered
    tally: _Tally, label: str, tool: str, path: object, reply: str, place: str
) -> None:
    if _CANARY in reply:
        tally.leaks.append(label)
    try:
        answer = json.loads(reply)
        error = answer.get("error")
    except ValueError:
        tally.untyped.append(f"{label}: {reply[:80]}")
        return
    if error is None:
        may_leave_out = tool in {"run_script in", "get_skill", *_PARTS}
        is_left_out = path in _MEAN_NOTHING and may_leave_out
        is_left_out |= tool in _PARTS and str(path).strip("/") == ""
        is_own = tool == "run_script in" and _is_here(path)
        if tool not in _MAY_ANSWER and not is_left_out and not is_own:
            tally.served.append(label)
        return
    if place in reply or "'/" in reply:
        tally.echoes.append(label)
    if not error.get("code", "").isupper() or "Traceback" in reply:
        tally.untyped.append(f"{label}: {reply[:80]}")


def _is_here(path: object) -> bool:
    """Whether a path is another name of the folder in which scripts may run."""
    is_path = isinstance(path, str) and path.startswith("/") and "\0" not in path
    return is_path and os.path.realpath(str(path)) == str(Path.cwd())


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("hostile-paths", refuse_paths),)
