"""Markdown files: decoding, frontmatter and body.

Strict for rule files, which are skipped if broken; lenient for packages, written for
readers of every kind: a broken part is repaired or ignored, and reported. No content of
a file raises.

Every scalar of the frontmatter arrives as text, see `safe_yaml.parse_texts`. A single
wrong value is reported, and its default is used.
"""

import codecs
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, NamedTuple

from skills_mcp.skills.model import ProblemList
from skills_mcp.skills.skill_files import LFS_HINT, is_lfs_pointer
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.safe_yaml import (
    MAX_YAML_CHARACTERS,
    StringDocument,
    YamlError,
    parse_yaml_strings,
)
from skills_mcp.text.unicode import strip_hidden

# What steers a terminal.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")  # but not the indent below them
_INVISIBLE = "\ufeff\u200b"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# Blank lines, a licence in a comment or a title may stand in front.
_LATE_FRONTMATTER = re.compile(r"^---[ \t]*$", re.MULTILINE)
_MAX_PREAMBLE = 2000

# A key at the margin begins a part of the frontmatter that can be read alone.
_KEY = re.compile(r"^([A-Za-z_][\w .-]*):(?:[ \t]+(.*))?$")
_BLOCK_MARK = re.compile(r"^[|>][+-]?\d?[+-]?(?:[ \t]+|$)")

# What is always a text, however much it looks like a list or a mapping.
_DESCRIPTION = "description"
_TEXT_KEYS = frozenset({"name", _DESCRIPTION, "argument-hint"})

# A comment has a blank behind its #; a channel, a tag or an issue has none.
_HASH = re.compile(r"[\s\[,]#[^\s#]")
_COMMENT = re.compile(r"\s#(?:\s.*)?$")
_HASH_ITEM = re.compile(
    r"(?<=[\[, ])#[^\s#,\]\"'][^,\]\"']*|(?<=[\[,])[^\[\],\"'#]*\s#[^\s#][^,\]\"']*"
)
_MEMBER = re.compile(r"(?P<head>[ \t]*(?:- +)?(?P<key>[A-Za-z_][\w-]*):(?:[ \t]+|$))(?P<value>.*)$")
_LOOSE_KEY = re.compile(r"^([A-Za-z_][\w-]*)(?:[ \t]*\uff1a[ \t]*|:(?=[^\s:/]))")
_LIST_ITEM = re.compile(r"(?P<head>[ \t]*-[ \t]+)(?P<value>[^\s\"'|>\[{&*!].*)$")
_INDENTED_HEAD = re.compile(
    r"(?:[ \t]*\n)*(?P<indent>[ \t]+)---[ \t]*\n"
    r"(?:(?P=indent)[^\n]*\n|\n)*?(?P=indent)---[ \t]*(?=\n|\Z)"
)
_FENCED_HEAD = re.compile(
    r"\A\s*(?P<fence>`{3,}|~{3,})[ \t]*ya?ml[ \t]*\n"
    r"(?P<block>(?:(?!---|(?P=fence)).*\n)+)(?P=fence)[ \t]*(?:\n|\Z)"
)
_FENCED_KEY = re.compile(r"(?m)^([A-Za-z]+)[ \t]*[:\uff1a]")
_PROSE_KEYS = frozenset(
    {*_TEXT_KEYS, "keywords", "tags", "triggers", "examples", "query", "prompt", "category"}
    | {"owner", "author", "title", "when_to_use", "argument-hint"}
)
_MAX_OWNER = 100  # characters: a person, a team or an address

_MAX_LEVELS = 4  # `metadata: triggers: keywords:` are three

_EXAMPLE = "start the file with --- / description: … / keywords: [one, two] / ---"
_PACKAGE_EXAMPLE = "start the file with --- / name: … / description: … / ---"
_QUOTE = "quote values that hold a colon or begin with a special character"


class Document(NamedTuple):
    """A parsed Markdown file."""

    fields: Mapping[str, Any]
    """The frontmatter; every scalar is the text as written."""
    body: str


