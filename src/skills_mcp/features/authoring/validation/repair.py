"""Repairs what needs no thought: the finding itself says what to write.

A file is written only if every field that no finding is about means what it meant.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skills_mcp.features.authoring.frontmatter_text import (
    compose_fields,
    end_of,
    is_below,
    spell,
)
from skills_mcp.features.authoring.validation.markdown import parse_markdown
from skills_mcp.features.authoring.validation.package_standard import (
    OURS,
    derive_name,
    split_tools,
)
from skills_mcp.features.authoring.validation.skill_tree import is_repository
from skills_mcp.features.authoring.validation.unsafe_text import (
    without_control_characters,
)
from skills_mcp.files.durable import read_regular, replacing, sync_folder
from skills_mcp.skills.discovery import MAX_SKILL_BYTES
from skills_mcp.skills.model import Problem
from skills_mcp.skills.package import MAIN, is_main
from skills_mcp.text.hidden_text import without_hidden
from skills_mcp.text.safe_yaml import YamlError, parse_texts

if TYPE_CHECKING:
    from yaml import MappingNode, Node

NAME_RULES = frozenset({"name", "name-characters", "name-hyphens", "name-is-folder"})
REPAIRABLE = NAME_RULES | {
    *("allowed-tools", "control-characters", "frontmatter", "hidden-character"),
    *("main-file", "metadata-value", "unknown-key"),
}
"""The rules whose findings may be repaired; some of them need a person, too."""

_BYTE_ORDER_MARK = "\ufeff"
_METADATA = "metadata"
_EXAMPLES = "examples"  # a task may have commas, so a list is no line of text
_INDENT = "  "

_Edit = tuple[int, int, str]
"""Where a text begins and ends, and what takes its place."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A file that was repaired."""

    file: Path
    """Where it is now; a main file may have another name than before."""
    rules: tuple[str, ...]
    """What was repaired, sorted."""


def repair(problems: Iterable[Problem]) -> tuple[Repair, ...]:
    """Repair what can be in the files of some findings, and say what was.

    Raises:
        OSError: A file cannot be written; it is as it was.
    """
    rules: dict[Path, set[str]] = defaultdict(set)
    for problem in problems:
        if problem.rule in REPAIRABLE:
            rules[Path(problem.file)].add(problem.rule)
    return tuple(
        Repair(*done) for file, named in rules.items() if (done := _mend(file, named))
    )


def _mend(file: Path, rules: Collection[str]) -> tuple[Path, tuple[str, ...]] | None:
    raw = read_regular(file, MAX_SKILL_BYTES)
    if raw is None or file.is_symlink():
        return None
    try:
        old = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    new, done = old, []
    for rule in sorted(rules):
        mended = _repair_text(new, rule, file)
        if mended != new:
            new = mended
            done.append(rule)
    if new != old:
        with replacing(file, file.stat().st_mode & 0o777) as handle:
            handle.write(new.encode("utf-8"))
    if "main-file" in rules and not (file.with_name(MAIN)).exists():
        file = file.rename(file.with_name(MAIN))
        sync_folder(file.parent)
        done.append("main-file")
    return (file, tuple(done)) if done else None


def _repair_text(text: str, rule: str, file: Path) -> str:
    """Return a text in which the findings of a rule are repaired, or the same text."""
    if rule == "hidden-character":
        return without_hidden(text)
    if rule == "control-characters":
        return without_control_characters(text)
    if rule == "frontmatter":
        return text.removeprefix(_BYTE_ORDER_MARK)
    is_package = is_main(file.name)
    if not is_package or text.count("\r\n") not in {0, text.count("\n")}:
        return text
    folder = None if is_repository(file.parent) else file.parent.name
    lines = text.replace("\r\n", "\n")
    block = parse_markdown(lines.encode()).frontmatter
    mended = _repair_block(block, rule, folder)
    if mended == block:
        return text
    begin = lines.index(block, lines.index("---"))
    whole = lines[:begin] + mended + lines[begin + len(block) :]
    return whole.replace("\n", "\r\n") if "\r\n" in text else whole


