"""The hooks of powers: a check of `validate`.

Each import is late: a server imports this file, and asks none of it.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from skills_mcp.skills.model import Problem

if TYPE_CHECKING:
    from skills_mcp.features.authoring.validation import AuthoredSkill, SkillTree


def check_powers(tree: "SkillTree", skills: "Collection[AuthoredSkill]") -> Iterator[Problem]:
    """Report powers beyond `powers.yaml` as errors; without that file, warn of the others.

    Raises:
        ConfigError: `powers.yaml` cannot be used.
    """
    from skills_mcp.features.powers.authored_powers import report_powers

    return report_powers(tree, skills)
