"""Every budget of speed and memory, measured in one run, as ratios and not as times.

`make bench` prints a table and writes `benchmarks/results.json`. What is compared is
measured in turn, so a slow spell of the machine hits both.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from benchmarks.building import Repository, make_repository, measure_building
from benchmarks.content import Text, invent_text, read_text
from benchmarks.engines import COMPARED, measure_engines
from benchmarks.figures import KINDS, SIZES, Results
from benchmarks.http import measure_http, measure_http_of_many
from benchmarks.in_process import measure_in_process
from benchmarks.meanings import measure_meanings
from benchmarks.report import (
    describe_load,
    describe_machine,
    print_table,
    write_json,
    write_markdown,
)
from benchmarks.routing import measure_routing
from benchmarks.serving import (
    environment_of,
    measure_calls,
    measure_memory,
    measure_start,
)
from benchmarks.windows import measure_windows

RESULTS = Path(__file__).with_name("results.json")
TEXT_VARIABLE = "BENCHMARK_TEXT"


class Effort(NamedTuple):
    """The sizes and the numbers of repetitions."""

    sizes: tuple[int, ...]
    rounds: int
    tasks: int
    starts: int
    calls: int
    engines: bool
    servers: int
    """The number of servers that are started together; 0 leaves this out."""


_FULL = Effort(SIZES, rounds=3, tasks=600, starts=10, calls=600, engines=True, servers=10)
_QUICK = Effort(SIZES[:2], rounds=1, tasks=150, starts=3, calls=150, engines=False, servers=0)

_console = Console(stderr=True)


def main() -> None:
    """Measure, print and write all figures."""
    started = time.perf_counter()
    busy = describe_load()
    chosen = parse()
    effort = _QUICK if chosen.quick else _FULL
    text = read_text(chosen.text) if chosen.text else invent_text()
    results, absent = measure(text, effort)
    seconds = time.perf_counter() - started
    about = {
        "machine": describe_machine(os.cpu_count()),
        "text": f"Skills and tasks are {text.origin}.",
        "effort": f"{'Quick' if chosen.quick else 'Full'} run of {seconds:.0f} s; "
        f"{busy} before it.",
    }
    if effort.engines:
        said = "; ".join(f"{each.name}: {each.indexes}" for each in COMPARED)
        named = ", ".join(sorted(absent)) or "none"
        about |= {"engines": f"{said}.", "absent": f"Not installed, left out: {named}."}
    write_json(RESULTS, results, about)
    print_table(results, about.values())
    if chosen.markdown:
        write_markdown(chosen.markdown, results, about.values())


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    named = os.environ.get(TEXT_VARIABLE, "")
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less, in about four minutes")
    parser.add_argument(
        "--text",
        action="append",
        type=Path,
        default=[Path(each) for each in named.split(os.pathsep) if each],
        help="a folder of Markdown and JSONL to make skills of, may be repeated "
        f"(or {TEXT_VARIABLE}); without it words are invented",
    )
    parser.add_argument("--markdown", type=Path, help="a page in which the table is replaced")
    return parser.parse_args(arguments)


def measure(text: Text, effort: Effort) -> tuple[Results, set[str]]:
    """Return all figures, and the engines that are not installed."""
    _say("Routing")
    rounds, tasks = effort.rounds, effort.tasks
    results = measure_routing(text, effort.sizes, rounds=rounds, tasks=tasks)
    absent: set[str] = set()
    if effort.engines:
        _say("Other engines")
        compared, absent = measure_engines(text, rounds=rounds, tasks=tasks // 2)
        results |= compared
        _say("Meanings")
        meant, missing = measure_meanings(text, rounds=rounds, tasks=tasks // 4)
        results |= meant
        absent |= {"MiniLM"} if missing else set()
    with tempfile.TemporaryDirectory(prefix="skills-mcp-bench-") as folder:
        for kind in KINDS:
            _say(f"Content for the {kind} algorithm")
            repository = make_repository(Path(folder) / kind, text, are_packages=kind == "ranked")
            results |= measure_building(kind, repository, rounds=rounds)
            _say("Servers")
            results |= measure_memory(
                kind, text, repository, calls=effort.calls, together=effort.servers
            )
            results |= _measure_own(kind, text, repository, effort)
            results |= measure_http_of_many(kind, text, repository, calls=effort.calls)
        _say("Servers over HTTP")
        results |= measure_http(Path(folder), calls=effort.calls)
    return results, absent


def _measure_own(kind: str, text: Text, repository: Repository, effort: Effort) -> Results:
    """Measure the figures that need one kind of content only."""
    if kind == "keyword":
        started = measure_start(repository, text.prompts[0], rounds=effort.starts)
        shared = measure_windows(
            environment_of(repository), text.prompts, rounds=effort.starts, calls=effort.calls
        )
        return started | shared | measure_in_process(repository, rounds=effort.starts)
    more = environment_of(repository, SKILLS_MCP_TOOLSETS="core,packages")
    ratio, _ = measure_calls(text, more, "search_skills", "query", calls=effort.calls)
    return {"search_call": ratio}


def _say(what: str) -> None:
    _console.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim] {what}")


if __name__ == "__main__":
    main()
