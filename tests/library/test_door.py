"""Rule: what is done with skills is done through `SkillLibrary`, by tests as well."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support import PROJECT

# They look at the objects that were wired, which no use case shows.
BEHIND = {"tests/bootstrap/test_bootstrap.py"}

READERS = sorted(
    file
    for room in ("benchmarks", "demo", "soak", "tests")
    for file in (PROJECT / room).rglob("*.py")
)


def _name(file: Path) -> str:
    return file.relative_to(PROJECT).as_posix()


def test_nothing_reaches_behind_the_library() -> None:
    found = [
        f"{_name(file)}: {member}"
        for file in READERS
        if _name(file) not in BEHIND
        and re.search(r"library\._[a-z]", text := file.read_text(encoding="utf-8"))
        for member in _private_members(ast.parse(text))
    ]

    assert READERS
    assert found == []


def _private_members(tree: ast.Module) -> Iterator[str]:
    """Yield what is private of an object that is called a library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            owner = ast.unparse(node.value)
            if owner.split(".")[-1].strip("_").endswith("library"):
                yield f"{owner}.{node.attr}"
