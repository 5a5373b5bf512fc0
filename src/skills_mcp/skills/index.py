"""All skills of one commit, and how they are related (001 §4.4).  Never changes."""

from collections.abc import Iterable, Iterator

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.model import Skill, SkillPath

ROOT = SkillPath("_root")
INDEX = "_index"


class SkillIndex:
    """An immutable set of skills, in path order."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._skills = {s.path: s for s in sorted(skills, key=lambda s: s.path)}
        # The second pass of 001 §4.4: every path is known now.
        self._parents = {path: self._nearest(path) for path in self._skills}

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    def get(self, path: str) -> Skill | None:
        """Return the skill with exactly this path."""
        return self._skills.get(SkillPath(path))

    def require(self, path: str) -> Skill:
        """Return the skill with exactly this path.

        Raises:
            SkillNotFoundError: There is none; the message names similar ones.
        """
        skill = self.get(path)
        if skill is None:
            raise self.not_found(path)
        return skill

    def not_found(self, path: str) -> SkillNotFoundError:
        """Return the error for a path that leads nowhere."""
        similar = self._similar(path)
        hint = f"Did you mean {' or '.join(similar)}? " if similar else ""
        return SkillNotFoundError(
            f"There is no skill {path!r}. {hint}Call list_skills to see all paths."
        )

    def parent(self, skill: Skill) -> Skill | None:
        """Return the nearest ancestor that exists, whatever `inherit` says."""
        return self._parents[skill.path]

    def children(self, skill: Skill) -> tuple[Skill, ...]:
        """Return the skills whose parent is `skill`."""
        return tuple(other for other in self if self.parent(other) is skill)

    def lineage(self, skill: Skill) -> tuple[Skill, ...]:
        """Return the skill's ancestors and itself, the most general first."""
        chain = [skill]
        while parent := self.parent(chain[-1]):
            chain.append(parent)
        return tuple(reversed(chain))

    def _similar(self, path: str) -> list[SkillPath]:
        """Return the skills that were probably meant, the closest first."""
        wanted = path.strip("/").removesuffix(".md").casefold()
        name = wanted.rpartition("/")[2]
        meant = (wanted, f"{wanted}/{INDEX}")
        found = [
            path
            for path in self._skills
            if name
            and any(part.startswith(name) for part in path.casefold().split("/"))
        ]
        return sorted(found, key=lambda other: other.casefold() not in meant)[:3]

    def _nearest(self, path: SkillPath) -> Skill | None:
        """Walk up over parents that do not exist."""
        above = derive_parent_path(path)
        while above is not None and above not in self._skills:
            above = derive_parent_path(above)
        return self._skills[above] if above is not None else None


def derive_parent_path(path: SkillPath) -> SkillPath | None:
    """Return the path that would be the parent, whether it exists or not.

    >>> derive_parent_path(SkillPath("ui/react/auth"))
    'ui/react/_index'
    >>> derive_parent_path(SkillPath("ui/react/_index"))
    'ui/_index'
    >>> derive_parent_path(SkillPath("ui/_index"))
    '_root'
    """
    if path == ROOT:
        return None
    folder, _, name = path.rpartition("/")
    if name == INDEX:
        folder = folder.rpartition("/")[0]
    return SkillPath(f"{folder}/{INDEX}") if folder else ROOT
