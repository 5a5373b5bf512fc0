"""Rule: what is done with skills is done through `SkillLibrary`, by tests as well."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("file", READERS, ids=_name)
def test_nothing_reaches_behind_the_library(file: Path) -> None:
    found = list(_private_members(ast.parse(file.read_text(encoding="utf-8"))))

    assert found == [] or _name(file) in BEHIND


def _private_members(tree: ast.Module) -> Iterator[str]:
    """Yield what is private of an object that is called a library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            owner = ast.unparse(node.value)
            if owner.split(".")[-1].strip("_").endswith("library"):
                yield f"{owner}.{node.attr}"
