"""Promises to the reader of the source, and to who installs the package."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import skills_mcp
from skills_mcp import DISTRIBUTION, __version__
from tests.support import PROJECT

SOURCE = PROJECT / "src" / "skills_mcp"

MAX_FUNCTION_LINES = 45

LONG_FUNCTIONS = {
    "content_options": "a table of options, in the words of click",
}

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
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""

    first, _, rest = docstring.partition("\n")
    assert first.endswith((".", ":"))
    assert not rest or rest.startswith("\n")


def test_the_distribution_has_one_name() -> None:
    texts = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    install = re.compile(
        r"(?:uvx|uv tool install|pipx install|pip install|uv add)"
        r"(?: --?[\w-]+)* ['\"]?(skills-mcp[\w-]*)"
    )

    named = [
        name for text in texts for name in install.findall(text.read_text("utf-8"))
    ]

    assert _project()["name"] == DISTRIBUTION
    assert named
    assert set(named) == {DISTRIBUTION}


def test_both_console_scripts_are_the_same_program() -> None:
    scripts = {
        entry.name: entry.value for entry in distribution(DISTRIBUTION).entry_points
    }

    assert scripts == {
        "skills-mcp": "skills_mcp.cli:main",
        "skills-mcp-server": "skills_mcp.cli:main",
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


def _functions(module: Path) -> Iterator[tuple[str, int]]:
    """Yield each function and its lines of code, without the docstring."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            docstring = ast.get_docstring(node, clean=False)
            yield node.name, lines - (docstring.count("\n") + 1 if docstring else 0)


def test_the_oldest_dependencies_that_are_tested_are_the_lower_bounds() -> None:
    lines = (PROJECT / "constraints-lowest.txt").read_text().splitlines()
    tested = dict(line.lower().split("==") for line in lines if "==" in line)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]

    declared = {}
    for dependency in project["dependencies"]:
        name, _, bounds = dependency.partition(">=")
        declared[name.lower()] = bounds.partition(",<")[0]

    assert {name: tested[name] for name in declared} == declared
    assert all(",<" in dependency for dependency in project["dependencies"])


HEAVY = (
    *("numpy", "Stemmer", "yaml", "git", "httpx", "frontmatter", "markdown_it"),
    "jinja2",
)

ASSEMBLE = """
import sys
from skills_mcp.bootstrap import Options, build
from skills_mcp.server.app import create_server

create_server(build(Options(skills_dir=sys.argv[1]), {}).library)
print([name for name in sys.argv[2:] if name in sys.modules])
"""


def test_nothing_heavy_is_imported_before_the_first_answer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASSEMBLE, str(tmp_path), *HEAVY]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("[]\n", "")