def decode_markdown(raw: bytes, report: ProblemList, *, lenient: bool) -> str | None:
    """Decode the bytes of a file; None if it is no text."""
    if is_lfs_pointer(raw):
        reason = "is only a pointer: its content is in Git LFS, which is not fetched"
        report.fail("frontmatter", reason, LFS_HINT)
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text (byte {error.start})"
    text = _guess_encoding(raw) if lenient else None
    if text is None:
        report.fail("encoding", reason, "save the file as UTF-8")
    else:
        report.warn("encoding", f"{reason}, so it was guessed", "save it as UTF-8")
    return text


def parse_document(text: str, report: ProblemList, *, lenient: bool) -> Document | None:
    """Parse a file; None with a reported reason if it is broken.

    Hidden characters are removed from both parts, and reported.
    """
    document = _parse_parts(text, report, lenient=lenient)
    if document is None:
        return None
    fields: dict[str, Any] = _map_texts(document.fields, strip_hidden)
    cleaned = Document(fields, strip_hidden(document.body))
    if cleaned != document:
        key = next((k for k in fields if fields[k] != document.fields[k]), "")
        reason = "has hidden characters, which are left out"
        report.warn("hidden-character", reason, "take them out", key=key)
    return cleaned


def _parse_parts(text: str, report: ProblemList, *, lenient: bool) -> Document | None:
    normalized = text.lstrip(_INVISIBLE).replace("\r\n", "\n").replace("\r", "\n")
    opened = _dedent_head(normalized, report)
    opened = _open_fence(opened, report) if lenient else opened
    preamble, text = _skip_preamble(opened.lstrip(), lenient=lenient)
    splitter = _splitter()
    if not splitter.detect(text):
        reason = "has no frontmatter"
        return _without_fields("no-frontmatter", normalized, reason, report, lenient=lenient)
    try:
        block, body = splitter.split(text)
    except ValueError:
        reason = "has a frontmatter that never ends"
        report.fail("frontmatter", reason, "close it with a line of ---")
        return None
    # As many empty lines as stand in front, so that YAML counts the file's lines.
    above = opened.count("\n", 0, len(opened) - len(text) + text.find(block, 3))
    block = "\n" * above + block
    normal = _normalize_block(block)
    texts = _parse_block(normal, report, lenient=lenient)
    if texts is None:
        return None
    texts = _fold_keys(texts)
    if not isinstance(texts.value, dict) or not texts.value:
        reason = "has a frontmatter without `key: value` lines"
        return _without_fields("frontmatter", body, reason, report, lenient=lenient)
    report.lines = {key: 1 + line for key, line in texts.lines.items()}
    _report_spellings(block, normal, texts, report)
    if preamble.strip():
        reason = "has text in front of its frontmatter"
        report.warn("frontmatter", reason, "begin the file with ---")
    fields = _clean_fields(texts, report)
    parts = filter(None, (preamble.strip(), _BLANK_LINES.sub("", body).rstrip()))
    return Document(fields, "\n\n".join(parts))


def _normalize_block(block: str) -> str:
    """Write spellings of a key as YAML has it, and quote `#word` in prose.

    YAML would begin a comment there. The number of lines stays.
    """
    lines = [_LOOSE_KEY.sub(_spell_key, line) for line in block.split("\n")]
    if not _HASH.search(block):
        return "\n".join(lines)
    numbers = tuple(_find_members(lines))
    for begin, end in pairwise((*numbers, len(lines))):
        found = _MEMBER.match(lines[begin])
        if found and found["key"].casefold() in _PROSE_KEYS:
            lines[begin:end] = _quote_part(found, lines[begin:end])
    return "\n".join(lines)


def _spell_key(found: re.Match[str]) -> str:
    return f"{found[1]}: " if found[1].casefold() in _PROSE_KEYS else found[0]


def _find_members(lines: Sequence[str]) -> Iterator[int]:
    """Find the lines that begin a key, not those within a block or a quoted text."""
    inside = -1
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if inside >= 0 and (indent > inside or not line.strip()):
            continue
        inside = -1
        if found := _MEMBER.match(line):
            value = found["value"].strip()
            is_open = value[:1] in {"'", '"'} and (len(value) == 1 or value[-1] != value[0])
            inside = indent if is_open or value[:1] in {"|", ">"} else -1
            yield number


