"""Conformance of a package with the Agent Skills standard."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Any

from skills_mcp.features.authoring.markdown import Markdown
from skills_mcp.features.authoring.rules import RULE_LEVELS, RuleFinding, enumerate_shortly
from skills_mcp.library.skill_folder import CLAUDE_KEYS
from skills_mcp.skills.document import (
    decode_markdown,
    get_mapping,
    get_text,
    get_words,
    parse_document,
)
from skills_mcp.skills.model import ProblemList
from skills_mcp.skills.skill_parser import SKILL_MD
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.safe_yaml import YamlError, parse_yaml
from skills_mcp.text.unicode import normalize_unicode

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


MAX_LINES = 500  # of a body; the standard recommends it
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")

_MAX_EXAMPLE_WORDS = 3  # words of a list, as an example
_MAX_EXAMPLE_CHARACTERS = 200

_FOREIGN = re.compile("[^a-z0-9-]")
_SEPARATORS = re.compile("[^a-z0-9]+")

SERVER_KEYS = frozenset(
    {"keywords", "tags", "category", "inherit", "priority", "entry"} | {"alwaysApply"}
)
"""Keys of this server, with the same meaning below `metadata`."""

# Tools may have patterns with commas of their own: Bash(git add:*, git commit:*)
_TOOL = re.compile(r"(?:[^\s,(]|\([^)]*\))+")
_PATTERN = re.compile(r"\([^)]*\)")

_METADATA = "metadata"
_EXTENSION = "skillhub"

_EXAMPLES = "examples"
_ONE_ON_EACH_LINE = "examples: | and each task on a line of its own"

_KINDS: tuple[tuple[type, str], ...] = (
    (str, ""),
    (bool, "true or false"),  # before int, which it is, too
    (int, "a number"),
    (float, "a number"),
    (date, "a date"),
    (list, "a list"),
    (dict, "a map"),
)


def check_package(reading: ParsedPackage, main: str, folder: str | None) -> Iterator[RuleFinding]:
    """Check a package against the Agent Skills specification.

    `folder` is None if the author does not choose its name, as for a repository root.
    """
    if main != SKILL_MD:
        reason = f"is called {main}, which some programs do not look for"
        yield RuleFinding("main-file", reason, f"rename it to {SKILL_MD}")
    yield from reading.findings
    if reading.frontmatter is not None:
        yield from _check_name(reading.frontmatter, folder)
        yield from _check_fields(reading.frontmatter)
    if reading.body is not None:
        yield from _check_body(reading.body)


def _check_body(body: str) -> Iterator[RuleFinding]:
    if not body:
        hint = "write below the frontmatter what the agent should do"
        yield RuleFinding("body-empty", "has nothing below its frontmatter", hint)
    lines = body.count("\n") + 1
    if lines > MAX_LINES:
        reason = f"has a body of {lines:,} lines, and agents read all of them"
        hint = f"keep it below {MAX_LINES}: link to files such as references/details.md"
        yield RuleFinding("body-length", reason, hint)


def _check_name(frontmatter: ParsedFrontmatter, folder: str | None) -> Iterator[RuleFinding]:
    line = frontmatter.line("name")
    name = normalize_unicode("NFKC", get_text(frontmatter.texts, "name"))
    suggestion = derive_name(name or folder or "")
    if not name:
        kind = _name_kind(frontmatter.values.get("name"))
        is_other = kind not in {"", "empty"}
        reason = f"has a name that is {kind}, not a text" if is_other else "has no name"
        yield RuleFinding("name", reason, f"add name: {suggestion or '…'}", line)
        return
    if kind := _name_kind(frontmatter.values.get("name")):
        hint = _write_as_text("name", frontmatter.values["name"], name)
        yield RuleFinding("name", f"has a name that is {kind}, not a text", hint, line)
    folder = folder and normalize_unicode("NFKC", folder)
    misspelt = tuple(_check_spelling(name, _advise_on_name(suggestion, folder), line))
    yield from misspelt
    if folder and not misspelt:  # else the hint names the folder already
        yield from _compare_with_folder(name, folder, line)


def derive_name(text: str) -> str:
    """Nearest legal name; may be empty.

    >>> derive_name("Créer des PDF_Files")
    'creer-des-pdf-files'
    """
    plain = normalize_unicode("NFKD", text).encode("ascii", "ignore").decode()
    return _SEPARATORS.sub("-", plain.lower()).strip("-")[:MAX_NAME].rstrip("-")


def _check_spelling(name: str, hint: str, line: int) -> Iterator[RuleFinding]:
    if len(name) > MAX_NAME:
        reason = f"has a name of {len(name)} characters; {MAX_NAME} are allowed"
        yield RuleFinding("name-length", reason, hint, line)
    if foreign := dict.fromkeys(_FOREIGN.findall(name)):
        quoted = enumerate_shortly(foreign)
        reason = f"has a name with characters other than a-z, 0-9 and hyphens: {quoted}"
        yield RuleFinding("name-characters", reason, hint, line)
    if name != name.strip("-") or "--" in name:
        reason = "has a name with a hyphen at an end, or two in a row"
        yield RuleFinding("name-hyphens", reason, hint, line)


def _advise_on_name(suggestion: str, folder: str | None) -> str:
    if folder and folder == derive_name(folder):
        return f"write name: {folder}, the name of its folder"
    if not suggestion:
        return "write the name in Latin letters, such as name: review-code"
    also = ", and give its folder the same name" if folder else ""
    return f"write name: {suggestion}{also}"


def _compare_with_folder(name: str, folder: str, line: int) -> Iterator[RuleFinding]:
    if name == folder:
        return
    reason = f"has the name {name!r}, but its folder is called {folder!r}"
    hint = f"rename the folder to {derive_name(name) or '…'}"
    if folder == derive_name(folder):
        hint = f"write name: {folder}, or {hint}"
    yield RuleFinding("name-is-folder", reason, hint, line)


def _check_fields(frontmatter: ParsedFrontmatter) -> Iterator[RuleFinding]:
    yield from _check_description(frontmatter)
    yield from _check_texts(frontmatter)
    yield from _check_allowed_tools(frontmatter)
    yield from _check_metadata(frontmatter)
    yield from _check_keys(frontmatter)


def _check_description(frontmatter: ParsedFrontmatter) -> Iterator[RuleFinding]:
    line = frontmatter.line("description")
    text = get_text(frontmatter.texts, "description")
    if not text and _name_kind(frontmatter.values.get("description")) in {"", "empty"}:
        hint = "write what the skill does and when to use it: description: …"
        yield RuleFinding("description", "has no description", hint, line)
    else:
        yield from _check_kind(frontmatter, "description", "a description")
    length = len(str(frontmatter.texts.get("description", "")).strip())
    if text and length > MAX_DESCRIPTION:
        reason = f"has a description of {length:,} characters; {MAX_DESCRIPTION:,} are allowed"
        hint = "keep what it does and when to use it, and move the rest into the body"
        yield RuleFinding("description-length", reason, hint, line)


def _check_texts(frontmatter: ParsedFrontmatter) -> Iterator[RuleFinding]:
    for key in ("license", "compatibility"):
        if key in frontmatter.values:
            yield from _check_kind(frontmatter, key, key)
    text = frontmatter.values.get("compatibility")
    if isinstance(text, str) and not 1 <= len(text.strip()) <= MAX_COMPATIBILITY:
        allowed = f"1 to {MAX_COMPATIBILITY} are allowed"
        reason = f"has compatibility of {len(text.strip()):,} characters; {allowed}"
        hint = "say in one sentence what the skill needs, or delete the field"
        yield RuleFinding("compatibility", reason, hint, frontmatter.line("compatibility"))


def _check_kind(frontmatter: ParsedFrontmatter, key: str, noun: str) -> Iterator[RuleFinding]:
    value = frontmatter.values.get(key)
    if kind := _name_kind(value):
        hint = _write_as_text(key, value, frontmatter.texts[key])
        reason = f"has {noun} that is {kind}, not a text"
        yield RuleFinding(key, reason, hint, frontmatter.line(key))


def _check_allowed_tools(frontmatter: ParsedFrontmatter) -> Iterator[RuleFinding]:
    key = "allowed-tools"
    if key not in frontmatter.values:
        return
    value, written = frontmatter.values[key], frontmatter.texts[key]
    kind = _name_kind(value)
    if kind:
        hint = _write_as_text(key, value, written, separator=" ")
        reason = f"has {key} as {kind}, not as one text"
        yield RuleFinding(key, reason, hint, frontmatter.line(key))
    elif "," in _PATTERN.sub("", written):
        hint = f"separate them by spaces: {key}: {' '.join(split_tools(written))}"
        reason = f"has {key} that are separated by commas"
        yield RuleFinding(key, reason, hint, frontmatter.line(key))


def split_tools(text: str) -> list[str]:
    """Split a list of tools at spaces or commas.

    >>> split_tools("Read, Bash(git add:*, git commit:*)")
    ['Read', 'Bash(git add:*, git commit:*)']
    """
    return _TOOL.findall(text)


def _check_keys(frontmatter: ParsedFrontmatter) -> Iterator[RuleFinding]:
    for key in frontmatter.texts:
        if key not in FIELDS:
            reason = f"has the key {key!r}, which the standard does not define"
            hint = _advise_on_key(frontmatter, key)
            yield RuleFinding("unknown-key", reason, hint, frontmatter.line(key))


def _advise_on_key(frontmatter: ParsedFrontmatter, key: str) -> str:
    guess = get_close_matches(key, FIELDS, n=1, cutoff=0.8)
    if guess:
        return f"did you mean {guess[0]}?"
    if key in CLAUDE_KEYS:
        return "keep it only if all users of the skill use Claude Code, which reads it"
    moved = f"move it below metadata: {_as_metadata(frontmatter, key)}"
    if key == "triggers":
        return f"move them below metadata: {_as_metadata(frontmatter, key, 'keywords')}"
    if key == _EXAMPLES:
        return f"move them below metadata: {_ONE_ON_EACH_LINE}"
    if key in SERVER_KEYS:
        return f"{moved}; it means the same there"
    return f"{moved}; allowed at the top are {', '.join(FIELDS)}"


def _as_metadata(frontmatter: ParsedFrontmatter, key: str, name: str = "") -> str:
    """Example of a value as text, the only type in `metadata`."""
    name = name or key
    value = frontmatter.values.get(key)
    words = get_words(frontmatter.texts, key)
    if isinstance(value, list) and words:
        more = ", …" if len(words) > _MAX_EXAMPLE_WORDS else ""
        return f"{name}: {', '.join(words[:_MAX_EXAMPLE_WORDS])}{more}"
    if value is None or isinstance(value, str | list | dict):
        return f"{name}: …"
    return f'{name}: "{frontmatter.texts[key]}"'


def _check_metadata(frontmatter: ParsedFrontmatter) -> Iterator[RuleFinding]:
    if _METADATA not in frontmatter.values:
        return
    values = frontmatter.values[_METADATA]
    if not isinstance(values, dict):
        kind = _name_kind(values) or "a text"
        reason = f"has {_METADATA} that is {kind}, not a map"
        hint = f"write {_METADATA}: and below it author: …, or delete it"
        yield RuleFinding("metadata", reason, hint, frontmatter.line(_METADATA))
        return
    written = get_mapping(frontmatter.texts, _METADATA)
    for name, value in values.items():
        key = str(name)
        if key == _EXTENSION and isinstance(value, dict):
            yield _report_extension(frontmatter)
        elif kind := _name_kind(value):
            reason = f"has {_METADATA}.{key}, which is {kind}; the standard allows only texts"
            hint = _advise_on_metadata(key, value, written)
            yield RuleFinding("metadata-value", reason, hint, frontmatter.line(_METADATA, key))


def _report_extension(frontmatter: ParsedFrontmatter) -> RuleFinding:
    """Finding for the SkillHub map: this server reads it, other programs refuse it."""
    reason = f"has {_METADATA}.{_EXTENSION}, a map that only some programs read"
    hint = f"write texts right below {_METADATA}: category: … and tags: one, two"
    return RuleFinding("metadata-skillhub", reason, hint, frontmatter.line(_METADATA, _EXTENSION))


def _advise_on_metadata(key: str, value: Any, written: Mapping[str, Any]) -> str:
    if key == "triggers" and (words := get_words(get_mapping(written, key), "keywords")):
        return f"write one text: keywords: {', '.join(words[:3])}, …"
    if key == _EXAMPLES and isinstance(value, list):
        return f"write one text: {_ONE_ON_EACH_LINE}"
    return _write_as_text(key, value, written.get(key, ""))


def _name_kind(value: Any) -> str:
    """Type of a value in words; empty for text.

    >>> [_name_kind(value) for value in ("a", True, 1.5, [], None)]
    ['', 'true or false', 'a number', 'a list', 'empty']
    """
    if value is None:
        return "empty"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "no text")


def _write_as_text(key: str, value: Any, written: Any, *, separator: str = ", ") -> str:
    """Hint for the conversion of a value to text; `written` has unparsed scalars."""
    match value:
        case None:
            return f"write a text for {key}, or delete it"
        case list() if isinstance(written, list) and all(isinstance(i, str) for i in written):
            return f"write one text: {key}: {_truncate(separator.join(written))}"
        case list() | dict():
            return f"write one text: {key}: …"
        case _:
            return f'put it in quotation marks: {key}: "{_truncate(str(written))}"'


def _truncate(text: str) -> str:
    plain = text if text.isprintable() else abbreviate_value(text)[1:-1]
    is_long = len(plain) > _MAX_EXAMPLE_CHARACTERS
    return f"{plain[: _MAX_EXAMPLE_CHARACTERS - 1]}…" if is_long else plain
