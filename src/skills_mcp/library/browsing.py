"""What a person browses: skills found by words, narrowed by facets, in pages.  Pure.

Rule: the pages of one request hold each skill once. Without words they are in the order
of the paths, and a page goes on after the last path of the one before, so a refresh in
between moves nothing. With words they are in the order of the scores; the cursor of
another state of the skills is refused.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from skills_mcp.content.source import Content, Part
from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library.answers import derive_place
from skills_mcp.routing.search import search
from skills_mcp.skills.homes import Home
from skills_mcp.skills.model import Scope, Skill, SkillPath
from skills_mcp.skills.package import is_main
from skills_mcp.skills.scoping import EVERYWHERE
from skills_mcp.snapshots.snapshot import Snapshot

SkillFormat = Literal["package", "rule"]
"""A folder with a `SKILL.md`, or a Markdown file in a tree of rules."""

FacetName = Literal["source", "area", "format", "owner", "origin", "problems", "used"]

FACETS: tuple[FacetName, ...] = get_args(FacetName)

MAX_BROWSED = 100
"""The most skills of one page."""

MAX_FOUND = 100
"""The most skills that words find by their meaning: what comes after fits badly."""

TOP = "."
"""The value of a facet for what lies at the top: a source, or a skill in no folder."""

UNOWNED = "."
"""The value of the owner where an author names none."""

_DIGEST_BYTES = 6  # it tells one request from another, and guards nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsedSkill:
    """A skill as a list for people shows it."""

    path: SkillPath
    name: str
    description: str
    format: SkillFormat
    source: str
    """Where its source stands in the tree; `.` for the top."""
    area: str
    """The first folder of its path; `.` if it lies in none."""
    owner: str
    """The person or team that its author names; empty if none."""
    origin: Scope
    """Whether it is the organisation's, a project's, or one person's."""
    always_apply: bool
    commit: str | None
    """Of its source; None for a folder."""
    problems: int
    """How many problems its file has, as far as the caller may see problems."""
    used: bool | None
    """Whether an agent has got it; None if that is not known here."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """One value of a facet, and what choosing it would leave."""

    value: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsedPage:
    """A part of the skills that fit, and the ways to narrow them."""

    skills: tuple[BrowsedSkill, ...]
    total: int
    """How many fit, on all pages."""
    next_cursor: str | None
    """What asks for the next page; None if this is the last."""
    facets: Mapping[FacetName, tuple[FacetValue, ...]]
    """Each with its values, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseRequest:
    """Which skills a person asks for."""

    query: str = ""
    chosen: Mapping[FacetName, str] = field(default_factory=dict)
    cursor: str | None = None
    limit: int = 50
    used_paths: frozenset[str] | None = None
    """The paths of the skills that agents have got; None if that is not known."""

    @property
    def key(self) -> str:
        """A digest of everything that decides which skills fit."""
        whole = json.dumps([self.query.strip(), sorted(self.chosen.items())])
        digest = hashlib.blake2b(whole.encode(), digest_size=_DIGEST_BYTES)
        return digest.hexdigest()


