"""What a piece of work costs in processor time and memory, measured in its own process.

`python -m soak.bounded MODULE FOLDER NAME …` calls `try_one(folder, name)` of a module
for each name.  One that hangs or kills the process is one that says nothing.
"""

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from skills_mcp.processes.memory import trim_heap

_MAX_SECONDS = 60
"""For one piece, on a busy machine; what hangs is ended by the kernel."""
_MAX_FILE_BYTES = 256 * 1024 * 1024  # what copies without end is ended, too


@dataclass(frozen=True, slots=True)
class Cost:
    """What came of one piece of work."""

    name: str
    fault: str
    """What is wrong with it; empty if nothing is."""
    cpu_seconds: float
    grown_bytes: int
    """How much more memory it has had at its peak than before."""


def measure(module: str, folder: Path, names: Sequence[str]) -> dict[str, Cost]:
    """Run pieces of work in a process; those that hang or crash are missing."""
    command = [sys.executable, "-m", "soak.bounded", module, str(folder), *names]
    top = Path(__file__).parent.parent
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd=top)
    costs = (Cost(**json.loads(line)) for line in done.stdout.splitlines())
    return {cost.name: cost for cost in costs}


def _run(work: Callable[[Path, str], str], folder: Path, name: str) -> Cost:
    gc.collect()
    trim_heap()
    before, started = _reset_peak(), time.process_time()
    try:
        fault = work(folder, name)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        fault = f"{type(error).__name__}: {error}"[:200]
    return Cost(name, fault, time.process_time() - started, _read_peak() - before)


def _reset_peak() -> int:
    """Forget the highest use of memory so far, where the kernel can; return it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    return _read_peak()


def _read_peak() -> int:
    """Return the highest use of memory, in bytes."""
    with suppress(OSError):
        for line in _read_status():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _read_status() -> Iterator[str]:
    yield from Path("/proc/self/status").read_text("ascii").splitlines()


def _main(module: str, folder: str, *names: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, _MAX_FILE_BYTES))
    work = importlib.import_module(module).try_one
    signal.alarm(_MAX_SECONDS)
    work(Path(folder), names[0])  # what is imported and cached on first use
    for name in names:
        signal.alarm(_MAX_SECONDS)
        cost = _run(work, Path(folder), name)
        os.write(1, json.dumps(asdict(cost)).encode() + b"\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
