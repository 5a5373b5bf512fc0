"""A `SKILL.md` taken apart as strictly as the Agent Skills standard asks."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skills_mcp.features.authoring.validation.markdown import Markdown
from skills_mcp.features.authoring.validation.rules import LEVELS, RuleFinding
from skills_mcp.skills.document import decode, parse_document
from skills_mcp.skills.model import ProblemList
from skills_mcp.text.safe_yaml import YamlError, parse_values

_RULER = "---"
_FRONTMATTER = "frontmatter"
_NOT_FOUND = frozenset({_FRONTMATTER, "no-frontmatter"})
_BYTE_ORDER_MARK = "\ufeff"
_EXAMPLE = "begin the file with --- / name: … / description: … / ---"


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The fields of a frontmatter, as far as they can be read."""

    texts: Mapping[str, Any]
    """The fields, with every scalar as the text that was written."""
    values: Mapping[str, Any]
    """The fields with YAML's types; as in `texts` where YAML cannot be read."""
    lines: Mapping[str, int]
    """The lines of the top-level keys, from 1."""
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
class PackageReading:
    """A `SKILL.md` taken apart, and what was wrong with its form."""

    findings: tuple[RuleFinding, ...]
    frontmatter: Frontmatter | None = None
    body: str | None = None


def parse_strictly(raw: bytes, markdown: Markdown) -> PackageReading:
    """Take a `SKILL.md` apart; what the server would have to repair is a finding.

    Fields and body are those that the lenient reader of the server finds, so that an
    author sees at once what else is wrong.

    Args:
        raw: The whole file.
        markdown: The same file, split.
    """
    report = ProblemList("")
    text = decode(raw, report, lenient=False)
    if text is None:
        return PackageReading(tuple(_strict(report)))
    document = parse_document(text, report, lenient=False)
    findings = tuple(_strict(report))
    if document is None:
        report = ProblemList("")
        document = parse_document(text, report, lenient=True)
    if document is None or not document.fields:
        return PackageReading(findings)
    others = (found for found in findings if found.rule not in _NOT_FOUND)
    findings = (*_check_beginning(text), *others)  # a frontmatter was found later on
    texts = document.fields
    typed = _parse_types(markdown.frontmatter)
    values = {key: typed.get(key, text) for key, text in texts.items()}
    lines = tuple(markdown.text.split("\n"))
    return PackageReading(
        findings, Frontmatter(texts, values, report.lines, lines), document.body
    )


def _strict(report: ProblemList) -> Iterator[RuleFinding]:
    """Iterate over the reader's problems that break the standard."""
    for problem in report.problems:
        if problem.rule in LEVELS:
            hint = _EXAMPLE if "keywords" in problem.hint else problem.hint
            yield RuleFinding(problem.rule, problem.reason, hint, problem.line)


def _check_beginning(text: str) -> Iterator[RuleFinding]:
    """Check that the frontmatter begins at the first byte of the file."""
    rest = text.removeprefix(_BYTE_ORDER_MARK)
    if rest != text:
        reason = "begins with a byte order mark, so programs miss its frontmatter"
        yield RuleFinding(_FRONTMATTER, reason, "save it as UTF-8 without BOM")
    first, _, _ = rest.partition("\n")
    if first.rstrip() != _RULER:
        reason = "does not begin with a line of ---, so programs miss its frontmatter"
        yield RuleFinding(_FRONTMATTER, reason, "delete the text before the first ---")


def _parse_types(block: str) -> Mapping[str, Any]:
    """Return the fields with YAML's types; none if YAML cannot be read."""
    try:
        values = parse_values(block)
    except YamlError:  # such as a date that does not exist
        return {}
    is_map = isinstance(values, dict)
    return {str(key): value for key, value in values.items()} if is_map else {}
