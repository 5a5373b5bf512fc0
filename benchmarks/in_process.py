"""Programs that open skills without a server: how soon, and how much memory.

Each is a new interpreter. The floor imports the libraries that the Python API stands
on, and does nothing with them.
"""

import json
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.building import Repository
from benchmarks.figures import Measured, Results
from benchmarks.serving import environment_of

_NOTHING = "pass"
_IMPORTS = "import skills_mcp"
_FLOOR = "import anyio, asyncio, numpy, pydantic"
_OPENS = """
import skills_mcp
skills = skills_mcp.open_sync().open()
"""

_MEASURES = """
import json, sys, time
begun = time.perf_counter()
exec(sys.argv[1])
seconds = time.perf_counter() - begun
with open("/proc/self/status") as status:
    lines = dict(line.split(":", 1) for line in status)
print(json.dumps([seconds, int(lines["VmRSS"].split()[0]) / 1024]))
import os
sys.stdout.flush()
os._exit(0)
"""


def measure_in_process(repository: Repository, *, rounds: int) -> Results:
    """Import, and open on a warm cache, in turns with the floor."""
    environment = environment_of(repository)
    _measure(_OPENS, environment)  # whose index is kept from now on
    values: dict[str, list[float]] = {}
    for _ in range(rounds):
        _, nothing_mib = _measure(_NOTHING, environment)
        floor, floor_mib = _measure(_FLOOR, environment)
        imported, imported_mib = _measure(_IMPORTS, environment)
        opened, opened_mib = _measure(_OPENS, environment)
        found = {
            "python_import": imported * 1000,
            "python_import_memory": imported_mib - nothing_mib,
            "python_open": opened * 1000,
            "python_open_ratio": opened / floor,
            "python_open_memory": opened_mib - floor_mib,
        }
        for key, value in found.items():
            values.setdefault(key, []).append(value)
    return {key: Measured.of(each) for key, each in values.items()}


def _measure(code: str, environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the seconds that code takes in a new interpreter, and the MiB resident."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURES, code],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, mebibytes = json.loads(done.stdout)
    return seconds, mebibytes
