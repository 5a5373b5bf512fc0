"""The server over HTTP as many clients see it, measured in turns with a minimal one.

`python -m benchmarks.http` prints the figures of HTTP only.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import urlencode

import yaml

from benchmarks.building import Repository
from benchmarks.content import Text, make_skill
from benchmarks.figures import CLIENTS, CONNECTIONS, SKILLS, Measured, Results
from benchmarks.http_client import HttpClient, Load, ask_together, call, get
from benchmarks.report import describe_load, describe_machine, print_table
from benchmarks.serving import environment_of
from tests.issuer import AUDIENCE, running_issuer

FLOOR = ("-m", "benchmarks.http_floor")
OURS = ("-m", "skills_mcp", "--transport", "http")

_SAMPLE = (
    "--skills-dir",
    str(Path(__file__).parents[1] / "fixtures" / "skills-content"),
)

_ROUNDS = 5
_WARM_UP = 100

_LISTENING = re.compile(r"Serving MCP at (\S+)")
_SERVING = re.compile(r"Serving [\d,]+ skills")


@dataclass(frozen=True, slots=True)
class _Server:
    """A process that listens."""

    process: "subprocess.Popen[str]"
    url: str

    def cpu_seconds(self) -> float:
        """Return the CPU that it has used (Linux)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def memory_mebibytes(self) -> float:
        """Return its resident memory (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [kib] = re.findall(r"VmRSS:\s+(\d+)", status)
        return int(kib) / 1024


@contextmanager
def _started(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[_Server]:
    """Start a server, and wait until it serves."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield _Server(process, _wait(process, is_ours=arguments != FLOOR))
    finally:
        process.terminate()
        process.communicate()


def _wait(process: "subprocess.Popen[str]", *, is_ours: bool) -> str:
    url, is_serving = "", not is_ours
    for line in process.stderr or ():
        if found := _LISTENING.search(line):
            url = found[1]
        is_serving = is_serving or bool(_SERVING.search(line))
        if url and is_serving:
            return url
    raise SystemExit("the server over HTTP did not start")


def measure_http(folder: Path, *, calls: int) -> Results:
    """Measure CPU, times and memory at each number of clients, against the floor.

    The content is the sample, so that HTTP is measured, and not the search.
    """
    if not Path("/proc/self/stat").exists():
        return {}  # only Linux tells what another process has used
    tasks = _describe_sample()
    with _started(FLOOR, os.environ) as floor:
        with _started((*OURS, *_SAMPLE), _environment(folder)) as ours:
            results = _compare("http", tasks, ours, floor, calls=calls)
            results |= _crowd(tasks, ours)
        return results | _measure_signed_in(folder, tasks, floor, calls=calls)


def measure_http_of_many(kind: str, text: Text, repository: Repository, *, calls: int) -> Results:
    """Measure the same with 10,000 skills, and many clients only."""
    if not Path("/proc/self/stat").exists():
        return {}
    tasks = _describe_many(text, kind)
    environment = _environment(repository.home, environment_of(repository))
    with _started(FLOOR, os.environ) as floor, _started(OURS, environment) as ours:
        only = CLIENTS[-1:]
        key = f"{kind}_http"
        results = _compare(key, tasks, ours, floor, calls=calls, clients=only)
        return results | _measure_searches(kind, tasks, ours, floor, calls=calls)


def _measure_searches(
    kind: str, tasks: Sequence[str], ours: _Server, floor: _Server, *, calls: int
) -> Results:
    """Search the catalogue as a person and as a program, in turns with the floor."""
    results: Results = {}
    writes = [call(floor.url, "write", {"characters": 1000}) for _ in range(calls)]
    for view, place in (("page", "/"), ("rest", "/api/skills")):
        searches = [
            get(ours.url, f"{place}?{urlencode({'q': task[:200]})}")
            for task in islice(cycle(tasks), calls)
        ]
        ratios, p95 = [], []
        for _ in range(_ROUNDS):
            base, _floor_load = _cpu(floor, writes, 1)
            cpu, load = _cpu(ours, searches, 1)
            ratios.append(cpu / base)
            p95.append(load.milliseconds(0.95))
        results[f"{kind}_{view}"] = Measured.of(ratios)
        results[f"{kind}_{view}_p95"] = Measured.of(p95)
    return results


def _describe_sample() -> list[str]:
    import frontmatter

    files = sorted(Path(_SAMPLE[1], "skills").rglob("*.md"))
    heads = (frontmatter.load(str(file)).metadata for file in files)
    return [str(head["description"]) for head in heads if "description" in head]


