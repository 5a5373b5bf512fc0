"""Every framework in an environment of its own, with the tests of its folder.

`make test-integrations` installs what `frameworks/NAME` names and runs its tests, as
many at a time as there are cores; ARGUMENTS="langchain adk" chooses.
`python -m frameworks.run --pin NAME` writes the newest versions that fit as the pins.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

PROJECT = Path(__file__).parent.parent
FOLDERS = PROJECT / "frameworks"
ENVIRONMENTS = PROJECT / ".frameworks"

_TEST_TOOLS = ("pytest", "anyio")

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

# Nothing is reported to the makers of a framework, and nothing is fetched.
_WITHOUT_TELEMETRY = {
    "ANONYMIZED_TELEMETRY": "False",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}

_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TERM", "CI")
"""The variables that reach a test; no token and no setting of the developer does."""

_PIN_HEAD = "# Written by `python -m frameworks.run --pin {name}`: no addresses.\n"

_WIDTH = 120

_console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Framework:
    """A folder with tests, and what has to be installed for them."""

    folder: Path
    extra: str = ""
    """The extra of this project that the tests need; a recipe needs none."""
    extra_requires: tuple[str, ...] = ()
    """What the extra installs, so that a change of it is seen."""

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def environment(self) -> Path:
        """Where it is installed."""
        return ENVIRONMENTS / self.name

    @property
    def pins(self) -> Path:
        """The exact versions."""
        return self.folder / "constraints.txt"

    @property
    def package(self) -> str:
        """The distribution that stands for the framework in the table."""
        text = (self.folder / "requirements.txt").read_text("utf-8")
        lines = [line for line in text.splitlines() if line and line[0] != "#"]
        first = next(iter([*lines, *self.extra_requires]), "")
        return re.split(r"[^\w.-]", first, maxsplit=1)[0]

    def derive_digest(self) -> str:
        """Return a digest of all that decides what is installed."""
        texts = [
            *(self.folder.joinpath("requirements.txt").read_text("utf-8"),),
            *(self.pins.read_text("utf-8") if self.pins.exists() else "",),
            *(sys.version, str(PROJECT), self.extra, *self.extra_requires),
        ]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of one framework."""

    name: str
    package: str
    version: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    install_seconds: float = 0
    test_seconds: float = 0
    obstacle: str = ""
    """Why it could not be installed; empty if it could."""
    output: str = ""
    """What the step that failed has printed; empty if none did."""

    @property
    def verdict(self) -> str:
        """What the table says of it."""
        if self.obstacle:
            return "not installed"
        return "failed" if self.output else "passed"


Say = Callable[[str], None]


def main() -> None:
    """Install and test; end with 1 if a framework has failed."""
    known = {each.name: each for each in load_frameworks()}
    chosen = parse(tuple(known))
    if chosen.pin:
        for name in chosen.pin:
            pin(known[name])
        return
    wanted = [known[name] for name in chosen.names or known]
    with tempfile.TemporaryDirectory(prefix="skills-mcp-frameworks-") as work:
        results = run_all(wanted, Path(work))
    print_results(results)
    sys.exit(is_failure(results, is_ci=bool(os.environ.get("CI"))))


def parse(known: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="make test-integrations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(known)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these; there are: {names}")
    parser.add_argument(
        "--pin",
        action="append",
        choices=known,
        metavar="NAME",
        help="write constraints.txt of this one anew and run nothing; may be repeated",
    )
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in known]
    if unknown:
        parser.error(f"no framework is called {', '.join(unknown)}; there are: {names}")
    return chosen


def load_frameworks(
    folders: Path = FOLDERS, project: Path = PROJECT / "pyproject.toml"
) -> list[Framework]:
    """Return every folder that names its requirements, and its extra if it has one."""
    about = tomllib.loads(project.read_text("utf-8"))["project"]
    extras: Mapping[str, list[str]] = about["optional-dependencies"]
    found = []
    for file in sorted(folders.glob("*/requirements.txt")):
        extra = file.parent.name.replace("_", "-")
        if extra in extras:
            requires = (*extras[extra], *about["dependencies"])
            found.append(Framework(file.parent, extra, requires))
        else:
            found.append(Framework(file.parent))
    return found


