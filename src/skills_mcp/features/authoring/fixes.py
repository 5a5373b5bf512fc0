"""Automatic fixes for unambiguous findings.

A file is written only if all unrelated fields keep their meaning. An edit replaces a part
of the text: a round trip through ruamel.yaml would also write `[a,b]`, aligned values and
texts on two lines anew.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skills_mcp.features.authoring import markdown
from skills_mcp.features.authoring.package_standard import SERVER_KEYS, derive_name, split_tools
from skills_mcp.features.authoring.validation import is_repository
from skills_mcp.files.durable import atomic_write, fsync_folder, read_regular
from skills_mcp.skills.model import Problem
from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from skills_mcp.skills.skill_parser import SKILL_MD, is_skill_md
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings
from skills_mcp.text.unicode import strip_hidden

if TYPE_CHECKING:
    from yaml import MappingNode, Node


NAME_RULES = frozenset({"name", "name-characters", "name-hyphens", "name-is-folder"})
FIXABLE = NAME_RULES | {
    *("allowed-tools", "control-characters", "frontmatter", "hidden-character"),
    *("main-file", "metadata-value", "unknown-key"),
}
"""Fixable rules; some of their findings need a person, too."""

_BYTE_ORDER_MARK = "\ufeff"
_METADATA = "metadata"
_EXAMPLES = "examples"  # a task may have commas, so a list is no line of text
_INDENT = "  "

_Edit = tuple[int, int, str]
"""`(start, end, replacement)`."""


@dataclass(frozen=True, slots=True)
class FixedFile:
    file: Path
    """Its current path; a main file may have been renamed."""
    rules: tuple[str, ...]


def fix_findings(problems: Iterable[Problem]) -> tuple[FixedFile, ...]:
    """Fix the files of some findings.

    Raises:
        OSError: A file cannot be written; it is unchanged.
    """
    rules: dict[Path, set[str]] = defaultdict(set)
    for problem in problems:
        if problem.rule in FIXABLE:
            rules[Path(problem.file)].add(problem.rule)
    return tuple(
        FixedFile(*done) for file, named in rules.items() if (done := _fix_file(file, named))
    )


def _fix_file(file: Path, rules: Collection[str]) -> tuple[Path, tuple[str, ...]] | None:
    raw = read_regular(file, MAX_SKILL_BYTES)
    if raw is None or file.is_symlink():
        return None
    try:
        old = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    new, done = old, []
    for rule in sorted(rules):
        mended = _fix_text(new, rule, file)
        if mended != new:
            new = mended
            done.append(rule)
    if new != old:
        with atomic_write(file, file.stat().st_mode & 0o777) as handle:
            handle.write(new.encode("utf-8"))
    if "main-file" in rules and not (file.with_name(SKILL_MD)).exists():
        file = file.rename(file.with_name(SKILL_MD))
        fsync_folder(file.parent)
        done.append("main-file")
    return (file, tuple(done)) if done else None


def _fix_text(text: str, rule: str, file: Path) -> str:
    if rule == "hidden-character":
        return strip_hidden(text)
    if rule == "control-characters":
        return markdown.without_control_characters(text)
    if rule == "frontmatter":
        return text.removeprefix(_BYTE_ORDER_MARK)
    is_package = is_skill_md(file.name)
    if not is_package or text.count("\r\n") not in {0, text.count("\n")}:
        return text
    folder = None if is_repository(file.parent) else file.parent.name
    lines = text.replace("\r\n", "\n")
    block = markdown.parse_markdown(lines.encode()).frontmatter
    new_block = _fix_block(block, rule, folder)
    if new_block == block:
        return text
    begin = lines.index(block, lines.index("---"))
    fixed = lines[:begin] + new_block + lines[begin + len(block) :]
    return fixed.replace("\n", "\r\n") if "\r\n" in text else fixed


def _fix_block(block: str, rule: str, folder: str | None) -> str:
    """Fix one rule in a frontmatter; the same block if unsafe."""
    root = markdown.compose_fields(block)
    if root is None:
        return block
    before = parse_yaml_strings(block).value
    edits = sorted(_find_edits(block, root, rule, folder), reverse=True)
    mended = block
    for begin, end, new in edits:
        mended = mended[:begin] + new + mended[end:]
    return mended if _is_unchanged(before, mended, rule) else block


def _find_edits(block: str, root: "MappingNode", rule: str, folder: str | None) -> Iterator[_Edit]:
    values = {key.value: value for key, value in root.value}
    if rule in NAME_RULES:
        yield from _edit_name(values.get("name"), folder, block)
    elif rule == "allowed-tools" and rule in values:
        tools = _list_texts(values[rule]) or split_tools(str(values[rule].value))
        yield _replace_value(values[rule], markdown.dump_scalar(" ".join(tools)), block)
    elif rule == "metadata-value" and (below := _as_block(values.get(_METADATA))):
        for key, value in below.value:
            if (text := _as_text(key.value, value)) is not None:
                yield _replace_value(value, text, block)
    elif rule == "unknown-key":
        yield from _move_to_metadata(block, root, values)


def _edit_name(node: "Node | None", folder: str | None, block: str) -> Iterator[_Edit]:
    is_legal = bool(folder) and folder == derive_name(folder or "")
    written = str(node.value) if node is not None else ""
    name = folder if folder and is_legal else derive_name(written)
    if not name:
        return
    if node is None:
        yield 0, 0, f"name: {markdown.dump_scalar(name)}\n"
    else:
        yield _replace_value(node, markdown.dump_scalar(name), block)


def _move_to_metadata(
    block: str, root: "MappingNode", values: Mapping[str, "Node"]
) -> Iterator[_Edit]:
    """Move keys of this server below `metadata`."""
    below = _as_block(values.get(_METADATA))
    if below is None and _METADATA in values:
        return
    known = {key.value for key, _ in below.value} if below else set()
    moved: list[str] = []
    ends = [key.start_mark.index for key, _ in root.value[1:]] + [len(block)]
    for (key, value), end in zip(root.value, ends, strict=True):
        name = "keywords" if key.value == "triggers" else key.value
        is_free = key.value in SERVER_KEYS and name not in known
        text = _as_text(key.value, value, is_moved=True) if is_free else None
        last = markdown.find_end(value)
        # A comment between this key and the next one belongs to the next.
        if text is not None and not block[last:end].strip().startswith("#"):
            moved.append(f"{name}: {text}\n")
            yield key.start_mark.index, end, ""
    if not moved:
        return
    if below:
        first = below.value[0][0].start_mark
        indent = " " * first.column
        yield first.index, first.index, f"{indent}".join([*moved, ""])
    else:
        lines = "".join(f"{_INDENT}{line}" for line in moved)
        yield len(block), len(block), f"{_METADATA}:\n{lines}"


def _as_block(node: "Node | None") -> "MappingNode | None":
    from yaml import MappingNode

    return node if isinstance(node, MappingNode) and markdown.is_block_value(node) else None


def _as_text(key: str, node: "Node", *, is_moved: bool = False) -> str | None:
    """Value as one-line YAML text; None if it already is, or cannot be."""
    from yaml import ScalarNode

    if isinstance(node, ScalarNode):
        is_text = node.tag == "tag:yaml.org,2002:str"
        if not node.value or "\n" in node.value or (is_text and not is_moved):
            return None
        return markdown.dump_scalar(node.value) if is_text else json.dumps(node.value)
    words = _list_texts(node)
    if not words or key == _EXAMPLES or any("," in word for word in words):
        return None
    return markdown.dump_scalar(", ".join(words))


def _list_texts(node: "Node") -> list[str]:
    from yaml import ScalarNode, SequenceNode

    if not isinstance(node, SequenceNode):
        return []
    items = [item.value for item in node.value if isinstance(item, ScalarNode)]
    is_plain = len(items) == len(node.value) and all(items)
    return [str(item) for item in items] if is_plain else []


def _replace_value(node: "Node", text: str, block: str) -> _Edit:
    """Edit of a value; a list may begin on the line below its key."""
    begin = node.start_mark.index
    if markdown.is_block_value(node):
        begin = block.rindex(":", 0, begin) + 1
    if block[begin - 1 : begin] == ":":  # a list, or nothing: `name:`
        text = f" {text}"
    return begin, markdown.find_end(node), text


def _is_unchanged(before: Any, mended: str, rule: str) -> bool:
    """Whether the unrelated fields are unchanged."""
    try:
        after = parse_yaml_strings(mended).value
    except YamlError:
        return False
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    return _unrelated_fields(before, rule) == _unrelated_fields(after, rule)


def _unrelated_fields(fields: Mapping[str, Any], rule: str) -> Mapping[str, Any]:
    changed: Sequence[str] = (rule,)
    if rule in NAME_RULES:
        changed = ("name",)
    elif rule == "metadata-value":
        changed = (_METADATA,)
    elif rule == "unknown-key":
        changed = (_METADATA, "triggers", *SERVER_KEYS)
    return {key: value for key, value in fields.items() if key not in changed}
