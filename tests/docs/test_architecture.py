"""The modules and functions that the explanation of the architecture names."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

import skills_mcp
from tests.docs.pages import DOCS, SOURCES, block, codes, section, table
from tests.support import PROJECT
from tests.test_house import DOORS

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def test_the_rooms_are_those_of_the_source() -> None:
    lines = block(DOCS / "explanation" / "architecture.md", "text", "rooms")
    shown = {re.split(r"[ /]", line[4:])[0] for line in lines.splitlines()[1:]}

    root = Path(skills_mcp.__file__).parent
    rooms = {entry.name for entry in root.iterdir() if entry.suffix != ".typed"}
    assert shown == rooms - {"__pycache__"} - DOORS


@cache
def members() -> dict[str, set[str]]:
    """The methods of each class, inherited ones included."""
    classes = {
        node.name: node
        for source in SOURCES
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }

    def collect(node: ast.ClassDef) -> set[str]:
        bases = [classes[ast.unparse(b)] for b in node.bases if ast.unparse(b) in classes]
        own = {part.name for part in node.body if isinstance(part, _FUNCTION)}
        assigned = [part.targets[0] for part in node.body if isinstance(part, ast.Assign)]
        own |= {target.id for target in assigned if isinstance(target, ast.Name)}
        return own.union(*map(collect, bases))

    return {name: collect(node) for name, node in classes.items()}


@pytest.mark.parametrize(
    "heading, others",
    [
        ("## The walk of a request", {"get_skill"}),  # a tool, as are those below
        ("## The walk of a request over HTTP", {"/readyz"}),
        ("## The walk of a call inside another program", {"skills_mcp.open"}),
        ("## The walk of a page", {"/?q=login", "/api"}),
        ("## The walk of a refresh", {"refresh_skills"}),
        (
            "## The walk of a script",
            {"run_script", "run_skill_command", "run_skill_entry"},
        ),
        ("## The walk of an event", {"skills-mcp report", "dead-letters/"}),
    ],
)
def test_the_walks_name_functions_that_exist(heading: str, others: set[str]) -> None:
    pages = (DOCS / "explanation" / name for name in ("architecture.md", "more-walks.md"))
    page = next(page for page in pages if f"\n{heading}\n" in page.read_text(encoding="utf-8"))
    walk = section(page, heading)
    code_base = "\n".join(source.read_text(encoding="utf-8") for source in SOURCES)
    named = set(codes(walk)) - others - {"Retry-After"}

    files = {name for name in named if name.endswith(".py")}
    root = Path(skills_mcp.__file__).parent

    assert named
    assert [name for name in files if not (root / name).is_file()] == []
    for name in named - files:
        owner, _, member = name.rpartition(".")
        assert re.search(rf"(?:def|class) {member}\b", code_base), name
        if owner and owner[0].isupper():
            assert member in members()[owner], name


def test_a_rule_lives_in_a_file_that_exists() -> None:
    page = DOCS / "explanation" / "architecture.md"
    rules = table(section(page, "## Where a rule lives"))
    root = Path(skills_mcp.__file__).parent

    missing = [
        place for rule in rules for place in codes(rule["module"]) if not (root / place).exists()
    ]

    assert len(rules) >= 10
    assert not missing


def test_a_function_is_named_with_the_module_that_has_it() -> None:
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    root = Path(skills_mcp.__file__).parent
    named = re.findall(r"`((?:[a-z_]+\.)+)(\w+)`", page)
    modules = [(root / place.replace(".", "/"), name) for place, name in named]

    for folder, name in modules:
        file = folder.with_suffix(".py")
        if file.is_file():
            assert re.search(rf"(?:def|class) {name}\b", file.read_text("utf-8")), name


def test_the_arrows_are_those_that_the_build_checks() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n__main__")[2].partition("```")[0]

    existing = [
        [part for part in layer.split(" | ") if not part.startswith("(")]
        for layer in layers
        if not layer.startswith("(")  # doors of frameworks
    ]
    told = re.sub(r"\(.*?\)", "", f"__main__{shown}").split("→")

    assert [[part.strip() for part in layer.split("|")] for layer in told] == existing
