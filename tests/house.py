"""The source as rules of style see it: modules, lines, docstrings, names, readers."""

import ast
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.support import PROJECT

SOURCE = PROJECT / "src" / "skills_mcp"

FRAGMENT_LINES = 130

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Documented = ast.Module | ast.ClassDef | _Function


@dataclass(frozen=True, slots=True)
class Docstring:
    """The first sentences of a docstring, up to its first blank line."""

    place: str
    opening: str
    is_of_function: bool


@dataclass(frozen=True)
class Module:
    """A file of the source."""

    file: Path
    folder: Path = SOURCE

    @property
    def name(self) -> str:
        return self.file.relative_to(self.folder).as_posix()

    @property
    def dotted(self) -> str:
        parts = self.file.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        return tuple(ast.walk(self.tree))

    @cached_property
    def docstring_lines(self) -> frozenset[int]:
        """Lines of texts that stand alone at the head of a block, or below a name."""
        return frozenset(
            line
            for node in self.nodes
            if isinstance(node, _Documented)
            for child in node.body
            if isinstance(child, ast.Expr)
            and isinstance(child.value, ast.Constant)
            and isinstance(child.value.value, str)
            for line in range(child.lineno, (child.end_lineno or child.lineno) + 1)
        )

    @cached_property
    def code_lines(self) -> Sequence[int]:
        """Sorted lines with code: neither blank, nor a comment, nor a docstring."""
        shown = enumerate((line.strip() for line in self.text.split("\n")), 1)
        lines = {number for number, line in shown if line and not line.startswith("#")}
        for node in self.nodes:
            if isinstance(node, ast.Constant | ast.JoinedStr):  # within a text each line counts
                lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return sorted(lines - self.docstring_lines)

    def at(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 1)}"

    def functions(self) -> Iterator[tuple[int, str, str]]:
        """Yield the code lines, the name and the place of every function."""
        for node in self.nodes:
            if isinstance(node, _Function):
                first = bisect_left(self.code_lines, node.lineno)
                past = bisect_right(self.code_lines, node.end_lineno or node.lineno)
                yield past - first, node.name, self.at(node)

    def docstrings(self) -> Iterator[Docstring]:
        for node in self.nodes:
            if isinstance(node, _Documented) and (text := ast.get_docstring(node)):
                opening = " ".join(text.split("\n\n")[0].split())
                yield Docstring(self.at(node), opening, isinstance(node, _Function))

    def bound_names(self) -> Iterator[tuple[str, str]]:
        """Yield each name that is assigned or is a parameter, and where."""
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, self.at(node)
            elif isinstance(node, ast.arg):
                yield node.arg, self.at(node)

    def public_names(self) -> Sequence[str]:
        """Public functions and classes at the top, each once even if overloaded."""
        return sorted(
            {
                node.name
                for node in self.tree.body
                if isinstance(node, ast.ClassDef | _Function) and not node.name.startswith("_")
            }
        )

    def imported(self) -> Iterator[tuple[str, str]]:
        """Yield each imported name as `package.module` and the name taken from it."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    yield node.module, alias.name
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, ""


@cache
def modules() -> Sequence[Module]:
    return [Module(file) for file in sorted(SOURCE.rglob("*.py"))]


def readers() -> dict[str, set[str]]:
    """Return for each module the names of those that import it."""
    by_dotted = {module.dotted: module.name for module in modules()}
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for dotted, name in module.imported():
            read = by_dotted.get(f"{dotted}.{name}") or by_dotted.get(dotted)
            if read and read != module.name:
                found[read].add(module.name)
    return found


def repeated(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names that occur twice, and where."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def percentile(numbers: Iterable[int], share: float) -> int:
    ordered = sorted(numbers)
    return ordered[int(len(ordered) * share)]


def percentage(part: Sequence[object], total: int) -> float:
    return 100 * len(part) / total


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Return every line of the source in which a pattern is found."""
    return [
        f"{module.name}:{number}: {found[0]}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), 1)
        if (found := pattern.search(line))
    ]
