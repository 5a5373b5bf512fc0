"""What programs of others have said in a run of `make conformance`, and the page of it."""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from skills_mcp import __version__
from tests.support import PROJECT

PAGE = PROJECT / "docs" / "conformance.md"
BADGE = PAGE.with_suffix(".svg")

_HEAD = """# Conformance

Programs of others that judge this one, or read what it serves and writes.
`make conformance` runs them all.
With `CONFORMANCE_PAGE=1` it writes this page: on {day}, skills-mcp {version}, Python {python}.

![{label}](conformance.svg)

"""

_END = """
## What to read next

- [Write native folders](how-to/native-folders.md)
- [Soak test](soak.md): every promise of our own, and how often it was tried
"""

_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" \
aria-label="{label}"><title>{label}</title>
<rect width="88" height="20" fill="#555"/>
<rect x="88" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="8" y="14">conformance</text><text x="96" y="14">{value}</text></g></svg>
"""


@dataclass
class Verdicts:
    """The verdicts of a run, each once, and what could not run."""

    passed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, program: str, version: str, what: str, result: str) -> None:
        self.passed[program, version, what] = result

    def miss(self, program: str, reason: str) -> None:
        self.missing[program] = reason

    def write(self) -> None:
        """Write the page and its badge, if the run is asked to."""
        if not os.environ.get("CONFORMANCE_PAGE"):
            return
        value = f"{len({p for p, _, _ in self.passed})} programs"
        label = f"conformance: {value}"
        head = _HEAD.format(
            version=__version__,
            python=platform.python_version(),
            day=datetime.now(UTC).date(),
            label=label,
        )
        rows = ((*key, result) for key, result in sorted(self.passed.items()))
        text = head + _table(("Program", "Version", "What it did", "Result"), rows)
        if self.missing:
            text += "\n## Not in this run\n\n" + _table(
                ("Program", "Why"), sorted(self.missing.items())
            )
        PAGE.write_text(text + _END, encoding="utf-8")
        _write_badge(BADGE, value, label, is_whole=not self.missing)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _write_badge(file: Path, value: str, label: str, *, is_whole: bool) -> None:
    right = 16 + 7 * len(value)
    colour = "#3a7d34" if is_whole else "#8a6d00"
    text = _SVG.format(
        width=88 + right, right=right, label=escape(label), value=escape(value), colour=colour
    )
    file.write_text(text, encoding="utf-8")