def run_all(wanted: Sequence[Framework], work: Path) -> list[Result]:
    """Install and test each, as many at a time as there are cores."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with (
        Progress(*columns, console=_console, transient=True) as progress,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):

        def run_one(framework: Framework) -> Result:
            line = progress.add_task(framework.name)
            home = work / framework.name
            home.mkdir()
            result = run(
                framework,
                home,
                lambda text: progress.update(line, description=f"{framework.name}: {text}"),
            )
            progress.remove_task(line)
            _console.print(render_line(result), highlight=False, markup=False, soft_wrap=True)
            return result

        return list(pool.map(run_one, wanted))


def run(framework: Framework, home: Path, say: Say) -> Result:
    """Install a framework where it is not yet, and run its tests."""
    result = Result(name=framework.name, package=framework.package)
    started = time.perf_counter()
    say("installing")
    result.output = install(framework)
    result.install_seconds = time.perf_counter() - started
    if result.output:
        result.obstacle = derive_obstacle(result.output)
        return result
    result.version = load_version(framework)
    say(f"{result.version}, testing")
    test(framework, home, result)
    return result


def install(framework: Framework, *, is_pinned: bool = True) -> str:
    """Make the environment unless it is there; return what pip said if it failed."""
    ready = framework.environment / ".ready"
    digest = framework.derive_digest()
    if is_pinned and ready.is_file() and ready.read_text("utf-8") == digest:
        return ""
    # pip of this environment installs into that one: no pip has to be installed there.
    venv.create(framework.environment, clear=True, symlinks=True, with_pip=False)
    done = _run_pip(framework, "install", *_name_installed(framework, is_pinned))
    if done.returncode == 0 and is_pinned:
        ready.write_text(digest, "utf-8")
    return (done.stdout + done.stderr) if done.returncode else ""


def _name_installed(framework: Framework, is_pinned: bool) -> Iterator[str]:  # noqa: FBT001
    """Yield the arguments of `pip install`."""
    yield from ("--quiet", "--quiet", "--prefer-binary", "--no-compile", *_TEST_TOOLS)
    yield from ("--requirement", str(framework.folder / "requirements.txt"))
    if framework.extra:
        yield from ("--editable", f"{PROJECT}[{framework.extra}]")
    if is_pinned and framework.pins.exists():
        yield from ("--constraint", str(framework.pins))


def _run_pip(
    framework: Framework, command: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    python = str(framework.environment / "bin" / "python")
    return subprocess.run(
        [*_PIP, "--python", python, command, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def derive_obstacle(output: str) -> str:
    """Return the line of pip that says why it failed."""
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    said = [*errors, *reversed(output.strip().splitlines()), "pip failed"][0]
    return said.removeprefix("ERROR:").strip()


def load_version(framework: Framework) -> str:
    """Return the version of the framework that is installed."""
    places = [str(each) for each in framework.environment.glob("lib/python3*/site-*")]
    found = Distribution.discover(name=framework.package, path=places)
    return next((each.version for each in found), "")


def test(framework: Framework, home: Path, result: Result) -> None:
    """Run the tests of a framework, and put down what came of them."""
    report = home / "report.xml"
    # From the top: a folder may be called like the package that it imports.
    settings = ("--config-file", str(FOLDERS / "pytest.ini"), "--rootdir", str(PROJECT))
    started = time.perf_counter()
    done = subprocess.run(
        [
            *(str(framework.environment / "bin" / "python"), "-m", "pytest", "-q"),
            *(*settings, f"--junit-xml={report}", f"--basetemp={home / 'tmp'}"),
            str(framework.folder),
        ],
        cwd=framework.folder,
        env=derive_environment(home, os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    result.test_seconds = time.perf_counter() - started
    result.output = (done.stdout + done.stderr) if done.returncode else ""
    if report.exists():
        _count(report, result)


def derive_environment(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a test: a home of its own, and our program on its path.

    The program is that of the development environment, not of the framework.
    """
    programs = home / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "skills-mcp"
    if not program.is_symlink():
        program.symlink_to(Path(sys.executable).parent / "skills-mcp")
    settings = home / ".skills-mcp/config.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("share: false\n")  # what a test starts ends with it
    kept = {name: variables[name] for name in _KEPT if name in variables}
    return kept | {
        "HOME": str(home),
        "USER": "ada",
        "SKILLS_MCP_HOME": str(home / ".skills-mcp"),
        "PATH": os.pathsep.join([str(programs), variables["PATH"]]),
        **_WITHOUT_TELEMETRY,
    }


