"""Filters for requests about a part of the skills."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.index import ROOT, SkillIndex, quote_requested_path
from skills_mcp.skills.model import Scope
from skills_mcp.text.rendering import join_names

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

_MAX_LISTED = 20  # in a message, where they only help to find the right one


@dataclass(frozen=True, slots=True)
class SkillFilter:
    """A filter by folder, category and scope; empty for all skills."""

    below: str = ""
    """A folder of the tree, such as `ui/react`, or a single skill."""
    category: str = ""
    scope: Scope | None = None


NO_FILTER = SkillFilter()


def compute_filter_mask(index: SkillIndex, scoping: SkillFilter) -> "NDArray[np.bool_] | None":
    """Compute the mask of a filter over the enabled skills; None for all.

    A scope may be empty; an empty folder or category is a mistake.

    Raises:
        SkillNotFoundError: No skill matches; the message lists the alternatives.
    """
    if scoping == NO_FILTER:
        return None
    import numpy as np

    folder = scoping.below.strip().strip("/").removesuffix("/_index")
    category = scoping.category.strip().casefold()
    is_selected = np.ones(len(index), bool)
    if folder not in {"", ROOT}:
        is_selected &= np.fromiter((_is_below(row.path, folder) for row in index.listed), bool)
        if not is_selected.any():
            raise _no_folder_error(index, folder, scoping.below.strip().rstrip("/"))
    if category:
        is_selected &= np.fromiter((row.category == category for row in index.listed), bool)
        if not is_selected.any():
            raise _no_category_error(index, category, folder)
    if scoping.scope:
        is_selected &= np.fromiter((row.scope == scoping.scope for row in index.listed), bool)
    return is_selected


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _no_folder_error(index: SkillIndex, folder: str, requested: str) -> SkillNotFoundError:
    folders = {row.path.rpartition("/")[0] for row in index.listed} - {""}
    similar = get_close_matches(folder, folders) or sorted(folders)
    quoted = quote_requested_path(requested, "this folder")
    return SkillNotFoundError(
        f"There is no skill below {quoted}. {_list_alternatives('Folders', similar)}"
        "list_skills shows the tree."
    )


def _no_category_error(index: SkillIndex, category: str, folder: str) -> SkillNotFoundError:
    categories = sorted({row.category for row in index.listed} - {""})
    where = f" below {folder}" if folder else ""
    quoted = quote_requested_path(category, "that you name")
    return SkillNotFoundError(
        f"There is no skill of the category {quoted}{where}. "
        f"{_list_alternatives('Categories', categories)}Leave the category out to search them all."
    )


def _list_alternatives(what: str, names: list[str]) -> str:
    if not names:
        return ""
    return f"{what}: {join_names(names, _MAX_LISTED)}. "
