"""Windows that share a server, against servers of their own and against the floor.

`python -m benchmarks.windows` measures these figures alone, on the sample content.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.figures import WINDOWS, Measured, Results
from benchmarks.pipe_client import PipeClient
from benchmarks.serving import FLOOR, OURS, Environment

_WARM_UP = 30
_BLOCKS = 10
_MEBIBYTE = 2**20
_ALLOWED_MEBIBYTES = 100
"""What ten windows may take beside their server."""

_COMMANDS = 5
"""How often a command is run in a round."""

_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 30.0


def measure_windows(
    environment: Environment, prompts: Sequence[str], *, rounds: int, calls: int
) -> Results:
    """Measure starts, memory and calls of windows with this environment."""
    with tempfile.TemporaryDirectory(prefix="rt-") as runtime:
        shared = {**environment, "SKILLS_MCP_RUNTIME_DIR": runtime, "SKILLS_MCP_SHARE": "1"}
        alone = {**environment, "SKILLS_MCP_SHARE": "0"}
        try:
            return {
                **_measure_starts(shared, alone, rounds=rounds),
                **_measure_memory(shared, alone, prompts[0]),
                **_measure_calls(shared, alone, prompts, calls=calls),
                **_measure_commands(shared, alone, prompts, rounds=rounds),
            }
        finally:
            _stop(shared)


def _measure_starts(shared: Environment, alone: Environment, *, rounds: int) -> Results:
    seconds: dict[str, list[float]] = {}

    def note(key: str, value: float) -> None:
        seconds.setdefault(key, []).append(value)

    for _ in range(rounds):
        floor = _start_together(FLOOR, alone, 1)
        _stop(shared)
        note("window_first", _start_together(OURS, shared, 1) / floor)
        note("window_next", _start_together(OURS, shared, 1) / floor)
        floors = _start_together(FLOOR, alone, WINDOWS)
        note("windows_running", _start_together(OURS, shared, WINDOWS) / floors)
        _stop(shared)
        note("windows_cold", _start_together(OURS, shared, WINDOWS) / floors)
        note("windows_alone", _start_together(OURS, alone, WINDOWS) / floors)
    return {key: Measured.of(values) for key, values in seconds.items()}


def _start_together(server: Sequence[str], environment: Environment, number: int) -> float:
    """Return the seconds until the last of several processes has answered."""
    started = time.perf_counter()
    with ExitStack() as running, ThreadPoolExecutor(number) as threads:
        clients = [running.enter_context(PipeClient([*server], environment)) for _ in range(number)]
        list(threads.map(PipeClient.first_answer_seconds, clients))
        return time.perf_counter() - started


def _measure_memory(shared: Environment, alone: Environment, prompt: str) -> Results:
    call = ("get_skill", {"context": prompt})
    with PipeClient([*OURS], alone) as single:
        single.call_seconds(*call)
        one = single.memory_mebibytes().get("Pss", 0.0)
    if not one:
        return {}
    with ExitStack() as running:
        windows = [running.enter_context(PipeClient([*OURS], shared)) for _ in range(1)]
        windows[0].call_seconds(*call)
        before = _read_server(shared, "private_bytes")
        windows += [running.enter_context(PipeClient([*OURS], shared)) for _ in range(WINDOWS - 1)]
        for window in windows:
            window.call_seconds(*call)
        grown = (_read_server(shared, "private_bytes") - before) / (WINDOWS - 1)
        memories = [window.memory_mebibytes() for window in windows]
        private = statistics.median(
            each["Private_Clean"] + each["Private_Dirty"] for each in memories
        )
        server = _read_proportional(_read_pid(shared))
        together = sum(each["Pss"] for each in memories) + server
    return {
        "window_private": Measured.of([private + grown]),
        "windows_pss": Measured.of([(together - _ALLOWED_MEBIBYTES) / one]),
        "windows_pss_sum": Measured.of([together]),
    }


def _measure_calls(
    shared: Environment, alone: Environment, prompts: Sequence[str], *, calls: int
) -> Results:
    with ExitStack() as running:
        own = running.enter_context(PipeClient([*OURS], alone))
        windows = [running.enter_context(PipeClient([*OURS], shared)) for _ in range(WINDOWS)]
        pairs = []
        for number in range(calls + _WARM_UP):
            call = ("get_skill", {"context": prompts[number % len(prompts)]})
            through = windows[0].call_seconds(*call)
            pairs.append((through, own.call_seconds(*call)))
        warm = pairs[_WARM_UP:]
        ratios = [
            statistics.median(a for a, _ in block) / statistics.median(b for _, b in block)
            for block in (warm[start::_BLOCKS] for start in range(_BLOCKS))
        ]
        single = _percentile(_ask(windows[0], prompts, calls))
        with ThreadPoolExecutor(WINDOWS) as threads:
            asked = threads.map(lambda window: _ask(window, prompts, calls), windows)
            crowd = _percentile([seconds for each in asked for seconds in each])
    return {
        "window_call": Measured.of(ratios),
        "windows_p99": Measured.of([crowd / single]),
    }


def _measure_commands(
    shared: Environment, alone: Environment, prompts: Sequence[str], *, rounds: int
) -> Results:
    """Measure `ask` with a running server, against a process that answers by itself."""
    answered, by_itself = [], []
    with PipeClient([*OURS], shared) as window:
        window.first_answer_seconds()
        _run(shared, "ask", prompts[0])  # the first one imports the commands
        before = _count_commands(shared)
        for number in range(rounds * _COMMANDS):
            prompt = prompts[number % len(prompts)]
            answered.append(_time_command(shared, prompt))
            by_itself.append(_time_command(alone, prompt))
        # The server has answered the first `status`, too.
        if _count_commands(shared) != before + 1 + len(answered):
            raise SystemExit("a command was not answered by the server")
    return {
        "command_answered": Measured.of(answered),
        "command_alone": Measured.of(by_itself),
        "command_ratio": Measured.of(a / b for a, b in zip(answered, by_itself, strict=True)),
    }


def _time_command(environment: Environment, prompt: str) -> float:
    started = time.perf_counter()
    _run(environment, "ask", prompt)
    return time.perf_counter() - started


def _ask(window: PipeClient, prompts: Sequence[str], calls: int) -> list[float]:
    return [
        window.call_seconds("get_skill", {"context": prompts[number % len(prompts)]})
        for number in range(calls)
    ]


def _percentile(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def _run(environment: Environment, *words: str) -> str:
    command = [sys.executable, "-m", "skills_mcp", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def _stop(environment: Environment) -> None:
    _run(environment, "stop")


def _read_status(environment: Environment) -> dict[str, object]:
    [server] = json.loads(_run(environment, "status", "--json"))["servers"]
    found: dict[str, object] = server
    return found


def _count_commands(environment: Environment) -> int:
    return int(str(_read_status(environment)["commands"]))


def _read_server(environment: Environment, name: str) -> float:
    memory = _read_status(environment)["memory"]
    return memory[name] / _MEBIBYTE if isinstance(memory, dict) else 0.0


def _read_pid(environment: Environment) -> int:
    return int(str(_read_status(environment)["pid"]))


def _read_proportional(number: int) -> float:
    lines = Path(f"/proc/{number}/smaps_rollup").read_text("ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@contextmanager
def _sample() -> Iterator[Environment]:
    content = Path(__file__).parents[1] / "fixtures" / "skills-content"
    with tempfile.TemporaryDirectory(prefix="skills-mcp-bench-") as home:
        yield {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "SKILLS_MCP_HOME": home,
            "SKILLS_DIR": str(content),
        }


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    prompts = ("add a login to the React app", "write an API endpoint", "deploy with Terraform")
    with _sample() as environment:
        for key, measured in measure_windows(environment, prompts, rounds=5, calls=300).items():
            write(f"{key:18} {measured.median:8.3f}  ({measured.low:.3f} to {measured.high:.3f})\n")


if __name__ == "__main__":
    main()
