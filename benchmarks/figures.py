"""The figures that are measured, their meanings, and their budgets."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

SIZES = (1_000, 10_000, 100_000)
SKILLS = 10_000
"""The number of skills for which the budgets hold."""


LONG_SKILLS = 120
"""The number of skills with long texts: as many packages as a team has."""

MEANT_SKILLS = 200
"""The number of skills whose vectors are asked for: those of 1,000 take minutes."""

CLIENTS = (1, 8, 64)
CONNECTIONS = 1_000
"""The numbers of clients over HTTP: busy ones, and those that come at once."""

WINDOWS = 10
"""The number of windows of hosts that start at once."""

ENGINES = ("bm25s", "tantivy", "SQLite FTS5", "rank-bm25")
KINDS = ("keyword", "ranked")


@dataclass(frozen=True, slots=True)
class Measured:
    """The median of several rounds, and the least and the most of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Measured":
        """Return the median and the ends of some values."""
        every = sorted(values)
        return cls(statistics.median(every), every[0], every[-1])


Results = dict[str, Measured]
"""The values by the key of the figure, without those that were not measured."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The upper or lower bound of a figure."""

    bound: Literal["at most", "at least"]
    limit: float

    def is_met(self, measured: Measured) -> bool:
        """Whether the median is within the budget."""
        if self.bound == "at most":
            return measured.median <= self.limit
        return measured.median >= self.limit

    def __str__(self) -> str:
        return f"{self.bound} {self.limit:,g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    key: str
    meaning: str
    unit: str
    budget: Budget | None = None


# Clearly below linear: a hundred times the skills, forty times the time.
_GROWTH = Budget("at most", 0.8)
_P99_MS = Budget("at most", 2)
_TIMES_FASTER = Budget("at least", 100)
_START = Budget("at most", 1.10)
_CALL = Budget("at most", 2)
_CPU_SECONDS = Budget("at most", 1)
_SKILLS_PER_SECOND = Budget("at least", 3_000)
_MIB = Budget("at most", 60)
_OPEN_MS = Budget("at most", 300)
_SEARCH_MS = Budget("at most", 100)


def _in_process() -> Iterable[Figure]:
    where = f"Python API, {SKILLS:,} skills, warm cache"
    yield Figure("python_import", "import skills_mcp", "ms")
    yield Figure("python_import_memory", "import skills_mcp: memory", "MiB")
    yield Figure("python_open", f"{where}: import and open", "ms", _OPEN_MS)
    yield Figure("python_open_ratio", f"{where}: against importing its libraries", "x")
    yield Figure("python_open_memory", f"{where}: memory above them", "MiB")


def _routing(kind: str) -> Iterable[Figure]:
    for size in SIZES:
        where, budget = f"{kind} routing, {size:,} skills", None
        yield Figure(f"{kind}_p50_{size}", f"{where}: p50", "ms")
        if size == SKILLS:
            budget = _P99_MS
        yield Figure(f"{kind}_p99_{size}", f"{where}: p99", "ms", budget)
    meaning = f"{kind} routing, growth from 1,000 to 100,000 skills: exponent"
    budget = _GROWTH if kind == "keyword" else None
    yield Figure(f"{kind}_growth", meaning, "", budget)


def _routing_of_long() -> Iterable[Figure]:
    where = f"ranked routing, {LONG_SKILLS} skills with long texts, long tasks"
    yield Figure("long_p50", f"{where}: p50", "ms")
    yield Figure("long_p99", f"{where}: p99", "ms", _P99_MS)


def _against_loop() -> Iterable[Figure]:
    for size in SIZES:
        budget = _TIMES_FASTER if size == SKILLS else None
        meaning = f"literal triple loop, {size:,} skills: against ours"
        yield Figure(f"loop_{size}", meaning, "x", budget)
        meaning = f"the same loop inlined, {size:,} skills: against ours"
        yield Figure(f"inlined_{size}", meaning, "x")


def _engines() -> Iterable[Figure]:
    for name in ("ours", *ENGINES):
        where = f"{name}, {SKILLS:,} skills with their bodies"
        yield Figure(f"engine_{name}_build", f"{where}: build", "s")
        yield Figure(f"engine_{name}_p50", f"{where}: p50", "ms")
        if name != "ours":
            yield Figure(f"engine_{name}", f"{where}: against ours", "x")


def _meanings() -> Iterable[Figure]:
    where = f"ranked routing with MiniLM over HTTP, {MEANT_SKILLS} skills"
    yield Figure("minilm_p50", f"{where}: p50", "ms")
    yield Figure("minilm_p99", f"{where}: p99", "ms")
    yield Figure("minilm", f"{where}: against the request alone", "x")
    yield Figure("minilm_skills", "MiniLM over HTTP: vectors of skills", "skills/s")


def _building(kind: str) -> Iterable[Figure]:
    yield Figure(f"{kind}_build", f"{kind} content, full build", "skills/s", _SKILLS_PER_SECOND)
    yield Figure(f"{kind}_rebuild", f"{kind} content, rebuild after 3 changed files", "ms")
    yield Figure(
        f"{kind}_rebuild_ratio",
        f"{kind} content, full build against that rebuild",
        "x",
    )
    yield Figure(
        f"{kind}_served",
        f"{kind} content, the same until served and kept: CPU",
        "s",
        _CPU_SECONDS,
    )
    yield Figure(f"{kind}_open", f"{kind} content, the next process opens it", "ms")


