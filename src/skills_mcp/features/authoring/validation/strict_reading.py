"""Strict parsing of `SKILL.md`, as in the Agent Skills standard."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skills_mcp.features.authoring.validation.markdown import Markdown
from skills_mcp.features.authoring.validation.rules import RULE_LEVELS, RuleFinding
from skills_mcp.skills.document import decode_markdown, parse_document
from skills_mcp.skills.model import ProblemList
from skills_mcp.text.safe_yaml import YamlError, parse_yaml

_RULER = "---"
_FRONTMATTER = "frontmatter"
_NOT_FOUND = frozenset({_FRONTMATTER, "no-frontmatter"})
_BYTE_ORDER_MARK = "\ufeff"
_EXAMPLE = "begin the file with --- / name: … / description: … / ---"


@dataclass(frozen=True, slots=True)
class ParsedFrontmatter:
    """Parsed frontmatter fields."""

    texts: Mapping[str, Any]
    """The fields with unparsed scalars."""
    values: Mapping[str, Any]
    """The fields with YAML types; as in `texts` if YAML is invalid."""
    lines: Mapping[str, int]
    source: tuple[str, ...]

    def line(self, key: str, inner: str = "") -> int:
        """Line of a key, or of a nested key."""
        line = self.lines.get(key, 1)
        if not inner:
            return line
        pattern = re.compile(rf"\s+[\"']?{re.escape(inner)}[\"']?\s*:")
        below = enumerate(self.source[line:], line + 1)
        return next((n for n, text in below if pattern.match(text)), line)


@dataclass(frozen=True, slots=True)
class ParsedPackage:
    findings: tuple[RuleFinding, ...]
    frontmatter: ParsedFrontmatter | None = None
    body: str | None = None


def parse_strictly(raw: bytes, markdown: Markdown) -> ParsedPackage:
    """Parse a `SKILL.md`; each leniency of the server is a finding.

    Fields and body come from the lenient parser, so other findings show in the same
    run.
    """
    report = ProblemList("")
    text = decode_markdown(raw, report, lenient=False)
    if text is None:
        return ParsedPackage(tuple(_select_findings(report)))
    document = parse_document(text, report, lenient=False)
    findings = tuple(_select_findings(report))
    if document is None:
        report = ProblemList("")
        document = parse_document(text, report, lenient=True)
    if document is None or not document.fields:
        return ParsedPackage(findings)
    others = (found for found in findings if found.rule not in _NOT_FOUND)
    findings = (*_check_beginning(text), *others)  # a frontmatter was found later on
    texts = document.fields
    typed = _parse_types(markdown.frontmatter)
    values = {key: typed.get(key, text) for key, text in texts.items()}
    lines = tuple(markdown.text.split("\n"))
    return ParsedPackage(
        findings, ParsedFrontmatter(texts, values, report.lines, lines), document.body
    )


def _select_findings(report: ProblemList) -> Iterator[RuleFinding]:
    for problem in report.problems:
        if problem.rule in RULE_LEVELS:
            hint = _EXAMPLE if "keywords" in problem.hint else problem.hint
            yield RuleFinding(problem.rule, problem.reason, hint, problem.line)


def _check_beginning(text: str) -> Iterator[RuleFinding]:
    rest = text.removeprefix(_BYTE_ORDER_MARK)
    if rest != text:
        reason = "begins with a byte order mark, so programs miss its frontmatter"
        yield RuleFinding(_FRONTMATTER, reason, "save it as UTF-8 without BOM")
    first, _, _ = rest.partition("\n")
    if first.rstrip() != _RULER:
        reason = "does not begin with a line of ---, so programs miss its frontmatter"
        yield RuleFinding(_FRONTMATTER, reason, "delete the text before the first ---")


def _parse_types(block: str) -> Mapping[str, Any]:
    try:
        values = parse_yaml(block)
    except YamlError:  # such as a date that does not exist
        return {}
    is_map = isinstance(values, dict)
    return {str(key): value for key, value in values.items()} if is_map else {}
