"""Ratios against a floor that is measured in the same run, never bare times.

Run it with `make bench`. One line per figure; `benchmarks/results.json` has them
all. Starts and calls of the two servers are interleaved, so a slow spell of the
machine hits both.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks.pipe_client import PipeClient
from skills_mcp.config import Matching, Search
from skills_mcp.routing.decision import Decision, decide, exact
from skills_mcp.routing.keywords import KeywordMatcher
from skills_mcp.routing.ranked import RankedMatcher
from skills_mcp.routing.search import Found, search
from skills_mcp.routing.tokens import fold, tokenize
from skills_mcp.skills.discovery import load_skills
from skills_mcp.skills.model import Skill

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SKILLS = 10_000
STARTS = 10
CALLS = 600
WARM_UP = 50
QUERIES = 40
LITERAL_QUERIES = 6

FLOOR = [str(HERE / "floor_server.py")]
OURS = ["-m", "skills_mcp"]


def main() -> None:
    """Measure everything, print a line each, write the JSON."""
    results: dict[str, Any] = {"skills": SKILLS, "python": sys.version.split()[0]}
    with tempfile.TemporaryDirectory(prefix="skills-mcp-bench-") as folder:
        content, home = Path(folder) / "skills", Path(folder) / "home"
        home.mkdir()
        words = make_content(content)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "SKILLS_DIR": str(content),
        }
        results |= measure_build(content)
        results |= measure_routing(content, words)
        results |= measure_ranked(content, words)
        results |= measure_start(environment)
        results |= measure_calls(environment, words)
        results |= measure_searches(environment, words)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    report(results)


def make_content(folder: Path) -> list[str]:
    """Write a tree of skills from invented words; return the words."""
    chance = random.Random(7)  # noqa: S311 - the same content in every run
    syllables = ["ka", "ro", "mi", "ten", "sol", "ver", "dar", "lin", "pex", "tum"]
    words = sorted({"".join(chance.choices(syllables, k=3)) for _ in range(4000)})
    for number in range(SKILLS):
        file = folder / f"a{number % 20}" / f"b{number // 20 % 25}" / f"s{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        keywords = ", ".join(chance.sample(words, 8))
        summary = " ".join(chance.choices(words, k=12))
        body = "\n".join(" ".join(chance.choices(words, k=12)) for _ in range(25))
        text = f"---\ndescription: {summary}\nkeywords: [{keywords}]\n---\n\n{body}\n"
        file.write_text(text, encoding="utf-8")
    return words


def measure_build(content: Path) -> dict[str, Any]:
    """Build the index, against only reading the same files."""
    files = list(content.rglob("*.md"))
    reading = seconds_of(lambda: sum(len(path.read_bytes()) for path in files))
    building = seconds_of(lambda: KeywordMatcher(load_skills(content).skills))
    return {
        "build_skills_per_second": SKILLS / building,
        "build_against_reading": building / reading,
    }


def measure_routing(content: Path, words: list[str]) -> dict[str, Any]:
    """Route tasks, against the literal triple loop; both must agree."""
    skills = list(load_skills(content).skills)
    matcher = KeywordMatcher(skills)
    chance = random.Random(11)  # noqa: S311 - the same tasks in every run
    tasks = [" ".join(chance.choices(words, k=8)) for _ in range(QUERIES)]
    ours = [seconds_of(partial(route, task, matcher)) for task in tasks]
    literal = []
    for task in tasks[:LITERAL_QUERIES]:
        literal.append(seconds_of(partial(loop, task, skills)))
        found = {c.skill.path: len(c.matched_keywords) for c in matcher.score(task)}
        if found != loop(task, skills):
            raise SystemExit(f"the matcher and the literal loop disagree on {task!r}")
    return {
        "routing_median_ms": statistics.median(ours) * 1000,
        "routing_times_faster_than_loop": statistics.median(literal)
        / statistics.median(ours),
    }


def measure_ranked(content: Path, words: list[str]) -> dict[str, Any]:
    """Build the ranked algorithm over all words, and search with it."""
    skills = load_skills(content).skills
    built: list[RankedMatcher] = []
    building = seconds_of(lambda: built.append(RankedMatcher(skills)))
    [matcher] = built
    chance = random.Random(17)  # noqa: S311 - the same queries in every run
    queries = [" ".join(chance.choices(words, k=8)) for _ in range(QUERIES)]
    times = [seconds_of(partial(find, query, skills, matcher)) for query in queries]
    return {
        "ranked_build_skills_per_second": SKILLS / building,
        "search_median_ms": statistics.median(times) * 1000,
    }


def find(query: str, skills: Sequence[Skill], matcher: RankedMatcher) -> Found:
    """Search, as a request does."""
    rules = Search()
    return search(query, skills, matcher, limit=rules.limit, threshold=rules.threshold)


def route(task: str, matcher: KeywordMatcher) -> Decision:
    """Route a task, as a request does."""
    matching = Matching()
    return decide(matcher.score(task, exact(matching.min_score)), matching)


def loop(task: str, skills: list[Skill]) -> dict[str, int]:
    """Count matching keywords as the specification writes it (001 §5.2)."""
    tokens = tokenize(task)
    counts: dict[str, int] = {}
    for skill in skills:
        count = 0
        for keyword in map(fold, skill.keywords):
            for token in tokens:
                short = min(len(token), len(keyword)) < 3  # noqa: PLR2004 - 001 §5.2
                if token == keyword or (
                    not short and (token in keyword or keyword in token)
                ):
                    count += 1
                    break
        if count:
            counts[skill.path] = count
    return counts


def measure_start(environment: dict[str, str]) -> dict[str, Any]:
    """Start both servers in turn, up to their first answer."""
    floor: list[float] = []
    ours: list[float] = []
    for _ in track(range(STARTS), "Starts", console=Console(stderr=True)):
        for arguments, times in ((FLOOR, floor), (OURS, ours)):
            with PipeClient(arguments, environment) as client:
                times.append(client.first_answer_seconds())
    return {"start_against_floor": statistics.median(ours) / statistics.median(floor)}


def measure_calls(environment: dict[str, str], words: list[str]) -> dict[str, Any]:
    """Call `get_skill` and the floor's echo in turn, warm."""
    ratio, above = compare_calls(environment, words, "get_skill", "context")
    return {"call_against_echo": ratio, "resident_mib_above_floor": above}


