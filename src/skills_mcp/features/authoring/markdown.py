"""Markdown source: lines, frontmatter, body, links, and unsafe text.

Links come from a Markdown parser: a pattern would match text in code, too, such as
fences within lists, spans of several backticks, and HTML comments.
"""

import posixpath
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from skills_mcp.errors import MissingFileError
from skills_mcp.features.authoring.rules import RuleFinding
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import can_find
from skills_mcp.skills.inheritance import find_header_lookalikes, find_open_end
from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from skills_mcp.skills.skill_files import HOST_PATH, PLUGIN_ROOT
from skills_mcp.skills.source_layout import PLUGIN_MANIFEST, SKILLS_FOLDER
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings
from skills_mcp.text.secret_detection import FoundSecret, find_secrets
from skills_mcp.text.unicode import PRIVATE, SELECTORS, TAGS, find_hidden_characters

if TYPE_CHECKING:
    from yaml import MappingNode, Node


FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
"""Matches a frontmatter at the start of a text with LF line ends."""


def compose_fields(block: str) -> "MappingNode | None":
    """Parse a block-style frontmatter into nodes with source positions.

    None for anything but a block mapping, and for YAML the limits refuse.
    """
    import yaml

    try:
        parse_yaml_strings(block)  # refuses what would take long
        root = yaml.compose(block, Loader=yaml.SafeLoader)
    except (YamlError, yaml.YAMLError):
        return None
    return root if is_block_value(root) and isinstance(root, yaml.MappingNode) else None


def is_block_value(node: "Node | None") -> bool:
    """Whether a value is a block collection, on lines of its own."""
    from yaml import CollectionNode

    is_block = isinstance(node, CollectionNode) and not node.flow_style
    return is_block and bool(node and node.value)


def find_end(node: "Node") -> int:
    """End offset of a value; a block's own end mark is after its blank lines."""
    if not is_block_value(node):
        return int(node.end_mark.index)
    last = node.value[-1]
    return find_end(last[1] if isinstance(last, tuple) else last)


def dump_scalar(text: str) -> str:
    import yaml

    dumped: str = yaml.safe_dump(text, width=10**6, allow_unicode=True)
    return dumped.removesuffix("...\n").strip()


def dump_fields(fields: Mapping[str, object], *, is_block: bool) -> str:
    """A frontmatter; without `is_block`, a list of texts stands on one line."""
    import yaml

    style = False if is_block else None
    return yaml.safe_dump(
        dict(fields), allow_unicode=True, default_flow_style=style, sort_keys=False, width=10_000
    )


_MARKDOWN = ".md"


@dataclass(frozen=True, slots=True)
class Markdown:
    """A Markdown file, split at its frontmatter."""

    text: str
    frontmatter: str
    body: str
    first_line: int

    def line(self, *keys: str) -> int:
        """Line of the first of these keys in the frontmatter, from 1."""
        last = self.first_line - 1
        lines = self.text.split("\n", last)[:last]
        numbers = {line.partition(":")[0]: n for n, line in enumerate(lines, 1)}
        return next((numbers[key] for key in keys if key in numbers), 1)


def read_bytes(root: Path, file: str) -> bytes | None:
    """Read a file below `root`; None if too large or unreadable."""
    try:
        with open_inside(root, tuple(file.split("/"))) as handle:
            raw = handle.read(MAX_SKILL_BYTES + 1)
    except (OSError, MissingFileError):
        return None
    return raw if len(raw) <= MAX_SKILL_BYTES else None


def read_text(root: Path, file: str) -> str | None:
    """Read a text file below `root`; None if binary, too large or unreadable.

    The suffix does not matter: an SVG image is text for a model.
    """
    raw = read_bytes(root, file)
    if raw is None or (b"\0" in raw and not file.endswith(_MARKDOWN)):
        return None
    if file.endswith(_MARKDOWN):
        return parse_markdown(raw).text
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def parse_markdown(raw: bytes) -> Markdown:
    r"""Split a file at its frontmatter, if any.

    >>> parse_markdown(b"---\nname: a\n---\nRules.").first_line
    4
    """
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n")
    found = FRONTMATTER.match(text)
    end = found.end() if found else 0
    block = found[1] if found else ""
    return Markdown(text, block, text[end:], 1 + text.count("\n", 0, end))


