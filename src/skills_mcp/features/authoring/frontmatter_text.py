"""The frontmatter of a Markdown file as text: an edit leaves the rest alone."""

import re
from typing import TYPE_CHECKING

from skills_mcp.text.safe_yaml import YamlError, parse_texts

if TYPE_CHECKING:
    from yaml import MappingNode, Node

FRONTMATTER = re.compile(
    r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
"""A frontmatter at the beginning of a text whose lines end in one character."""


def compose_fields(block: str) -> "MappingNode | None":
    """Return the keys of a frontmatter, each on a line of its own, with their places.

    None if it is no such mapping, or YAML that is refused.
    """
    import yaml

    try:
        parse_texts(block)  # refuses what would take long
        root = yaml.compose(block, Loader=yaml.SafeLoader)
    except (YamlError, yaml.YAMLError):
        return None
    return root if is_below(root) and isinstance(root, yaml.MappingNode) else None


def is_below(node: "Node | None") -> bool:
    """Whether a value has lines of its own."""
    from yaml import CollectionNode

    is_block = isinstance(node, CollectionNode) and not node.flow_style
    return is_block and bool(node and node.value)


def end_of(node: "Node") -> int:
    """Return where a value ends: the mark of a block stands behind its blank lines."""
    if not is_below(node):
        return int(node.end_mark.index)
    last = node.value[-1]
    return end_of(last[1] if isinstance(last, tuple) else last)


def spell(text: str) -> str:
    """Return a text as YAML has it on one line."""
    import yaml

    dumped: str = yaml.safe_dump(text, width=10**6, allow_unicode=True)
    return dumped.removesuffix("...\n").strip()
