"""The skills as the folders that hold them, for browsing.  Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from skills_mcp.skills.index import INDEX, ROOT, SkillIndex
from skills_mcp.skills.model import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A folder or a skill.

    A folder is described by its `_index.md`; without one it has only a name.
    """

    name: str
    path: str
    description: str
    keywords: tuple[str, ...]
    asset_count: int
    script_count: int
    children: tuple["TreeNode", ...]


def build_tree(index: SkillIndex) -> TreeNode:
    """Return the tree of all skills; its top is `_root.md`, if there is one."""
    return _folder("root", "", tuple(index))


def find_node(tree: TreeNode, path: str) -> TreeNode | None:
    """Return the node of a skill or folder: `ui`, `ui/_index`, `ui/react/auth`."""
    wanted = path.strip("/")
    if wanted in {"", ROOT}:
        return tree
    folder = wanted.removesuffix(f"/{INDEX}")
    return _descend(tree, wanted.split("/")) or _descend(tree, folder.split("/"))


def _descend(tree: TreeNode, names: Iterable[str]) -> TreeNode | None:
    node: TreeNode | None = tree
    for name in names:
        children = node.children if node else ()
        node = next((child for child in children if child.name == name), None)
    return node


def render_node(node: TreeNode) -> dict[str, Any]:
    """Return the `SkillNode` of the replies as JSON."""
    return {
        "name": node.name,
        "path": node.path,
        "description": node.description,
        "keywords": list(node.keywords),
        "assetCount": node.asset_count,
        "scriptCount": node.script_count,
        "children": [render_node(child) for child in node.children],
    }


def _folder(name: str, prefix: str, skills: Iterable[Skill]) -> TreeNode:
    """Build the node of the folder that all of `skills` lie in."""
    about: Skill | None = None
    leaves: list[Skill] = []
    folders: dict[str, list[Skill]] = defaultdict(list)
    for skill in skills:
        head, separator, _ = skill.path.removeprefix(prefix).partition("/")
        if separator:
            folders[head].append(skill)
        elif head == (INDEX if prefix else ROOT):
            about = skill
        else:
            leaves.append(skill)
    children = {
        inner: _folder(inner, f"{prefix}{inner}/", members)
        for inner, members in folders.items()
    }
    for leaf in leaves:
        segment = leaf.path.rsplit("/", 1)[-1]
        # A package that holds other packages is their folder, too.
        inside = _inside(children.get(segment))
        children[segment] = _node(segment, leaf.path, leaf, inside)
    path = about.path if about else prefix.rstrip("/")
    ordered = tuple(children[key] for key in sorted(children))
    return _node(name, path, about, ordered)


def _inside(folder: TreeNode | None) -> tuple[TreeNode, ...]:
    """Return what a folder holds, its own rules included."""
    if folder is None:
        return ()
    if not folder.path.endswith(f"/{INDEX}"):
        return folder.children
    return (replace(folder, name=INDEX, children=()), *folder.children)


def _node(
    name: str, path: str, skill: Skill | None, children: tuple[TreeNode, ...]
) -> TreeNode:
    return TreeNode(
        name=name,
        path=path,
        description=skill.description if skill else "",
        keywords=skill.keywords if skill else (),
        asset_count=len(skill.assets) if skill else 0,
        script_count=len(skill.scripts) if skill else 0,
        children=children,
    )
