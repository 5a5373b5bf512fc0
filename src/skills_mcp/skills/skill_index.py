"""The index of all skills of one snapshot: visibility, relations and filters.

A disabled skill cannot be requested, but its rules still reach the skills below it. A
denied one is never served, not even as a part of another skill. Immutable.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol, overload

from skills_mcp.config import Visibility
from skills_mcp.errors import (
    AGENTS_STEP,
    AmbiguousNameError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
)
from skills_mcp.files.paths import compile_patterns, is_inside, parse_relative
from skills_mcp.skills.model import Lifecycle, Scope, Skill, SkillPath
from skills_mcp.text.rendering import abbreviate_value, join_names

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray


# Lists of settings and grants, which are the operator's; each state and view is judged
# with the same ones.
_MAX_COMPILED = 256


class SkillRow(Protocol):
    """Metadata of a skill, available without decoding."""

    @property
    def path(self) -> SkillPath: ...

    @property
    def name(self) -> str: ...

    @property
    def category(self) -> str: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def always_apply(self) -> bool: ...

    @property
    def user_only(self) -> bool: ...

    @property
    def lifecycle(self) -> Lifecycle: ...


def is_denied(skill: SkillRow, rules: Visibility) -> bool:
    return compile_skill_patterns(rules.deny).fit(skill)


def is_enabled(skill: SkillRow, rules: Visibility) -> bool:
    """Whether the skill can be requested; deny wins over allow."""
    if is_denied(skill, rules):
        return False
    if rules.allow and not compile_skill_patterns(rules.allow).fit(skill):
        return False
    if rules.enabled_skills:  # 000 §8.3: names decide alone, if there are any
        return not {skill.name.casefold(), skill.path.casefold()}.isdisjoint(
            _fold_words(rules.enabled_skills)
        )
    if rules.enabled_categories:
        return skill.category in _fold_words(rules.enabled_categories)
    return True


def find_unused_rules(skills: Collection[SkillRow], rules: Visibility) -> Iterator[str]:
    """Yield the settings without a match, as `deny: pdf/*`."""
    for key in ("allow", "deny"):
        for pattern in getattr(rules, key):
            if not any(map(SkillPatterns((pattern,)).fit, skills)):
                yield f"{key}: {pattern}"
    named = skills if rules.enabled_skills else ()  # as nearly everywhere
    names = {text for s in named for text in (s.name.casefold(), s.path.casefold())}
    for word in _fold_words(rules.enabled_skills):
        if word not in names:
            yield f"enabled_skills: {word}"
    for word in _fold_words(rules.enabled_categories):
        if all(skill.category != word for skill in skills):
            yield f"enabled_categories: {word}"


def normalize_pattern(pattern: str) -> str:
    """Normalise a pattern of skills written as a folder or file.

    >>> [normalize_pattern(p) for p in ("./pdf/", "/pdf", "pdf/SKILL.md", "pdf/**")]
    ['pdf', 'pdf', 'pdf', 'pdf/*']
    """
    bare = pattern.strip().removeprefix("./").strip("/")
    bare = bare.removesuffix("/SKILL.md")
    return f"{bare.removesuffix('/**')}/*" if bare.endswith("/**") else bare


class SkillPatterns:
    """Compiled patterns of skills, for many look-ups."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._fits = compile_patterns(normalize_pattern(pattern).casefold() for pattern in patterns)

    def fit(self, skill: SkillRow) -> bool:
        return self._fits(skill.path.casefold()) or self._fits(skill.name.casefold())


@lru_cache(maxsize=_MAX_COMPILED)
def compile_skill_patterns(patterns: tuple[str, ...]) -> SkillPatterns:
    return SkillPatterns(patterns)


def _fold_words(words: Iterable[str]) -> list[str]:
    return [word.strip().casefold() for word in words]


ROOT = SkillPath("_root")
INDEX = "_index"

SCOPES = ("org", "repo", "user")
"""Order of scopes as the last tie-break."""


_MAX_NAMED = 10
"""Skills in one message: `code-review` is the name of hundreds."""

_MAX_COMPARED_CHARACTERS = 100  # longer words are no names, and take long to compare


