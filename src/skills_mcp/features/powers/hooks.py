"""The hook of powers: checks of `validate` and of a commit, and notes for people.

Each import is late: a server imports this file, and may ask none of it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from skills_mcp.errors import ConfigError
from skills_mcp.features.powers import POWERS_FILE
from skills_mcp.skills.inheritance import find_script_in_lineage
from skills_mcp.skills.model import Problem, Skill, escape_unprintable
from skills_mcp.skills.skill_audit import SkillAudit
from skills_mcp.skills.skill_index import SkillIndex

if TYPE_CHECKING:
    from skills_mcp.features.authoring.validation import AuthoredSkill, SkillTree
    from skills_mcp.features.powers.power import Power


class _Powers(SkillAudit):
    top_files = (POWERS_FILE,)

    def check_powers(
        self, tree: "SkillTree", skills: "Collection[AuthoredSkill]"
    ) -> Iterator[Problem]:
        """Report powers beyond `powers.yaml` as errors; without that file, warn of the others.

        Raises:
            ConfigError: `powers.yaml` cannot be used.
        """
        from skills_mcp.features.powers.authored_powers import report_powers
        from skills_mcp.features.powers.power import load_allowances

        return report_powers(tree, skills, load_allowances(tree.top))

    def warn_of_powers(
        self, tree: "SkillTree", skills: "Collection[AuthoredSkill]"
    ) -> Iterator[Problem]:
        """Warn of powers to review, also of those that a package allows itself."""
        from skills_mcp.features.powers.authored_powers import report_powers

        return report_powers(tree, skills, None)

    def describe_excess(self, index: SkillIndex, folder: Path) -> str:
        """Describe powers beyond `powers.yaml` in the folder of a commit; empty if there are none.

        A commit without the file allows nothing: to delete it opens nothing.
        """
        from skills_mcp.features.powers.power import find_excess, load_allowances
        from skills_mcp.features.powers.statement import state_powers

        try:
            allowances = load_allowances(folder)
        except ConfigError as error:
            return str(error)
        if allowances is None:
            return f"it has no {POWERS_FILE}"
        # The rules of a folder that the operator does not offer reach the skills in it.
        served = {p.path: p for each in (*index, *index.drafts) for p in index.contributors(each)}
        found = (power for _, powers in state_powers(index, served.values()) for power in powers)
        beyond = find_excess(found, allowances)
        if not beyond:
            return ""
        first = beyond[0]
        more = f" and {len(beyond) - 1} more" if beyond[1:] else ""
        return f"{first.skill} has the power {first.kind}, {first.subject}{more}"

    def note_powers(self, index: SkillIndex, skill: Skill, folders: Collection[Path]) -> str:
        """One line for the agent's user; empty if the rules allow all powers to review.

        Args:
            index: What is served.
            skill: Its own powers and those of its ancestors count.
            folders: The checkouts, of which one has the skill.
        """
        from skills_mcp.features.powers.power import find_excess, is_at_least, load_allowances
        from skills_mcp.features.powers.statement import read_composed_powers

        location = skill.location or Path()  # which is in none of them
        folder = next((each for each in folders if location.is_relative_to(each)), None)
        try:
            allowances = load_allowances(folder) if folder else None
        except ConfigError:
            allowances = None  # what cannot be read allows nothing
        powers = [p for p in read_composed_powers(index, skill) if is_at_least(p.level, "review")]
        return _list_powers(find_excess(powers, allowances or ()))

    def list_powers(self, index: SkillIndex, skill: Skill) -> "list[Power]":
        """The powers of a skill and its ancestors, what matters most first."""
        from skills_mcp.features.powers.power import LEVELS
        from skills_mcp.features.powers.statement import read_composed_powers

        found = read_composed_powers(index, skill)
        return sorted(found, key=lambda power: -LEVELS.index(power.level))

    def compare_files(
        self, before: Mapping[str, bytes], after: Mapping[str, bytes]
    ) -> tuple[list[str], list[str]]:
        """Kind and subject of the powers that a change of these files adds, and removes."""
        old, new = _name_powers(before), _name_powers(after)
        return [each for each in new if each not in old], [each for each in old if each not in new]

    def note_script_powers(self, index: SkillIndex, path: str, file: str) -> str:
        """The powers of a script, for the question before it runs; empty if it has none."""
        from skills_mcp.features.powers.statement import read_powers

        skill = index.get(path)
        located = find_script_in_lineage(index, skill, file) if skill else None
        owner = located.owner if located else skill
        if owner is None:
            return ""
        return _list_powers([p for p in read_powers(owner) if p.file.endswith(f"/{file}")])


audit = _Powers()


def _name_powers(files: Mapping[str, bytes]) -> Collection[str]:
    from skills_mcp.features.powers.file_signs import MAX_READ_BYTES, find_signs
    from skills_mcp.features.powers.power import SENDS_TEXT

    found = dict.fromkeys(
        f"{sign.kind}: {sign.what}"
        for name, data in files.items()
        for sign in find_signs(name, data[:MAX_READ_BYTES], len(data))
    )
    return [each for each in found if each + SENDS_TEXT not in found]


_MAX_LISTED = 8  # more is no line that a person reads


def _list_powers(powers: "Iterable[Power]") -> str:
    named = dict.fromkeys(f"{power.kind} {power.what}" for power in powers)
    shown = list(named)[:_MAX_LISTED]
    more = [f"{len(named) - _MAX_LISTED} more"] if len(named) > _MAX_LISTED else []
    return escape_unprintable("; ".join((*shown, *more)))
