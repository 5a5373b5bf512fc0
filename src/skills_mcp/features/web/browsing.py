"""Skills browsed by people: pages with facets, previews and history.

Rule: no events are tracked. The pages of one request contain each skill once. Without a
query the cursor is the last path, so a refresh moves nothing. With a query or an order
of `SORTS` it is a rank, valid for one content revision.
"""

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Annotated
from weakref import WeakKeyDictionary

from pydantic import Field

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.history.source_history import SourceLog, SourceLogs
from skills_mcp.library import (
    Snapshot,
    derive_file_provenance,
)
from skills_mcp.library.skill_folder import SkillFormat, derive_skill_format
from skills_mcp.routing.search import search_skills
from skills_mcp.skills.composition import derive_cost
from skills_mcp.skills.model import Scope, Skill, Status
from skills_mcp.skills.skill_index import INDEX, NO_FILTER, ROOT, SkillIndex

SORTS = ("name", "used", "changed", "owner")
"""Orders besides the one by path, or by fit."""

FACETS = ("source", "area", "format", "owner", "origin", "problems", "used")

MAX_SEARCH_HITS = 100
"""Limit of search hits: later ones fit badly."""

TOP = "."

UNOWNED = "."

_DIGEST_BYTES = 6  # it tells one request from another, and guards nothing


COMMIT_TEXT = "The commit of its source; null for a folder."

OWNER_TEXT = (
    "The person or team that its author names, else that of CODEOWNERS; empty if none is known."
)

CHANGED_TEXT = "The day of its last change (UTC); null if it is not known."


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSummary:
    """A skill in a list."""

    path: Annotated[str, Field(description="Its place in the tree.")]
    name: str
    title: Annotated[
        str, Field(description="For people: the heading of its text, else its place in words.")
    ]
    description: str
    format: SkillFormat
    source: Annotated[
        str, Field(description="Where its source stands in the tree; `.` for the top.")
    ]
    area: Annotated[str, Field(description="The first folder of its path, or `.`.")]
    owner: Annotated[str, Field(description=OWNER_TEXT)]
    origin: Scope
    status: Annotated[Status, Field(description="How far the skill is in its life cycle.")]
    always_apply: bool
    commit: Annotated[str | None, Field(description=COMMIT_TEXT)]
    changed: Annotated[date | None, Field(description=CHANGED_TEXT)]
    used: Annotated[
        int | None,
        Field(description="How often agents got it in 13 weeks; null if it is not known."),
    ]
    problems: Annotated[int, Field(description="How many problems its file has.")]
    tokens: Annotated[
        int, Field(description="Estimated tokens of its text, with what it inherits and requires.")
    ]


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
    sort: str = ""
    """One of `SORTS`; empty for the order by path, or by fit."""
    uses: Mapping[str, int] | None = None
    """How often agents got each skill; None if unknown."""
    logs: SourceLogs | None = None
    """Histories of the sources; None if not known yet."""

    @property
    def is_ranked(self) -> bool:
        """Whether a position is no path."""
        return bool(self.query.strip() or self.sort)

    @property
    def key(self) -> str:
        serialised = json.dumps([self.query.strip(), sorted(self.chosen.items()), self.sort])
        digest = hashlib.blake2b(serialised.encode(), digest_size=_DIGEST_BYTES)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Maintenance:
    """Owner and last change of all visible skills, by index position."""

    logs: SourceLogs | None
    owners: Sequence[str]
    changed: Sequence[datetime | None]
    authors: Sequence[str]
    """Of the last change; empty if unknown."""