class SkillSubset(Sequence[Skill]):
    """A subset of skills, in the same order; a number is a position."""

    def __init__(self, skills: Sequence[Skill], numbers: Sequence[int]) -> None:
        self._skills = skills
        self.numbers = numbers
        """Where each of them is among all."""

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, number: int) -> Skill: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Skill, ...]: ...
    def __getitem__(self, number: int | slice) -> Skill | tuple[Skill, ...]:
        if isinstance(number, slice):
            return tuple(self._skills[n] for n in self.numbers[number])
        return self._skills[self.numbers[number]]

    def replaced(self, others: Mapping[int, int]) -> "SkillSubset":
        """Replace the skills at some positions, by number."""
        numbers = array("I", self.numbers)
        for number, position in others.items():
            numbers[number] = position
        return SkillSubset(self._skills, numbers)


# How a skill stands to those who ask. The order matters: what is asked for by its path
# is one of the last four.
_ABSENT = 0  # the caller may not know of it
_OUTSIDE = 1  # of the part that a request is about; its rules reach the skills below
_DENIED = 2  # by the operator, and its rules reach no skill
_DISABLED = 3  # the operator does not offer it; its rules reach the skills below
_DRAFT = 4  # found by its path alone; its rules reach the drafts below
_ENABLED = 5

# How each of them stands to a request that is not about it.
_OUTSIDE_OF_REQUEST = bytes((_ABSENT, _OUTSIDE, _ABSENT, _OUTSIDE, _ABSENT, _OUTSIDE))

_HIDDEN = frozenset({_DENIED, _DISABLED})
_REACHING = frozenset({_OUTSIDE, _DISABLED, _ENABLED})
_REACHING_DRAFTS = _REACHING | {_DRAFT}


class _SharedRows(NamedTuple):
    skills: Sequence[Skill]
    rows: tuple[SkillRow, ...]
    numbers: Mapping[str, int]
    copies: tuple[Sequence[SkillPath], ...]


