"""Promises to the reader of the source, and to who installs the package."""

import ast
import compileall
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import skills_mcp
from skills_mcp import DISTRIBUTION, __version__
from tests.house import (
    FRAGMENT_LINES,
    SOURCE,
    Docstring,
    lines_with,
    modules,
    percentage,
    percentile,
    readers,
    repeated,
)
from tests.support import PROJECT

HALL = {"__init__.py", "__main__.py", "about.py", "bootstrap.py", "errors.py", "hooks.py"}
DOORS = {"langchain.py", "deepagents.py", "adk.py", "agent_framework.py", "haystack.py"}
"""What a program of another framework imports; leads to `features.frameworks`."""

# Each is what the source has now, and may only become less.
MAX_ROOMS = 16
MAX_FILES = 277
MAX_CODE_LINES = 60_773

MAX_FUNCTION_LINES = 45
MAX_LINES_OF_NINE_FUNCTIONS_IN_TEN = 20
MAX_DOCSTRING_LINES_TO_100_OF_CODE = 20

LONG_FUNCTIONS = {
    "cli/options.py content_options": "a table of options, in the words of click",
    "http/metrics.py __init__": "a table of metrics; it goes when they are defined once",
    "http/http_server.py serve_http": "to be cut, as the one above",
}

# Percentages that projects of others have, too: what they do not need, we do not either.
MAX_RETURN = 20
MAX_CLAUSE = 20
MAX_PHRASE = 0.5
MAX_COINED = 1

