"""Frontmatter as text, for edits with the other lines unchanged."""

import re
from typing import TYPE_CHECKING

from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings

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
