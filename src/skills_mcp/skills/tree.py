"""The skills as the folders that hold them, for browsing.  Pure.

The shape is made of the paths alone. What a skill says is read when it is asked for, so
that one level of ten thousand skills costs no more than what it shows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skills_mcp.skills.index import INDEX, ROOT, SkillIndex
from skills_mcp.skills.model import Skill, SkillPath


class TreeNode(NamedTuple):
    """A folder or a skill.

    A folder is described by its `_index.md`; without one it has only a name.
    """

    name: str
    path: str
    children: tuple["TreeNode", ...]
    skill_count: int
    """How many skills there are in it, itself included if it is one."""
    number: int | None
    """Which skill that is offered it is; None for a folder that is only a name."""
    every: SkillIndex
    """All skills of the tree."""

    def __repr__(self) -> str:
        return f"<TreeNode {self.path or self.name!r} of {self.skill_count} skills>"

    @property
    def skill(self) -> Skill | None:
        """The skill that describes it, if there is one."""
        return None if self.number is None else self.every.offered[self.number]

    @property
    def other_places(self) -> tuple[SkillPath, ...]:
        """The paths of identical copies, which this skill stands for."""
        return self.every.other_places(SkillPath(self.path))


def build_tree(index: SkillIndex) -> TreeNode:
    """Return the tree of all skills; its top is `_root.md`, if there is one."""
    top = _Folder()
    for number, row in enumerate(index.listed):
        *folders, last = row.path.split("/")
        place = top
        for name in folders:
            place = place.inner(name)
        if last == (INDEX if folders else ROOT):
            place.about = number
        else:
            place.skills[last] = number
    return _Grower(index).grow("root", "", top)


def find_node(tree: TreeNode, path: str) -> TreeNode | None:
    """Return the node of a skill or folder: `ui`, `ui/_index`, `ui/react/auth`."""
    names = locate(tree, path)
    return None if names is None else _descend(tree, names)


def locate(tree: TreeNode, path: str) -> tuple[str, ...] | None:
    """Return the names that lead to the node of a skill or folder, from the top."""
    wanted = path.strip("/")
    if wanted in {"", ROOT}:
        return ()
    exact, folder = wanted, wanted.removesuffix(f"/{INDEX}")
    tried = (tuple(each.split("/")) for each in (exact, folder))
    return next((names for names in tried if _descend(tree, names)), None)


def _descend(tree: TreeNode, names: Sequence[str]) -> TreeNode | None:
    node: TreeNode | None = tree
    for name in names:
        children = node.children if node else ()
        node = next((child for child in children if child.name == name), None)
    return node


def walk_levels(
    node: TreeNode, most: int, after: Sequence[str] = ()
) -> Iterator[tuple[tuple[str, ...], TreeNode]]:
    """Iterate over what is below a node, each with the names that lead to it.

    A folder stands before what it holds.

    Args:
        node: Where to begin; it is not among them.
        most: How many levels.
        after: Only what comes after the node with these names, which may be gone.
    """
    first, *inner = after or (None,)
    for child in node.children:
        is_first = child.name == first
        if first is not None and not is_first and _rank(child.name) < _rank(first):
            continue
        if not is_first:
            yield (child.name,), child
        if most > 1:
            for names, below in walk_levels(child, most - 1, inner if is_first else ()):
                yield (child.name, *names), below


def cut_tree(node: TreeNode, depth: int) -> TreeNode:
    """Return a node with the levels below it, without what lies deeper.

    The number of skills of each node stays that of the whole.
    """
    below = tuple(cut_tree(child, depth - 1) for child in node.children if depth)
    return node._replace(children=below)


def select_nodes(node: TreeNode, is_wanted: Callable[[TreeNode], bool]) -> TreeNode:
    """Return a node with those below it that are wanted, and the folders of these."""
    every = (select_nodes(child, is_wanted) for child in node.children)
    kept = tuple(child for child in every if child.skill_count)
    count = sum(child.skill_count for child in kept) + is_wanted(node)
    return node._replace(children=kept, skill_count=count)


def render_node(node: TreeNode) -> dict[str, Any]:
    """Return the `SkillNode` of the replies as JSON, with all that it holds."""
    return {**render_own(node), "children": [render_node(c) for c in node.children]}


def render_own(node: TreeNode) -> dict[str, Any]:
    """Return a `SkillNode` without what it holds."""
    skill = node.skill
    return {
        "name": node.name,
        "path": node.path,
        "description": skill.description if skill else "",
        "keywords": list(skill.keywords) if skill else [],
        "assetCount": len(skill.assets) if skill else 0,
        "scriptCount": len(skill.scripts) if skill else 0,
        **({"alsoAt": list(node.other_places)} if node.other_places else {}),
        "children": [],
    }


@dataclass(slots=True)
class _Folder:
    about: int | None = None
    """The skill of its `_index.md`, or of `_root.md`."""
    skills: dict[str, int] = field(default_factory=dict)
    folders: dict[str, "_Folder"] = field(default_factory=dict)

    def inner(self, name: str) -> "_Folder":
        """Return the folder of this name, which is made if need be."""
        found = self.folders.get(name)
        if found is None:
            found = self.folders[name] = _Folder()
        return found


@dataclass(frozen=True, slots=True)
class _Grower:
    index: SkillIndex

    def grow(self, name: str, path: str, folder: _Folder) -> TreeNode:
        """Return the node of a folder, described by its own rules."""
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
            for name in sorted(folder.skills.keys() | folder.folders.keys(), key=_rank)
        )

    def _child(
        self, name: str, path: str, number: int | None, folder: _Folder
    ) -> TreeNode:
        if number is None:
            return self.grow(name, path, folder)
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


def _rank(name: str) -> tuple[bool, str]:
    """Return where a node stands in its folder: the rules first, then by name."""
    return name != INDEX, name