def _serving() -> Iterable[Figure]:
    for key, where in (
        ("cold", "empty cache"),
        ("warm", "kept index"),
        ("hanging", "remote that never answers"),
    ):
        yield Figure(f"start_{key}", f"first answer, {where}: against the floor", "x", _START)
    yield Figure("first_call", "first get_skill, kept index: against the floor", "x")
    yield from _in_process()
    for kind in KINDS:
        yield Figure(f"{kind}_call", f"get_skill, {kind} content: against an echo", "x", _CALL)
    yield Figure("search_call", "search_skills: against an echo", "x")


def _memory(kind: str) -> Iterable[Figure]:
    where = f"{kind} content, memory above the floor"
    yield Figure(f"{kind}_rss", f"{where}: resident", "MiB", _MIB)
    yield Figure(f"{kind}_private", f"{where}: private part", "MiB")
    yield Figure(f"{kind}_rss_builder", f"{where}: who built the index", "MiB", _MIB)
    yield Figure(f"{kind}_ten", f"{where}: ten servers together", "MiB")


def _windows() -> Iterable[Figure]:
    def at_most(limit: float) -> Budget:
        return Budget("at most", limit)

    floor, floors = "against the floor", f"against {WINDOWS} of the floor"
    many = f"{WINDOWS} windows at once"
    yield Figure("window_first", f"first answer, first window: {floor}", "x", at_most(1.15))
    yield Figure("window_next", f"first answer, next window: {floor}", "x", at_most(0.25))
    meaning = f"first answers, {many}, a server runs: {floors}"
    yield Figure("windows_running", meaning, "x", at_most(0.1))
    yield Figure("windows_cold", f"first answers, {many}, none runs: {floors}", "x", at_most(0.25))
    yield Figure("windows_alone", f"first answers, {many}, without sharing: {floors}", "x")
    yield Figure("window_private", "one more window: private memory", "MiB", at_most(12))
    meaning = f"{WINDOWS} windows and their server but 100 MiB: against one server"
    yield Figure("windows_pss", meaning, "x", at_most(1.3))
    yield Figure("windows_pss_sum", f"{WINDOWS} windows and their server", "MiB")
    meaning = "get_skill through a forwarder: against a server of its own"
    yield Figure("window_call", meaning, "x", at_most(1.15))
    meaning = f"get_skill, {WINDOWS} windows asking at once: p99 against that of one"
    yield Figure("windows_p99", meaning, "x", at_most(3))
    yield Figure("command_answered", "skills-mcp ask, a server runs", "s")
    yield Figure("command_alone", "skills-mcp ask, without a server", "s")
    yield Figure("command_ratio", "skills-mcp ask, a server runs: against without", "x")


def _http() -> Iterable[Figure]:
    for number in CLIENTS:
        who = "1 client" if number == 1 else f"{number} clients"
        yield from _over_http("http", f"sample content, {who}", number, _CALL)
    many = CLIENTS[-1]
    yield from _over_http("signed_http", f"signed in, {many} clients", many, _CALL)
    for kind in KINDS:
        yield from _over_http(f"{kind}_http", f"{SKILLS:,} {kind} skills, {many} clients", many)
    for kind in KINDS:
        for view, called in (("page", "the catalogue's page"), ("rest", "/api/skills")):
            where = f"{called} with a search, {SKILLS:,} {kind} skills"
            key = f"{kind}_{view}"
            yield Figure(f"{key}_p95", f"{where}: p95", "ms", _SEARCH_MS)
            yield Figure(key, f"{where}: CPU against a call of the floor", "x")
    for key, where in (("http", "sample content"), ("signed_http", "signed in")):
        meaning = f"get_skill over HTTP, {where}: resident memory above the floor"
        yield Figure(f"{key}_rss", meaning, "MiB")


def _over_http(
    key: str, where: str, clients: int, budget: Budget | None = None
) -> Iterable[Figure]:
    where = f"get_skill over HTTP, {where}"
    yield Figure(f"{key}_{clients}", f"{where}: CPU against the floor", "x", budget)
    yield Figure(f"{key}_p50_{clients}", f"{where}: p50", "ms")
    yield Figure(f"{key}_p99_{clients}", f"{where}: p99", "ms")


def _crowd() -> Iterable[Figure]:
    where = f"{CONNECTIONS:,} connections at once"
    none = Budget("at most", 0)
    yield Figure("crowd_errors", f"{where}: errors but 503", "", none)
    yield Figure("crowd_refused", f"{where}: told to come again (503)", "")
    yield Figure("crowd_p99", f"{where}: p99", "s")
    yield Figure("crowd_rss", f"{where}: resident memory", "MiB")


FIGURES: tuple[Figure, ...] = (
    *(figure for kind in KINDS for figure in _routing(kind)),
    *_routing_of_long(),
    *_against_loop(),
    *_engines(),
    *_meanings(),
    *(figure for kind in KINDS for figure in _building(kind)),
    *_serving(),
    *(figure for kind in KINDS for figure in _memory(kind)),
    *_windows(),
    *_http(),
    *_crowd(),
)


def judge(results: Mapping[str, Measured]) -> dict[Figure, str]:
    """Return whether each budget is met; "not measured" is an answer, too."""
    return {
        figure: (
            "not measured"
            if figure.key not in results
            else "met"
            if figure.budget.is_met(results[figure.key])
            else "missed"
        )
        for figure in FIGURES
        if figure.budget
    }