class FacetIndex:
    """Facet values of all visible skills, by index position.

    Built once for a snapshot; a request then only counts.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        index, table = snapshot.index, snapshot.state.collection.table
        listed = index.listed
        self._table = table
        self._numbers = numbers = index.offered.numbers
        files = table.files()
        self.files = [files[number] for number in numbers]
        self._owners = [row.lifecycle.owner for row in listed]
        homes: list[int] = table.arrays["homes"].tolist()
        self._homes = [homes[number] for number in numbers]
        parts = [snapshot.content.find_part(home.directory, home.prefix) for home in table.homes]
        sources = [(part.mount.at.strip("/") if part else "") or TOP for part in parts]
        mounts = [sources[home] for home in self._homes]
        self._folders = [part.checkout.directory if part else None for part in parts]
        self._has_commit = [bool(part and part.checkout.revision) for part in parts]
        # By source, too: that of another may have a file of the same path, unserved.
        found = Counter((each.mount.strip("/") or TOP, each.file) for each in snapshot.problems)
        self.problems = [found[place] for place in zip(mounts, self.files, strict=True)]
        self.texts = [f"{row.path} {row.name}".casefold() for row in listed]
        self.paths = [row.path for row in listed]
        self._maintenance: _Maintenance | None = None
        self.values: dict[str, Sequence[str]] = {
            "source": mounts,
            "area": [derive_area(row.path) for row in listed],
            "format": list(map(derive_skill_format, self.files, self.paths)),
            "owner": [owner or UNOWNED for owner in self._owners],
            "origin": [row.scope for row in listed],
            "problems": ["yes" if count else "no" for count in self.problems],
        }

    def facets(self, request: BrowseRequest) -> Mapping[str, Sequence[str]]:
        owners = [owner or UNOWNED for owner in self.maintenance(request.logs).owners]
        values = {**self.values, "owner": owners}
        if request.uses is None:
            return values
        used = ["yes" if request.uses.get(path) else "no" for path in self.paths]
        return {**values, "used": used}

    def maintenance(self, logs: SourceLogs | None) -> _Maintenance:
        """Owners and last changes, computed once for the same histories."""
        known = self._maintenance
        if known is None or (logs is not None and known.logs is not logs):
            folders = self._locate_homes()
            found = [self._find_maintenance(n, folders, logs or {}) for n in range(len(self.paths))]
            owners, changed, authors = zip(*found, strict=True) if found else ((), (), ())
            known = self._maintenance = _Maintenance(logs, owners, changed, authors)
        return known

    def find_log(self, position: int, logs: SourceLogs | None) -> SourceLog | None:
        """History of the source of a skill; None while unknown."""
        top = self._folders[self._homes[position]]
        return logs.get(top) if logs and top else None

    def _locate_homes(self) -> Sequence[str]:
        """Folder of each root within its checkout, with a trailing slash."""
        homes = zip(self._table.homes, self._folders, strict=True)
        inside = (home.directory.relative_to(top).as_posix() if top else "" for home, top in homes)
        return ["" if folder in {"", "."} else f"{folder}/" for folder in inside]

    def _find_maintenance(
        self, position: int, folders: Sequence[str], logs: SourceLogs
    ) -> tuple[str, datetime | None, str]:
        number = self._homes[position]
        top, prefix = self._folders[number], self._table.homes[number].file_prefix
        if top is None:
            return self._owners[position], None, ""
        file = f"{folders[number]}{self.files[position].removeprefix(prefix)}"
        log = logs.get(top)
        owner = self._owners[position] or (log.owners.find(file) if log else "")
        if not self._has_commit[number]:
            return owner, _read_time(f"{top}/{file}"), ""
        is_package = self.values["format"][position] == "package"
        commit = log.newest.get(file.rpartition("/")[0] if is_package else file) if log else None
        return owner, commit.at if commit else None, commit.author if commit else ""

    @cached_property
    def titles(self) -> Sequence[str]:
        """Titles of all skills: each text is decoded, so for an order by them alone."""
        texts = map(self._table.text_of, self._numbers)
        return [derive_title(text.path, text.body) for text in texts]


def _read_time(file: str) -> datetime | None:
    """Last change of a file outside of Git."""
    try:
        return datetime.fromtimestamp(os.stat(file).st_mtime, UTC)  # noqa: PTH116 - of thousands
    except (OSError, ValueError, OverflowError):
        return None


_FACET_INDEXES: WeakKeyDictionary[SkillIndex, FacetIndex] = WeakKeyDictionary()
"""Of each set of skills in use."""


def browse(snapshot: Snapshot, request: BrowseRequest) -> SkillListReply:
    """One page of the matching skills; no event.  Blocking.

    Raises:
        InvalidArgumentsError: The cursor is of another request or content revision.
    """
    facet_index = open_facets(snapshot)
    facets = facet_index.facets(request)
    positions = _find_positions(snapshot, facet_index, request.query)
    chosen = {name: value for name, value in request.chosen.items() if value}
    matching = _sort(_filter(positions, facets, chosen, facet_index.paths), facet_index, request)
    begin = _find_offset(snapshot, facet_index, request, matching)
    page = matching[begin : begin + request.limit]
    end = begin + len(page)
    return SkillListReply(
        skills=tuple(_render_skill(snapshot, facet_index, request, position) for position in page),
        total=len(matching),
        next=_encode_cursor(snapshot, facet_index, request, end, page[-1])
        if end < len(matching)
        else None,
        facets={
            name: _count_values(
                _filter(positions, facets, _without(chosen, name), facet_index.paths),
                facets[name],
                chosen.get(name),
            )
            for name in facets
        },
    )


def open_facets(snapshot: Snapshot) -> FacetIndex:
    facet_index = _FACET_INDEXES.get(snapshot.index)
    if facet_index is None:
        facet_index = _FACET_INDEXES[snapshot.index] = FacetIndex(snapshot)
    return facet_index


@dataclass(frozen=True, slots=True)
class AreaNode:
    """A folder of the tree, with the number of skills below it."""

    path: str
    title: str
    count: int
    is_chosen: bool
    children: "tuple[AreaNode, ...]"
    """Of a chosen folder and those above it."""


def list_areas(snapshot: Snapshot, request: BrowseRequest) -> tuple[AreaNode, ...]:
    """Folders of the matching skills, opened down to the chosen one."""
    facet_index = open_facets(snapshot)
    chosen = {name: value for name, value in request.chosen.items() if value}
    positions = _find_positions(snapshot, facet_index, request.query)
    facets = facet_index.facets(request)
    matching = _filter(positions, facets, _without(chosen, "area"), facet_index.paths)
    folders = [facet_index.paths[position].rpartition("/")[0] for position in matching]
    return _list_folders(folders, "", chosen.get("area", ""))


def _list_folders(folders: Sequence[str], above: str, chosen: str) -> tuple[AreaNode, ...]:
    prefix = f"{above}/" if above else ""
    inside = [folder for folder in folders if folder.startswith(prefix) and folder != above]
    counts = Counter(folder[len(prefix) :].partition("/")[0] for folder in inside if folder)
    nodes = []
    if not above and (bare := folders.count("")) and counts:
        nodes.append(AreaNode(TOP, "In no folder", bare, chosen == TOP, ()))
    for name, count in sorted(counts.items()):
        path = f"{prefix}{name}"
        is_open = path == chosen or chosen.startswith(f"{path}/")
        children = _list_folders(inside, path, chosen) if is_open else ()
        nodes.append(AreaNode(path, capitalise_words(name), count, path == chosen, children))
    return tuple(nodes)


_HEADING = re.compile(r"\s*#[ \t]+(?P<title>[^\n]+)")
_MARKUP = re.compile(r"!?\[(?P<text>[^\]]*)\]\([^)]*\)|[`*]+|[ \t]+#+[ \t]*$|<[^>]*>")
_MAX_TITLE = 80

_ACRONYMS = frozenset(
    (
        *("ai", "api", "aws", "cd", "ci", "cli", "css", "csv", "db", "dns", "gcp", "html", "http"),
        *("id", "jwt", "llm", "mcp", "ml", "pdf", "qa", "rest", "sdk", "seo", "sql", "ssh", "sso"),
        *("tdd", "tls", "ui", "url", "ux", "xml", "yaml"),
    )
)

_BELOW = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "


def derive_title(path: str, body: str) -> str:
    """Title for people: the first heading of a text, else the path in words.

    >>> derive_title("pdf", "# Fill in `PDF` forms"), derive_title("api-errors", "Text")
    ('Fill in PDF forms', 'API errors')
    """
    found = _HEADING.match(body)
    title = (
        " ".join(_MARKUP.sub(lambda markup: markup["text"] or "", found["title"]).split())
        if found
        else ""
    )
    if len(title) > _MAX_TITLE:
        title = f"{title[: _MAX_TITLE - 1].rstrip()}…"
    return title or name_path(path)


def name_path(path: str) -> str:
    """Place in the tree, in words.

    >>> name_path("_root"), name_path("ui/_index"), name_path("ui/react-native").split(_BELOW)
    ('Global rules', 'UI', ['UI', 'React native'])
    """
    if path in {ROOT, INDEX}:
        return "Global rules"
    return _BELOW.join(capitalise_words(part) for part in path.split("/") if part != INDEX)


def capitalise_words(name: str) -> str:
    words = [w.upper() if w in _ACRONYMS else w for w in re.split(r"[-_\s]+", name) if w]
    text = " ".join(words)
    return text[:1].upper() + text[1:] or name


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


def _sort(
    matching: Sequence[int], facet_index: FacetIndex, request: BrowseRequest
) -> Sequence[int]:
    """Order; skills of which the value is not known come last."""
    maintenance = facet_index.maintenance(request.logs)
    uses = request.uses or {}
    match request.sort:
        case "name":
            return sorted(matching, key=lambda n: facet_index.titles[n].casefold())
        case "owner":
            return sorted(
                matching, key=lambda n: (not maintenance.owners[n], maintenance.owners[n])
            )
        case "changed":
            return sorted(matching, key=lambda n: -_seconds_of(maintenance.changed[n]))
        case "used":
            return sorted(matching, key=lambda n: -uses.get(facet_index.paths[n], 0))
        case "":
            return matching
        case other:
            raise InvalidArgumentsError(f"sort: is {other[:50]!r}. Use {', '.join(SORTS)}.")


def _seconds_of(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _without(chosen: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: value for other, value in chosen.items() if other != name}


def _filter(
    positions: Iterable[int],
    facets: Mapping[str, Sequence[str]],
    chosen: Mapping[str, str],
    paths: Sequence[str],
) -> Sequence[int]:
    matching = list(positions)
    for name, value in chosen.items():
        if name == "area" and value != TOP:
            matching = [n for n in matching if paths[n].startswith(f"{value}/")]
            continue
        values = facets.get(name)
        matching = [position for position in matching if values and values[position] == value]
    return matching


def _count_values(
    matching: Iterable[int], values: Sequence[str], chosen: str | None
) -> tuple[FacetCount, ...]:
    counts = Counter(values[position] for position in matching)
    if chosen is not None:
        counts.setdefault(chosen, 0)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(FacetCount(value=value, count=count) for value, count in ordered)


def _render_skill(
    snapshot: Snapshot,
    facet_index: FacetIndex,
    request: BrowseRequest,
    position: int,
) -> SkillSummary:
    skill: Skill = snapshot.index.offered[position]
    values, maintenance = facet_index.values, facet_index.maintenance(request.logs)
    changed = maintenance.changed[position]
    return SkillSummary(
        path=skill.path,
        name=skill.name,
        title=derive_title(skill.path, skill.body),
        description=skill.description,
        format=derive_skill_format(skill.file, skill.path),
        source=values["source"][position],
        area=values["area"][position],
        owner=maintenance.owners[position],
        origin=skill.scope,
        status=skill.lifecycle.status or "active",
        always_apply=skill.always_apply,
        commit=derive_file_provenance(snapshot.content, skill).commit,
        changed=changed.date() if changed else None,
        used=None if request.uses is None else request.uses.get(skill.path, 0),
        problems=facet_index.problems[position],
        tokens=derive_cost(snapshot.index, skill).tokens.text,
    )


def _encode_cursor(
    snapshot: Snapshot, facet_index: FacetIndex, request: BrowseRequest, end: int, last: int
) -> str:
    revision = snapshot.indexes.content_key.hex() if request.is_ranked else ""
    position = end if request.is_ranked else facet_index.paths[last]
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
