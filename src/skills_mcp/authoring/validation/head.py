"""The frontmatter of a package, as strictly as the Agent Skills standard reads it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skills_mcp.authoring.validation.markdown import Markdown
from skills_mcp.authoring.validation.rules import LEVELS, Finding
from skills_mcp.skills.document import decode, parse_document
from skills_mcp.skills.problems import Report
from skills_mcp.text.safe_yaml import YamlError, parse_values

_RULER = "---"
_FRONTMATTER = "frontmatter"
_BOM = "\ufeff"
_EXAMPLE = "begin the file with --- / name: … / description: … / ---"


@dataclass(frozen=True, slots=True)
class Head:
    """What a frontmatter says, as far as it can be understood."""

    texts: Mapping[str, Any]
    """Every scalar is the text that was written."""
    values: Mapping[str, Any]
    """With YAML's types; the same as `texts` where YAML cannot be read."""
    lines: Mapping[str, int]
    """Where the keys of the outermost mapping stand, from 1."""
    source: tuple[str, ...]
    """The lines of the file."""

    def line(self, key: str, inner: str = "") -> int:
        """Return the line of a key, or of one in the mapping below it."""
        line = self.lines.get(key, 1)
        if not inner:
            return line
        wanted = re.compile(rf"\s+[\"']?{re.escape(inner)}[\"']?\s*:")
        below = enumerate(self.source[line:], line + 1)
        return next((n for n, text in below if wanted.match(text)), line)


@dataclass(frozen=True, slots=True)
class Reading:
    """A `SKILL.md` taken apart, and where that was hard."""

    findings: tuple[Finding, ...]
    head: Head | None = None
    body: str | None = None


def parse_strictly(raw: bytes, markdown: Markdown) -> Reading:
    """Take a `SKILL.md` apart; what only a lenient reader gets over is a finding.

    Its fields and its body are there as far as the lenient reader has them, so that
    an author sees at once what else is wrong.

    Args:
        raw: The whole file.
        markdown: The same.
    """
    report = Report("")
    text = decode(raw, report, lenient=False)
    if text is None:
        return Reading(tuple(_strict(report)))
    document = parse_document(text, report, lenient=False)
    findings = tuple(_strict(report))
    if document is None:
        report = Report("")
        document = parse_document(text, report, lenient=True)
    if document is None:
        return Reading(findings)
    others = (found for found in findings if found.rule != _FRONTMATTER)
    findings = (*_beginning(text), *others)  # it has one, if not at its beginning
    texts = document.fields
    typed = _typed(markdown.head)
    values = {key: typed.get(key, text) for key, text in texts.items()}
    lines = tuple(markdown.text.split("\n"))
    return Reading(findings, Head(texts, values, report.lines, lines), document.body)


def _strict(report: Report) -> Iterator[Finding]:
    """Iterate over what makes a file break the standard."""
    for problem in report.problems:
        if problem.rule in LEVELS:
            hint = _EXAMPLE if "keywords" in problem.hint else problem.hint
            yield Finding(problem.rule, problem.reason, hint, problem.line)


def _beginning(text: str) -> Iterator[Finding]:
    """Check that a frontmatter begins with the first byte of its file."""
    rest = text.removeprefix(_BOM)
    if rest != text:
        reason = "begins with a byte order mark, which hides its frontmatter"
        yield Finding(_FRONTMATTER, reason, "save it as UTF-8 without BOM")
    first, _, _ = rest.partition("\n")
    if first.rstrip() != _RULER:
        reason = "does not begin with a line of ---, which hides its frontmatter"
        yield Finding(_FRONTMATTER, reason, "take away what stands in front of it")


def _typed(block: str) -> Mapping[str, Any]:
    """Return the fields with YAML's types, as far as YAML can be read."""
    try:
        values = parse_values(block)
    except YamlError:  # a date that never was is one, too
        return {}
    is_map = isinstance(values, dict)
    return {str(key): value for key, value in values.items()} if is_map else {}