class SkillIndex:
    """An immutable set of skills, in path order.

    It holds every skill, but finds only the enabled ones. Iterating yields them.

    Args:
        skills: In path order already, if there are `rows`.
        rows: Metadata of each skill, without decoding (see `SkillTable.listed`).
        copies: Paths of identical skills; where they inherit the same rules, the first
            enabled one stands for all of them.
    """

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        rules: Visibility | None = None,
        *,
        rows: Iterable[SkillRow] | None = None,
        copies: Iterable[Sequence[SkillPath]] = (),
    ) -> None:
        if rows is None or not isinstance(skills, Sequence):
            by_path = {skill.path: skill for skill in skills}
            skills = [by_path[path] for path in sorted(by_path)]
        known = tuple(rows or skills)
        numbers = {row.path: number for number, row in enumerate(known)}
        shared = _SharedRows(skills, known, numbers, tuple(copies))
        self._set_standing(shared, _judge_visibility(known, rules or Visibility()))

    def _set_standing(self, shared: _SharedRows, standing: bytes) -> None:
        """Set visibility per row, a byte for each."""
        self._shared = shared
        self._standing = standing
        self._copies = dict(self._group_copies())
        self._first_copies: dict[str, str] = {
            c: p for p, others in self._copies.items() for c in others
        }
        enabled = (
            number
            for number, row in enumerate(shared.rows)
            if standing[number] == _ENABLED and row.path not in self._first_copies
        )
        self.offered = SkillSubset(shared.skills, array("I", enabled))

    def derive_caller_standing(
        self, is_visible: Callable[[SkillRow], bool], *, hides_drafts: bool = False
    ) -> bytes:
        """Compute the visibility per row for a caller with restricted access.

        An invisible skill does not exist: neither by its path, nor as an inherited rule.
        With `hides_drafts`, a draft is found by its path alone.
        """
        standings = zip(self._standing, self.rows, strict=True)
        return bytes(
            _ABSENT
            if not is_visible(row)
            else _DRAFT
            if hides_drafts and standing == _ENABLED and row.lifecycle.is_draft
            else standing
            for standing, row in standings
        )

    def derive_request_standing(self, is_selected: Callable[[SkillRow], bool]) -> bytes:
        """Compute the visibility per row for a request; all rules still apply."""
        standings = zip(self._standing, self.rows, strict=True)
        return bytes(
            standing if standing == _ABSENT or is_selected(row) else _OUTSIDE_OF_REQUEST[standing]
            for standing, row in standings
        )

    def seen(self, standing: bytes) -> "SkillIndex":
        other = SkillIndex.__new__(SkillIndex)
        other._set_standing(self._shared, standing)  # noqa: SLF001 - it is one of us
        return other

    @property
    def rows(self) -> tuple[SkillRow, ...]:
        return self._shared.rows

    @property
    def visible_numbers(self) -> tuple[int, ...]:
        """Row numbers visible to the caller, enabled or not."""
        return tuple(n for n, standing in enumerate(self._standing) if standing != _ABSENT)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.offered)

    def __len__(self) -> int:
        return len(self.offered)

    @property
    def hidden_count(self) -> int:
        return self._standing.count(_DENIED) + self._standing.count(_DISABLED)

    @property
    def copy_count(self) -> int:
        return len(self._first_copies)

    def other_places(self, path: SkillPath) -> tuple[SkillPath, ...]:
        """Paths of a skill's identical copies."""
        return self._copies.get(path, ())

    @cached_property
    def listed(self) -> tuple[SkillRow, ...]:
        return tuple(self._shared.rows[number] for number in self.offered.numbers)

    @cached_property
    def has_user_only(self) -> bool:
        """Whether a skill is for users alone, so that no task may find it."""
        return any(row.user_only for row in self.listed)

    def find(self, path: str) -> int | None:
        row = self._shared.numbers.get(self._first_copies.get(path, path), -1)
        position = -1 if row < 0 else self.offered_at[row]
        return None if position < 0 else position

    def get(self, path: str) -> Skill | None:
        """Get the enabled skill with this path, or its identical copy."""
        position = self.find(path)
        return None if position is None else self.offered[position]

    def require(self, path: str) -> Skill:
        """Get the skill with exactly this path.

        Raises:
            SkillDisabledError: The operator has disabled it.
            SkillNotFoundError: No such skill; the message names similar ones.
        """
        skill = self.get(path) or self._get_draft(path)
        if skill is None:
            raise self.not_found(path)
        return skill

    def _get_draft(self, path: str) -> Skill | None:
        number = self._shared.numbers.get(path, -1)
        is_draft = number >= 0 and self._standing[number] == _DRAFT
        return self._shared.skills[number] if is_draft else None

    def resolve(self, name: str) -> Skill:
        """Find a skill by path, or else by a unique name.

        `$pdf` is `pdf`: so people mention a skill in a chat. The path of its Markdown
        file is accepted, too.

        Raises:
            AmbiguousNameError: Several skills have this name; the message has the path
                of each.
            SkillDisabledError: The operator has disabled it.
            SkillNotFoundError: No such skill; the message names similar ones.
        """
        requested = name.strip().removeprefix("$")
        for path in (name, requested, self._find_path_of_file(requested)):
            if self._knows(path):
                return self.require(path)
        named = [self.offered[n] for n in self._named.get(requested.casefold(), ())]
        if len(named) > 1:
            raise _ambiguous_error(requested, named)
        if not named:
            raise self.not_found(requested)
        return named[0]

    def _find_path_of_file(self, file: str) -> str:
        if not file.endswith(".md"):
            return ""
        # A file lies in a package's folder, or beside one of its own name; a package
        # at the top alone has the name that it gives itself.
        *_, folder, name = ("", "", *file.split("/"))
        likely = {folder, name.removesuffix(".md")}
        rows = enumerate(self._shared.rows)
        known = (numbered for numbered in rows if self._standing[numbered[0]] >= _DENIED)
        paths = [(n, *row.path.rpartition("/")) for n, row in known]
        near = (n for n, _, _, last in paths if last in likely)
        at_top = (n for n, above, _, last in paths if not above and last not in likely)
        skills = (self._shared.skills[number] for number in chain(near, at_top))
        return next((s.path for s in skills if file in {s.file, str(s.location)}), "")

    def not_found(self, path: str) -> SkillsError:
        requested = path.strip("/").casefold()
        standings = zip(self._shared.rows, self._standing, strict=True)
        hidden = (row for row, standing in standings if standing in _HIDDEN)
        quoted = quote_requested_path(path, "of this name")
        if any(requested in {r.path.casefold(), r.name.casefold()} for r in hidden):
            return SkillDisabledError(
                f"The skill {quoted} is not offered here. Go on without it, "
                "or ask the operator (visibility)."
            )
        similar = self._similar(path)
        hint = f"Did you mean {' or '.join(similar)}? " if similar else ""
        return SkillNotFoundError(f"There is no skill {quoted}. {hint}{AGENTS_STEP}")

    @cached_property
    def draft_rows(self) -> Mapping[int, SkillRow]:
        """Rows of all drafts, visible or not, by number."""
        return {n: row for n, row in enumerate(self.rows) if row.lifecycle.is_draft}

    @cached_property
    def drafts(self) -> tuple[Skill, ...]:
        """Drafts found by their path alone."""
        standings = enumerate(self._standing)
        return tuple(self._shared.skills[n] for n, standing in standings if standing == _DRAFT)

    @cached_property
    def successors(self) -> Mapping[SkillPath, SkillPath]:
        """Map deprecated skills to the last of the chain of successors, if it is offered.

        A chain that is a circle, or ends with a draft or with no skill, has none.
        """
        declared = {row.path: row.lifecycle.replaced_by for row in self.listed}
        found = {path: self._follow(path, declared) for path, named in declared.items() if named}
        return {path: successor for path, successor in found.items() if successor}

    def _follow(self, path: SkillPath, declared: Mapping[SkillPath, str]) -> SkillPath | None:
        chain = [path]
        while named := declared[chain[-1]]:
            try:
                successor = self.resolve(named).path
            except SkillsError:
                return None
            if successor in chain or successor not in declared:
                return None
            chain.append(successor)
        return chain[-1]

    def parent(self, skill: Skill) -> Skill | None:
        """Find the nearest existing ancestor; `inherit` does not matter."""
        # Over parents that do not exist, or may not be served.
        above = next(self._find_ancestors(skill.path), None)
        return None if above is None else self._shared.skills[above]

    def children(self, skill: Skill) -> tuple[Skill, ...]:
        parents = ((child, self.parent(child)) for child in self)
        return tuple(child for child, above in parents if above and above.path == skill.path)

    def lineage(self, skill: Skill) -> tuple[Skill, ...]:
        """List the skill's ancestors and itself, the most general first."""
        chain = [skill]
        while parent := self.parent(chain[-1]):
            chain.append(parent)
        return tuple(reversed(chain))

    def contributors(self, skill: Skill) -> tuple[Skill, ...]:
        """List a skill after the ancestors it inherits from."""
        return self.lineage(skill) if skill.inherit else (skill,)

    def _similar(self, path: str) -> list[SkillPath]:
        requested = path.strip("/").casefold().removesuffix("/skill.md")
        requested = requested.removesuffix(".md")
        name = requested.rpartition("/")[2]
        meant = (requested, f"{requested}/{INDEX}")
        found: list[str] = [
            row.path
            for row in self.listed
            if name and any(part.startswith(name) for part in row.path.casefold().split("/"))
        ]
        found = found or self._find_similar_names(name)
        found.sort(key=lambda other: other.casefold() not in meant)
        return [SkillPath(path) for path in found[:3]]

    def _find_similar_names(self, name: str) -> list[str]:
        close = get_close_matches(name[:_MAX_COMPARED_CHARACTERS], list(self._named))
        return [self.listed[n].path for similar in close for n in self._named[similar]]

    def _knows(self, path: str) -> bool:
        number = self._shared.numbers.get(path)
        return number is not None and self._standing[number] >= _DENIED

    def _find_ancestors(self, path: SkillPath) -> Iterator[int]:
        above = derive_parent_path(path)
        own = self._shared.numbers.get(path)
        is_draft = own is not None and self._standing[own] == _DRAFT
        reaching = _REACHING_DRAFTS if is_draft else _REACHING
        while above is not None:
            number = self._shared.numbers.get(above)
            if number is not None and self._standing[number] in reaching:
                yield number
            above = derive_parent_path(above)

    def _group_copies(self) -> Iterator[tuple[SkillPath, tuple[SkillPath, ...]]]:
        numbers = self._shared.numbers
        for group in self._shared.copies:
            alike: dict[tuple[int, ...], list[SkillPath]] = defaultdict(list)
            for path in group:
                if path in numbers and self._standing[numbers[path]] == _ENABLED:
                    alike[tuple(self._find_ancestors(path))].append(path)
            for first, *others in alike.values():
                if others:
                    yield first, tuple(others)

    @cached_property
    def offered_at(self) -> "array[int]":
        """The position among the enabled skills per row, or -1."""
        positions = array("i", [-1]) * len(self._shared.rows)
        for position, number in enumerate(self.offered.numbers):
            positions[number] = position
        return positions

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        named: dict[str, list[int]] = defaultdict(list)
        for number, row in enumerate(self.listed):
            named[row.name.casefold()].append(number)
        return named


