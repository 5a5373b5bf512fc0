"""A server that works for days is no larger than after its first hour: promise 51."""

import itertools
import json
import os
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.stdio import home_variables
from soak.sync.mirror import measure
from tests.clients import ServerProcess
from tests.packages import package_text
from tests.support import Upstream, skill_text

_PROMISE = 51
_MAX_DESCRIPTORS = 2
_MAX_GROWTH = 1.05

# What is kept for the next call (skills, words, connections) is there by then.
_WARM_UP = 4
"""The share of all rounds that run before the first measurement."""

_QUIET = 4
"""One refresh in so many finds no new commit."""

_WORDS = 12
"""New words in each task: the cache of words is full after the warm-up."""

_LOOKS = 5
"""The number of memory readings at each end; the median is used."""

_SETTINGS = {
    "toolsets": ["core", "packages"],
    "commands": {"enabled": True, "allowed": ["cat", "sh"], "timeout_seconds": 5},
    "scripts": {"timeout_seconds": 5},
    "refresh": {"enabled": False},
    "analytics": {"enabled": True, "keep_days": 0},
}

_DEAD_ENDPOINT = "http://127.0.0.1:9/events"
"""A port without a listener: a server with analytics has to survive that for days, too.

Only in the long run: the first attempt to send comes after half a minute and loads
the HTTP client, which has to happen before the first measurement.
"""


