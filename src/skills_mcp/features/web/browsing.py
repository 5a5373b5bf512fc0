"""Skills browsed by people: pages with facets, previews and history.

Rule: no events are tracked. The pages of one request contain each skill once. Without a
query the cursor is the last path, so a refresh moves nothing. With a query it is a
rank, valid for one content revision.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from weakref import WeakKeyDictionary

from pydantic import Field

from skills_mcp.config.sections import Visibility
from skills_mcp.errors import InvalidArgumentsError, SyncError
from skills_mcp.library import (
    LibraryView,
    RemoteBranch,
    Snapshot,
    derive_commit_url,
    derive_file_provenance,
    find_repository,
)
from skills_mcp.library.skill_folder import SkillFormat, derive_skill_format
from skills_mcp.routing.search import search_skills
from skills_mcp.skills.model import Scope, Skill
from skills_mcp.skills.skill_index import NO_FILTER, SkillIndex

if TYPE_CHECKING:
    from skills_mcp.library import PastCommit

FACETS = ("source", "area", "format", "owner", "origin", "problems", "used")

MAX_SEARCH_HITS = 100
"""Limit of search hits: later ones fit badly."""

TOP = "."

UNOWNED = "."

_DIGEST_BYTES = 6  # it tells one request from another, and guards nothing


COMMIT_TEXT = "The commit of its source; null for a folder."

OWNER_TEXT = "The person or team that its author names; empty if none."


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSummary:
    """A skill in a list."""

    path: Annotated[str, Field(description="Its place in the tree.")]
    name: str
    description: str
    format: SkillFormat
    source: Annotated[
        str, Field(description="Where its source stands in the tree; `.` for the top.")
    ]
    area: Annotated[str, Field(description="The first folder of its path, or `.`.")]
    owner: Annotated[str, Field(description=OWNER_TEXT)]
    origin: Scope
    always_apply: bool
    commit: Annotated[str | None, Field(description=COMMIT_TEXT)]
    problems: Annotated[int, Field(description="How many problems its file has.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCount:
    """One value of a facet, and how many skills choosing it would leave."""

    value: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillListReply:
    """A page of the skills that fit."""

    skills: tuple[SkillSummary, ...]
    total: Annotated[int, Field(description="How many fit, on all pages.")]
    next: Annotated[str | None, Field(description="The cursor of the next page; null on the last.")]
    facets: Mapping[str, tuple[FacetCount, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseRequest:
    query: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    cursor: str | None = None
    limit: int = 50
    used_paths: frozenset[str] | None = None
    """Skills received by agents; None if unknown."""

    @property
    def key(self) -> str:
        serialised = json.dumps([self.query.strip(), sorted(self.chosen.items())])
        digest = hashlib.blake2b(serialised.encode(), digest_size=_DIGEST_BYTES)
        return digest.hexdigest()


class FacetIndex:
    """Facet values of all visible skills, by index position.

    Built once for a snapshot; a request then only counts.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        index, table = snapshot.index, snapshot.state.collection.table
        listed = index.listed
        numbers = index.offered.numbers
        files = table.files()
        self.files = [files[number] for number in numbers]
        owners = table.column("owners")
        homes: list[int] = table.arrays["homes"].tolist()
        parts = (snapshot.content.find_part(home.directory, home.prefix) for home in table.homes)
        sources = [(part.mount.at.strip("/") if part else "") or TOP for part in parts]
        found = Counter(problem.file for problem in snapshot.problems)
        self.problems = [found[file] for file in self.files]
        self.texts = [f"{row.path} {row.name}".casefold() for row in listed]
        self.paths = [row.path for row in listed]
        self.values: dict[str, Sequence[str]] = {
            "source": [sources[homes[number]] for number in numbers],
            "area": [derive_area(row.path) for row in listed],
            "format": list(map(derive_skill_format, self.files, self.paths)),
            "owner": [owners[number] or UNOWNED for number in numbers],
            "origin": [row.scope for row in listed],
            "problems": ["yes" if count else "no" for count in self.problems],
        }

    def facets(self, used: frozenset[str] | None) -> Mapping[str, Sequence[str]]:
        if used is None:
            return self.values
        known = ["yes" if path in used else "no" for path in self.paths]
        return {**self.values, "used": known}