def _quote_part(found: re.Match[str], part: list[str]) -> list[str]:
    """Quote the value of one key, with as many lines as before."""
    value = found["value"].strip()
    if value.startswith(("|", ">", '"', "'", "{", "&", "*", "!")):
        return part
    if value.startswith("["):
        return [_HASH_ITEM.sub(lambda item: _to_json(item[0]), line) for line in part]
    if not value or value.startswith("#"):
        is_list = any(line.lstrip().startswith("- ") for line in part[1:])
        if is_list or not value:
            return [_quote_item(line) for line in part]
    below = [line for line in part[1:] if line[:1] in {" ", "\t"}]
    if not _HASH.search("\n".join((f" {value}", *below))):
        return part
    text = " ".join(" ".join(_COMMENT.sub("", f" {line}") for line in (value, *below)).split())
    rest = [line for line in part[1:] if line not in below]
    return [f"{found['head']}{_to_json(text)}", *[""] * len(below), *rest]


def _quote_item(line: str) -> str:
    found = _LIST_ITEM.match(line)
    if not found or not _HASH.search(f" {found['value']}"):
        return line
    return f"{found['head']}{_to_json(_COMMENT.sub('', found['value']).rstrip())}"


def _to_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _fold_keys(texts: StringDocument) -> StringDocument:
    """Read keys that only differ in capitals as the known ones."""
    if not isinstance(texts.value, dict):
        return texts
    names = {
        key: key.casefold()
        for key in texts.value
        if key.casefold() in _PROSE_KEYS and key.casefold() not in texts.value
    }
    if not names:
        return texts
    fields = {names.get(key, key): value for key, value in texts.value.items()}
    lines = {names.get(key, key): line for key, line in texts.lines.items()}
    return StringDocument(fields, lines, texts.repeated)


def _report_spellings(block: str, normal: str, texts: StringDocument, report: ProblemList) -> None:
    lines, normalized = block.split("\n"), normal.split("\n")
    for key, number in texts.lines.items():
        as_yaml = rf"(?<![\w-]){re.escape(key)}(?:[\"']\s*:|\s*:(?:\s|$))"
        if key in _PROSE_KEYS and not re.search(as_yaml, lines[number]):
            reason = f"has {key} in another spelling, so it was read as {key}"
            report.warn("key-spelling", reason, f"write {key}: …", key=key)
    for number, (line, new) in enumerate(zip(lines, normalized, strict=True), 1):
        if line != new and _HASH.search(line) and _LOOSE_KEY.sub(_spell_key, line) != new:
            report.lines = {**report.lines, "#": number}
            reason = "has a # that begins a comment in YAML, and was read as text"
            report.warn("hash", reason, 'put the value in quotes: "… #word …"', key="#")


def _without_fields(
    rule: str, body: str, reason: str, report: ProblemList, *, lenient: bool
) -> Document | None:
    if not lenient:
        report.fail(rule, reason, _EXAMPLE)
        return None
    if "\0" in body:  # a program, or UTF-16 that does not say so
        report.fail("encoding", "is not text: it has NUL bytes", "save it as UTF-8")
        return None
    report.warn(rule, reason, _PACKAGE_EXAMPLE)
    return Document({}, _BLANK_LINES.sub("", body).rstrip())


def _clean_fields(texts: StringDocument, report: ProblemList) -> Mapping[str, Any]:
    for key in dict.fromkeys(texts.repeated):
        reason = f"has {key} twice in one place, so the last one is used"
        report.warn("duplicate-key", reason, "take one of them away", key=key)
    cleaned: dict[str, Any] = remove_controls(texts.value)
    if cleaned != texts.value:
        reason = "has control characters, which are left out"
        report.warn("control-characters", reason, "take them out")
    return cleaned


