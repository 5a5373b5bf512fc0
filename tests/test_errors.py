"""The tree in the docstring of `errors` is the tree in the code."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path

import skills_mcp
from skills_mcp import errors
from skills_mcp.errors import SkillsError

SOURCES = sorted(Path(skills_mcp.__file__).parent.rglob("*.py"))


def _all_below(error: type[SkillsError]) -> Iterator[type[SkillsError]]:
    for below in error.__subclasses__():
        yield below
        yield from _all_below(below)


@cache
def _raised_names() -> set[str]:
    """Return the name of everything that any module raises, or raises by default."""
    nodes = [
        node
        for source in SOURCES
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
    ]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    defaults = [each for node in nodes if isinstance(node, ast.arguments) for each in node.defaults]
    names = (*calls, *defaults)
    attributes = {name.attr for name in names if isinstance(name, ast.Attribute)}
    return attributes | {name.id for name in names if isinstance(name, ast.Name)}


def _drawn() -> Iterator[tuple[str, str | None, str | None]]:
    """Yield name, code and the name above, as the docstring draws them."""
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([ │├└─]*)(\w*Error)\b(?: +([A-Z_]+) )?", line)
        if not found:
            continue
        indent, name, code = found.groups()
        depth = len(indent) // 4
        above[depth:] = [name]
        yield name, code, above[depth - 1] if depth else None


def _names(classes: Iterable[type]) -> set[str]:
    return {one.__name__ for one in classes}


ADAPTERS = {
    "skills_mcp.adk",
    "skills_mcp.agent_framework",
    "skills_mcp.deepagents",
    "skills_mcp.haystack",
    "skills_mcp.langchain",
}
DRAWN = {name: (code, above) for name, code, above in _drawn()}
ALL: list[type[SkillsError]] = [
    SkillsError,
    *(error for error in _all_below(SkillsError) if error.__module__ == errors.__name__),
]
# A sync may fail for a reason that has no name of its own, so it is no mere group.
LEAVES = [e for e in ALL if "code" in vars(e) and e is not SkillsError]


def test_an_error_of_another_module_only_refines_one_of_the_tree() -> None:
    for module in pkgutil.walk_packages(skills_mcp.__path__, "skills_mcp."):
        if module.name.endswith("__main__"):
            continue
        # Adapters need a framework, which only `make test-integrations` installs.
        is_adapter = module.name in ADAPTERS or "frameworks." in module.name
        with suppress(ImportError) if is_adapter else nullcontext():
            importlib.import_module(module.name)

    for error in set(_all_below(SkillsError)) - set(ALL):
        assert "code" not in vars(error)
        assert error.__base__ in LEAVES


def test_every_error_is_drawn_where_it_stands() -> None:
    wrong = [
        error
        for error in ALL
        if DRAWN[error.__name__][1]
        not in ({None} if error is SkillsError else _names(error.__bases__))
    ]

    assert wrong == []


def test_nothing_is_drawn_that_does_not_exist() -> None:
    assert DRAWN.keys() == _names(ALL)


def test_every_error_that_can_be_raised_has_the_code_that_is_drawn() -> None:
    codes = {error: DRAWN[error.__name__][0] for error in LEAVES}

    assert [error for error, code in codes.items() if error.code != code] == []
    assert [e for e in LEAVES if not re.fullmatch(r"[A-Z]+(_[A-Z]+)*", e.code)] == []


def test_no_two_errors_share_a_code() -> None:
    codes = [error.code for error in LEAVES]

    assert len(set(codes)) == len(codes)
    assert SkillsError.code not in codes


def test_what_only_groups_other_errors_is_never_raised() -> None:
    groups = _names(ALL) - _names(LEAVES)

    assert groups & _raised_names() == set()


def test_every_error_that_can_be_raised_is_raised_somewhere() -> None:
    assert _names(LEAVES) <= _raised_names()


def test_every_error_says_what_it_means() -> None:
    assert [error for error in ALL if not (error.__doc__ or "").endswith(".")] == []