_FACET_INDEXES: WeakKeyDictionary[SkillIndex, FacetIndex] = WeakKeyDictionary()
"""Of each set of skills in use."""


def browse(snapshot: Snapshot, request: BrowseRequest) -> SkillListReply:
    """One page of the matching skills; no event.  Blocking.

    Raises:
        InvalidArgumentsError: The cursor is of another request or content revision.
    """
    facet_index = _FACET_INDEXES.get(snapshot.index)
    if facet_index is None:
        facet_index = _FACET_INDEXES[snapshot.index] = FacetIndex(snapshot)
    facets = facet_index.facets(request.used_paths)
    positions = _find_positions(snapshot, facet_index, request.query)
    chosen = {name: value for name, value in request.chosen.items() if value}
    matching = _filter(positions, facets, chosen)
    begin = _find_offset(snapshot, facet_index, request, matching)
    page = matching[begin : begin + request.limit]
    end = begin + len(page)
    return SkillListReply(
        skills=tuple(_render_skill(snapshot, facet_index, facets, position) for position in page),
        total=len(matching),
        next=_encode_cursor(snapshot, facet_index, request, end, page[-1])
        if end < len(matching)
        else None,
        facets={name: _count_values(positions, facets, chosen, name) for name in facets},
    )


def derive_area(path: str) -> str:
    """First folder of a path.

    >>> derive_area("ui/react/auth"), derive_area("pdf")
    ('ui', '.')
    """
    folder, slash, _ = path.partition("/")
    return folder if slash else TOP


def _find_positions(snapshot: Snapshot, facet_index: FacetIndex, query: str) -> Sequence[int]:
    """Positions by rank, then substring matches of path and name: words being typed."""
    words = query.casefold().split()
    if not words:
        return range(len(facet_index.texts))
    found = search_skills(
        query,
        snapshot.indexes.skills,
        snapshot.indexes.names,
        snapshot.ranked,
        limit=MAX_SEARCH_HITS,
        threshold=snapshot.config.search.threshold,
        within=snapshot.narrow(NO_FILTER),
    )
    positions = (snapshot.index.find(hit.skill.path) for hit in found.hits)
    substring_matches = (
        n for n, text in enumerate(facet_index.texts) if all(w in text for w in words)
    )
    return list(dict.fromkeys([*(p for p in positions if p is not None), *substring_matches]))


def _filter(
    positions: Iterable[int],
    facets: Mapping[str, Sequence[str]],
    chosen: Mapping[str, str],
) -> Sequence[int]:
    matching = list(positions)
    for name, value in chosen.items():
        values = facets.get(name)
        matching = [position for position in matching if values and values[position] == value]
    return matching


def _count_values(
    positions: Iterable[int],
    facets: Mapping[str, Sequence[str]],
    chosen: Mapping[str, str],
    name: str,
) -> tuple[FacetCount, ...]:
    others = {other: value for other, value in chosen.items() if other != name}
    values = facets[name]
    counts = Counter(values[position] for position in _filter(positions, facets, others))
    if name in chosen:
        counts.setdefault(chosen[name], 0)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(FacetCount(value=value, count=count) for value, count in ordered)


def _render_skill(
    snapshot: Snapshot,
    facet_index: FacetIndex,
    facets: Mapping[str, Sequence[str]],
    position: int,
) -> SkillSummary:
    skill: Skill = snapshot.index.offered[position]
    return SkillSummary(
        path=skill.path,
        name=skill.name,
        description=skill.description,
        format=derive_skill_format(skill.file, skill.path),
        source=facets["source"][position],
        area=facets["area"][position],
        owner=skill.owner,
        origin=skill.scope,
        always_apply=skill.always_apply,
        commit=derive_file_provenance(snapshot.content, skill).commit,
        problems=facet_index.problems[position],
    )


