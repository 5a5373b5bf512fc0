"""The skills as a tree of folders, for browsing. Pure.

The tree is built from paths alone. Skills are decoded on access, so that one level of
ten thousand skills costs no more than its visible nodes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import INDEX, ROOT, SkillIndex


class TreeNode(NamedTuple):
    """A folder or a skill.

    A folder is described by its `_index.md`; without one it has only a name.
    """

    name: str
    path: str
    children: tuple["TreeNode", ...]
    skill_count: int
    """Skills below, itself included if it is one."""
    number: int | None
    """Position among the enabled skills; None for a folder without rules."""
    every: SkillIndex

    def __repr__(self) -> str:
        return f"<TreeNode {self.path or self.name!r} of {self.skill_count} skills>"

    @property
    def skill(self) -> Skill | None:
        return None if self.number is None else self.every.offered[self.number]

    @property
    def other_places(self) -> tuple[SkillPath, ...]:
        """The paths of identical copies."""
        return self.every.other_places(SkillPath(self.path))


def build_tree(index: SkillIndex) -> TreeNode:
    """Build the tree of all skills; its top is `_root.md`, if there is one."""
    top = _Folder()
    for number, row in enumerate(index.listed):
        *folders, last = row.path.split("/")
        folder = top
        for name in folders:
            folder = folder.folders[name]
        if last == (INDEX if folders else ROOT):
            folder.about = number
        else:
            folder.skills[last] = number
    return _TreeBuilder(index).build_node("root", "", top)


def find_node(tree: TreeNode, path: str) -> TreeNode | None:
    """Find the node of a skill or folder: `ui`, `ui/_index`, `ui/react/auth`."""
    names = find_node_names(tree, path)
    return None if names is None else _descend(tree, names)


def find_node_names(tree: TreeNode, path: str) -> tuple[str, ...] | None:
    """Find the names on the way from the top to the node of a skill or folder."""
    stripped = path.strip("/")
    if stripped in {"", ROOT}:
        return ()
    exact, folder = stripped, stripped.removesuffix(f"/{INDEX}")
    candidates = (tuple(candidate.split("/")) for candidate in (exact, folder))
    return next((names for names in candidates if _descend(tree, names)), None)


def _descend(tree: TreeNode, names: Sequence[str]) -> TreeNode | None:
    node: TreeNode | None = tree
    for name in names:
        children = node.children if node else ()
        node = next((child for child in children if child.name == name), None)
    return node


def walk_descendants(
    node: TreeNode, levels: int, after: Sequence[str] = ()
) -> Iterator[tuple[tuple[str, ...], TreeNode]]:
    """Iterate over the descendants of a node, with names; resume behind `after`."""
    first, *inner = after or (None,)
    for child in node.children:
        is_first = child.name == first
        if not is_first:
            if first is not None and _node_sort_key(child.name) < _node_sort_key(first):
                continue
            yield (child.name,), child
        if levels > 1:
            for names, below in walk_descendants(child, levels - 1, inner if is_first else ()):
                yield (child.name, *names), below


def prune_tree(node: TreeNode, depth: int) -> TreeNode:
    below = tuple(prune_tree(child, depth - 1) for child in node.children if depth)
    return node._replace(children=below)


def filter_tree(node: TreeNode, is_match: Callable[[TreeNode], bool]) -> TreeNode:
    """Filter the tree, with the folders of matching nodes."""
    filtered = (filter_tree(child, is_match) for child in node.children)
    children = tuple(child for child in filtered if child.skill_count)
    count = sum(child.skill_count for child in children) + is_match(node)
    return node._replace(children=children, skill_count=count)


def render_node(node: TreeNode) -> dict[str, Any]:
    return {**render_without_children(node), "children": list(map(render_node, node.children))}


def render_without_children(node: TreeNode) -> dict[str, Any]:
    skill = node.skill
    status = skill.lifecycle.marked_status if skill else None
    return {
        "name": node.name,
        "path": node.path,
        "description": skill.description if skill else "",
        "keywords": list(skill.keywords) if skill else [],
        "assetCount": len(skill.assets) if skill else 0,
        "scriptCount": len(skill.scripts) if skill else 0,
        **({"alsoAt": list(node.other_places)} if node.other_places else {}),
        **({"status": status} if status else {}),
        "children": [],
    }


@dataclass(slots=True)
class _Folder:
    about: int | None = None
    skills: dict[str, int] = field(default_factory=dict)
    folders: dict[str, "_Folder"] = field(default_factory=lambda: defaultdict(_Folder))


@dataclass(frozen=True, slots=True)
class _TreeBuilder:
    index: SkillIndex

    def build_node(self, name: str, path: str, folder: _Folder) -> TreeNode:
        children = self._children(path, folder)
        own = INDEX if path else ROOT
        if folder.about is not None:
            path = f"{path}/{own}" if path else own
        return self._node(name, path, folder.about, children)

    def _children(self, path: str, folder: _Folder) -> tuple[TreeNode, ...]:
        below = f"{path}/" if path else ""
        return tuple(
            self._child(name, below + name, folder.skills.get(name), inner)
            if (inner := folder.folders.get(name))
            else TreeNode(name, below + name, (), 1, folder.skills[name], self.index)
            for name in sorted(folder.skills.keys() | folder.folders.keys(), key=_node_sort_key)
        )

    def _child(self, name: str, path: str, number: int | None, folder: _Folder) -> TreeNode:
        if number is None:
            return self.build_node(name, path, folder)
        # A package that holds other packages is their folder, too.
        inside = self._children(path, folder)
        if folder.about is not None:
            inside = (self._node(INDEX, f"{path}/{INDEX}", folder.about, ()), *inside)
        return self._node(name, path, number, inside)

    def _node(
        self, name: str, path: str, number: int | None, children: tuple[TreeNode, ...]
    ) -> TreeNode:
        count = (number is not None) + sum(child.skill_count for child in children)
        return TreeNode(name, path, children, count, number, self.index)


def _node_sort_key(name: str) -> tuple[bool, str]:
    """Sort key: the rules of a folder first, then by name."""
    return name != INDEX, name
