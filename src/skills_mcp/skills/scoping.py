"""Which part of the skills a task is about, when the caller knows."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.index import ROOT, SkillIndex, show_asked
from skills_mcp.skills.model import Scope
from skills_mcp.text.rendering import name_some

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

_MAX_NAMED = 20  # in a message, where they only help to find the right one


@dataclass(frozen=True, slots=True)
class Scoping:
    """A part of the skills; empty for all of them."""

    below: str = ""
    """A folder of the tree, such as `ui/react`, or a single skill."""
    category: str = ""
    """The author's own word for the kind of skill, in any case."""
    scope: Scope | None = None
    """The scope of the skills; None for all scopes."""


EVERYWHERE = Scoping()


def narrow(index: SkillIndex, scoping: Scoping) -> "NDArray[np.bool_] | None":
    """Return which of the skills that are offered belong to a part; None for all.

    A scope may have no skill; a folder or a category without any is a mistake.

    Raises:
        SkillNotFoundError: No skill is there; the message says what there is.
    """
    if scoping == EVERYWHERE:
        return None
    import numpy as np

    folder = scoping.below.strip().strip("/").removesuffix("/_index")
    category = scoping.category.strip().casefold()
    is_wanted = np.ones(len(index), bool)
    if folder not in {"", ROOT}:
        is_wanted &= np.fromiter(
            (_is_below(row.path, folder) for row in index.listed), bool
        )
        if not is_wanted.any():
            raise _no_folder(index, folder, scoping.below.strip().rstrip("/"))
    if category:
        is_wanted &= np.fromiter(
            (row.category == category for row in index.listed), bool
        )
        if not is_wanted.any():
            raise _no_category(index, category, folder)
    if scoping.scope:
        is_wanted &= np.fromiter(
            (row.scope == scoping.scope for row in index.listed), bool
        )
    return is_wanted


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _no_folder(index: SkillIndex, folder: str, asked: str) -> SkillNotFoundError:
    folders = {row.path.rpartition("/")[0] for row in index.listed} - {""}
    similar = get_close_matches(folder, folders) or sorted(folders)
    shown = show_asked(asked, "this folder")
    return SkillNotFoundError(
        f"There is no skill below {shown}. {_named('Folders', similar)}"
        "list_skills shows the tree."
    )


def _no_category(index: SkillIndex, category: str, folder: str) -> SkillNotFoundError:
    categories = sorted({row.category for row in index.listed} - {""})
    where = f" below {folder}" if folder else ""
    shown = show_asked(category, "that you name")
    return SkillNotFoundError(
        f"There is no skill of the category {shown}{where}. "
        f"{_named('Categories', categories)}Leave the category out to search them all."
    )


def _named(what: str, names: list[str]) -> str:
    if not names:
        return ""
    return f"{what}: {name_some(names, _MAX_NAMED)}. "