def _encode_cursor(
    snapshot: Snapshot, facet_index: FacetIndex, request: BrowseRequest, end: int, last: int
) -> str:
    ranked = bool(request.query.strip())
    revision = snapshot.indexes.content_key.hex() if ranked else ""
    position = end if ranked else facet_index.paths[last]
    serialised = json.dumps([request.key, revision, position], separators=(",", ":"))
    return base64.urlsafe_b64encode(serialised.encode()).decode().rstrip("=")


def _find_offset(
    snapshot: Snapshot,
    facet_index: FacetIndex,
    request: BrowseRequest,
    matching: Sequence[int],
) -> int:
    """Offset of the page."""
    if not request.cursor:
        return 0
    key, revision, position = _decode_cursor(request.cursor)
    if key != request.key:
        raise InvalidArgumentsError(
            "cursor: is that of another request. Repeat the words and facets that it "
            "came with, or leave the cursor out to begin anew."
        )
    if isinstance(position, str):
        return sum(1 for index in matching if facet_index.paths[index] <= position)
    if revision != snapshot.indexes.content_key.hex():
        raise InvalidArgumentsError(
            "cursor: the skills have changed since it was given, and with them the "
            "order of what was found. Leave the cursor out to begin anew."
        )
    return max(0, position)


def _decode_cursor(cursor: str) -> tuple[str, str, int | str]:
    """Decode a cursor."""
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        decoded = json.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, RecursionError):
        decoded = None
    match decoded:
        case [str(key), str(revision), int() | str() as position]:
            return key, revision, position
        case _:
            raise InvalidArgumentsError(
                "cursor: is none that was given. Leave it out to begin anew."
            )


_MAX_FILES = 500  # of a skill: each is an argument of Git


@dataclass(frozen=True, slots=True)
class SkillChange:
    """Commit changing a skill or an inherited rule."""

    past: "PastCommit"
    url: str


@dataclass(frozen=True, slots=True)
class SkillHistory:
    changes: tuple[SkillChange, ...] = ()
    searched_commits: int = 0
    reason: str = ""


def read_history(view: LibraryView, name: str) -> SkillHistory:
    """Commits changing the composed text or files of a skill; uses the network.  Blocking.

    An older version may have had a name or path hidden by the operator: so this
    requires access to every skill.

    Raises:
        SkillsError: No, several or a hidden skill; see the subclass.
    """
    snapshot = view.snapshot
    skill = snapshot.index.resolve(name)
    if not view.access.is_unlimited or snapshot.config.visibility != Visibility():
        return SkillHistory(
            reason="The history is shown where no skill is hidden: an older version "
            "may have had a name by which it was."
        )
    limit = snapshot.config.web.history
    source = find_repository(snapshot.content, skill)
    commit = derive_file_provenance(snapshot.content, skill).commit
    if source is None or commit is None:
        reason = "This skill lies in a folder. Git keeps a history; a folder has none."
        return SkillHistory(reason=reason)
    if not limit:
        return SkillHistory(reason="The operator has switched it off (web.history: 0).")
    try:
        found = source.read_history(commit, _find_files(snapshot, skill, source), limit)
    except SyncError as error:
        reason = f"There is no history now: {error}"
        return SkillHistory(searched_commits=limit, reason=reason)
    forges = snapshot.config.web.forges
    return SkillHistory(
        tuple(
            SkillChange(past, derive_commit_url(source.url, past.commit, forges)) for past in found
        ),
        limit,
    )


def _find_files(snapshot: Snapshot, skill: Skill, source: RemoteBranch) -> tuple[str, ...]:
    content, index = snapshot.content, snapshot.index
    rules = [
        derive_file_provenance(content, member).path
        for member in index.contributors(skill)
        if find_repository(content, member) is source
    ]
    own = [derive_file_provenance(content, skill, file).path for file in skill.files]
    return tuple(dict.fromkeys([*rules, *own]))[:_MAX_FILES]
