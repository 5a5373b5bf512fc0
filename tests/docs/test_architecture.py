"""The modules and functions that the explanation of the architecture names."""

import re
import tomllib
from pathlib import Path

import pytest

import skills_mcp
from tests.docs.pages import DOCS, SOURCES, block, codes, section
from tests.support import PROJECT


def test_the_rooms_are_those_of_the_source() -> None:
    lines = block(DOCS / "explanation" / "architecture.md", "text", "rooms")
    shown = {re.split(r"[ /]", line[4:])[0] for line in lines.splitlines()[1:]}

    root = Path(skills_mcp.__file__).parent
    rooms = {entry.name for entry in root.iterdir() if entry.suffix != ".typed"}
    assert shown == rooms - {"__pycache__"}


@pytest.mark.parametrize(
    "heading, others",
    [
        ("## The walk of one request", {"get_skill"}),  # the tool
        ("## From files to a snapshot", {"SKILL.md", "validation"}),
    ],
)
def test_the_ways_name_functions_that_exist(heading: str, others: set[str]) -> None:
    way = section(DOCS / "explanation" / "architecture.md", heading)
    code_base = "\n".join(source.read_text(encoding="utf-8") for source in SOURCES)
    named = set(codes(way)) - others

    for name in named:
        defined = rf"(?:def|class) {name.rpartition('.')[2]}\b"
        assert re.search(defined, code_base), name


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
    ]
    told = re.sub(r"\(.*?\)", "", f"__main__{shown}").split("→")

    assert [[part.strip() for part in layer.split("|")] for layer in told] == existing