def _describe_many(text: Text, kind: str) -> list[str]:
    skills = [make_skill(text, number) for number in range(0, SKILLS, SKILLS // 400)]
    if kind == "keyword":
        return [" ".join(skill.keywords) for skill in skills]
    return [skill.description for skill in skills]


def _environment(
    home: Path,
    environment: Mapping[str, str] = os.environ,
    http: Mapping[str, object] | None = None,
) -> Mapping[str, str]:
    """Write the settings of a server; return its environment."""
    settings = {"http": {"port": 0, "operations_port": 0, **(http or {})}}
    (home / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return {**environment, "SKILLS_MCP_HOME": str(home)}


def _measure_signed_in(
    folder: Path, tasks: Sequence[str], floor: _Server, *, calls: int
) -> Results:
    """Measure calls with a token, of which each is validated."""
    with running_issuer() as issuer:
        auth = {"issuer": issuer.url, "audience": AUDIENCE}
        token = issuer.token(seconds=3600)
        environment = _environment(folder, http={"auth": auth})
        with _started((*OURS, *_SAMPLE), environment) as ours:
            return _compare(
                "signed_http",
                tasks,
                ours,
                floor,
                calls=calls,
                clients=CLIENTS[-1:],
                headers={"Authorization": f"Bearer {token}"},
            )


def _compare(  # noqa: PLR0913 - what both servers are asked
    key: str,
    tasks: Sequence[str],
    ours: _Server,
    floor: _Server,
    *,
    calls: int,
    clients: Sequence[int] = CLIENTS,
    headers: Mapping[str, str] | None = None,
) -> Results:
    """Let both answer as many calls, with replies of the same length, in turns."""
    sizes = asyncio.run(_matched(ours, tasks, headers))
    again = cycle(sizes)

    def get_skill(number: int) -> list[bytes]:
        return [
            call(ours.url, "get_skill", {"context": task}, headers)
            for task in islice(again, number)
        ]

    mean = {"characters": sum(sizes.values()) // len(sizes)}
    writes = [call(floor.url, "write", mean) for _ in range(calls)]
    asyncio.run(ask_together(floor.url, writes[:_WARM_UP], clients=1))
    results: Results = {}
    for number in clients:
        ratios, p50, p99 = [], [], []
        for _ in range(_ROUNDS):
            base, _floor_load = _cpu(floor, writes, number)
            cpu, load = _cpu(ours, get_skill(calls), number)
            ratios.append(cpu / base)
            p50.append(load.milliseconds(0.5))
            p99.append(load.milliseconds(0.99))
        results[f"{key}_{number}"] = Measured.of(ratios)
        results[f"{key}_p50_{number}"] = Measured.of(p50)
        results[f"{key}_p99_{number}"] = Measured.of(p99)
    memory = ours.memory_mebibytes() - floor.memory_mebibytes()
    results[f"{key}_rss"] = Measured.of([memory])
    return results


async def _matched(
    server: _Server, tasks: Sequence[str], headers: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Return the tasks whose reply is long, with its characters."""
    client, sizes = HttpClient(server.url), {}
    for task in tasks:
        sent = call(server.url, "get_skill", {"context": task}, headers)
        blocks = (await client.ask(sent)).result()["content"]
        sizes[task] = sum(len(block["text"]) for block in blocks)
    client.close()
    longest = max(sizes.values())
    return {task: size for task, size in sizes.items() if size > longest / 2}


def _cpu(server: _Server, requests: list[bytes], clients: int) -> tuple[float, Load]:
    """Return the seconds of CPU for a request, and what the clients have seen."""
    before = server.cpu_seconds()
    load = asyncio.run(ask_together(server.url, requests, clients=clients))
    if load.failures or load.refused:
        raise SystemExit(f"{load.refused} refused, failures: {dict(load.failures)}")
    return (server.cpu_seconds() - before) / len(requests), load


def _crowd(tasks: Sequence[str], ours: _Server) -> Results:
    """Let a thousand connections ask at once, a few times."""
    some = islice(cycle(tasks), CONNECTIONS * 3)
    requests = [call(ours.url, "get_skill", {"context": each}) for each in some]
    load = asyncio.run(ask_together(ours.url, requests, clients=CONNECTIONS, together=True))
    return {
        "crowd_errors": Measured.of([load.failures.total()]),
        "crowd_refused": Measured.of([load.refused]),
        "crowd_p99": Measured.of([load.milliseconds(0.99) / 1000]),
        "crowd_rss": Measured.of([ours.memory_mebibytes()]),
    }


def main() -> None:
    """Print the figures of HTTP."""
    with tempfile.TemporaryDirectory(prefix="skills-mcp-bench-") as folder:
        results = measure_http(Path(folder), calls=500)
    about = [describe_machine(os.cpu_count()), f"{describe_load()}."]
    print_table(results, about)


if __name__ == "__main__":
    main()
