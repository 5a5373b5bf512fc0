"""Promises to the reader of the source, and to who installs the package."""

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import skills_mcp
from skills_mcp import DISTRIBUTION, __version__
from tests.support import PROJECT

SOURCE = PROJECT / "src" / "skills_mcp"

HALL = {"__init__.py", "__main__.py", "about.py", "errors.py", "hooks.py"}
DOORS = {"langchain.py", "deepagents.py", "adk.py", "agent_framework.py", "haystack.py"}
"""What a program of another framework imports; leads to `features.frameworks`."""

MAX_ROOMS = 17  # more than that, and a newcomer does not find the way in

MAX_FUNCTION_LINES = 45

LONG_FUNCTIONS = {
    "content_options": "a table of options, in the words of click",
}

RIDDLE = re.compile(
    r"\b(whoever|whatever|somebody|nobody|anybody|everybody|no one)\b", re.IGNORECASE
)

# The specification and the design are not in this repository; a standard is elsewhere.
SECTION = re.compile(r"(?<![\w.,/-])(?:DESIGN\b|00[0-4](?![\w.,]?\w))|(?<!\w )§")

FORBIDDEN_NAMES = {
    "utils",
    "util",
    "helpers",
    "common",
    "core",
    "manager",
    "service",
    "base",
    "misc",
}

MODULES = sorted(SOURCE.rglob("*.py"))


