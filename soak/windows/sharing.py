"""Windows that share a server, while servers and windows are killed at random.

`python -m soak.windows.sharing` tries this alone.
"""

import json
import os
import random
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty

from soak.scenario import Figure, Scale
from soak.stdio import home_variables
from tests.clients import ServerProcess
from tests.support import is_running, wait_for, write, write_skill
from tests.windows import FOLDER, LINGER, find_process

PROMISE = 60

_SKILLS = 50
_SCRIPT_SHARE = 0.2
_PAUSE_SECONDS = 0.25  # between two kills: a server has begun to answer
_ANSWER_SECONDS = 60.0  # hosts wait longer for a call


class Tally:
    """What went right and wrong, counted by all windows."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def share(folder: Path, scale: Scale) -> list[Figure]:
    """Kill forwarders and servers, and count what each window got."""
    windows, kills = scale.count(full=20, quick=4), scale.count(full=200, quick=10)
    tally, over = Tally(), threading.Event()
    with _prepared(folder) as (environment, ran):
        threads = [
            threading.Thread(
                target=_use, args=(number, folder, environment, tally, over), daemon=True
            )
            for number in range(windows)
        ]
        for thread in threads:
            thread.start()
        _kill_servers(environment, kills, tally, random.Random(scale.seed))  # noqa: S311 - no secret
        over.set()
        for thread in threads:
            thread.join()
        left = _wait_for_end(environment)
        scripts = Counter(ran.read_text().split()) if ran.exists() else Counter()
    doubled = sum(count > 1 for count in scripts.values())
    asked = tally.counts["asked"]
    return [
        Figure.none(PROMISE, "wrong answers", tally.counts["wrong"], asked),
        Figure.none(PROMISE, "calls without an answer", tally.counts["lost"], asked),
        Figure.none(PROMISE, "answers that came twice", tally.counts["doubled"], asked),
        Figure.none(PROMISE, "scripts that ran twice", doubled, tally.counts["scripts"]),
        Figure.none(PROMISE, "servers and sockets left", left, kills),
    ]


def start_at_once(folder: Path, scale: Scale) -> list[Figure]:
    """Start many windows from nothing; count servers and windows without an answer."""
    number = scale.count(full=30, quick=6)
    with _prepared(folder) as (environment, _):
        windows = [
            ServerProcess(environment=environment, log=folder / f"start-{each}.log")
            for each in range(number)
        ]
        try:
            answered = sum("result" in each.request("server/discover") for each in windows)
            servers = len([*_find_sockets(environment)])
        finally:
            for each in windows:
                each.close()
        left = _wait_for_end(environment)
    return [
        Figure.every(PROMISE, "windows that start at once", answered, number),
        Figure.none(PROMISE, "servers but one", servers - 1, number),
        Figure.none(PROMISE, "servers and sockets left", left, number),
    ]


@contextmanager
def _prepared(folder: Path) -> Iterator[tuple[dict[str, str], Path]]:
    """Write the content; yield the environment, and the file to which scripts write."""
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
        more["SKILLS_MCP_SHARE"] = "1"
        yield {**variables, **more}, ran


def _use(
    number: int, folder: Path, environment: dict[str, str], tally: Tally, over: threading.Event
) -> None:
    """Ask in one window after another: each is killed after some calls."""
    chance, generation = random.Random(number), 0  # noqa: S311 - no secret
    while not over.is_set():
        generation += 1
        log = folder / f"window-{number}-{generation}.log"
        window = ServerProcess(environment=environment, log=log)
        try:
            for _ in range(chance.randrange(5, 40)):
                if not over.is_set():
                    _ask(window, chance, f"{number}-{generation}", tally)
            identities = Counter(json.loads(line).get("id") for line in window.lines)
            del identities[None]
            for count in identities.values():
                if count > 1:
                    tally.add("doubled")
        finally:
            window.close()


def _ask(window: ServerProcess, chance: random.Random, name: str, tally: Tally) -> None:
    which = chance.randrange(_SKILLS)
    is_script = chance.random() < _SCRIPT_SHARE
    tally.add("asked")
    if is_script:
        tally.add("scripts")
        call = f"{name}-{len(window.lines)}-{chance.random()}"
        arguments = {"skill_path": "note", "file": "scripts/note.sh", "args": {"call": call}}
        asked = window.send("tools/call", name="run_script", arguments=arguments)
    else:
        arguments = {"context": "an example", "skill_path": f"skill-{which}"}
        asked = window.send("tools/call", name="get_skill", arguments=arguments)
    try:
        while (answer := json.loads(window._arrived.get(timeout=_ANSWER_SECONDS))).get(  # noqa: SLF001 - with a limit of its own
            "id"
        ) != asked:
            continue
    except Empty:
        tally.add("lost")
        return
    result = answer.get("result", {})
    text = result.get("content", [{}])[0].get("text", "{}")
    reply = json.loads(text)
    code = reply.get("error", {}).get("code")
    if is_script:
        is_right = code == "SERVER_LOST" or reply.get("exit_code") == 0
    else:
        is_right = code == "SERVER_LOST" or reply.get("skill_path") == f"skill-{which}"
    if code == "SERVER_LOST":
        tally.add("told")
    if not is_right:
        tally.add("wrong")
        sys.stderr.write(f"wrong: {answer}\n")


def _find_sockets(environment: dict[str, str]) -> Iterator[Path]:
    yield from Path(environment[FOLDER]).glob("*.sock")


def _kill_servers(
    environment: dict[str, str], kills: int, tally: Tally, chance: random.Random
) -> None:
    done = 0
    pause = threading.Event()
    while done < kills:
        pause.wait(_PAUSE_SECONDS * (0.5 + chance.random()))
        for address in _find_sockets(environment):
            if (number := find_process(address)) is not None:
                with suppress(OSError):
                    os.kill(number, signal.SIGKILL)
                    done += 1
                    tally.add("kills")
                wait_for(lambda number=number: not is_running(number))  # type: ignore[misc]


def _wait_for_end(environment: dict[str, str]) -> int:
    """Count the servers that are still there after their last window."""
    with suppress(AssertionError):
        wait_for(lambda: not [*_find_sockets(environment)])
    return len([*_find_sockets(environment)])


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