def _guess_encoding(raw: bytes) -> str | None:
    if raw.startswith(_UTF16):
        return raw.decode("utf-16", "replace")
    if b"\0" in raw:
        return None
    text = raw.decode("utf-8", "replace")
    # One wrong byte makes no Western text of a Japanese one.
    wrong = text.count("\ufffd")
    right = sum(not character.isascii() for character in text) - wrong
    return text if right > wrong else raw.decode("cp1252", "replace")


def _dedent_head(text: str, report: ProblemList) -> str:
    """Take away the indent that all lines of a head have."""
    found = _INDENTED_HEAD.match(text)
    if not found:
        return text
    report.warn("frontmatter", "has an indented frontmatter", "begin its lines at the margin")
    return dedent(found[0]) + text[found.end() :]


def _open_fence(text: str, report: ProblemList) -> str:
    """Read a code block of YAML with a name and a description as the frontmatter."""
    found = _FENCED_HEAD.match(text)
    keys = _FENCED_KEY.findall(found["block"]) if found else []
    if not found or not {"name", _DESCRIPTION} <= set(map(str.casefold, keys)):
        return text
    reason = "has a code block as its frontmatter"
    report.warn("frontmatter", reason, "write --- instead of the lines of the fence")
    return f"---\n{found['block']}---\n{text[found.end() :]}"


def _skip_preamble(text: str, *, lenient: bool) -> tuple[str, str]:
    if not lenient or text.startswith("---"):
        return "", text
    for found in _LATE_FRONTMATTER.finditer(text, 0, _MAX_PREAMBLE):
        preamble, rest = text[: found.start()], text[found.start() :]
        begins = _KEY.match(text[found.end() :].removeprefix("\n").split("\n", 1)[0])
        is_comment = preamble.count("<!--") > preamble.count("-->")
        if begins and not is_comment and "\ndescription:" in rest:
            return preamble, rest
    return "", text


@cache
def _splitter() -> Any:
    from frontmatter.default_handlers import YAMLHandler  # late, as in `safe_yaml`

    return YAMLHandler()


def _parse_block(block: str, report: ProblemList, *, lenient: bool) -> StringDocument | None:
    try:
        read = parse_yaml_strings(block)
    except YamlError as error:
        reason = f"has a frontmatter that is no valid YAML: {error}"
        mark = getattr(error.__cause__, "problem_mark", None)
    else:
        return _read_description(read, block, report) if lenient else read
    report.lines = {"": mark.line + 1} if mark else {}
    # What is too long for YAML is too long to be read in many small parts, too.
    may_repair = lenient and len(block) <= MAX_YAML_CHARACTERS
    texts = _repair_yaml(_CONTROLS.sub("", block)) if may_repair else None
    if texts is None:
        report.fail("yaml", reason, _QUOTE)
    else:
        report.warn("yaml", f"{reason}; it was repaired", _QUOTE)
    return texts


def _read_description(read: StringDocument, block: str, report: ProblemList) -> StringDocument:
    """Read a description as plain text if YAML parses it as a list or mapping."""
    if not isinstance(read.value, dict) or not _is_split(read.value):
        return read
    texts = _repair_yaml(block)
    if texts is None or _DESCRIPTION not in texts.lines:
        return read
    reason = "has a description that YAML takes for more than a text"
    report.lines = {"": texts.lines[_DESCRIPTION] + 1}
    report.warn("description", f"{reason}; it was repaired", _QUOTE)
    return texts


def _is_split(fields: Mapping[str, Any]) -> bool:
    found = fields.get(_DESCRIPTION)
    return isinstance(found, list | dict) and bool(found)


def _repair_yaml(block: str, level: int = 1) -> StringDocument | None:
    """Parse each key by itself, and as plain text if YAML fails."""
    fields: dict[str, Any] = {}
    lines: dict[str, int] = {}
    repeated: list[str] = []
    for number, part in _split_keys(block):
        key, value = _read_part(part, level)
        if key in fields:
            repeated.append(key)
        fields[key], lines[key] = value, number
    return StringDocument(fields, lines, tuple(repeated)) if fields else None