def _repair_block(block: str, rule: str, folder: str | None) -> str:
    """Return a frontmatter without the findings of a rule, or as it was."""
    root = compose_fields(block)
    if root is None:
        return block
    before = parse_texts(block).value
    edits = sorted(_find_edits(block, root, rule, folder), reverse=True)
    mended = block
    for begin, end, new in edits:
        mended = mended[:begin] + new + mended[end:]
    return mended if _is_kept(before, mended, rule) else block


def _find_edits(
    block: str, root: "MappingNode", rule: str, folder: str | None
) -> Iterator[_Edit]:
    values = {key.value: value for key, value in root.value}
    if rule in NAME_RULES:
        yield from _name(values.get("name"), folder, block)
    elif rule == "allowed-tools" and rule in values:
        tools = _list(values[rule]) or split_tools(str(values[rule].value))
        yield _replace(values[rule], spell(" ".join(tools)), block)
    elif rule == "metadata-value" and (below := _as_block(values.get(_METADATA))):
        for key, value in below.value:
            if (text := _as_text(key.value, value)) is not None:
                yield _replace(value, text, block)
    elif rule == "unknown-key":
        yield from _move(block, root, values)


def _name(node: "Node | None", folder: str | None, block: str) -> Iterator[_Edit]:
    is_legal = bool(folder) and folder == derive_name(folder or "")
    written = str(node.value) if node is not None else ""
    name = folder if folder and is_legal else derive_name(written)
    if not name:
        return
    if node is None:
        yield 0, 0, f"name: {spell(name)}\n"
    else:
        yield _replace(node, spell(name), block)


def _move(
    block: str, root: "MappingNode", values: Mapping[str, "Node"]
) -> Iterator[_Edit]:
    """Move keys of ours below `metadata`, where they mean the same."""
    below = _as_block(values.get(_METADATA))
    if below is None and _METADATA in values:
        return
    known = {key.value for key, _ in below.value} if below else set()
    moved: list[str] = []
    ends = [key.start_mark.index for key, _ in root.value[1:]] + [len(block)]
    for (key, value), end in zip(root.value, ends, strict=True):
        name = "keywords" if key.value == "triggers" else key.value
        is_free = key.value in OURS and name not in known
        text = _as_text(key.value, value, is_moved=True) if is_free else None
        last = end_of(value)
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
    """Return a mapping that has lines of its own."""
    from yaml import MappingNode

    return node if isinstance(node, MappingNode) and is_below(node) else None


def _as_text(key: str, node: "Node", *, is_moved: bool = False) -> str | None:
    """Return a value as YAML's text on one line; None if it is one, or cannot be."""
    from yaml import ScalarNode

    if isinstance(node, ScalarNode):
        is_text = node.tag == "tag:yaml.org,2002:str"
        if not node.value or "\n" in node.value or (is_text and not is_moved):
            return None
        return spell(node.value) if is_text else json.dumps(node.value)
    words = _list(node)
    if not words or key == _EXAMPLES or any("," in word for word in words):
        return None
    return spell(", ".join(words))


def _list(node: "Node") -> list[str]:
    """Return the texts of a list; none if it holds anything else."""
    from yaml import ScalarNode, SequenceNode

    if not isinstance(node, SequenceNode):
        return []
    items = [each.value for each in node.value if isinstance(each, ScalarNode)]
    is_plain = len(items) == len(node.value) and all(items)
    return [str(each) for each in items] if is_plain else []


def _replace(node: "Node", text: str, block: str) -> _Edit:
    """Replace a value; a list may begin on the line below its key."""
    begin = node.start_mark.index
    if is_below(node):
        begin = block.rindex(":", 0, begin) + 1
    if block[begin - 1 : begin] == ":":  # a list, or nothing: `name:`
        text = f" {text}"
    return begin, end_of(node), text


def _is_kept(before: Any, mended: str, rule: str) -> bool:
    """Whether the fields that a rule is not about mean the same as before."""
    try:
        after = parse_texts(mended).value
    except YamlError:
        return False
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    return _others(before, rule) == _others(after, rule)


def _others(fields: Mapping[str, Any], rule: str) -> Mapping[str, Any]:
    changed: Sequence[str] = (rule,)
    if rule in NAME_RULES:
        changed = ("name",)
    elif rule == "metadata-value":
        changed = (_METADATA,)
    elif rule == "unknown-key":
        changed = (_METADATA, "triggers", *OURS)
    return {key: value for key, value in fields.items() if key not in changed}