def _count(report: Path, result: Result) -> None:
    for suite in ET.parse(report).getroot():  # noqa: S314 - pytest has written it
        broken = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        result.failed += broken
        result.skipped += skipped
        result.passed += int(suite.get("tests", 0)) - broken - skipped


def pin(framework: Framework) -> None:
    """Install the newest versions that fit, and write them down."""
    output = install(framework, is_pinned=False)
    if output:
        sys.exit(f"{framework.name} cannot be installed: {output}")
    frozen = _run_pip(framework, "freeze", "--exclude-editable").stdout.splitlines()
    shutil.rmtree(framework.environment)
    pins = sorted((p for p in frozen if re.fullmatch(r"\S+==\S+", p)), key=str.lower)
    head = _PIN_HEAD.format(name=framework.name)
    framework.pins.write_text(head + "".join(f"{p}\n" for p in pins), "utf-8")
    _console.print(f"{framework.name}: {len(pins)} packages pinned")


def render_line(result: Result) -> str:
    """Return what is said of a framework as soon as it has ended."""
    if result.obstacle:
        return f"{result.name}: not installed: {result.obstacle}"
    return (
        f"{result.name} ({result.package} {result.version}): {result.passed} passed, "
        f"{result.failed} failed, in {result.install_seconds:.0f} s to install and "
        f"{result.test_seconds:.0f} s"
    )


def print_results(results: Sequence[Result]) -> None:
    """Print what failed, whole, then the table, then the sum."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for result in results:
        if result.output:
            console.rule(f"{result.name}: {result.verdict}")
            console.print(result.output, markup=False, highlight=False, soft_wrap=True)
    table = Table(
        *("Framework", "Package", "Version", "Passed", "Failed", "Skipped"),
        *("Install s", "Tests s", "Result"),
    )
    for result in results:
        style = "" if result.verdict == "passed" else "bold red"
        table.add_row(*render_row(result), style=style)
    console.print(table)
    counts = [_tests_of(result) for result in results]
    sums = [sum(column) for column in zip((0, 0, 0), *counts, strict=True)]
    console.print("{} passed, {} failed, {} skipped".format(*sums), highlight=False)


def _tests_of(result: Result) -> tuple[int, int, int]:
    """Return the numbers of tests; one that was not installed counts as one."""
    if result.obstacle and not os.environ.get("CI"):
        return 0, 0, 1
    return result.passed, result.failed or bool(result.output), result.skipped


def render_row(result: Result) -> tuple[str, ...]:
    """Return the cells of a framework."""
    return (
        *(result.name, result.package, result.version),
        *(str(result.passed), str(result.failed), str(result.skipped)),
        *(f"{result.install_seconds:.1f}", f"{result.test_seconds:.1f}"),
        f"skipped: {result.obstacle}" if result.obstacle else result.verdict,
    )


def is_failure(results: Sequence[Result], *, is_ci: bool) -> bool:
    """Whether one has failed; what cannot be installed counts only in CI."""
    return any(each.output and (is_ci or not each.obstacle) for each in results)


if __name__ == "__main__":
    main()