def measure_searches(environment: dict[str, str], words: list[str]) -> dict[str, Any]:
    """Call `search_skills` and the floor's echo in turn, warm."""
    more = environment | {"SKILLS_MCP_TOOLSETS": "core,packages"}
    ratio, above = compare_calls(more, words, "search_skills", "query")
    return {"search_against_echo": ratio, "resident_mib_with_ranked": above}


def compare_calls(
    environment: dict[str, str], words: list[str], tool: str, argument: str
) -> tuple[float, float | None]:
    """Return how many echoes a call takes, and the memory above the floor in MiB."""
    chance = random.Random(13)  # noqa: S311 - the same tasks in every run
    tasks = [" ".join(chance.choices(words, k=8)) for _ in range(CALLS)]
    floor_times: list[float] = []
    our_times: list[float] = []
    with PipeClient(FLOOR, environment) as floor, PipeClient(OURS, environment) as ours:
        for number, task in enumerate(
            track(tasks, f"Calls of {tool}", console=Console(stderr=True))
        ):
            echo = floor.call_seconds("echo", {"text": task})
            answer = ours.call_seconds(tool, {argument: task})
            if number >= WARM_UP:
                floor_times.append(echo)
                our_times.append(answer)
        memory, floor_memory = ours.resident_mebibytes(), floor.resident_mebibytes()
    ratio = statistics.median(our_times) / statistics.median(floor_times)
    return ratio, memory - floor_memory if memory and floor_memory else None


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long a piece of work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def report(results: dict[str, Any]) -> None:
    """Print one line per figure."""
    lines = (
        ("start_against_floor", "first answer, times the floor's"),
        ("call_against_echo", "get_skill, times an echo"),
        ("search_against_echo", "search_skills, times an echo"),
        ("routing_median_ms", "routing, milliseconds (median)"),
        ("routing_times_faster_than_loop", "routing, times faster than the loop"),
        ("search_median_ms", "search, milliseconds (median)"),
        ("build_skills_per_second", "index, skills per second"),
        ("build_against_reading", "index, times reading the files"),
        ("ranked_build_skills_per_second", "ranked algorithm, skills per second"),
        ("resident_mib_above_floor", "memory above the floor, MiB"),
        ("resident_mib_with_ranked", "the same with search, MiB"),
    )
    print(f"{SKILLS:,} skills, Python {results['python']}")
    for key, meaning in lines:
        value = results[key]
        shown = "unknown here" if value is None else f"{value:,.2f}"
        print(f"{shown:>12}  {meaning}")


if __name__ == "__main__":
    main()
