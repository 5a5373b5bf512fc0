"""The part of the tree of skills that fits into one reply, and the way to the others.

Rule: the pages of a listing hold each skill once, in the order of the tree, or an area
that stands for it. No page is longer than its limit.

A listing is whole if it fits. Otherwise its texts are shortened, and it ends at the
deepest level that fits: a folder there is an area, with the number of its skills. A
level that is too long alone has several pages.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.skills.tree import (
    TreeNode,
    find_node,
    locate,
    render_own,
    walk_levels,
)
from skills_mcp.text.rendering import cut_text, shorten

MAX_DEPTH = 100
"""More levels than a path can have."""

MAX_DESCRIPTION = 200
"""In a listing that does not fit as a whole: about two sentences."""

_MAX_KEYWORDS = 100  # characters of all keywords of a skill

_MAX_COPIES = 200  # characters of the paths of its copies

_SEPARATOR = 2  # ", " in JSON

_CURSOR = re.compile(r"(\d{1,3}):(\d{1,3}):(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A part of the tree."""

    tree: dict[str, Any]
    """As `render_node` returns it; an area has `skillCount` and no children."""
    total: int
    """The number of skills below the folder that was asked for, and in it."""
    shown: int
    """The number of skills in this part."""
    areas: int = 0
    """The number of folders in this part that are not opened."""
    depth: int | None = None
    """The number of levels; None if this is everything."""
    next_cursor: str | None = None
    """What asks for the next part; None if there is none."""
    is_shortened: bool = False
    """Whether a description, the keywords or the copies of a skill are not whole."""


@dataclass(frozen=True, slots=True)
class _View:
    """What is listed: so many levels below the node at these names."""

    names: tuple[str, ...]
    node: TreeNode
    depth: int
    is_short: bool = True
    """Whether long texts are cut."""
    after: tuple[str, ...] = ()
    """The names of the last row of the page before, below `node`."""


class _Row(NamedTuple):
    names: tuple[str, ...]
    """What leads to it from the top of the view."""
    node: TreeNode
    data: dict[str, Any]
    is_area: bool


def compose_listing(
    tree: TreeNode,
    *,
    path: str = "",
    depth: int | None = None,
    cursor: str | None = None,
    max_characters: int,
) -> Listing | None:
    """Return what fits into a reply; None if there is nothing at `path`.

    Args:
        tree: All skills.
        path: The folder to begin at.
        depth: How many levels; without it, as many as fit.
        cursor: The `next_cursor` of an earlier part, for the one that follows it.
        max_characters: The most characters of the tree as JSON.

    Raises:
        InvalidArgumentsError: The cursor is unknown, or that of another listing.
    """
    if cursor is not None:
        view = _parse_cursor(tree, cursor, path, depth)
        return _arrange(view, *_take(view, max_characters))
    names = locate(tree, path)
    node = None if names is None else find_node(tree, path)
    if names is None or node is None:
        return None
    view = _View(names, node, depth or MAX_DEPTH, is_short=False)
    rows, is_all = _take(view, max_characters)
    if not is_all:
        chosen = depth or _choose_depth(view, max_characters)
        view = _View(names, node, chosen)
        rows, is_all = _take(view, max_characters)
    return _arrange(view, rows, is_all)


def _choose_depth(view: _View, max_characters: int) -> int:
    """Return the deepest level that fits; at least the first one that tells something.

    A folder that holds nothing but one other folder tells nothing.
    """
    depth, node = 1, view.node
    while len(node.children) == 1 and node.children[0].children:
        depth, node = depth + 1, node.children[0]
    while depth < MAX_DEPTH:
        deeper = _View(view.names, view.node, depth + 1)
        rows, is_all = _take(deeper, max_characters)
        if not is_all:
            break
        depth += 1
        if not any(row.is_area for row in rows):
            break
    return depth


