"""Writes the reference of the Python API, and the record of its names.

Run `python -m tests.docs.python_reference` after a change; a test compares.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache
from pathlib import Path

import griffe

import skills_mcp
from skills_mcp import _HOME_OF
from skills_mcp.errors import SkillsError
from tests.docs.pages import DOCS
from tests.support import PROJECT

PAGE = DOCS / "reference" / "python.md"
ANSWERS = PAGE.with_name("python-answers.md")
RESULTS = PAGE.with_name("python-results.md")
RECORD = PROJECT / "tests" / "api" / "public_names.txt"

_TWIN = "SyncSkills"
_LONGEST_LINE = 88

_MARK = "<!-- From here on the page is generated: see CONTRIBUTING.md. -->\n"


def render_page() -> str:
    """The page of functions, methods and errors."""
    head = PAGE.read_text(encoding="utf-8").partition(_MARK)[0]
    parts = [head + _MARK, "## Open skills\n"]
    parts += [_render_function(find(name), level=3) for name in ("open", "open_sync")]
    parts += ["## Ask open skills\n", _render_class(find("Skills"))]
    parts += [
        "### SyncSkills\n",
        "The same methods without `async`, and without `changes`.\n",
    ]
    parts.append("## Errors\n\nAll are subclasses of `SkillsError` and have a `code`.\n")
    parts += [_render_errors(), _TAIL]
    return "\n".join(parts)


def render_pages() -> dict[Path, str]:
    """Each page with its text."""
    names = _result_names()
    others = [name for name in names if name not in _ANSWERS]
    return {
        PAGE: render_page(),
        ANSWERS: _ANSWERS_HEAD + _render_results(_ANSWERS) + _RESULTS_TAIL,
        RESULTS: _RESULTS_HEAD + _render_results(others) + _RESULTS_TAIL,
    }


def _render_results(names: Sequence[str]) -> str:
    return "\n".join(_render_result(find(name)) for name in names) + "\n"


def render_record() -> str:
    """Return all that a program can name: functions, methods, fields, codes."""
    return "".join(f"{line}\n" for line in _list_names())


def _list_names() -> Iterator[str]:
    for name in skills_mcp.__all__:
        found = find(name)
        if isinstance(found, griffe.Function):
            yield _one_line(found)
        elif isinstance(found, griffe.Class):
            yield f"class {name}"
            for member in _public(found):
                if isinstance(member, griffe.Function):
                    yield f"  {_one_line(member)}"
                else:
                    yield f"  {member.name}: {_type(member)}"
        else:
            yield name


def _result_names() -> list[str]:
    names = [n for n in skills_mcp.__all__ if n[0].isupper() and n != "DISTRIBUTION"]
    others = {"Skills", _TWIN}
    return [n for n in names if n not in others and not n.endswith("Error")]


def find(name: str) -> griffe.Object:
    """Return what a public name stands for, from where it is written."""
    home = _HOME_OF.get(name)
    if home is None:
        return griffe.Attribute(name)
    found = _package()[f"{home}.{name}"]
    loaded: griffe.Object = found.final_target if found.is_alias else found
    return loaded


_ANSWERS = (
    *("Match", "Ambiguous", "NoMatch", "Reason", "Mode", "Candidate", "Level", "Inherited"),
    *("Hold", "FittingExample", "ServedExamples", "Example", "SearchResult", "Hit"),
    *("Stamp", "Provenance"),
)
"""What a task or a search gets; all other results have the second page."""

_ANSWERS_HEAD = """\
# Answers in Python

