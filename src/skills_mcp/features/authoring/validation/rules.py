"""Rules of validation, their levels and selection, and the baseline of known findings.

`error`: the file violates the Agent Skills standard, or is not served.
`warning`: it is served, but could be better.

Rule: a baseline ignores line and other numbers, so an edit above a finding does not
make it new.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from skills_mcp.skills.model import Problem, escape_unprintable
from skills_mcp.text.rendering import abbreviate_value

RULE_LEVELS: Mapping[str, Literal["error", "warning"]] = MappingProxyType(
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
        *RULE_LEVELS,
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
"""All rules; those of the reader set their own level."""

_MAX_LISTED_NAMES = 3


class RuleFinding(NamedTuple):
    """A finding, without its file."""

    rule: str
    reason: str
    hint: str
    line: int = 1

    def at(self, file: Path) -> Problem:
        reason, hint = escape_unprintable(self.reason), escape_unprintable(self.hint)
        level = RULE_LEVELS[self.rule]
        return Problem(str(file), reason, hint, level, rule=self.rule, line=self.line)


def enumerate_shortly(names: Iterable[object]) -> str:
    """Join the first few names.

    >>> enumerate_shortly(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    quoted = [abbreviate_value(name) for name in names]
    more = f" and {len(quoted) - _MAX_LISTED_NAMES} more" if len(quoted) > _MAX_LISTED_NAMES else ""
    return ", ".join(quoted[:_MAX_LISTED_NAMES]) + more