MAX_CHARACTERS = 256 * 1024
"""Above nearly all real texts; the parser is quadratic in the worst case."""

MAX_BRACKETS = 5_000
"""Twenty times any known text; the parser allocates some objects per bracket."""

MAX_LINK_FINDINGS = 100
"""Per text: more broken links have one cause."""

_BREAKS = frozenset({"softbreak", "hardbreak"})
_NOT_LOCAL = re.compile(r"[a-z][a-z0-9+.-]+:|//|#|\?|$", re.IGNORECASE)
# A link that does not lead to another site at first sight, or a definition of one.
_MAY_BE_LOCAL = re.compile(r"\](?::|\(\s*+<?+(?![a-z][a-z0-9+.-]+:|//|#|\?))", re.IGNORECASE)
_ABSOLUTE = re.compile(r"/(?!/)|~/|[a-z]:[\\/]", re.IGNORECASE)
_MAX_PLUGIN_DEPTH = 8  # folders between a plugin and a package; two are usual
_PLACEHOLDER = re.compile(r"[<>{}$*|]|\.\.\.|…")


class Link(NamedTuple):
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class LinkContext:
    """Base folders and limits for the links of a file."""

    home: Path
    """Root of the content; nothing outside is read."""
    package: str
    """Folder of the package; a link out of it breaks in a separate installation."""
    bases: tuple[str, ...]
    """Possible base folders of a link, relative to `home`."""
    files: Collection[str] = ()


class _Parser(MarkdownIt):
    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the parser's own name
        return url


def find_links(markdown: Markdown) -> Iterator[Link]:
    """Find links and images in a body, except in code."""
    text = markdown.body
    if "](" not in text and "]:" not in text:
        return
    for token in _parser().parse(text):
        if token.type == "inline" and token.map:
            yield from _inline(token.children or [], markdown.first_line + token.map[0])


def check_links(markdown: Markdown, context: LinkContext) -> Iterator[RuleFinding]:
    """Check links to files, and files of variables.  Tests for their existence."""
    text = markdown.body
    if len(text) > MAX_CHARACTERS:
        return
    yield from islice(_check_variables(markdown, context), MAX_LINK_FINDINGS)
    yield from islice(_check_links(markdown, context), MAX_LINK_FINDINGS)


def _check_variables(markdown: Markdown, context: LinkContext) -> Iterator[RuleFinding]:
    """Check the files that a text names with the variables of Claude Code."""
    named = {found[0]: found for found in HOST_PATH.finditer(markdown.body)}
    for quoted, found in named.items():
        line = markdown.first_line + markdown.body.count("\n", 0, found.start())
        folder = context.home / context.package
        is_plugin = found["variable"] == PLUGIN_ROOT
        top = _find_plugin(folder) if is_plugin else folder
        path = posixpath.normpath(f"{top}/{found['path'].rstrip('.')}")
        if not can_find(Path(path)):
            reason = f"names {abbreviate_value(quoted)}, which does not exist"
            hint = "correct the path, or add the file"
            yield RuleFinding("link-broken", reason, hint, line)
        elif not f"{path}/".startswith(f"{folder}/"):
            reason = f"names {abbreviate_value(quoted)}, a file outside of the package"
            hint = "copy the file into the package: without the plugin it is not there"
            yield RuleFinding("link-outside", reason, hint, line)


def _find_plugin(folder: Path) -> Path:
    """Find the plugin of a package: the folder with the manifest, or above `skills`."""
    above = tuple(islice(folder.parents, _MAX_PLUGIN_DEPTH))
    declared = (each for each in above if can_find(each / PLUGIN_MANIFEST))
    usual = (each.parent for each in above if each.name == SKILLS_FOLDER)
    return next(chain(declared, usual), folder)


def find_relative_links(markdown: Markdown) -> Iterator[Link]:
    """Find links and images of the same site, also with an absolute path.

    None in a text that is too long to parse.
    """
    text = markdown.body
    is_short = len(text) <= MAX_CHARACTERS and text.count("[") <= MAX_BRACKETS
    if not is_short or not _MAY_BE_LOCAL.search(text):
        return  # most texts: to parse them takes longest of all
    for link in find_links(markdown):
        if not _NOT_LOCAL.match(link.target) and not _PLACEHOLDER.search(link.target):
            yield link


