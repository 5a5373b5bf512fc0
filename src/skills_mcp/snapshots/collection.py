"""All skills of all sources, as one table, and what is wrong with them (001 §4.6).

Rule 1: what a source offers never depends on another one that fails.
Rule 2: of two skills with one path, the operator's order decides, never a walk's.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from skills_mcp.config import Limits, Visibility
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Content, Part, explain_left_out
from skills_mcp.skills.discovery import load_skills
from skills_mcp.skills.homes import Home, find_homes
from skills_mcp.skills.index import INDEX
from skills_mcp.skills.known import KnownPlace, derive_doubtful, derive_touched
from skills_mcp.skills.model import Problem, Scope, SkillPath
from skills_mcp.skills.package import is_main
from skills_mcp.skills.packing import Kept, pack
from skills_mcp.skills.problems import printable
from skills_mcp.skills.records import Entry, Place
from skills_mcp.skills.table import SkillTable
from skills_mcp.skills.visibility import is_denied


@dataclass(frozen=True, slots=True)
class Origin:
    """Which state of which source was read."""

    source: str
    at: str
    subfolder: str
    scope: Scope
    directory: str
    revision: str | None

    @classmethod
    def of(cls, part: Part) -> "Origin":
        """Return the origin of a source's share."""
        mount, checkout = part.mount, part.checkout
        return cls(
            mount.source.name,
            mount.at,
            mount.subfolder,
            mount.scope,
            os.fspath(checkout.directory),
            checkout.revision,
        )

    def is_of(self, part: Part) -> bool:
        """Whether it is an earlier state of the same source at the same place."""
        mount = part.mount
        mine = (self.source, self.at, self.subfolder, self.scope)
        return mine == (mount.source.name, mount.at, mount.subfolder, mount.scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The skills of one state of the content, offered or not.  Never changes."""

    origins: tuple[Origin, ...]
    table: SkillTable
    problems: tuple[Problem, ...]
    seen: tuple[int, ...]
    """How many files and folders there are at most in each place of the table."""
    displaced: tuple[str, ...] = ()
    """The files of skills that another one took the place of, rightly so.

    Relative to the content's root. A later state may need them.
    """
    before: tuple[int, ...] = ()
    """Where each skill was in the collection that this one was derived from.

    -1 for one that was read anew.
    """

    def is_of(self, content: Content) -> bool:
        """Whether it was read from exactly these commits, and well."""
        is_whole = not any(problem.is_passing for problem in self.problems)
        origins = tuple(map(Origin.of, content.parts))
        return is_whole and origins == self.origins and all(o.revision for o in origins)


def collect(
    content: Content,
    limits: Limits,
    rules: Visibility,
    before: Collection | None = None,
) -> Collection:
    """Read all skills.  Blocking; what is wrong becomes a `Problem`.

    Args:
        content: The files of every source.
        limits: How much is looked at and read.
        rules: What is never served takes nobody's place.
        before: An earlier state; what is provably the same is not read again.
    """
    if before and before.is_of(content):
        return before
    reading = _Reading()
    for part in content.parts:
        if not _has_subfolder(part):
            reading.problems.append(_without_subfolder(part))
            continue
        earlier = _Earlier(before, part) if before else None
        for home in find_homes(part.checkout.directory, part.mount.subfolder):
            place = Place(home.directory, _prefix(part, home), part.mount.scope)
            loaded = load_skills(
                home.directory,
                prefix=place.prefix,
                scope=place.scope,
                limits=limits,
                packages_only=home.packages_only,
                before=earlier.find_place(place) if earlier else None,
            )
            reading.seen[place] = loaded.seen
            reading.problems += loaded.problems
            reading.add(loaded.entries, rules)
        reading.problems += [*_beside(part), *_left_out(part)]
    return _derive(content, reading, before)


@dataclass(slots=True)
class _Reading:
    """What was found so far."""

    seen: dict[Place, int] = field(default_factory=dict)
    found: dict[SkillPath, tuple[int, Entry]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    displaced: list[str] = field(default_factory=list)

    def add(self, entries: Iterable[Entry], rules: Visibility) -> None:
        """Add skills whose paths are free, all of them of the last place."""
        places = list(self.seen)
        here = len(places) - 1
        for entry in entries:
            path = entry.listed.path
            at, first = self.found.setdefault(path, (here, entry))
            if first is entry:
                continue
            if is_denied(first.listed, rules):
                # What is never served takes nobody's place.
                self.found[path] = here, entry
                self.displaced.append(first.file)
            elif _location(places[at], first) != _location(places[here], entry):
                self.problems.append(_same_path(entry, first))
            else:
                self.displaced.append(entry.file)


def _derive(
    content: Content, reading: _Reading, before: Collection | None
) -> Collection:
    places = list(reading.seen)
    ordered = [reading.found[path] for path in sorted(reading.found)]
    told = tuple(reading.problems), tuple(reading.displaced)
    numbers: tuple[int, ...] = ()
    origins = tuple(map(Origin.of, content.parts))
    if before:
        recognised = _Recognition(before.table)
        ordered = [(place, recognised.find(entry)) for place, entry in ordered]
        numbers = tuple(e.number if isinstance(e, Kept) else -1 for _, e in ordered)
        is_same = numbers == tuple(range(len(before.table)))
        is_same = is_same and told == (before.problems, before.displaced)
        if is_same and origins == before.origins:
            return before
    return Collection(
        origins=origins,
        table=pack(ordered, places),
        problems=told[0],
        seen=tuple(reading.seen.values()),
        displaced=told[1],
        before=numbers,
    )


class _Recognition:
    """Tells which skills say the same as before, although they were read anew."""

    def __init__(self, table: SkillTable) -> None:
        self._table = table
        self._numbers = {row.path: number for number, row in enumerate(table.listed)}

    def find(self, entry: Entry) -> Entry:
        """Return it as one of before if it says that, and its files look the same."""
        number = self._numbers.get(entry.listed.path)
        if isinstance(entry, Kept) or number is None:
            return entry
        looks = (entry.main, *entry.files.values())
        if looks != (self._table.main(number), *self._table.stamps(number)):
            return entry
        if self._table.record(number) != entry.record:
            return entry
        return Kept(
            table=self._table, number=number, main=entry.main, files=entry.files
        )


class _Earlier:
    """What an earlier state knows of one source."""

    def __init__(self, before: Collection, part: Part) -> None:
        self._table = before.table
        self._part = part
        self._origin = next((o for o in before.origins if o.is_of(part)), None)
        self._told = [*(p.file for p in before.problems), *before.displaced]
        self._faulty = derive_touched(self._told, ".")
        self._seen = before.seen
        self._files: dict[int, dict[str, int]] = defaultdict(dict)
        for file, place, number in before.table.files():
            self._files[place][file] = number

    @cached_property
    def _changed(self) -> frozenset[str] | None:
        before = self._origin.revision if self._origin else None
        source = self._part.mount.source
        if not isinstance(source, RemoteBranch):
            return None
        return source.find_changes(before, self._part.checkout)

    def find_place(self, place: Place) -> KnownPlace | None:
        """Return what is known of a folder, if it still says something."""
        origin, checkout = self._origin, self._part.checkout
        if origin is None or bool(origin.revision) != bool(checkout.revision):
            return None
        inside = place.directory.relative_to(checkout.directory)
        old = Place(Path(origin.directory) / inside, place.prefix, place.scope)
        if old not in self._table.places:
            return None
        touched = None
        if checkout.revision:
            if self._changed is None:
                return None
            touched = derive_touched(self._changed, inside.as_posix())
        elif old.directory != place.directory:
            return None
        number = self._table.places.index(old)
        return KnownPlace(
            place=place,
            table=self._table,
            numbers=self._files[number],
            files=sorted(self._files[number]),
            faulty=self._faulty,
            doubtful=derive_doubtful(touched or (), self._told, place.prefix),
            touched=touched,
            seen=self._seen[number] + len(touched or ()),
        )


def _same_path(entry: Entry, first: Entry) -> Problem:
    reason = f"is not served: {first.file} has the same path"
    hint = "rename one of them, or mount the sources at different places"
    return Problem(entry.file, reason, hint, rule="same-path")


def _location(place: Place, entry: Entry) -> Path:
    return place.directory / entry.file.removeprefix(place.prefix)


def _prefix(part: Part, home: Home) -> str:
    at = part.mount.at.strip("/")
    return f"{at}/{home.prefix}" if at else home.prefix


def _has_subfolder(part: Part) -> bool:
    wanted = part.mount.subfolder
    # A folder that cannot be looked into is reported by whoever lists it.
    return not wanted or os.path.lexists(part.checkout.directory / wanted)


def _without_subfolder(part: Part) -> Problem:
    reason = f"is not there in {part.mount.source.name}"
    hint = "correct the subfolder of this source in your settings"
    return Problem(part.mount.subfolder, reason, hint, rule="subfolder")


def _beside(part: Part) -> Iterator[Problem]:
    """Report what is not served because the skills are in `skills/`."""
    top = part.checkout.directory
    homes = [home.directory for home in find_homes(top, part.mount.subfolder)]
    if part.mount.subfolder or top in homes:
        return
    for file in sorted(top.glob("[!.]*/*.md")):
        is_skill = file.name == f"{INDEX}.md" or is_main(file.name)
        if is_skill and file.parent not in homes:
            place = homes[0].name
            reason = f"is not served: the skills are in {place}/"
            hint = f"move it into {place}/, or add a _root.md beside {place}/"
            shown = printable(f"{file.parent.name}/{file.name}")
            yield Problem(shown, reason, hint, rule="beside-skills")


def _left_out(part: Part) -> Iterator[Problem]:
    """Report files of a commit that are never written to a disk."""
    top = part.checkout.directory
    for home in find_homes(top, part.mount.subfolder):
        inside = home.directory.relative_to(top).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        for each in part.checkout.left_out:
            if each.file.startswith(prefix):
                shown = printable(each.file.removeprefix(prefix))
                yield explain_left_out(_prefix(part, home) + shown, each.kind)
