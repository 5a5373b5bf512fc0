"""The rules that validation adds to what reading reports, and their levels.

`error`: a file breaks the Agent Skills standard, or is not served.
`warning`: it is served, and would be better otherwise.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from skills_mcp.skills.model import Problem, printable
from skills_mcp.text.rendering import shorten

LEVELS: Mapping[str, Literal["error", "warning"]] = MappingProxyType(
    {
        "encoding": "error",
        "frontmatter": "error",
        "no-frontmatter": "error",
        "yaml": "error",
        "duplicate-key": "error",
        "unknown-key": "error",
        "name": "error",
        "name-length": "error",
        "name-characters": "error",
        "name-hyphens": "error",
        "name-is-folder": "error",
        "description": "error",
        "description-length": "error",
        "license": "error",
        "compatibility": "error",
        "allowed-tools": "error",
        "metadata": "error",
        "metadata-value": "error",
        "metadata-skillhub": "warning",
        "main-file": "warning",
        "body-empty": "warning",
        "entry-program": "warning",
        "entry-file": "warning",
        "body-length": "warning",
        "hidden-character": "warning",
        "mixed-letters": "warning",
        "control-characters": "warning",
        "secret": "warning",
        "section-header": "warning",
        "link-broken": "warning",
        "link-outside": "warning",
        "link-absolute": "warning",
        "missing-index": "warning",
        "undeclared-file": "warning",
        "composed-length": "warning",
        "keyword-shared": "warning",
        "never-found": "warning",
        "relation-unknown": "warning",
        "owner-type": "warning",
        "no-skills": "warning",
    }
)

RULES = frozenset(
    {
        *LEVELS,
        *("config", "depth", "execution", "file-missing", "file-name", "file-outside"),
        *("file-size", "folder-name", "hidden-skill", "installed-folder", "keywords"),
        *("keyword-unmatchable", "limit", "link", "manifest", "name-collision"),
        *("no-keywords", "outside-homes", "outside-markdown", "outside-unread"),
        *("plain-markdown", "plugin-not-picked", "plugin-unknown", "priority-type"),
        *("resource-folder", "same-path", "subfolder", "submodule", "unreadable"),
        *("visibility", "assets-entry", "assets-type", "scripts-entry", "scripts-type"),
        *("args-entry", "args-type", "required-type", "inherit-type", "entry-type"),
        *("examples-entry", "examples-type", "alwaysApply-type"),
    }
)
"""Every rule: those above, and those of the reader, which sets their levels itself."""

_SHOWN = 3


class RuleFinding(NamedTuple):
    """What is wrong in a file, whose name the caller adds."""

    rule: str
    reason: str
    hint: str
    """What to write instead."""
    line: int = 1

    def at(self, file: Path) -> Problem:
        """Return the problem of that file."""
        reason, hint = printable(self.reason), printable(self.hint)
        level = LEVELS[self.rule]
        return Problem(str(file), reason, hint, level, rule=self.rule, line=self.line)


def enumerate_shortly(names: Iterable[object]) -> str:
    """Return the first few of many names.

    >>> enumerate_shortly(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    shown = [shorten(name) for name in names]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