def _split_keys(block: str) -> Iterator[tuple[int, str]]:
    lines = block.split("\n")
    begins = [number for number, line in enumerate(lines) if _KEY.match(line)]
    for begin, end in pairwise((*begins, len(lines))):
        yield begin, "\n".join(lines[begin:end])


def _read_part(part: str, level: int) -> tuple[str, Any]:
    for candidate in dict.fromkeys((part, part.expandtabs(2))):
        try:
            value = parse_yaml_strings(candidate).value
        except YamlError:
            continue
        if isinstance(value, dict) and len(value) == 1 and not _is_split(value):
            return next(iter(value.items()))
    first, *rest = part.split("\n")
    found = _KEY.match(first)
    key, begin = (found[1].strip(), found[2]) if found else (first, "")
    if key not in _TEXT_KEYS and not begin and level < _MAX_LEVELS:
        below = _repair_yaml(dedent("\n".join(rest).expandtabs(2)), level + 1)
        if below:
            return key, below.value
    words = " ".join([begin or "", *filter(_continues, rest)]).split()
    return key, _read_words(key, " ".join(words))


def _continues(line: str) -> bool:
    """Whether a line belongs to the value above: it is indented, or a list item."""
    return line[:1] in {" ", "\t", "-"}


def _read_words(key: str, text: str) -> str | list[str]:
    if key not in _TEXT_KEYS and text.startswith("[") and text.endswith("]"):
        return [_unquote(item.strip()) for item in text[1:-1].split(",")]
    return _unquote(_BLOCK_MARK.sub("", text))


