"""The documentation is part of the program: what it shows, happens; no more, no less.

The word after the language of a fenced block says what a test does with it:

- `title=PATH`: the block is a file of the page's folder;
- `console`: lines with `$ ` are commands, the lines below are what they print;
- `json call [SERVER]`, then `json reply` or `json error`: a tool call and its answer;
- `text help [COMMAND]`: what `--help` prints;
- `yaml skill`: the head of a skill; any other `yaml` block holds settings;
- `python` without a title: run in a folder that holds `skills/`;
- `not-run`: shown only.
"""

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import skills_mcp
from tests.support import PROJECT

DOCS = PROJECT / "docs"
REFERENCE = DOCS / "reference"
TOOLS_PAGE = REFERENCE / "tools/index.md"
TOOLS_PAGES = sorted((REFERENCE / "tools").glob("*.md"))
CONFIGURATION = REFERENCE / "configuration.md"
CONFIG_YAML = REFERENCE / "config-yaml.md"
PAGES = (*sorted(DOCS.rglob("*.md")), *sorted(PROJECT.glob("*.md")))
SOURCES = sorted(Path(skills_mcp.__file__).parent.rglob("*.py"))

NOTHING = "\N{EN DASH}"
"""What an empty cell of a table holds."""

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=[str(page.relative_to(PROJECT)) for page in PAGES]
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    words: tuple[str, ...]
    text: str

    @property
    def title(self) -> str | None:
        titles = (word for word in self.words if word.startswith("title="))
        return next((title.removeprefix("title=") for title in titles), None)


_FENCED = re.compile(
    r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


def blocks(page: Path, *kind: str) -> list[Block]:
    """Return the fenced blocks of a page whose info string begins with `kind`."""
    return _parse_blocks(page.read_text(encoding="utf-8"), kind)


def blocks_below(page: Path, heading: str) -> list[Block]:
    """Return the fenced blocks below a heading, down to the next one of its level."""
    level, _, _ = heading.partition(" ")
    _, _, rest = f"\n{page.read_text(encoding='utf-8')}".partition(f"\n{heading}\n")
    assert rest, f"{page.name} has no heading {heading!r}"
    below = re.split(rf"^#{{1,{len(level)}}} [A-Z]", rest, maxsplit=1, flags=re.MULTILINE)
    return _parse_blocks(below[0], ())


def _parse_blocks(text: str, kind: tuple[str, ...]) -> list[Block]:
    found = _FENCED.finditer(text)
    infos = [(m["info"].split() or [""], m["text"]) for m in found]
    every = [Block(info[0], tuple(info[1:]), text) for info, text in infos]
    return [b for b in every if (b.language, *b.words)[: len(kind)] == kind]


def block(page: Path, *kind: str) -> str:
    """Return the text of the only block of a kind."""
    [found] = [b for b in blocks(page, *kind) if len(b.words) == len(kind) - 1]
    return found.text


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def section(page: Path, heading: str) -> str:
    """Return what stands below a heading, down to the next one of its level."""
    level, _, _ = heading.partition(" ")
    _, _, rest = f"\n{prose(page)}".partition(f"\n{heading}\n")
    assert rest, f"{page.name} has no heading {heading!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def tables(text: str) -> list[list[dict[str, str]]]:
    """Return the tables of a text, each a list of rows, by the names of columns."""
    found: list[list[dict[str, str]]] = []
    for lines in re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            for line in lines.splitlines()
        )
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of all tables of a text."""
    return [row for rows in tables(text) for row in rows]


def codes(text: str) -> list[str]:
    """Return what stands in backticks."""
    doubled = re.findall(r"``(.+?)``", text)
    return [code.strip() for code in doubled] or re.findall(r"`([^`]+)`", text)


def code(text: str) -> str:
    """Return the only word in backticks."""
    [only] = codes(text)
    return only


def templates(module: ModuleType) -> set[str]:
    """Return the texts in a module's code, with … for what is filled in."""
    texts: set[str] = set()
    parts: set[ast.AST] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            fixed = (getattr(part, "value", "…") for part in node.values)
            texts.add("".join(p if isinstance(p, str) else "…" for p in fixed))
        elif isinstance(node, ast.Constant) and node not in parts:
            texts.add(str(node.value))
    return texts
