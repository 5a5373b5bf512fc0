"""All skills of one commit, and how they are related (001 §4.4).  Never changes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from skills_mcp.config import Visibility
from skills_mcp.errors import (
    AmbiguousNameError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
    shorten,
)
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.visibility import is_denied, is_enabled

ROOT = SkillPath("_root")
INDEX = "_index"

SCOPES = ("org", "repo", "user")
"""Whose skills come first where nothing else decides (002 §5.5)."""


_MAX_NAMED = 10
"""Skills in one message: `code-review` is the name of hundreds."""

_LONGEST_SLIP = 100  # longer words are no names, and take long to compare


class SkillIndex:
    """An immutable set of skills, in path order.

    It holds every skill; what the operator does not offer is found by nobody
    (000 §4.2). Iterating yields the skills that are offered.
    """

    def __init__(
        self, skills: Iterable[Skill] = (), rules: Visibility | None = None
    ) -> None:
        rules = rules or Visibility()
        self._skills = {s.path: s for s in sorted(skills, key=lambda s: s.path)}
        everyone = self._skills.values()
        self._offered = {s.path: s for s in everyone if is_enabled(s, rules)}
        denied = {s.path for s in everyone if is_denied(s, rules)}
        self._inherited = self._skills.keys() - denied
        # The second pass of 001 §4.4: every path is known now.
        self._parents = {path: self._nearest(path) for path in self._skills}
        self._named: dict[str, list[Skill]] = defaultdict(list)
        for skill in self._offered.values():
            self._named[skill.name.casefold()].append(skill)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._offered.values())

    def __len__(self) -> int:
        return len(self._offered)

    @property
    def hidden_count(self) -> int:
        """How many skills the operator does not offer."""
        return len(self._skills) - len(self._offered)

    def get(self, path: str) -> Skill | None:
        """Return the skill with exactly this path, if it is offered."""
        return self._offered.get(SkillPath(path))

    def require(self, path: str) -> Skill:
        """Return the skill with exactly this path.

        Raises:
            SkillDisabledError: The operator does not offer it.
            SkillNotFoundError: There is none; the message names similar ones.
        """
        skill = self.get(path)
        if skill is None:
            raise self.not_found(path)
        return skill

    def resolve(self, name: str) -> Skill:
        """Return the skill with this path, or else the only one with this name.

        `$pdf` is `pdf`: so people mention a skill in a chat (002 §1). Its Markdown
        file stands for a skill, too.

        Raises:
            AmbiguousNameError: Several skills have this name; the message has the
                path of each.
            SkillDisabledError: The operator does not offer it.
            SkillNotFoundError: There is none; the message names similar ones.
        """
        wanted = name.strip().removeprefix("$")
        for path in (name, wanted, self._path_of(wanted)):
            if path in self._skills:
                return self.require(path)
        named = self._named.get(wanted.casefold(), [])
        if len(named) > 1:
            raise _ambiguous(wanted, named)
        if not named:
            raise self.not_found(wanted)
        return named[0]

    def _path_of(self, file: str) -> str:
        """Return the path of the skill whose file this is, as a catalogue names it."""
        if not file.endswith(".md"):
            return ""
        every = self._skills.values()
        return next((s.path for s in every if file in {s.file, str(s.location)}), "")

    def not_found(self, path: str) -> SkillsError:
        """Return the error for a path or name that leads nowhere."""
        wanted = path.strip("/").casefold()
        hidden = (s for s in self._skills.values() if s.path not in self._offered)
        if any(wanted in {s.path.casefold(), s.name.casefold()} for s in hidden):
            return SkillDisabledError(
                f"The skill {shorten(path)} is not offered here. Go on without it, "
                "or ask the operator (visibility)."
            )
        similar = self._similar(path)
        hint = f"Did you mean {' or '.join(similar)}? " if similar else ""
        return SkillNotFoundError(
            f"There is no skill {shorten(path)}. {hint}list_skills and search_skills "
            "show what there is."
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
        wanted = path.strip("/").casefold().removesuffix("/skill.md")
        wanted = wanted.removesuffix(".md")
        name = wanted.rpartition("/")[2]
        meant = (wanted, f"{wanted}/{INDEX}")
        found = [
            path
            for path in self._offered
            if name
            and any(part.startswith(name) for part in path.casefold().split("/"))
        ]
        found = found or self._spelled_like(name)
        return sorted(found, key=lambda other: other.casefold() not in meant)[:3]

    def _spelled_like(self, name: str) -> list[SkillPath]:
        """Return the skills whose names differ from this one by a slip or two."""
        close = get_close_matches(name[:_LONGEST_SLIP], list(self._named))
        return [skill.path for each in close for skill in self._named[each]]

    def _nearest(self, path: SkillPath) -> Skill | None:
        """Walk up over parents that do not exist, or may not be served."""
        above = derive_parent_path(path)
        while above is not None and above not in self._inherited:
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


def _ambiguous(name: str, named: list[Skill]) -> AmbiguousNameError:
    ordered = sorted(named, key=lambda s: (SCOPES.index(s.scope), s.path))
    listed = ", ".join(f"{s.path} ({s.scope})" for s in ordered[:_MAX_NAMED])
    rest = len(ordered) - _MAX_NAMED
    more = f", and {rest} more" if rest > 0 else ""
    return AmbiguousNameError(
        f"Several skills are named {name!r}. Pass the path of the one you mean: "
        f"{listed}{more}."
    )