def _check_links(markdown: Markdown, context: LinkContext) -> Iterator[RuleFinding]:
    for target, line in find_relative_links(markdown):
        yield from _check_link(target, line, context)


@cache
def _parser() -> _Parser:
    parser = _Parser("commonmark")
    parser.disable(["emphasis", "entity"])  # a third of the time, and no link
    return parser


def _inline(tokens: list[Token], line: int) -> Iterator[Link]:
    for token in tokens:
        if token.type in _BREAKS:
            line += 1
        target = token.attrGet("href") or token.attrGet("src")
        if target is not None:
            yield Link(str(target), line)


def _check_link(target: str, line: int, context: LinkContext) -> Iterator[RuleFinding]:
    quoted = abbreviate_value(target)
    if _ABSOLUTE.match(target):
        reason = f"links to {quoted}, an absolute path"
        hint = "write a path relative to the file, or a whole URL"
        yield RuleFinding("link-absolute", reason, hint, line)
        return
    path = unquote(re.split("[#?]", target, maxsplit=1)[0])
    candidates = [posixpath.normpath(f"{base}/{path}") for base in context.bases]
    existing = [p for p in candidates if _is_outside(p, "") or can_find(context.home / p)]
    if any(not _is_outside(candidate, context.package) for candidate in existing):
        return
    if existing:
        reason = f"links to {quoted}, which is outside of the package"
        hint = "copy the file into the package, which may be installed alone"
        yield RuleFinding("link-outside", reason, hint, line)
        return
    reason = f"links to {quoted}, which does not exist"
    yield RuleFinding("link-broken", reason, _suggest_target(path, candidates, context), line)


def _is_outside(path: str, package: str) -> bool:
    if path == ".." or path.startswith(("../", "/")):
        return True
    return bool(package) and not f"{path}/".startswith(f"{package}/")


def _suggest_target(path: str, candidates: Sequence[str], context: LinkContext) -> str:
    name = posixpath.basename(path.rstrip("/"))
    guess = next((f for f in context.files if posixpath.basename(f) == name), None)
    if any(can_find(context.home / f"{candidate}.md") for candidate in candidates):
        guess = f"{path.rstrip('/')}.md"
    if guess:
        return f"did you mean {guess}?"
    return "correct the path, add the file, or delete the link"


ALLOW_SECRET = "skills-mcp:allow-secret"  # noqa: S105 - marks a line as reviewed
"""Suppression comment for a false positive, on the line of the finding."""

MAX_TEXT_FINDINGS = 20
"""Per rule and text: more are not fixed one by one."""

# A tab, a line end and a form feed, as old licences have it, do no harm.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")

_CONTROL_NAMES = {
    "\x00": "NUL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\r": "CARRIAGE RETURN alone",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
}

_LOOKALIKES = "асеорухіѕјһԁԛԝАВЕКМНОРСТХІЅЈοΟ"  # noqa: RUF001 - they look like Latin
_MIXED = re.compile(
    rf"(?<!\w)(?:[A-Za-z]+[{_LOOKALIKES}]|[{_LOOKALIKES}]+[A-Za-z])[A-Za-z{_LOOKALIKES}]*(?!\w)"
)
_OTHER_SCRIPT = re.compile(rf"(?![{_LOOKALIKES}])[\u0370-\u03ff\u0400-\u052f]")


def check_text(text: str) -> Iterator[RuleFinding]:
    yield from islice(report_hidden_characters(text), MAX_TEXT_FINDINGS)
    yield from islice(find_mixed_words(text), MAX_TEXT_FINDINGS)
    yield from report_control_characters(text)
    yield from islice(_find_secrets(text), MAX_TEXT_FINDINGS)


DRAFT_LINE = "Write here what an agent has to do, one rule per line."
"""Text of a new skill, for its author to replace."""


def check_body(body: str, first_line: int) -> Iterator[RuleFinding]:
    """Check for what would change the other parts of a composed text, and for a draft."""
    before, is_draft, _ = body.partition(DRAFT_LINE)
    if is_draft:
        reason = "still has the line that skills-mcp new has written"
        hint = "write what an agent has to do in its place"
        yield RuleFinding("draft-line", reason, hint, first_line + before.count("\n"))
    if end := find_open_end(body):
        reason = "has a code block or a comment that is never closed"
        last = first_line + body.rstrip("\n").count("\n")
        yield RuleFinding("block-open", reason, f"close it with a line of {end}", last)
    for number, _ in islice(find_header_lookalikes(body), MAX_TEXT_FINDINGS):
        reason = "has a line that looks like the header of another skill's rules"
        hint = "write it without ===: it is served with a backslash in front"
        yield RuleFinding("section-header", reason, hint, first_line + number - 1)


