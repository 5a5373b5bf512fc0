"""Trees of processes that try to outlive their script: promise 36, fault row 57.

Every process of a script carries a mark in its environment, by which it is found from
outside, in any session or namespace.  Run as a program, this is the server
that is killed.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.execution import SandboxName, ScriptResult
from skills_mcp.scripts.policy import ScriptRequest
from skills_mcp.scripts.prepared_runs import ScriptEnvironment
from soak.scenario import Figure, Scale, Scenario, Unavailable
from tests.support import open_library, write, write_skill

_BOUND_SECONDS = 6.0
"""After the timeout: five between SIGTERM and SIGKILL, and one for everything else."""
_TIMEOUT_SECONDS = 1
_PATIENCE_SECONDS = 30.0

_RACER = """import os
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""

SHAPES: dict[str, str] = {
    "plain fork": "sleep 611 & sleep 611",
    "session of its own": "setsid sleep 611 & sleep 611",
    "double fork": "setsid sh -c 'setsid sleep 611 &' & sleep 611",
    "deaf to SIGTERM": "trap '' TERM HUP INT\nsleep 611 & while :; do sleep 611; done",
    "holds the pipes": "(trap '' TERM; exec setsid sleep 611) & sleep 611",
    "stops itself": "sleep 611 & kill -STOP $$",
    "nohup": "nohup sleep 611 & sleep 611",
    "zombies": "sh -c 'sleep 0.01 & exec sleep 611' & sleep 611",
    "fork racer": f"python3 -I -S -c '{_RACER}' & sleep 611",
}
"""Scripts of bash; each of them is complete when a process `sleep 611` runs."""

_QUICK = ("deaf to SIGTERM", "fork racer")
_QUICK_TIERS = ("bubblewrap", "limits")

TIERS: Mapping[str, tuple[SandboxName, ...]] = {
    "bubblewrap": ("bubblewrap",),
    "landlock": ("landlock",),
    "limits": (),
}
"""The tiers to offer so that this one is the strongest."""


