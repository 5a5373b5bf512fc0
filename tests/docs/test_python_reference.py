"""The reference of the Python API, and the record of what is public."""

import ast
import inspect

import skills_mcp
from tests.docs import python_reference
from tests.docs.pages import DOCS

HOW_TO = DOCS / "how-to" / "python.md"

AGAIN = "write it again with `python -m tests.docs.python_reference`"


def test_the_reference_is_that_of_the_source() -> None:
    rendered = python_reference.render_pages()

    assert {page: page.read_text(encoding="utf-8") for page in rendered} == rendered, AGAIN


def test_the_public_names_are_those_on_record() -> None:
    record = python_reference.RECORD.read_text(encoding="utf-8")

    assert record == python_reference.render_record(), (
        "the public API has changed: see Stability in docs/reference/python.md, add "
        f"a line to CHANGELOG.md, and {AGAIN}"
    )


def test_the_twins_have_the_same_methods_with_the_same_arguments() -> None:
    def methods(owner: type) -> dict[str, object]:
        return {
            name: list(inspect.signature(member).parameters.items())
            for name, member in vars(owner).items()
            if inspect.isfunction(member) and not name.startswith("_")
        }

    with_async, without = methods(skills_mcp.Skills), methods(skills_mcp.SyncSkills)

    assert with_async.keys() - without.keys() == {"changes"}
    assert without.keys() - with_async.keys() == set()
    for name in without:
        assert with_async[name] == without[name], name


def test_what_is_public_exists_and_says_what_it_is() -> None:
    public = {name: python_reference.find(name) for name in skills_mcp.__all__}

    assert [name for name in public if not hasattr(skills_mcp, name)] == []
    silent = {name for name, found in public.items() if not found.docstring}
    assert {name for name in silent if not name.isupper()} <= {"__version__"}


def test_the_guide_names_methods_that_exist() -> None:
    page = HOW_TO.read_text(encoding="utf-8")
    called = {
        node.attr
        for block in page.split("```python")[1:]
        for node in ast.walk(ast.parse(block.partition("\n")[2].partition("```")[0]))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"skills", "ui", "skills_mcp"}
    }

    known = {*dir(skills_mcp.Skills), *skills_mcp.__all__}
    assert called >= {"route", "search", "load", "read", "refresh", "narrow"}
    assert called - known == set()
