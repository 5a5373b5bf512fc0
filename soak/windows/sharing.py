"""Windows that share a server, while servers and windows are killed at random.

`python -m soak.windows.sharing` tries this alone.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

import skills_mcp
from soak.scenario import Figure, Scale
from soak.stdio import home_variables
from tests.clients import ServerProcess
from tests.support import PATIENCE_SECONDS, wait_for, write, write_skill
from tests.windows import FOLDER, LINGER, count_processes, find_process

PROMISE = 60

_SKILLS = 50
_SCRIPT_SHARE = 0.2
_WINDOW_SHARE = 0.3  # of kills: the rest are servers
_PAUSE_SECONDS = 0.5  # before a kill: a server that listens begins to answer
_ANSWER_SECONDS = 60.0  # hosts wait longer for a call
_POLL_SECONDS = 0.5


class EndedError(Exception):
    """The window has ended, so its client waits for nothing."""


@dataclass(slots=True)
class Room:
    """The windows that are open, and what went right and wrong in all of them."""

    folder: Path
    environment: dict[str, str]
    counts: Counter[str] = field(default_factory=Counter)
    windows: dict[int, ServerProcess] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1

    def find_sockets(self) -> list[Path]:
        return [*Path(self.environment[FOLDER]).glob("*.sock")]

    def count_left(self) -> int:
        """Count sockets, servers and forwarders that are there after the last window."""
        with suppress(AssertionError):
            # A server whose only window was killed stays for half a minute from its start.
            wait_for(lambda: not self._count(), seconds=2 * PATIENCE_SECONDS)
        return self._count()

    def _count(self) -> int:
        return len(self.find_sockets()) + count_processes(self.environment[FOLDER])


def share(folder: Path, scale: Scale) -> list[Figure]:
    """Kill forwarders and servers, install another version, and count the answers."""
    windows, kills = scale.count(full=20, quick=4), scale.count(full=200, quick=5)
    chance = random.Random(scale.seed)  # noqa: S311 - no secret
    with _prepared(folder) as room:
        package = _install(room)
        threads = [
            threading.Thread(target=_use, args=(number, room), daemon=True)
            for number in range(windows)
        ]
        for thread in threads:
            thread.start()
        _kill(room, kills // 2, chance)
        _upgrade(package)
        _kill(room, kills - kills // 2, chance)
        wait_for(partial(_find_server, room))  # whoever was killed leaves a socket to the next
        room.over.set()
        for thread in threads:
            thread.join()
        left = room.count_left()
        ran = folder / "ran"
        scripts = Counter(ran.read_text().split()) if ran.exists() else Counter()
    counts = room.counts
    doubled = sum(count > 1 for count in scripts.values())
    return [
        Figure.none(PROMISE, "wrong answers", counts["wrong"], counts["asked"]),
        Figure.none(PROMISE, "calls without an answer", counts["lost"], counts["asked"]),
        Figure.none(PROMISE, "calls given up", counts["given up"], counts["asked"]),
        Figure.none(PROMISE, "answers that came twice", counts["doubled"], counts["asked"]),
        Figure.none(PROMISE, "scripts that ran twice", doubled, counts["scripts"]),
        Figure.none(PROMISE, "processes and sockets left", left, kills),
    ]


def start_at_once(folder: Path, scale: Scale) -> list[Figure]:
    """Start many windows from nothing; count servers and windows without an answer."""
    number = scale.count(full=30, quick=6)
    with _prepared(folder) as room:
        windows = [
            ServerProcess(environment=room.environment, log=folder / f"start-{each}.log")
            for each in range(number)
        ]
        try:
            answered = sum("result" in each.request("server/discover") for each in windows)
            servers = len(room.find_sockets())
        finally:
            for each in windows:
                each.close()
        left = room.count_left()
    return [
        Figure.every(PROMISE, "windows that start at once", answered, number),
        Figure.none(PROMISE, "servers but one", servers - 1, number),
        Figure.none(PROMISE, "processes and sockets left", left, number),
    ]


@contextmanager
def _prepared(folder: Path) -> Iterator[Room]:
    """Write the content: skills, and a script that writes down which call it is."""
    ran = folder / "ran"
    content = folder / "content"
    for number in range(_SKILLS):
        write_skill(content, f"skill-{number}.md", keywords=[f"keyword{number}"])
    declared = {
        "file": "scripts/note.sh",
        "execution": "server",
        "args": [{"name": "call", "required": True}],
    }
    write_skill(content, "note.md", keywords=["note"], scripts=[declared])
    write(content / "note/scripts/note.sh", f'echo "$SKILL_ARG_CALL" >> "{ran}"\n')
    variables = home_variables(folder)
    write(folder / "home/.skills-mcp/config.yaml", "scripts: {sandbox: off}")
    with tempfile.TemporaryDirectory(prefix="rt-") as runtime:
        more = {FOLDER: runtime, "SKILLS_DIR": str(content), LINGER: "0"}
        yield Room(folder, {**variables, **more, "SKILLS_MCP_SHARE": "1"})


def _install(room: Room) -> Path:
    """Give the room an installation of its own, and return its package."""
    package = room.folder / "site" / "skills_mcp"
    shutil.copytree(Path(skills_mcp.__file__).parent, package)
    room.environment["PYTHONPATH"] = str(package.parent)
    return package


def _upgrade(package: Path) -> None:
    """Replace a module, as an installer does."""
    module, new = package / "errors.py", package / "errors.py.new"
    new.write_text(module.read_text() + "# Another version.\n")
    new.replace(module)


def _use(number: int, room: Room) -> None:
    """Ask in one window after another: each is killed after some calls."""
    chance, generation = random.Random(number), 0  # noqa: S311 - no secret
    while not room.over.is_set():
        generation += 1
        log = room.folder / f"window-{number}-{generation}.log"
        window = ServerProcess(environment=room.environment, log=log)
        room.windows[number] = window
        try:
            for _ in range(chance.randrange(5, 40)):
                if not room.over.is_set():
                    _ask(window, chance, f"{number}-{generation}", room)
        except (EndedError, OSError):
            room.add("killed" if window.wait() == -signal.SIGKILL else "lost")
        finally:
            room.windows.pop(number)
            window.close()
        identities = Counter(json.loads(line).get("id") for line in window.lines)
        del identities[None]
        for count in identities.values():
            if count > 1:
                room.add("doubled")


def _ask(window: ServerProcess, chance: random.Random, name: str, room: Room) -> None:
    which = chance.randrange(_SKILLS)
    is_script = chance.random() < _SCRIPT_SHARE
    if is_script:
        call = f"{name}-{len(window.lines)}-{chance.random()}"
        arguments = {"skill_path": "note", "file": "scripts/note.sh", "args": {"call": call}}
    else:
        arguments = {"context": "an example", "skill_path": f"skill-{which}"}
    tool = "run_script" if is_script else "get_skill"
    asked = window.send("tools/call", name=tool, arguments=arguments)
    answer = _receive(window, asked)
    room.add("asked")
    if is_script:
        room.add("scripts")
    if answer is None:
        room.add("lost")
        return
    text = answer.get("result", {}).get("content", [{}])[0].get("text", "{}")
    reply = json.loads(text)
    code = reply.get("error", {}).get("code")
    right = (
        reply.get("exit_code") == 0 if is_script else reply.get("skill_path") == f"skill-{which}"
    )
    if code == "SERVER_LOST":
        room.add("told" if is_script else "given up")
    elif not right:
        room.add("wrong")
        sys.stderr.write(f"wrong: {answer}\n")


def _receive(window: ServerProcess, asked: int) -> dict[str, Any] | None:
    """Answer to a call; None if it does not come.

    Raises:
        EndedError: The window has ended meanwhile.
    """
    for _ in range(round(_ANSWER_SECONDS / _POLL_SECONDS)):
        try:
            line = window.arrived.get(timeout=_POLL_SECONDS)
        except Empty:
            if window.process.poll() is not None:
                raise EndedError from None
            continue
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == asked:
            return answer
    return None


def _kill(room: Room, kills: int, chance: random.Random) -> None:
    """Kill forwarders and servers, one after another."""
    done, pause = 0, threading.Event()
    while done < kills:
        wait_for(partial(_find_server, room))
        pause.wait(_PAUSE_SECONDS * (0.5 + chance.random()))
        windows = [*room.windows.values()]
        if windows and chance.random() < _WINDOW_SHARE:
            chance.choice(windows).process.kill()
            done += 1
        elif number := _find_server(room):
            os.kill(number, signal.SIGKILL)
            done += 1
            room.add("servers killed")
            # Its threads end one after another, and until the last one it takes connections.
            wait_for(partial(_has_left, room, number))


def _find_server(room: Room) -> int | None:
    """Process of a server that listens."""
    return next(filter(None, map(find_process, room.find_sockets())), None)


def _has_left(room: Room, number: int) -> bool:
    return _find_server(room) != number


SCENARIOS = (("windows", share), ("windows-at-once", start_at_once))


def main() -> None:
    scale = Scale.full() if "--full" in sys.argv else Scale.quick()
    for name, scenario in SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            for figure in scenario(Path(folder), scale):
                verdict = "met" if figure.is_met else "MISSED"
                sys.stdout.write(f"{name}: {figure.what}: {figure.reached} ({verdict})\n")


if __name__ == "__main__":
    main()