def work_for_days(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Refresh and call every tool, rightly and wrongly; measure process and disk.

    Most refreshes bring a new commit.
    """
    if not Path("/proc/self/fd").exists():
        raise Unavailable("there is no /proc to look at a process from outside")
    refreshes = scale.count(full=2000, quick=40)
    calls = scale.count(full=20_000, quick=240)
    content = _Content(Upstream.create(folder))
    content.publish()
    endpoint = _DEAD_ENDPOINT if scale.is_full else ""
    server = _start(folder, content.upstream.url, endpoint)
    try:
        work = _Work(server, content, calls // refreshes)
        work.do(refreshes // _WARM_UP)
        before = _measure(folder, server, work)
        work.do(refreshes - refreshes // _WARM_UP - 2 * _LOOKS)
        after = _measure(folder, server, work)
    finally:
        server.close()
    what = f"answers of {work.rounds:,} refreshes and {work.calls:,} calls as expected"
    yield Figure.every(_PROMISE, what, work.calls - len(work.wrong), work.calls)
    grown = abs(after.descriptors - before.descriptors)
    yield Figure.at_most(_PROMISE, "descriptors more or less", grown, _MAX_DESCRIPTORS)
    # One watches all of Git's groups as long as the server lives.
    left = after.children - before.children
    yield Figure.none(_PROMISE, "children left", left, work.calls)
    yield Figure.none(_PROMISE, "temporary files left", after.temporary, work.calls)
    growth = after.memory_bytes / before.memory_bytes
    yield Figure.at_most(_PROMISE, "memory, times as much", growth, _MAX_GROWTH)
    disk = after.disk_bytes / before.disk_bytes
    yield Figure.at_most(_PROMISE, "disk of the cache, times as much", disk, 2)


@dataclass(frozen=True)
class _Size:
    """How large a server is, seen from outside."""

    descriptors: int
    children: int
    memory_bytes: float
    disk_bytes: int
    temporary: int


@dataclass
class _Content:
    """A repository that gets commits; the files that the calls ask for stay in it."""

    upstream: Upstream
    commits: int = 0

    def publish(self) -> None:
        """Push a commit that changes a rule file and a package, and adds one."""
        number, self.commits = self.commits, self.commits + 1
        scripts = [{"file": "run.sh", "execution": "server", "args": _ARGS}]
        assets = [{"file": "page.tsx"}, {"file": "gone.txt"}]
        words = ["react", "login"]
        body = f"Commit {number}.\n" * 100
        self.upstream.commit(
            {
                "_root.md": skill_text(keywords=["rules"]),
                "ui/react.md": skill_text(
                    body=body, keywords=words, scripts=scripts, assets=assets
                ),
                "ui/react/run.sh": 'echo "$SKILL_ARG_WHAT"\nexit "${SKILL_ARG_CODE}"\n',
                "ui/react/page.tsx": f"// {number}\n",
                "ui/vue.md": skill_text(keywords=["vue", "login"]),
                "pdf/SKILL.md": package_text(
                    body=body, metadata={"entry": "sh scripts/run.sh entered"}
                ),
                "pdf/scripts/run.sh": 'echo "$1"\n',
                "pdf/references/forms.md": f"{number}\n" * 500,
                "pdf/examples/one.md": "# A form\n\nFill it in.\n",
                f"new/n{number % 10}.md": skill_text(keywords=[f"word{number}"]),
            }
        )


_ARGS = [{"name": "what"}, {"name": "code"}]


class _Work:
    """A server in use: refreshes, and calls of every tool in turn."""

    def __init__(self, server: ServerProcess, content: _Content, calls: int) -> None:
        self._server = server
        self._content = content
        self._calls_each = calls
        self._planned = itertools.cycle(_CALLS)
        self.rounds = 0
        self.calls = 0
        self.wrong: list[str] = []

    def do(self, rounds: int) -> None:
        """Refresh that often, and call some tools after each."""
        for _ in range(rounds):
            self.rounds += 1
            if self.rounds % _QUIET:
                self._content.publish()
            refreshed = self._server.call("refresh_skills")
            self._note("refresh_skills", refreshed.get("success") is True, refreshed)
            for _ in range(self._calls_each):
                self._call(*next(self._planned))

    def _call(self, tool: str, arguments: Mapping[str, Any], expected: str) -> None:
        """Call a tool, with a new task each time, so that an unbounded cache shows."""
        words = " ".join(f"w{self.calls}x{number}" for number in range(_WORDS))
        text = json.dumps(arguments).replace("NUMBER", str(self.calls))
        text = text.replace("WORDS", words)
        method = {"name": tool, "arguments": json.loads(text)}
        answer = self._server.request("tools/call", **method)
        shown = json.dumps(answer)
        self._note(tool, expected in shown.replace('\\"', '"'), shown)

    def _note(self, tool: str, is_right: bool, shown: object) -> None:  # noqa: FBT001
        self.calls += 1
        if not is_right:
            self.wrong.append(f"{tool}: {shown}")


def _start(folder: Path, url: str, endpoint: str) -> ServerProcess:
    variables = home_variables(folder)
    home = Path(variables["SKILLS_MCP_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    settings = yaml.safe_dump(_SETTINGS)
    (home / "config.yaml").write_text(settings, encoding="utf-8")
    temporary = folder / "tmp"
    temporary.mkdir()
    variables |= {
        "SKILLS_REPO": url,
        "TMPDIR": str(temporary),
        "ANALYTICS_ENDPOINT": endpoint,
    }
    return ServerProcess(environment=variables, log=folder / "server.log")


def _measure(folder: Path, server: ServerProcess, work: _Work) -> _Size:
    """Measure several times, with work in between, and return the median."""
    looks: list[tuple[int, int, int]] = []
    for _ in range(_LOOKS):
        work.do(1)
        pid = server.process.pid
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - links
        looks.append((descriptors, len(_children(pid)), _resident(pid)))
    cache = Path(folder, "home", ".skills-mcp", "cache")
    return _Size(
        descriptors=min(look[0] for look in looks),
        children=min(look[1] for look in looks),
        memory_bytes=statistics.median(look[2] for look in looks),
        disk_bytes=measure(cache),
        temporary=sum(1 for _ in Path(folder, "tmp").iterdir()),
    )


def _children(pid: int) -> list[int]:
    """Return the child processes, zombies included."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for t in tasks for child in (t / "children").read_text().split()]


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


_Call = tuple[str, Mapping[str, Any], str]
"""A tool, its arguments, and a text that its answer has to contain."""

_REACT = {"skill_path": "ui/react"}
_RUN = {**_REACT, "file": "run.sh"}
_PDF = {"skill_name": "pdf"}
_SHELL = {**_PDF, "command": "sh"}

_CALLS: tuple[_Call, ...] = (
    ("get_skill", {"context": "a react page, WORDS"}, '"content"'),
    ("get_skill", {"context": "login, NUMBER"}, '"ambiguous"'),
    ("get_skill", {"context": "zzz WORDS"}, '"no_match"'),
    ("get_skill", {"context": "NUMBER", **_REACT}, '"content"'),
    ("get_skill", {"context": "react", "explain": True}, '"explanation"'),
    ("get_skill", {"context": "x", "skill_path": "nNUMBER"}, "SKILL_NOT_FOUND"),
    ("get_skill", {"task": "NUMBER"}, "INVALID_ARGUMENTS"),
    ("list_skills", {}, '"ui/react"'),
    ("list_skills", {"path": "ui"}, '"ui/react"'),
    ("get_asset", {**_REACT, "file": "page.tsx"}, "// "),
    ("get_asset", {**_REACT, "file": "gone.txt"}, "FILE_MISSING"),
    ("get_asset", {**_REACT, "file": "../NUMBER"}, "INVALID_PATH"),
    ("get_asset", {**_REACT, "file": "nNUMBER.txt"}, "FILE_NOT_FOUND"),
    ("run_script", {**_RUN, "args": {"what": "NUMBER", "code": "0"}}, '"exit_code": 0'),
    ("report_usage", {**_REACT, "useful": False, "comment": "WORDS"}, "recorded"),
    ("search_skills", {"query": "fill in a form, WORDS"}, '"pdf"'),
    ("search_skills", {"query": " "}, "INVALID_ARGUMENTS"),
    ("load_skill", _PDF, '"instructions"'),
    ("load_skill", {"skill_name": "nNUMBER"}, "SKILL_NOT_FOUND"),
    ("read_skill_file", {**_PDF, "file_path": "references/forms.md"}, '"content"'),
    ("read_skill_file", {**_PDF, "file_path": "nNUMBER"}, "FILE_NOT_FOUND"),
    ("find_skill_files", {**_PDF, "contains": "fill"}, "examples/one.md"),
    ("load_skill_examples", {**_PDF, "query": "WORDS"}, "A form"),
    ("run_skill_entry", {**_PDF, "args": "more NUMBER"}, "entered"),
    ("get_skill", {"context": "vue WORDS"}, '"content"'),
    ("list_skills", {"path": "nNUMBER"}, ""),
    ("run_script", {**_RUN, "args": {"what": "x", "code": "3"}}, '"exit_code": 3'),
    ("run_script", {**_RUN, "args": {"what": "NUMBER"}}, "MISSING_ARGUMENTS"),
    ("run_script", {**_REACT, "file": "nNUMBER.sh", "args": {}}, "SCRIPT_NOT_DECLARED"),
    ("get_skill", {"context": "react WORDS", "within": "ui"}, '"content"'),
    ("run_skill_command", {**_SHELL, "args": ["-c", "sleep 9 & exit 4"]}, "4"),
    ("run_skill_command", {**_PDF, "command": "nNUMBER"}, "COMMAND_NOT_ALLOWED"),
    ("run_skill_entry", {"skill_name": "ui/vue"}, "ENTRY_NOT_DECLARED"),
    ("refresh_skills", {"what": "NUMBER"}, "INVALID_ARGUMENTS"),
)

SCENARIOS: tuple[tuple[str, Scenario], ...] = (("drift", work_for_days),)