def report_control_characters(text: str) -> Iterator[RuleFinding]:
    """Find terminal control characters and hidden line ends."""
    offsets: dict[str, list[int]] = defaultdict(list)
    for found in _CONTROLS.finditer(text):
        offsets[found[0]].append(found.start())
    for character, positions in islice(offsets.items(), MAX_TEXT_FINDINGS):
        count = len(positions)
        noun = "a control character" if count == 1 else f"{count} control characters"
        name = _CONTROL_NAMES.get(character) or unicodedata.name(character, "")
        reason = f"has {noun}: U+{ord(character):04X} {name}".rstrip()
        line = 1 + text.count("\n", 0, positions[0])
        hint = "take it out, or write it as an escape such as \\x1b"
        yield RuleFinding("control-characters", reason, hint, line)


def without_control_characters(text: str) -> str:
    r"""Strip control characters; a carriage return ends a line.

    >>> without_control_characters("one\rtwo\x1b[0m")
    'one\ntwo[0m'
    """
    return _CONTROLS.sub(lambda found: "\n" if found[0] == "\r" else "", text)


def _find_secrets(text: str) -> Iterator[RuleFinding]:
    allowed = _find_allowed(text)
    line, counted = 1, 0
    for found in find_secrets(text):
        line += text.count("\n", counted, found.start)
        counted = found.start
        if line not in allowed:
            reason = f"has what looks like a secret: {_describe_secret(found)}"
            hint = (
                "revoke it and take it out, write <token> in an example, or put "
                f"{ALLOW_SECRET} on its line"
            )
            yield RuleFinding("secret", reason, hint, line)


def _find_allowed(text: str) -> frozenset[int]:
    if ALLOW_SECRET not in text:
        return frozenset()
    lines = enumerate(StringIO(text, newline="\n"), 1)
    return frozenset(number for number, line in lines if ALLOW_SECRET in line)


def _describe_secret(found: FoundSecret) -> str:
    return f"{found.kind} {found.beginning}…" if found.beginning else found.kind


def report_hidden_characters(text: str) -> Iterator[RuleFinding]:
    """Find hidden characters, with the line of the first one."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for offset in find_hidden_characters(text):
        group = _group_character(text[offset])
        counts[group] += 1
        first.setdefault(group, offset)
    for group, offset in first.items():
        count = counts[group]
        name = _name_character(text[offset])
        noun = "a hidden character" if count == 1 else f"{count} hidden characters"
        line = 1 + text.count("\n", 0, offset)
        hint = "take it out, or write it as an escape such as \\u200b"
        yield RuleFinding("hidden-character", f"has {noun}: {name}", hint, line)


def find_mixed_words(text: str) -> Iterator[RuleFinding]:
    """Find Latin words with look-alike letters of other scripts."""
    if text.isascii():
        return
    for number, line in enumerate(StringIO(text, newline="\n"), 1):
        # In a text of another script, a word may as well be one of that script.
        if line.isascii() or _OTHER_SCRIPT.search(line):
            continue
        for found in _MIXED.finditer(line):
            other = next(c for c in found[0] if c in _LOOKALIKES)
            name = f"U+{ord(other):04X} {unicodedata.name(other)}"
            hint = "write the word with the letters of one script"
            reason = f"has {abbreviate_value(found[0])}, which is spelt with {name}"
            yield RuleFinding("mixed-letters", reason, hint, number)


@lru_cache(1024)
def _group_character(character: str) -> str:
    """One key for all characters of a hidden text."""
    code = ord(character)
    if code in TAGS:
        return "tags"
    if any(code in part for part in PRIVATE):
        return "private use"
    return "selectors" if any(code in part for part in SELECTORS) else character


def _name_character(character: str) -> str:
    if ord(character) in TAGS:
        return "U+E0000 to U+E007F, tags that spell a text"
    is_private = unicodedata.category(character) == "Co"
    name = "of private use" if is_private else unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".rstrip()
