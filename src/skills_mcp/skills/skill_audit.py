"""The hook `audit`: checks of skills and of their powers, added by a feature."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skills_mcp.hooks import load_hooks
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.skill_index import SkillIndex


class SkillAudit:
    """Each method says nothing, which is None, unless a feature overrides it."""

    top_files: Collection[str] = ()
    """Files at the top of the content that it reads, and a source serves for it."""
    root_files: Collection[str] = ()
    """The same in each skill root, too."""

    def check(self, tree: Any, skills: Collection[Any]) -> Iterable[Problem] | None:
        """Check skills of a `SkillTree`, each an `AuthoredSkill`, in each run of `validate`."""

    def check_powers(self, tree: Any, skills: Collection[Any]) -> Iterable[Problem] | None:
        """Report powers beyond the allowance, with `validate --powers`.

        Raises:
            ConfigError: The file with what is allowed cannot be used.
        """

    def warn_of_powers(self, tree: Any, skills: Collection[Any]) -> Iterable[Problem] | None:
        """Warn of powers to review in an upload, also of those that it allows itself."""

    def describe_excess(self, index: SkillIndex, folder: Path) -> str | None:
        """Describe powers beyond the allowance of a commit; empty without any."""

    def list_powers(self, index: SkillIndex, skill: Skill) -> Sequence[Any] | None:
        """List the powers of a skill and its ancestors, what matters most first."""

    def compare_files(
        self, before: Mapping[str, bytes], after: Mapping[str, bytes]
    ) -> tuple[Sequence[str], Sequence[str]] | None:
        """Name the powers that a change of these files adds, and removes."""

    def note_powers(self, index: SkillIndex, skill: Skill, folders: Collection[Path]) -> str | None:
        """One line for the agent's user, about what no folder with the skill allows."""

    def note_script_powers(self, index: SkillIndex, path: str, file: str) -> str | None:
        """The powers of a script, for the question before it runs."""


def load_audits() -> Iterator[SkillAudit]:
    return load_hooks("audit")
