"""Floods of output, of calls and of noise: promises 37 and 41, rows 58, 59 and 63."""

import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skills_mcp.scripts.script_runner import MAX_QUEUED, MAX_RUNNING
from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.stdio import home_variables
from tests.clients import ServerProcess
from tests.support import write, write_skill

_MEGABYTE = 1_000_000
_MOST_GROWTH_MEGABYTES = 10
_CAP_BYTES = 1_048_576  # the default of scripts.max_output_bytes
_LINE_BYTES = 200  # more than what says how much is left out

_FLOODS = {
    "stdout": ["1"],
    "stderr": ["2"],
    "both in turn": ["1", "2"],
}
"""Which streams a script prints to; the text has no end of a line, and is no UTF-8."""

_FLOOD = """import os
piece = b"\\xff" + b"x" * 65535
for _ in range(int(os.environ["SKILL_ARG_PIECES"])):
    for stream in os.environ["SKILL_ARG_STREAMS"].split():
        left = piece
        while left:
            left = left[os.write(int(stream), left):]
os._exit(7)
"""

_CALLS = 50

# What a library of ours may do by mistake, from the moment that it is loaded.
_NOISE = """import logging, runpy, sys, threading, warnings
def make_noise():
    print("noise on stdout", flush=True)
    print("noise on stderr", file=sys.stderr)
    warnings.warn("a warning")
    logging.getLogger("noise").error("a log line", exc_info=ValueError("a traceback"))
def repeat():
    make_noise()
    timer = threading.Timer(0.02, repeat)
    timer.daemon = True
    timer.start()
class Loud:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp":
            sys.meta_path.remove(self)
            repeat()
            threading.Thread(target=lambda: 1 / 0).start()
sys.meta_path.insert(0, Loud())
sys.argv[:] = ["skills-mcp"]
runpy.run_module("skills_mcp", run_name="__main__")
"""

_NOISY = """echo '{"jsonrpc": "2.0", "id": 1, "result": {}}'
echo 'not json' > /dev/stderr
(while :; do echo background; sleep 0.01; done) &
python3 -c 'raise SystemExit(1 / 0)'
"""


