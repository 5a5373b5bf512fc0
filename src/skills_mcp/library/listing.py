"""Skill tree in pages.

Rule: the pages of a listing contain each skill once, in tree order, directly or counted
in an area. No page exceeds its limit.

An oversized listing has shortened texts and ends at the deepest fitting level: a folder
there is an area with a count. A level too long alone is split into pages.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.skills import tree_node
from skills_mcp.text.rendering import abbreviate_value, truncate_text

MAX_DEPTH = 100
"""Deeper than any path."""

MAX_SHORT_DESCRIPTION = 200
"""Characters in a shortened listing: about two sentences."""

_MAX_KEYWORDS = 100  # characters of all keywords of a skill

_MAX_COPIES = 200  # characters of the paths of its copies


_CURSOR = re.compile(r"(\d{1,3}):(\d{1,3}):(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Page of the tree."""

    tree: dict[str, Any]
    """Format of `render_node`; an area has `skillCount` and no children."""
    total: int
    displayed: int
    areas: int = 0
    depth: int | None = None
    """Number of levels; None if complete."""
    next_cursor: str | None = None
    is_shortened: bool = False


class _View(NamedTuple):
    names: tuple[str, ...]
    node: tree_node.TreeNode
    depth: int
    is_short: bool = True
    after: tuple[str, ...] = ()


class _Row(NamedTuple):
    names: tuple[str, ...]
    node: tree_node.TreeNode
    data: dict[str, Any]
    is_area: bool


def compose_listing(
    tree: tree_node.TreeNode,
    *,
    path: str = "",
    depth: int | None = None,
    cursor: str | None = None,
    max_characters: int,
) -> Listing | None:
    """Page of at most `max_characters` as JSON; None without a node at `path`.

    Raises:
        InvalidArgumentsError: The cursor is unknown, or of another listing.
    """
    if cursor is not None:
        view = _parse_cursor(tree, cursor, path, depth)
        return _build_listing(view, *_take_rows(view, max_characters))
    names = tree_node.find_node_names(tree, path)
    node = None if names is None else tree_node.find_node(tree, path)
    if names is None or node is None:
        return None
    view = _View(names, node, depth or MAX_DEPTH, is_short=False)
    rows, is_all = _take_rows(view, max_characters)
    if not is_all:
        chosen = depth or _choose_depth(view, max_characters)
        view = _View(names, node, chosen)
        rows, is_all = _take_rows(view, max_characters)
    return _build_listing(view, rows, is_all)


def _choose_depth(view: _View, max_characters: int) -> int:
    """Deepest fitting level, at least the first with more than one folder."""
    depth, node = 1, view.node
    while len(node.children) == 1 and node.children[0].children:
        depth, node = depth + 1, node.children[0]
    while depth < MAX_DEPTH:
        rows, is_all = _take_rows(_View(view.names, view.node, depth + 1), max_characters)
        if not is_all:
            break
        depth += 1
        if not any(row.is_area for row in rows):
            break
    return depth


def _take_rows(view: _View, max_characters: int) -> tuple[list[_Row], bool]:
    """Rows of the next page, and whether it is the last page.

    At least one row, so that paging ends; none if an unshortened text exceeds the
    budget.
    """
    rows: list[_Row] = []
    budget = max_characters - json_length(_render_root(view))
    for names, node in tree_node.walk_descendants(view.node, view.depth, view.after):
        is_area = len(names) == view.depth and bool(node.children)
        data = _render(node, is_short=view.is_short)
        if is_area:
            data["skillCount"] = node.skill_count - (node.number is not None)
        budget -= json_length(data)
        is_full = budget < json_length(_render_cursor(view, names))
        if is_full and (rows or not view.is_short):
            return rows, False
        rows.append(_Row(names, node, data, is_area))
    return rows, view.is_short or budget >= 0


def _build_listing(view: _View, rows: list[_Row], is_all: bool) -> Listing:  # noqa: FBT001
    """Build the tree from rows; a later page does not repeat the parents of a row."""
    top = _render_root(view)
    above: list[tuple[int, dict[str, Any]]] = [(0, top)]
    for row in rows:
        while above[-1][0] >= len(row.names):
            above.pop()
        above[-1][1]["children"].append(row.data)
        above.append((len(row.names), row.data))
    displayed = [(row.node, row.data) for row in rows]
    if not view.after:
        displayed.append((view.node, top))
    areas = sum(row.is_area for row in rows)
    is_part = bool(areas or view.after or not is_all)
    return Listing(
        tree=top,
        total=view.node.skill_count,
        displayed=sum(node.number is not None for node, _ in displayed),
        areas=areas,
        depth=view.depth if is_part else None,
        next_cursor=None if is_all else _render_cursor(view, rows[-1].names),
        is_shortened=view.is_short and any(_is_shortened(*pair) for pair in displayed),
    )


def _render_root(view: _View) -> dict[str, Any]:
    top = _render(view.node, is_short=view.is_short)
    if view.after:
        top |= {"description": "", "keywords": [], "continued": True}
        top.pop("alsoAt", None)
    return top


def _render(node: tree_node.TreeNode, *, is_short: bool) -> dict[str, Any]:
    data = tree_node.render_without_children(node)
    if is_short:
        data["description"] = truncate_text(data["description"], MAX_SHORT_DESCRIPTION)
        data["keywords"] = list(_take_fitting(data["keywords"], _MAX_KEYWORDS))
        if copies := data.get("alsoAt"):
            data["alsoAt"] = list(_take_fitting(copies, _MAX_COPIES))
    return data


def _take_fitting(words: list[str], max_characters: int) -> Iterator[str]:
    budget = max_characters
    for word in words:
        budget -= len(word)
        if budget < 0:
            return
        yield word


def _is_shortened(node: tree_node.TreeNode, row: dict[str, Any]) -> bool:
    skill = node.skill
    return skill is not None and (
        row["description"] != skill.description
        or len(row["keywords"]) < len(skill.keywords)
        or len(row.get("alsoAt", ())) < len(node.other_places)
    )


def json_length(value: object) -> int:
    """Number of characters of a value in a JSON reply."""
    return len(json.dumps(value, ensure_ascii=False)) + len(", ")


def _render_cursor(view: _View, last: tuple[str, ...]) -> str:
    """Readable cursor, valid across commits: depth, length of the top path, last row."""
    return f"{view.depth}:{len(view.names)}:{'/'.join((*view.names, *last))}"


def _parse_cursor(tree: tree_node.TreeNode, cursor: str, path: str, depth: int | None) -> _View:
    found = _CURSOR.fullmatch(cursor)
    if not found:
        raise InvalidArgumentsError(
            f"cursor: {abbreviate_value(cursor)} is unknown. Pass the next_cursor of a reply as "
            "it is, or leave cursor out to begin again."
        )
    levels, above, names = int(found[1]), int(found[2]), tuple(found[3].split("/"))
    begin, last = names[:above], names[above:]
    node = tree_node.find_node(tree, "/".join(begin))
    if not (0 < levels <= MAX_DEPTH and last) or node is None:
        raise InvalidArgumentsError(
            f"cursor: {abbreviate_value(cursor)} leads nowhere, perhaps because the skills have "
            "changed. Leave it out to begin again."
        )
    if (depth or levels) != levels or (path and tree_node.find_node_names(tree, path) != begin):
        raise InvalidArgumentsError(
            f"cursor: {abbreviate_value(cursor)} is that of another path or depth. Pass it "
            "alone, or leave it out to begin again."
        )
    return _View(begin, node, levels, after=last)