def outlive(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Start every shape in every tier, and end it in every way."""
    if not sys.platform.startswith("linux"):
        raise Unavailable("a tree is followed with what only Linux has")
    shapes = {name: SHAPES[name] for name in (SHAPES if scale.is_full else _QUICK)}
    tiers = [tier for tier in (TIERS if scale.is_full else _QUICK_TIERS) if _has(tier)]
    bound = scale.bound(_BOUND_SECONDS)
    for tier in tiers:
        yield from _Trees(tier, shapes, folder / tier, bound).try_all()
    yield Figure(36, "tiers tried", ", ".join(tiers), "those of the machine", bool(tiers))


@dataclass(frozen=True, slots=True)
class _Trees:
    """The process trees of all shapes, in one tier."""

    tier: str
    shapes: Mapping[str, str]
    folder: Path
    bound_seconds: float

    def try_all(self) -> Iterator[Figure]:
        """Yield the number of survivors, for each way to end."""
        content = write_shapes(self.folder, self.shapes)
        late, held = anyio.run(self._time_out, content)
        yield from self._count("timeout", held)
        what = f"{self.tier}: seconds after the timeout until the last was answered"
        yield Figure.at_most(36, what, round(late, 1), self.bound_seconds)
        ways: dict[str, Callable[[Path], list[str]]] = {
            "cancel": lambda content: anyio.run(self._cancel, content),
            "SIGKILL of the server": self._kill_server,
        }
        for way, end in ways.items():
            yield from self._count(way, end(content))

    def _count(self, way: str, marks: list[str]) -> Iterator[Figure]:
        survivors = [mark for mark in marks if not _is_gone(mark, self.bound_seconds)]
        for mark in survivors:
            kill_marked(mark)
        what = f"{self.tier}: trees with survivors after {way}"
        yield Figure.none(36, what, len(survivors), len(marks))

    async def _time_out(self, content: Path) -> tuple[float, list[str]]:
        """Let all time out; return by how much the last was late, and the marks.

        The marks are looked for at once, not after a while: who is answered has no
        process left.
        """
        library = open_tier(content, self.tier, _TIMEOUT_SECONDS)
        results: dict[str, ScriptResult] = {}
        left: list[str] = []

        async def call(name: str) -> None:
            mark = _new_mark()
            ran = await library.view().run(_request(name, mark))
            results[mark] = ran.result
            if list(find_marked(mark)):
                left.append(name)

        async with anyio.create_task_group() as tasks:
            for name in self.shapes:
                tasks.start_soon(call, name)
        library.close()
        if left or not all(result.timed_out for result in results.values()):
            raise AssertionError(f"not ended with their answer: {left}; {results}")
        late = max(each.duration_seconds for each in results.values())
        return late - _TIMEOUT_SECONDS, list(results)

    async def _cancel(self, content: Path) -> list[str]:
        library = open_tier(content, self.tier, 600)
        marks: list[str] = []
        for name in self.shapes:
            marks.append(mark := _new_mark())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(library.view().run, _request(name, mark))
                await anyio.to_thread.run_sync(_wait_until_complete, mark)
                tasks.cancel_scope.cancel()
        library.close()
        return marks

    def _kill_server(self, content: Path) -> list[str]:
        marks: list[str] = []
        for name in self.shapes:
            marks.append(mark := _new_mark())
            words = (str(content), self.tier, name, mark)
            server = subprocess.Popen([sys.executable, "-m", __name__, *words])
            try:
                _wait_until_complete(mark)
            finally:
                server.kill()
                server.wait()
        return marks


def write_shapes(folder: Path, shapes: Mapping[str, str]) -> Path:
    """Write a skill with a script for each shape, and return the folder."""
    content = folder / "content"
    declared = [
        {
            "file": _file(name),
            "execution": "server",
            "args": [{"name": "mark", "required": True}],
        }
        for name in shapes
    ]
    write_skill(content, "trees.md", keywords=["trees"], scripts=declared)
    for name, text in shapes.items():
        write(content / "trees" / _file(name), text + "\n")
    return content


def open_tier(content: Path, tier: str, timeout_seconds: int) -> SkillLibrary:
    """Return a library whose strongest tier is this one."""
    rules = {"scripts": {"timeout_seconds": timeout_seconds}}
    return open_library(content, settings=rules, offered=TIERS[tier])


def _has(tier: str) -> bool:
    """Whether this machine has a tier."""
    sandbox = ScriptEnvironment.of(os.environ, TIERS[tier]).sandbox
    return sandbox.choose("best_effort").name == tier


def find_marked(mark: str) -> Iterator[int]:
    """Yield the processes that run with this mark, in any group."""
    wanted = f"SKILL_ARG_MARK={mark}\0".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it has ended
            if wanted in (entry / "environ").read_bytes():
                yield int(entry.name)


def kill_marked(mark: str) -> None:
    """End the processes that a broken promise has left."""
    for pid in find_marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_gone(mark: str, bound_seconds: float) -> bool:
    """Whether no process is left within the bound."""
    deadline = time.monotonic() + bound_seconds
    while list(find_marked(mark)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _wait_until_complete(mark: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not any(_sleeps(pid) for pid in find_marked(mark)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the tree {mark} never stood")
        time.sleep(0.02)


def _sleeps(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00611\x00"
    return False


def _request(name: str, mark: str) -> ScriptRequest:
    return ScriptRequest(skill_path="trees", file=_file(name), args={"mark": mark})


def _file(name: str) -> str:
    return f"scripts/{name.replace(' ', '-')}.sh"


def _new_mark() -> str:
    return uuid.uuid4().hex


def _serve(content: str, tier: str, name: str, mark: str) -> None:
    """Run one script, until it or we are ended."""
    library = open_tier(Path(content), tier, 600)
    anyio.run(library.view().run, _request(name, mark))


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("process-trees", outlive),)

if __name__ == "__main__":
    _serve(*sys.argv[1:])