def print_without_end(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Print a gigabyte to each stream, and measure the memory of the server."""
    if not Path("/proc/self/status").exists():
        raise Unavailable("memory is read as Linux tells it")
    megabytes = scale.count(full=1000, quick=20)
    pieces = megabytes * _MEGABYTE // 65536
    with _serving(folder, {"flood.py": _FLOOD}, ["pieces", "streams"]) as server:
        for _ in range(2):  # after this, what stays in memory has come to stay
            _flood(server, 40, ["1", "2"])
        for name, streams in _FLOODS.items():
            # An answer of the same length, so that what is left is the flood's own.
            _reset_peak(server.process.pid)
            _flood(server, 40, streams)
            before = _read_memory(server.process.pid, "VmHWM")
            _reset_peak(server.process.pid)
            reply = _flood(server, pieces, streams)
            growth = _read_memory(server.process.pid, "VmHWM") - before
            what = f"{megabytes} MB to {name}: megabytes of growth"
            yield Figure.at_most(37, what, round(growth, 1), _MOST_GROWTH_MEGABYTES)
            told = sum(reply[f"{stream}_bytes"] for stream in ("stdout", "stderr"))
            is_told = told == pieces * 65536 * len(streams) and reply["exit_code"] == 7  # noqa: PLR2004 - the script's
            yield Figure.every(37, f"{name}: size and exit code told", is_told, 1)
            kept = max(len(reply[stream]) for stream in ("stdout", "stderr"))
            what = f"{name}: characters of an answer's stream"
            yield Figure.at_most(37, what, kept, _CAP_BYTES + _LINE_BYTES)


def call_together(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Call fifty scripts at once, again and again."""
    if not Path("/proc/self/fd").exists():
        raise Unavailable("files that are open are counted as Linux shows them")
    rounds = scale.count(full=10, quick=1)
    script = "date +%s.%N; sleep 0.1; date +%s.%N\n"
    answered = taken = refused = most = 0
    with _serving(folder, {"slow.sh": script}, []) as server:
        _call_all(server, 1)
        before = _count_files(server.process.pid)
        for _ in range(rounds):
            replies = _call_all(server, _CALLS)
            ran = [reply["stdout"].split() for reply in replies if "stdout" in reply]
            codes = [reply["error"]["code"] for reply in replies if "error" in reply]
            answered += len(replies)
            taken += len(ran)
            refused += codes.count("SCRIPTS_BUSY")
            most = max(most, _count_together([(float(a), float(b)) for a, b in ran]))
        after = _count_files(server.process.pid)
    total = rounds * _CALLS
    yield Figure.every(37, "calls at once: answered", answered, total)
    yield Figure.every(37, "calls at once: run or told to wait", taken + refused, total)
    yield Figure.at_most(37, "calls at once: running together", most, MAX_RUNNING)
    room = rounds * (MAX_RUNNING + MAX_QUEUED)
    what = "calls at once: run, as many as there is room for"
    yield Figure.every(37, what, min(taken, room), room)
    yield Figure.at_most(51, "calls at once: files left open", after - before, 0)


def make_noise(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Print, warn and fail inside the server and its scripts; read every line."""
    calls = scale.count(full=200, quick=5)
    answered = 0
    files = {"noisy.sh": _NOISY}
    noisy = (sys.executable, "-c", _NOISE)
    with _serving(folder, files, [], program=noisy) as server:
        for number in range(calls):
            reply = _call(server, "noisy.sh")
            answered += reply["exit_code"] == 1 and "not json" in reply["stderr"]
            if number % 5 == 0:
                server.write("no json at all")
                server.write("\ufffd" * 100)
                server.call("get_skill", context="x" * 1000)
        server.close_input()
        server.wait()
        server.wait_for_end_of_output()
        bad = [line for line in server.lines if not _is_message(line)]
    shown = f", such as {bad[0][:60]!r}" if bad else ""
    yield Figure.every(41, "noisy scripts answered", answered, calls)
    what = f"lines that are no JSON-RPC{shown}"
    yield Figure.none(41, what, len(bad), len(server.lines))
    is_noisy = "a traceback" in server.log and "noise on stdout" in server.log
    yield Figure.every(41, "noise that reached the log", is_noisy, 1)


@contextmanager
def _serving(
    folder: Path,
    scripts: Mapping[str, str],
    names: Sequence[str],
    program: Sequence[str] = (),
) -> Iterator[ServerProcess]:
    """Start a server with one skill, which has these scripts with these arguments.

    Args:
        folder: Where its home, its content and its log are.
        scripts: The text of each, by its file.
        names: Of the arguments, which each of them takes.
        program: Starts the server in another way than by its own command.
    """
    arguments = [{"name": name, "required": True} for name in names]
    declared = [{"file": file, "execution": "server", "args": arguments} for file in scripts]
    content = folder / "content"
    write_skill(content, "flood.md", keywords=["flood"], scripts=declared)
    for file, text in scripts.items():
        write(content / "flood" / file, text)
    server = ServerProcess(
        environment=home_variables(folder) | {"SKILLS_DIR": str(content)},
        log=folder / "server.log",
        prefix=program,
    )
    try:
        yield server
    finally:
        server.close()


def _call(server: ServerProcess, file: str, **args: str) -> dict[str, Any]:
    return server.call("run_script", skill_path="flood", file=file, args=args)


def _flood(server: ServerProcess, pieces: int, streams: list[str]) -> dict[str, Any]:
    args = {"pieces": str(pieces), "streams": " ".join(streams)}
    return _call(server, "flood.py", **args)


def _call_all(server: ServerProcess, count: int) -> list[dict[str, Any]]:
    """Call a script that often at once, and return the answers."""
    call = {"skill_path": "flood", "file": "slow.sh", "args": {}}
    numbers = {server.send("tools/call", name="run_script", arguments=call) for _ in range(count)}
    replies = []
    while numbers:
        message = server.receive()
        if message.get("id") in numbers:
            numbers.discard(message["id"])
            replies.append(json.loads(message["result"]["content"][0]["text"]))
    return replies


def _count_together(times: Sequence[tuple[float, float]]) -> int:
    """Return the largest number of spans that overlap."""
    edges = sorted([(a, 1) for a, _ in times] + [(b, -1) for _, b in times])
    return max(itertools.accumulate(step for _, step in edges), default=0)


def _count_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _reset_peak(pid: int) -> None:
    """Reset the peak of memory that the kernel counts."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _read_memory(pid: int, name: str) -> float:
    """Return a line of a process's memory, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024 / _MEGABYTE


def _is_message(line: str) -> bool:
    try:
        message = json.loads(line)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("jsonrpc") == "2.0"


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("floods-of-output", print_without_end),
    ("fifty-calls", call_together),
    ("noise", make_noise),
)