def _unquote(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def remove_controls(node: Any) -> Any:
    """Remove the control characters from texts: they would steer a terminal."""
    return _map_texts(node, lambda text: _CONTROLS.sub("", text))


def _map_texts(node: Any, change: Callable[[str], str]) -> Any:
    match node:
        case str():
            return change(node)
        case list():
            return [_map_texts(item, change) for item in node]
        case dict():
            return {key: _map_texts(value, change) for key, value in node.items()}
        case _:
            return node


# YAML's own spellings.
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
EMPTY_SCALARS = frozenset({"", "~", "null"})

# Priority only breaks ties: 1,000 is one whole point of score (001 §5.2).
_MAX_PRIORITY = 1000
_INTEGER = re.compile(r"[+-]?\d{1,5}")

_ENTRY = "entry"
_EXAMPLES = "examples"
_EXAMPLE_KEYS = ("query", "prompt")


def get_text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    folded = " ".join(value.split()) if isinstance(value, str) else ""
    return "" if folded.casefold() in EMPTY_SCALARS else folded


def get_owner(fields: Mapping[str, Any]) -> str:
    """Get the owner, or else the author; empty without either.

    >>> get_owner({"author": "Ada", "metadata": {"owner": "team-web"}})
    'team-web'
    """
    metadata = get_mapping(fields, "metadata")
    found = (get_text(part, key) for key in ("owner", "author") for part in (fields, metadata))
    return next(filter(None, found), "")[:_MAX_OWNER]


def get_mapping(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def get_words(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Get a list of texts, also from comma-separated text."""
    value = fields.get(key)
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list):
        return ()
    texts = (" ".join(item.split()) for item in items if isinstance(item, str))
    return tuple(filter(None, texts))


def unique_words(words: tuple[str, ...]) -> tuple[str, ...]:
    first_spellings: dict[str, str] = {}
    for word in words:
        first_spellings.setdefault(word.casefold(), word)
    return tuple(first_spellings.values())


def _fold_scalar(value: object) -> str:
    return value.strip().casefold() if isinstance(value, str) else "no scalar"


def parse_boolean(value: object) -> bool | None:
    """Parse a boolean in YAML's spellings; None for anything else."""
    word = _fold_scalar(value)
    return word in _TRUE if word in _TRUE | _FALSE else None


def get_flag(fields: Mapping[str, Any], key: str, report: ProblemList, *, default: bool) -> bool:
    """Get a boolean, in YAML's spellings."""
    value = fields.get(key, "")
    word = _fold_scalar(value)
    if word in _TRUE | _FALSE:
        return word in _TRUE
    if word not in EMPTY_SCALARS:
        reason = f"has {key}: {abbreviate_value(value)}, so {str(default).lower()} is used"
        report.warn(f"{key}-type", reason, "write true or false", key=key)
    return default


def get_always_apply(fields: Mapping[str, Any], report: ProblemList) -> bool:
    """Get `alwaysApply`: at the top, in `metadata`, or in `metadata: skillhub:`."""
    metadata = get_mapping(fields, "metadata")
    merged = {**get_mapping(metadata, "skillhub"), **metadata, **fields}
    return get_flag(merged, "alwaysApply", report, default=False)


def is_user_only(fields: Mapping[str, Any]) -> bool:
    """Whether Claude Code's `disable-model-invocation` is true, also in `metadata`."""
    merged = {**get_mapping(fields, "metadata"), **fields}
    return _fold_scalar(merged.get("disable-model-invocation")) in _TRUE


def forbids_implicit_use(raw: bytes) -> bool:
    """Whether Codex's `agents/openai.yaml` has `policy.allow_implicit_invocation: false`."""
    try:
        fields = parse_yaml_strings(raw.decode("utf-8-sig", "replace")).value
    except YamlError:
        return False
    policy = get_mapping(fields, "policy") if isinstance(fields, Mapping) else {}
    return _fold_scalar(policy.get("allow_implicit_invocation")) in _FALSE


def get_priority(fields: Mapping[str, Any], report: ProblemList) -> int:
    """Get the priority; 0 for an invalid one."""
    value = fields.get("priority", "")
    word = _fold_scalar(value)
    if word in EMPTY_SCALARS:
        return 0
    if _INTEGER.fullmatch(word) and abs(int(word)) <= _MAX_PRIORITY:
        return int(word)
    report.warn(
        "priority-type",
        f"has priority: {abbreviate_value(value)}, so 0 is used",
        f"write a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}",
        key="priority",
    )
    return 0


def get_examples(value: Any, report: ProblemList) -> tuple[str, ...]:
    """Get the example tasks, each once.

    They are a list of texts, or of mappings with the text as `query` or `prompt`; or
    one text with an example on each line, because the standard of packages allows
    nothing but texts in `metadata`.
    """
    entries = value.splitlines() if isinstance(value, str) else value
    hint = "write a list of tasks: examples: / - add login to the React app"
    if not isinstance(entries, list):
        if entries is not None:
            reason = "has examples that are no list of texts"
            report.warn(f"{_EXAMPLES}-type", reason, hint, key=_EXAMPLES)
        return ()
    texts = tuple(map(_get_example, entries))
    if isinstance(value, list) and not all(texts):
        reason = "has an entry in examples without a text"
        report.warn(f"{_EXAMPLES}-entry", reason, hint, key=_EXAMPLES)
    return tuple(dict.fromkeys(filter(None, texts)))


def get_entry(fields: Mapping[str, Any], report: ProblemList) -> tuple[str, ...]:
    """Get the entry command, split as a shell does; nothing is expanded."""
    value = fields.get(_ENTRY, "")
    words = split_command(value) if isinstance(value, str) else None
    if words is None:
        reason = "has an entry that is no command line, so there is none"
        hint = "write one text and close its quotes: entry: python3 scripts/run.py"
        key = _ENTRY if _ENTRY in report.lines else "metadata"
        report.warn(f"{_ENTRY}-type", reason, hint, key=key)
        return ()
    return () if len(words) == 1 and words[0].casefold() in EMPTY_SCALARS else words


def split_command(text: str) -> tuple[str, ...] | None:
    """Split a command line as a shell does; None if its quotes do not match.

    >>> split_command("python3 run.py 'two words' $HOME # not a comment")
    ('python3', 'run.py', 'two words', '$HOME', '#', 'not', 'a', 'comment')
    """
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return None


def _get_example(entry: Any) -> str:
    if isinstance(entry, dict):
        return next(filter(None, (get_text(entry, key) for key in _EXAMPLE_KEYS)), "")
    return get_text({"": entry}, "")
