"""The server as its client sees it, measured in turns with a minimal server."""

import os
import shutil
import socket
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.building import Repository
from benchmarks.content import Text
from benchmarks.figures import Measured, Results
from benchmarks.pipe_client import PipeClient

# -P: beside the file lies a module called http, which is not that of Python.
FLOOR = ("-P", str(Path(__file__).with_name("floor_server.py")))
OURS = ("-m", "skills_mcp")

_WARM_UP = 50
_BLOCKS = 10
"""The number of parts of the calls, for the spread of the figure."""

Environment = Mapping[str, str]


def environment_of(repository: Repository, **more: str) -> Environment:
    """Return the environment of a server of a repository."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(repository.home),
        "SKILLS_MCP_HOME": str(repository.home),
        "SKILLS_REPO": repository.url,
        "SKILLS_MCP_SHARE": "0",  # of windows that share a server, see benchmarks.windows
        **more,
    }


def measure_start(repository: Repository, prompt: str, *, rounds: int) -> Results:
    """Start both servers in turns, up to their first answer."""
    empty = repository.home.with_name("empty")
    with _hanging_remote() as address:
        kinds = {
            "warm": environment_of(repository),
            "cold": environment_of(repository, SKILLS_MCP_HOME=str(empty)),
            "hanging": environment_of(repository, SKILLS_MCP_HOME=str(empty), SKILLS_REPO=address),
        }
        seconds: dict[str, list[float]] = {}
        for _ in range(rounds):
            floor, floor_call = _start(FLOOR, kinds["warm"], "echo", {"text": prompt})
            for kind, environment in kinds.items():
                shutil.rmtree(empty, ignore_errors=True)
                call = ("get_skill", {"context": prompt}) if kind == "warm" else ()
                first, first_call = _start(OURS, environment, *call)
                seconds.setdefault(f"start_{kind}", []).append(first / floor)
                if call:
                    seconds.setdefault("first_call", []).append(first_call / floor_call)
        shutil.rmtree(empty, ignore_errors=True)
    return {key: Measured.of(values) for key, values in seconds.items()}


def _start(
    server: Sequence[str],
    environment: Environment,
    tool: str = "",
    arguments: Mapping[str, str] | None = None,
) -> tuple[float, float]:
    """Return the seconds to the first answer, and to that of the first call."""
    with PipeClient([*server], environment) as client:
        first = client.first_answer_seconds()
        if tool:
            client.call_seconds(tool, arguments or {})
        return first, client.seconds_since_start()


@contextmanager
def _hanging_remote() -> Iterator[str]:
    """Offer a port of this machine that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/skills.git"


class Memory(NamedTuple):
    """The memory of a process, in MiB."""

    resident: float
    private: float


def measure_calls(
    text: Text, environment: Environment, tool: str, argument: str, *, calls: int
) -> tuple[Measured, Memory | None]:
    """Return the ratio of a call to an echo, and the memory above the floor."""
    prompts = islice(cycle(text.prompts), calls + _WARM_UP)
    pairs: list[tuple[float, float]] = []
    with (
        PipeClient([*FLOOR], environment) as floor,
        PipeClient([*OURS], environment) as ours,
    ):
        for prompt in prompts:
            echo = floor.call_seconds("echo", {"text": prompt})
            pairs.append((ours.call_seconds(tool, {argument: prompt}), echo))
        memory = _subtract(ours.memory_mebibytes(), floor.memory_mebibytes())
    warm = pairs[_WARM_UP:]
    blocks = [warm[start::_BLOCKS] for start in range(_BLOCKS)]
    return Measured.of(map(_ratio, blocks)), memory


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    ours = statistics.median(ours for ours, _ in pairs)
    return ours / statistics.median(floor for _, floor in pairs)


def _subtract(ours: Mapping[str, float], floor: Mapping[str, float]) -> Memory | None:
    """Return the difference, where the system tells it (Linux)."""
    if not ours:
        return None
    return Memory(ours["VmRSS"] - floor["VmRSS"], ours["RssAnon"] - floor["RssAnon"])


def measure_memory(
    kind: str, text: Text, repository: Repository, *, calls: int, together: int
) -> Results:
    """Measure servers that open a cached index, build it, and many at once."""
    shutil.rmtree(repository.home / "cache" / "index", ignore_errors=True)
    environment = environment_of(repository)
    _, builder = measure_calls(text, environment, "get_skill", "context", calls=100)
    ratio, opener = measure_calls(text, environment, "get_skill", "context", calls=calls)
    results = {f"{kind}_call": ratio}
    if builder and opener:
        results[f"{kind}_rss"] = Measured.of([opener.resident])
        results[f"{kind}_private"] = Measured.of([opener.private])
        results[f"{kind}_rss_builder"] = Measured.of([builder.resident])
    prompt = text.prompts[0]
    call = ("get_skill", {"context": prompt})
    ours = _proportional(OURS, environment, *call, together=together)
    echo = ("echo", {"text": prompt})
    floor = _proportional(FLOOR, environment, *echo, together=together)
    if ours and floor:
        results[f"{kind}_ten"] = Measured.of([ours - floor])
    return results


def _proportional(
    server: Sequence[str],
    environment: Environment,
    tool: str,
    arguments: Mapping[str, str],
    *,
    together: int,
) -> float:
    """Return the MiB of many servers; a page that they share counts once."""
    with ExitStack() as running:
        clients = [
            running.enter_context(PipeClient([*server], environment)) for _ in range(together)
        ]
        for client in clients:
            client.call_seconds(tool, arguments)
        return sum(each.memory_mebibytes().get("Pss", 0.0) for each in clients)
