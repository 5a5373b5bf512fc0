"""The hooks of powers: a check of `validate`, and one of a commit before it is served.

Each import is late: a server imports this file, and asks none of it.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from skills_mcp.errors import ConfigError
from skills_mcp.skills.model import Problem
from skills_mcp.skills.skill_index import SkillIndex

if TYPE_CHECKING:
    from skills_mcp.features.authoring.validation import AuthoredSkill, SkillTree


def check_powers(tree: "SkillTree", skills: "Collection[AuthoredSkill]") -> Iterator[Problem]:
    """Report powers beyond `powers.yaml` as errors; without that file, warn of the others.

    Raises:
        ConfigError: `powers.yaml` cannot be used.
    """
    from skills_mcp.features.powers.authored_powers import report_powers

    return report_powers(tree, skills)


def describe_excess(index: SkillIndex, folder: Path) -> str:
    """Describe powers beyond `powers.yaml` in the folder of a commit; empty if there are none.

    A commit without the file allows nothing: to delete it opens nothing.
    """
    from skills_mcp.features.powers.allowance import POWERS_FILE, find_excess, load_allowances
    from skills_mcp.features.powers.statement import state_powers

    try:
        allowances = load_allowances(folder)
    except ConfigError as error:
        return str(error)
    if allowances is None:
        return f"it has no {POWERS_FILE}"
    found = (power for _, powers in state_powers(index) for power in powers)
    beyond = find_excess(found, allowances)
    if not beyond:
        return ""
    first = beyond[0]
    more = f" and {len(beyond) - 1} more" if beyond[1:] else ""
    return f"{first.skill} has the power {first.kind}, {first.subject}{more}"