def _take(view: _View, max_characters: int) -> tuple[list[_Row], bool]:
    """Return the rows of the next page, and whether they are all that is left.

    There is one row at least, so that the pages come to an end; a text that is not cut
    may take all the room, and then there is none.
    """
    rows: list[_Row] = []
    room = max_characters - _measure(_render_top(view))
    for names, node in walk_levels(view.node, view.depth, view.after):
        is_area = len(names) == view.depth and bool(node.children)
        data = _render(node, is_short=view.is_short)
        if is_area:
            data["skillCount"] = node.skill_count - (node.number is not None)
        room -= _measure(data)
        is_full = room < _measure(_render_cursor(view, names))
        if is_full and (rows or not view.is_short):
            return rows, False
        rows.append(_Row(names, node, data, is_area))
    return rows, view.is_short or room >= 0


def _arrange(view: _View, rows: list[_Row], is_all: bool) -> Listing:  # noqa: FBT001
    """Return the rows as a tree.

    On a later page, the folders above a row are not repeated: the row stands at the
    top, and its path says where it belongs.
    """
    top = _render_top(view)
    above: list[tuple[int, dict[str, Any]]] = [(0, top)]
    for row in rows:
        while above[-1][0] >= len(row.names):
            above.pop()
        above[-1][1]["children"].append(row.data)
        above.append((len(row.names), row.data))
    shown = [(row.node, row.data) for row in rows]
    if not view.after:
        shown.append((view.node, top))
    areas = sum(row.is_area for row in rows)
    is_part = bool(areas or view.after or not is_all)
    return Listing(
        tree=top,
        total=view.node.skill_count,
        shown=sum(node.number is not None for node, _ in shown),
        areas=areas,
        depth=view.depth if is_part else None,
        next_cursor=None if is_all else _render_cursor(view, rows[-1].names),
        is_shortened=view.is_short and any(_is_shortened(*each) for each in shown),
    )


def _render_top(view: _View) -> dict[str, Any]:
    """Return the node that was asked for; later pages do not describe it again."""
    top = _render(view.node, is_short=view.is_short)
    if view.after:
        top |= {"description": "", "keywords": [], "continued": True}
        top.pop("alsoAt", None)
    return top


def _render(node: TreeNode, *, is_short: bool) -> dict[str, Any]:
    data = render_own(node)
    if is_short:
        data["description"] = cut_text(data["description"], MAX_DESCRIPTION)
        data["keywords"] = list(_fitting(data["keywords"], _MAX_KEYWORDS))
        if copies := data.get("alsoAt"):
            data["alsoAt"] = list(_fitting(copies, _MAX_COPIES))
    return data


def _fitting(words: list[str], max_characters: int) -> Iterator[str]:
    room = max_characters
    for word in words:
        room -= len(word)
        if room < 0:
            return
        yield word


def _is_shortened(node: TreeNode, row: dict[str, Any]) -> bool:
    skill = node.skill
    return skill is not None and (
        row["description"] != skill.description
        or len(row["keywords"]) < len(skill.keywords)
        or len(row.get("alsoAt", ())) < len(node.other_places)
    )


def _measure(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) + _SEPARATOR


def _render_cursor(view: _View, last: tuple[str, ...]) -> str:
    """Return a cursor that a model can copy, and that holds in another commit, too.

    It has the number of levels, the number of names of the folder that was asked for,
    and the names of the last row.
    """
    return f"{view.depth}:{len(view.names)}:{'/'.join((*view.names, *last))}"


def _parse_cursor(tree: TreeNode, cursor: str, path: str, depth: int | None) -> _View:
    found = _CURSOR.fullmatch(cursor)
    if not found:
        raise InvalidArgumentsError(
            f"cursor: {shorten(cursor)} is unknown. Pass the next_cursor of a reply as "
            "it is, or leave cursor out to begin again."
        )
    levels, above, names = int(found[1]), int(found[2]), tuple(found[3].split("/"))
    begin, last = names[:above], names[above:]
    node = find_node(tree, "/".join(begin))
    if not (0 < levels <= MAX_DEPTH and last) or node is None:
        raise InvalidArgumentsError(
            f"cursor: {shorten(cursor)} leads nowhere, perhaps because the skills have "
            "changed. Leave it out to begin again."
        )
    if (depth or levels) != levels or (path and locate(tree, path) != begin):
        raise InvalidArgumentsError(
            f"cursor: {shorten(cursor)} is that of another path or depth. Pass it "
            "alone, or leave it out to begin again."
        )
    return _View(begin, node, levels, after=last)