def _name(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def test_a_newcomer_meets_few_rooms() -> None:
    first = {module.relative_to(SOURCE).parts[0] for module in MODULES}

    assert first >= HALL
    assert [name for name in first - HALL - DOORS if name.endswith(".py")] == []
    assert len(first - HALL - DOORS) <= MAX_ROOMS


def test_a_class_is_the_only_one_of_its_name() -> None:
    names = [
        (node.name, _name(module))
        for module in MODULES
        for node in _nodes(module)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]

    assert _repeated(names) == {}


def test_a_module_is_the_only_one_of_its_name() -> None:
    names = [
        (module.parent.name if module.stem == "__init__" else module.stem, file)
        for module in MODULES
        if not (file := _name(module)).startswith("cli/")  # called like what it runs
    ]

    assert _repeated(names) == {}


def test_the_program_names_its_subject() -> None:
    riddles = [
        f"{_name(module)}:{number}: {found[0]}"
        for module in MODULES
        for number, line in enumerate(module.read_text("utf-8").splitlines(), 1)
        if (found := RIDDLE.search(line))
    ]

    assert riddles == []


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_no_text_cites_a_document_that_a_reader_cannot_open(module: Path) -> None:
    cited = [
        f"line {node.lineno}: {found[0]}"
        for node in _nodes(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (found := SECTION.search(node.value))
    ]

    assert cited == []


@pytest.mark.parametrize("tests", ["tests", "soak", "benchmarks", "repositories", "demo"])
def test_nothing_is_tested_against_a_mock(tests: str) -> None:
    modules = [*(PROJECT / tests).rglob("*.py")]

    mocked = [
        f"{module}:{node.lineno}"
        for module in modules
        if "mock" in module.read_text(encoding="utf-8")  # few, and parsing takes long
        for node in _nodes(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and re.search(r"\bmock\b", ast.unparse(node))
    ]

    assert modules
    assert mocked == []


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_no_function_is_too_long_to_read(module: Path) -> None:
    functions = dict(_functions(module))

    too_long = {name for name in functions if functions[name] > MAX_FUNCTION_LINES}

    assert too_long <= LONG_FUNCTIONS.keys()


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_a_module_is_named_by_what_it_knows(module: Path) -> None:
    parts = module.relative_to(SOURCE).with_suffix("").parts

    assert not FORBIDDEN_NAMES & set(parts)


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_a_module_opens_with_one_line_that_says_what_it_knows(module: Path) -> None:
    docstring = ast.get_docstring(_tree(module)) or ""

    first, _, rest = docstring.partition("\n")
    assert first.endswith((".", ":"))
    assert not rest or rest.startswith("\n")


def test_the_distribution_has_one_name() -> None:
    texts = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    install = re.compile(
        r"(?:uvx|uv tool install|pipx install|pip install|uv add)"
        r"(?: --?[\w-]+)* ['\"]?(skills-mcp[\w-]*)"
    )

    named = [name for text in texts for name in install.findall(text.read_text("utf-8"))]

    assert _project()["name"] == DISTRIBUTION
    assert named
    assert set(named) == {DISTRIBUTION}


def test_both_console_scripts_are_the_same_program() -> None:
    scripts = {entry.name: entry.value for entry in distribution(DISTRIBUTION).entry_points}

    assert scripts == {
        "skills-mcp": "skills_mcp.__main__:main",
        "skills-mcp-server": "skills_mcp.__main__:main",
    }
    assert _project()["scripts"] == scripts


def test_the_installed_version_is_the_public_one() -> None:
    installed = distribution(DISTRIBUTION).version

    assert installed == __version__


def test_type_checkers_are_told_that_there_are_types() -> None:
    assert (files(skills_mcp) / "py.typed").is_file()


def test_every_dependency_has_a_lowest_and_a_highest_version() -> None:
    dependencies: list[str] = _project()["dependencies"]

    for dependency in dependencies:
        assert re.fullmatch(r"[\w-]+>=[\d.]+,<\d+", dependency), dependency


def _project() -> dict[str, Any]:
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


@cache
def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


@cache
def _nodes(module: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_tree(module)))


def _repeated(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names that occur twice, and the modules where they do."""
    places: dict[str, list[str]] = {}
    for name, place in names:
        places.setdefault(name, []).append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def _functions(module: Path) -> Iterator[tuple[str, int]]:
    """Yield each function and its lines of code, without the docstring."""
    for node in _nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            docstring = ast.get_docstring(node, clean=False)
            yield node.name, lines - (docstring.count("\n") + 1 if docstring else 0)


def _door(extra: str) -> Path:
    """Return the module that an extra is for, if it is that of an adapter."""
    return SOURCE / f"{extra.replace('-', '_')}.py"


def test_the_oldest_dependencies_that_are_tested_are_the_lower_bounds() -> None:
    lines = (PROJECT / "constraints-lowest.txt").read_text().splitlines()
    tested = dict(line.lower().split("==") for line in lines if "==" in line)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    # The others are adapters: each is tested with its framework, in frameworks/.
    ours = [extras[name] for name in extras if not _door(name).exists()]
    dependencies = [*project["dependencies"], *itertools.chain(*ours)]

    declared = {}
    for dependency in dependencies:
        name, _, bounds = dependency.partition(">=")
        declared[name.partition("[")[0].lower()] = bounds.partition(",<")[0]

    assert {name: tested[name] for name in declared} == declared
    assert all(",<" in each for each in itertools.chain(dependencies, *dict(extras).values()))


HEAVY = (
    *("numpy", "Stemmer", "yaml", "git", "httpx", "frontmatter", "markdown_it"),
    *("alembic", "jinja2", "opentelemetry.sdk", "prometheus_client", "requests"),
    "sqlalchemy",
)

ASSEMBLE = """
import sys
from skills_mcp.bootstrap import Options, build
from skills_mcp.server.app import create_server
from skills_mcp.server.stdio import serve_stdio
from skills_mcp.server.parts import Serving, open_parts

application = build(Options(skills_dir=sys.argv[1]), {})
serving = Serving(
    server=create_server(application.library),
    library=application.library,
    publisher=application.publisher,
    transport="pipe",
    environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
)
assert len(open_parts(serving)) == 2  # hosts and telemetry
print([name for name in sys.argv[2:] if name in sys.modules])
"""


def test_nothing_heavy_is_imported_before_the_first_answer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASSEMBLE, str(tmp_path), *HEAVY]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("[]\n", "")


FEW_COLLECTIONS = 100  # of a hundred thousand objects; Python makes one of each 700
FEW_OBJECTS = 10_000

SERVE = """
import gc
import os
import sys

noted = os.open(sys.argv.pop(1), os.O_CREAT | os.O_WRONLY)
gc.callbacks.append(lambda *_: os.write(noted, b"%d " % gc.get_count()[0]))

from skills_mcp.__main__ import main

main()
"""


def test_a_start_spends_no_time_on_garbage(tmp_path: Path) -> None:
    noted = tmp_path / "collections"
    content = ("--skills-dir", str(tmp_path))
    command = [sys.executable, "-c", SERVE, str(noted), *content]

    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    objects = [*map(int, noted.read_text("utf-8").split())]
    assert len(objects) < FEW_COLLECTIONS
    assert max(objects) < FEW_OBJECTS