RETURN = re.compile(r"Return ")
CLAUSE = re.compile(r"\b(that|which|who|what|where|whose)\b")
PHRASE = re.compile(r"\b(what (is|was|has|it|an?|of|the)|of (it|them)|for it|besides?)\b")
COINED = {
    *("told", "said", "say", "tell", "asked", "given", "whole", "its", "shown", "wanted"),
    *("every", "each", "way", "here", "there", "begun", "mend", "tidy", "beside", "aside"),
    *("kept", "taken", "held", "news", "most", "least", "room", "place", "places"),
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

NAMED_BY_CONVENTION = re.compile(r"(^|/)(hooks\.py$|commands/|revisions/versions/)")
"""Hooks and commands, and the migrations of Alembic: a name says what calls them."""

# What is left of these two lists goes with what stands there.
NAMES_TWICE: set[str] = set()
FRAGMENTS: set[str] = set()


def test_a_newcomer_meets_few_rooms() -> None:
    first = {module.file.relative_to(SOURCE).parts[0] for module in modules()}

    assert first >= HALL
    assert [name for name in first - HALL - DOORS if name.endswith(".py")] == []
    assert len(first - HALL - DOORS) <= MAX_ROOMS, first


def test_the_source_does_not_grow() -> None:
    assert len(modules()) <= MAX_FILES
    assert sum(len(module.code_lines) for module in modules()) <= MAX_CODE_LINES


def test_docstrings_are_short_next_to_the_code() -> None:
    code = sum(len(module.code_lines) for module in modules())
    docstrings = sum(len(module.docstring_lines) for module in modules())

    assert 100 * docstrings / code <= MAX_DOCSTRING_LINES_TO_100_OF_CODE


def test_few_docstrings_of_functions_begin_with_return() -> None:
    openings = [each for each in _docstrings() if each.is_of_function]

    _assert_few([each for each in openings if RETURN.match(each.opening)], openings, MAX_RETURN)


def test_few_docstrings_begin_with_a_relative_clause() -> None:
    found = [each for each in _docstrings() if CLAUSE.search(each.opening)]

    _assert_few(found, _docstrings(), MAX_CLAUSE)


def test_hardly_a_docstring_begins_with_a_paraphrase() -> None:
    found = [each for each in _docstrings() if PHRASE.search(each.opening)]

    _assert_few(found, _docstrings(), MAX_PHRASE)


def test_names_are_words_of_the_field() -> None:
    names = [name for module in modules() for name in module.bound_names()]

    coined = [(name, place) for name, place in names if COINED & set(name.strip("_").split("_"))]

    _assert_few(coined, names, MAX_COINED)


def test_a_public_name_means_one_thing() -> None:
    names = [
        (name, module.name)
        for module in modules()
        if not NAMED_BY_CONVENTION.search(module.name)
        for name in module.public_names()
    ]

    twice = {name: files for name, files in repeated(names).items() if name not in NAMES_TWICE}

    assert twice == {}


def test_a_module_is_the_only_one_of_its_name() -> None:
    names = [
        (module.dotted.rpartition(".")[2], module.name)
        for module in modules()
        # A command is called like what it runs, and a hook like all hooks.
        if not module.name.startswith("cli/") and not NAMED_BY_CONVENTION.search(module.name)
    ]

    assert repeated(names) == {}


def test_a_fragment_belongs_to_its_reader() -> None:
    by_name = {module.name: module for module in modules()}

    found = {
        name: reader
        for name, (reader, *others) in readers().items()
        if not others
        and Path(reader).parent == Path(name).parent
        and Path(name).stem not in {"__init__", "__main__"}
        and by_name[name].text.count("\n") < FRAGMENT_LINES
        and not re.search(r"(^|/)(cli|commands)/", name)
    }

    assert {name: reader for name, reader in found.items() if name not in FRAGMENTS} == {}


def test_the_program_names_its_subject() -> None:
    assert lines_with(RIDDLE) == []


def test_no_text_cites_a_document_that_a_reader_cannot_open() -> None:
    cited = [
        f"{module.at(node)}: {found[0]}"
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (found := SECTION.search(node.value))
    ]

    assert cited == []


@pytest.mark.parametrize("tests", ["tests", "soak", "benchmarks", "repositories", "demo"])
def test_nothing_is_tested_against_a_mock(tests: str) -> None:
    files = [*(PROJECT / tests).rglob("*.py")]

    mocked = [
        f"{file}:{node.lineno}"
        for file in files
        if "mock" in (text := file.read_text(encoding="utf-8"))  # few, and parsing takes long
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and re.search(r"\bmock\b", ast.unparse(node))
    ]

    assert files
    assert mocked == []


def test_no_function_is_too_long_to_read() -> None:
    functions = {
        f"{module.name} {name}": lines
        for module in modules()
        for lines, name, _ in module.functions()
    }

    too_long = {name for name, lines in functions.items() if lines > MAX_FUNCTION_LINES}

    assert too_long - LONG_FUNCTIONS.keys() == set()


def test_nine_functions_in_ten_are_short() -> None:
    lines = [lines for module in modules() for lines, _, _ in module.functions()]

    assert percentile(lines, 0.9) <= MAX_LINES_OF_NINE_FUNCTIONS_IN_TEN


def test_a_module_is_named_by_what_it_knows() -> None:
    names = [module.name for module in modules()]

    assert [n for n in names if FORBIDDEN_NAMES & {*Path(n).with_suffix("").parts}] == []


def test_a_module_opens_with_one_line_that_says_what_it_knows() -> None:
    wrong = []
    for module in modules():
        first, _, rest = (ast.get_docstring(module.tree) or "").partition("\n")
        if not first.endswith((".", ":")) or (rest and not rest.startswith("\n")):
            wrong.append(module.name)

    assert wrong == []


def _docstrings() -> list[Docstring]:
    return [docstring for module in modules() for docstring in module.docstrings()]


def _assert_few(found: Sequence[object], total: Sequence[object], limit: float) -> None:
    """Fail with all that was found if it is more than a percentage."""
    share = percentage(found, len(total))
    listed = "\n".join(map(str, found))
    assert share <= limit, f"{share:.2f} % of {len(total)}:\n{listed}"


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
        assert re.fullmatch(r"[\w-]+>=[\d.]+,<\d+(; .+)?", dependency), dependency


def _project() -> dict[str, Any]:
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def _door(extra: str) -> Path:
    """The module that an extra is for, if it is that of an adapter."""
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


@pytest.mark.usefixtures("started_anew")
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

def note(phase, _):
    if phase == "start":
        os.write(noted, b"%d " % gc.get_count()[0])

gc.callbacks.append(note)

from skills_mcp.__main__ import main

main()
"""


@pytest.mark.usefixtures("started_anew")
def test_a_start_spends_no_time_on_garbage(tmp_path: Path) -> None:
    noted = tmp_path / "collections"
    content = ("--skills-dir", str(tmp_path))
    command = [sys.executable, "-c", SERVE, str(noted), *content]
    alone = {**os.environ, "SKILLS_MCP_SHARE": "0"}
    compileall.compile_dir(SOURCE, quiet=1)  # which makes objects, at the first start alone

    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, env=alone)

    objects = [*map(int, noted.read_text("utf-8").split())]
    assert len(objects) < FEW_COLLECTIONS
    assert max(objects) < FEW_OBJECTS