def _judge_visibility(rows: Collection[SkillRow], rules: Visibility) -> bytes:
    lifecycles = {id(row.lifecycle): row.lifecycle for row in rows}  # most share one
    if rules == Visibility.model_construct() and not any(
        each.is_draft for each in lifecycles.values()
    ):
        return bytes([_ENABLED]) * len(rows)  # as nearly everywhere
    return bytes(_judge_row(row, rules) for row in rows)


def _judge_row(row: SkillRow, rules: Visibility) -> int:
    if is_denied(row, rules):
        return _DENIED
    is_hidden_draft = row.lifecycle.is_draft and not rules.drafts
    if not is_enabled(row, rules):
        return _ABSENT if is_hidden_draft else _DISABLED
    return _DRAFT if is_hidden_draft else _ENABLED


def quote_requested_path(path: str, otherwise: str) -> str:
    """Quote a requested path, unless it is a path on a disk."""
    try:
        parse_relative(path)
    except InvalidPathError:
        return otherwise
    return abbreviate_value(path)


def derive_parent_path(path: SkillPath) -> SkillPath | None:
    """Derive the parent path, whether it exists or not.

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


def _ambiguous_error(name: str, named: list[Skill]) -> AmbiguousNameError:
    ordered = sorted(named, key=lambda s: (SCOPES.index(s.scope), s.path))
    listed = join_names([f"{s.path} ({s.scope})" for s in ordered], _MAX_NAMED)
    return AmbiguousNameError(
        f"Several skills are named {name!r}. Pass the path of the one you mean: {listed}."
    )


_MAX_LISTED = 20  # in a message, where they only help to find the right one


@dataclass(frozen=True, slots=True)
class SkillFilter:
    """A filter by folder, category and scope; empty for all skills."""

    below: str = ""
    """A folder of the tree, such as `ui/react`, or a single skill."""
    category: str = ""
    scope: Scope | None = None
    without: frozenset[SkillPath] = frozenset()
    """Single skills that are left out."""


NO_FILTER = SkillFilter()


def compute_filter_mask(index: SkillIndex, scoping: SkillFilter) -> "NDArray[np.bool_] | None":
    """Compute the mask of a filter over the enabled skills; None for all.

    A scope may be empty; an empty folder or category is a mistake. A skill for users
    alone is in no mask but that of its own path.

    Raises:
        SkillNotFoundError: No skill matches; the message lists the alternatives.
    """
    if scoping == NO_FILTER and not index.has_user_only:
        return None
    import numpy as np

    folder = scoping.below.strip().strip("/").removesuffix("/_index")
    category = scoping.category.strip().casefold()
    is_selected = np.ones(len(index), bool)
    if folder not in {"", ROOT}:
        is_selected &= np.fromiter((is_inside(row.path, folder) for row in index.listed), bool)
        if not is_selected.any():
            raise _no_folder_error(index, folder, scoping.below.strip().rstrip("/"))
    if category:
        is_selected &= np.fromiter((row.category == category for row in index.listed), bool)
        if not is_selected.any():
            raise _no_category_error(index, category, folder)
    if scoping.without:
        is_selected &= np.fromiter((r.path not in scoping.without for r in index.listed), bool)
    if scoping.scope:
        is_selected &= np.fromiter((row.scope == scoping.scope for row in index.listed), bool)
    if index.has_user_only:
        rows = ((not row.user_only or row.path == folder) for row in index.listed)
        is_selected &= np.fromiter(rows, bool)
    return is_selected


def _no_folder_error(index: SkillIndex, folder: str, requested: str) -> SkillNotFoundError:
    folders = {row.path.rpartition("/")[0] for row in index.listed} - {""}
    similar = get_close_matches(folder, folders) or sorted(folders)
    quoted = quote_requested_path(requested, "this folder")
    return SkillNotFoundError(
        f"There is no skill below {quoted}. {_list_alternatives('Folders', similar)}{AGENTS_STEP}"
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
