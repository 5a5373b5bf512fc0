"""What validation says of files that a test has written."""

from pathlib import Path

from skills_mcp.features.authoring.markdown import parse_markdown
from skills_mcp.features.authoring.package_standard import check_package, parse_strictly
from skills_mcp.features.authoring.rules import RuleFinding
from skills_mcp.features.authoring.validation import validate_paths
from skills_mcp.skills.model import Problem

HEAD = "name: pdf\ndescription: Fill in PDF forms.\n"


def findings(
    text: str | bytes, *, main: str = "SKILL.md", folder: str | None = "pdf"
) -> list[RuleFinding]:
    """Return what breaks the standard in a `SKILL.md`, in the order of rules."""
    raw = text.encode() if isinstance(text, str) else text
    reading = parse_strictly(raw, parse_markdown(raw))
    return sorted(check_package(reading, main, folder))


def of_head(block: str, *, folder: str | None = "pdf") -> list[RuleFinding]:
    """Return what is wrong with these lines of a frontmatter."""
    return findings(f"---\n{block}\n---\n\nDo it.\n", folder=folder)


def said(*paths: Path) -> list[tuple[str, int, str]]:
    """Return the name of each file that something is wrong with, line and rule."""
    return [(Path(p.file).name, p.line, p.rule) for p in problems(*paths)]


def problems(*paths: Path) -> tuple[Problem, ...]:
    return validate_paths(*paths).problems