class Shelf:
    """The facets of all skills that a caller sees, by their places in the index.

    It is made once for a snapshot; a request then only counts.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        index, table = snapshot.index, snapshot.state.collection.table
        listed = index.listed
        numbers = index.offered.numbers
        files = table.files()
        self.files = [files[number] for number in numbers]
        owners = table.column("owners")
        homes: list[int] = table.arrays["homes"].tolist()
        sources = [_find_source(snapshot.content, home) for home in table.homes]
        found = Counter(problem.file for problem in snapshot.problems)
        self.problems = [found[file] for file in self.files]
        self.texts = [f"{row.path} {row.name}".casefold() for row in listed]
        self.paths = [row.path for row in listed]
        self.values: dict[FacetName, Sequence[str]] = {
            "source": [sources[homes[number]] for number in numbers],
            "area": [derive_area(row.path) for row in listed],
            "format": [derive_format(file) for file in self.files],
            "owner": [owners[number] or UNOWNED for number in numbers],
            "origin": [row.scope for row in listed],
            "problems": ["yes" if count else "no" for count in self.problems],
        }

    def facets(self, used: frozenset[str] | None) -> Mapping[FacetName, Sequence[str]]:
        """Return the value of each facet for each skill."""
        if used is None:
            return self.values
        known = ["yes" if path in used else "no" for path in self.paths]
        return {**self.values, "used": known}


def browse(snapshot: Snapshot, shelf: Shelf, request: BrowseRequest) -> BrowsedPage:
    """Return one page of the skills that fit a request.

    Raises:
        InvalidArgumentsError: The cursor is that of another request, or of another
            state of the skills.
    """
    facets = shelf.facets(request.used_paths)
    places = _find_places(snapshot, shelf, request.query)
    chosen = {name: value for name, value in request.chosen.items() if value}
    kept = _narrow(places, facets, chosen)
    begin = _find_beginning(snapshot, shelf, request, kept)
    shown = kept[begin : begin + request.limit]
    end = begin + len(shown)
    return BrowsedPage(
        skills=tuple(_show(snapshot, shelf, facets, place) for place in shown),
        total=len(kept),
        next_cursor=_make_cursor(snapshot, shelf, request, end, shown[-1])
        if end < len(kept)
        else None,
        facets={name: _count(places, facets, chosen, name) for name in facets},
    )


def derive_area(path: str) -> str:
    """Return the first folder of a path.

    >>> derive_area("ui/react/auth"), derive_area("pdf")
    ('ui', '.')
    """
    folder, slash, _ = path.partition("/")
    return folder if slash else TOP


def derive_format(file: str) -> SkillFormat:
    """Return the form of a skill with this Markdown file."""
    return "package" if is_main(file.rpartition("/")[2]) else "rule"


def _find_source(content: Content, home: Home) -> str:
    """Return where the source stands whose folder this is; the innermost of several."""
    holding = [part for part in content.parts if _holds(part, home)]
    inner = max(holding, key=lambda part: len(part.mount.prefix), default=None)
    return (inner.mount.at.strip("/") if inner else "") or TOP


def _holds(part: Part, home: Home) -> bool:
    is_inside = home.directory.is_relative_to(part.checkout.directory)
    return is_inside and home.prefix.startswith(part.mount.prefix)


def _find_places(snapshot: Snapshot, shelf: Shelf, query: str) -> Sequence[int]:
    """Return the places of what a query finds, best first; of everything without one.

    A word that is still being typed is no word yet, so what has it in its path or its
    name comes after what the search finds.
    """
    words = query.casefold().split()
    if not words:
        return range(len(shelf.texts))
    found = search(
        query,
        snapshot.indexes.skills,
        snapshot.indexes.names,
        snapshot.ranked,
        limit=MAX_FOUND,
        threshold=snapshot.config.search.threshold,
        within=snapshot.narrow(EVERYWHERE),
    )
    places = (snapshot.index.find(hit.skill.path) for hit in found.hits)
    begun = (n for n, text in enumerate(shelf.texts) if all(w in text for w in words))
    return list(dict.fromkeys([*(p for p in places if p is not None), *begun]))


def _narrow(
    places: Iterable[int],
    facets: Mapping[FacetName, Sequence[str]],
    chosen: Mapping[FacetName, str],
) -> Sequence[int]:
    kept = list(places)
    for name, value in chosen.items():
        values = facets.get(name)
        kept = [place for place in kept if values and values[place] == value]
    return kept


def _count(
    places: Iterable[int],
    facets: Mapping[FacetName, Sequence[str]],
    chosen: Mapping[FacetName, str],
    name: FacetName,
) -> tuple[FacetValue, ...]:
    """Count the values of one facet among what the other facets leave."""
    others = {other: value for other, value in chosen.items() if other != name}
    values = facets[name]
    counts = Counter(values[place] for place in _narrow(places, facets, others))
    if name in chosen:
        counts.setdefault(chosen[name], 0)
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(FacetValue(value, count) for value, count in ordered)


def _show(
    snapshot: Snapshot,
    shelf: Shelf,
    facets: Mapping[FacetName, Sequence[str]],
    place: int,
) -> BrowsedSkill:
    skill: Skill = snapshot.index.offered[place]
    used = facets.get("used")
    return BrowsedSkill(
        path=skill.path,
        name=skill.name,
        description=skill.description,
        format=derive_format(skill.file),
        source=facets["source"][place],
        area=facets["area"][place],
        owner=skill.owner,
        origin=skill.scope,
        always_apply=skill.always_apply,
        commit=derive_place(snapshot.content, skill).commit,
        problems=shelf.problems[place],
        used=used[place] == "yes" if used else None,
    )


def _make_cursor(
    snapshot: Snapshot, shelf: Shelf, request: BrowseRequest, end: int, last: int
) -> str:
    ranked = bool(request.query.strip())
    revision = snapshot.indexes.content_key.hex() if ranked else ""
    position = end if ranked else shelf.paths[last]
    whole = json.dumps([request.key, revision, position], separators=(",", ":"))
    return base64.urlsafe_b64encode(whole.encode()).decode().rstrip("=")


def _find_beginning(
    snapshot: Snapshot, shelf: Shelf, request: BrowseRequest, kept: Sequence[int]
) -> int:
    """Return where among these places the page begins.

    Raises:
        InvalidArgumentsError: The cursor is not one of this request.
    """
    if not request.cursor:
        return 0
    key, revision, position = _parse_cursor(request.cursor)
    if key != request.key:
        raise InvalidArgumentsError(
            "cursor: is that of another request. Repeat the words and facets that it "
            "came with, or leave the cursor out to begin anew."
        )
    if isinstance(position, str):
        return sum(1 for place in kept if shelf.paths[place] <= position)
    if revision != snapshot.indexes.content_key.hex():
        raise InvalidArgumentsError(
            "cursor: the skills have changed since it was given, and with them the "
            "order of what was found. Leave the cursor out to begin anew."
        )
    return max(0, position)


def _parse_cursor(cursor: str) -> tuple[str, str, int | str]:
    """Return the parts of a cursor.

    Raises:
        InvalidArgumentsError: It is none that `_make_cursor` has returned.
    """
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        given = json.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, RecursionError):
        given = None
    match given:
        case [str(key), str(revision), int() | str() as position]:
            return key, revision, position
        case _:
            raise InvalidArgumentsError(
                "cursor: is none that was given. Leave it out to begin anew."
            )