What [`route`, `search` and `load_examples`](python.md#skills) return.
[Other results](python-results.md) have a page of their own.
The page is generated from the source.

## Answers

"""

_RESULTS_HEAD = """\
# Results in Python

What the other [methods](python.md#skills) return: skills, files, scripts, states of sources.
Those of a task or a search are [answers](python-answers.md).
The page is generated from the source.

## Results

"""

_RESULTS_TAIL = """\
## What to read next

- [The Python API](python.md)
- [Use skills in your own agent](../how-to/python.md)
"""

_TAIL = """\
## What to read next

- [Answers](python-answers.md), and [other results](python-results.md)
- [Use skills in your own agent](../how-to/python.md)
- [Errors](errors.md)
"""


@cache
def _package() -> griffe.Object | griffe.Alias:
    return griffe.load("skills_mcp", search_paths=[PROJECT / "src"], docstring_parser="google")


# A row of a table that is no part of the API.
_INTERNAL = {
    "skills_mcp.skills.tree_node.TreeNode.number",
    "skills_mcp.skills.tree_node.TreeNode.every",
}


def _public(owner: griffe.Class) -> list[griffe.Function | griffe.Attribute]:
    """Return the members in the order of the source, without private ones."""
    return [
        member
        for name, member in ((n, _resolve_twin(m)) for n, m in owner.members.items())
        if not name.startswith("_")
        and member.path not in _INTERNAL
        and isinstance(member, griffe.Function | griffe.Attribute)
        and not (
            isinstance(member, griffe.Attribute)
            and member.docstring is None
            and member.annotation is None
        )
    ]


def _resolve_twin(member: griffe.Object | griffe.Alias) -> griffe.Object | griffe.Alias:
    """Return the method of `SyncSkills` that a member of `Skills` runs, with `async`."""
    derived = re.fullmatch(rf"_run_\w+\({_TWIN}\.(\w+).*\)", str(getattr(member, "value", "")))
    if derived is None:
        return member
    twin = copy(find(_TWIN)[derived[1]])
    twin.labels = {*twin.labels, "async"}
    assert isinstance(twin, griffe.Function)
    return twin


def _render_class(owner: griffe.Object) -> str:
    assert isinstance(owner, griffe.Class)
    parts = [f"### {owner.name}\n", _render_docstring(owner)]
    for member in _public(owner):
        if isinstance(member, griffe.Function):
            parts.append(_render_function(member, level=4))
        else:
            parts += [f"#### {member.name}\n", _render_docstring(member)]
    return "\n".join(parts)


def _render_result(owner: griffe.Object) -> str:
    lines = [f"### {owner.name}\n", _render_docstring(owner)]
    if isinstance(owner, griffe.Attribute):
        return "\n".join([*lines, f"`{owner.value}`\n"])
    assert isinstance(owner, griffe.Class)
    rows = [
        f"| `{field.name}` | `{_type(field)}` | {_first_lines(field)} |"
        for field in _public(owner)
        if isinstance(field, griffe.Attribute)
    ]
    if rows:
        lines += ["| field | type | what it is |\n| --- | --- | --- |", *rows, ""]
    for method in _public(owner):
        if isinstance(method, griffe.Function):
            lines.append(f"`{_one_line(method)}`: {_sentences(_first_lines(method))}")
    return "\n".join(lines)


def _render_errors() -> str:
    rows = ["| error | code | what has happened |", "| --- | --- | --- |"]
    for name in skills_mcp.__all__:
        found = getattr(skills_mcp, name)
        if inspect.isclass(found) and issubclass(found, SkillsError):
            about = " ".join((found.__doc__ or "").split())
            rows.append(f"| `{name}` | `{found.code}` | {about} |")
    return "\n".join(rows) + (
        "\n\nEach of them has subclasses with codes of their own: [Errors](errors.md) lists all.\n"
    )


def _render_function(function: griffe.Object, *, level: int) -> str:
    assert isinstance(function, griffe.Function)
    heading = f"{'#' * level} {function.name}\n"
    code = f"```python not-run\n{_signature(function)}\n```\n"
    return "\n".join([heading, code, _render_docstring(function)])


def _signature(function: griffe.Function) -> str:
    line = _one_line(function)
    if len(line) <= _LONGEST_LINE:
        return line
    begin, _, rest = line.partition("(")
    inside, _, end = rest.rpartition(")")
    return f"{begin}(\n    " + ",\n    ".join(_split(inside)) + f",\n){end}"


def _split(arguments: str) -> list[str]:
    """Return the arguments of a signature, split at the commas between them."""
    parts, depth, last = [], 0, 0
    for place, character in enumerate(arguments):
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(arguments[last:place].strip())
            last = place + 1
    return [*parts, arguments[last:].strip()]


def _one_line(function: griffe.Function) -> str:
    is_async = "async" in function.labels
    signature = function.signature().replace("'", '"')
    return f"{'async ' if is_async else ''}def {signature}".replace('"Skills"', "Skills")


def _render_docstring(item: griffe.Object) -> str:
    if item.docstring is None:
        return ""
    parts = []
    for section in item.docstring.parsed:
        match section.kind.value:
            case "text":
                parts.append(_sentences(section.value))
            case "parameters":
                parts += _bullets((p.name, p.description) for p in section.value)
            case "raises":
                raised = _bullets((r.annotation, r.description) for r in section.value)
                parts += ["Raises:\n", *raised]
            case "returns":
                parts.append(f"Returns: {_join(section.value[0].description)}\n")
            case kind:
                raise ValueError(f"{item.path}: no way to show {kind}")
    return "\n".join(parts)


def _bullets(items: Iterator[tuple[object, str]]) -> list[str]:
    return [
        f"- `{name}`: " + _sentences(about).strip().replace("\n", "\n  ") for name, about in items
    ] + [""]


def _sentences(text: str) -> str:
    """Return paragraphs with one sentence per line."""
    return (
        "\n\n".join(
            re.sub(r"(?<=[.:]) (?=[A-Z`])", "\n", _join(part)) for part in text.split("\n\n")
        )
        + "\n"
    )


def _join(text: str) -> str:
    return " ".join(text.split())


def _first_lines(item: griffe.Object) -> str:
    if item.docstring is None:
        return ""
    return _cell(_join(item.docstring.value.partition("\n\n")[0]))


def _type(field: griffe.Attribute) -> str:
    return _cell(str(field.annotation).strip("'"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for page, text in render_pages().items():
        page.write_text(text, encoding="utf-8")
    RECORD.write_text(render_record(), encoding="utf-8")
