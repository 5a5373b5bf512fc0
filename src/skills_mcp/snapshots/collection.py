"""All skills of all sources, as one table, and what is wrong with them.

Rule 1: what a source offers never depends on another one that fails.
Rule 2: of two skills with one path, the operator's order decides, never a walk's.
Rule 3: all folders are walked, but only records of unknown keys are read.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skills_mcp.config import Limits, Visibility
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Content, Part, explain_left_out
from skills_mcp.skills.discovery import read_skill
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import Problem, Scope, SkillPath, printable
from skills_mcp.skills.package import is_main
from skills_mcp.skills.visibility import is_denied
from skills_mcp.skills.walk import Home, Walk, find_homes
from skills_mcp.snapshots.records import (
    NO_KEY,
    ContentId,
    ContentRecord,
    ListedSkill,
    derive_key,
)
from skills_mcp.snapshots.skill_table import SkillTable

KnownRecords = Mapping[bytes, ContentRecord]
"""Records of earlier states, by their keys."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which revision of which source was read."""

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


@dataclass(frozen=True, slots=True)
class KeyedProblem:
    """A problem, and the record that has it."""

    problem: Problem
    key: bytes = NO_KEY
    """The key of the record; `NO_KEY` if the problem is of no record that is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The skills of one state of the content, offered or not.  Never changes."""

    origins: tuple[Origin, ...]
    table: SkillTable
    findings: tuple[KeyedProblem, ...]
    blank_keys: tuple[bytes, ...] = ()
    """The keys of files that are no skills, and that is no problem: `README.md`."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the content."""
        return tuple(finding.problem for finding in self.findings)

    def is_of(self, content: Content) -> bool:
        """Whether it was read from exactly these commits, without a passing failure."""
        is_whole = not any(problem.is_passing for problem in self.problems)
        origins = tuple(map(Origin.of, content.parts))
        return is_whole and origins == self.origins and all(o.revision for o in origins)

    def records(self) -> Iterator[ContentRecord]:
        """Iterate over everything that need not be read again."""
        problems: dict[bytes, list[Problem]] = defaultdict(list)
        for finding in self.findings:
            problems[finding.key].append(finding.problem)
        passing = {f.key for f in self.findings if f.problem.is_passing}
        forgotten = {NO_KEY, *passing}
        for key in (*self.blank_keys, *problems):
            if key not in forgotten:
                yield ContentRecord(key, "", None, tuple(problems[key]))
        for record in self.table.records():  # the last record of a key is the one
            if record.key not in forgotten:
                yield replace(record, problems=tuple(problems[record.key]))


def collect(
    content: Content,
    limits: Limits,
    rules: Visibility,
    known: Sequence[Collection] = (),
) -> Collection:
    """Read all skills.  Blocking; what is wrong becomes a `Problem`.

    Args:
        content: The files of every source.
        limits: How much is looked at and read.
        rules: A skill that is denied takes no other skill's path.
        known: Earlier states, the newest last. One that is the same is returned.
    """
    records = {record.key: record for each in known for record in each.records()}
    reading = _Reading()
    for part in content.parts:
        if not _has_subfolder(part):
            reading.report(_without_subfolder(part))
            continue
        ids = _find_ids(part)
        for home in find_homes(part.checkout.directory, part.mount.subfolder):
            placed = replace(home, prefix=_prefix(part, home), scope=part.mount.scope)
            content_id = _content_id(part, home, ids)
            read = read_home(placed, limits, content_id, records)
            reading.add(placed, read, rules)
        reading.report(*_beside(part), *_left_out(part))
    return reading.conclude(content, known)


@dataclass(frozen=True, slots=True)
class HomeReading:
    """What one folder holds."""

    records: Sequence[ContentRecord]
    """In the order of their files."""
    findings: Sequence[tuple[ContentRecord | None, Problem]]
    """The problems, each with its record if it is of one."""


def read_home(
    home: Home, limits: Limits, content_id: ContentId, known: KnownRecords
) -> HomeReading:
    """Walk one folder, and read what is not known.  Blocking.

    Args:
        home: The folder.
        limits: How much is looked at and read.
        content_id: Names the content of its files.
        known: Records that need not be read.
    """
    records: list[ContentRecord] = []
    findings: list[tuple[ContentRecord | None, Problem]] = []
    room = limits.max_characters
    walk = Walk(home.directory, limits.max_files, packages_only=home.packages_only)
    for found in walk.run():
        if isinstance(found, Problem):
            findings.append((None, replace(found, file=home.prefix + found.file)))
            continue
        key = derive_key(found, home.prefix, content_id)
        record = known.get(key)
        if record is None:
            record = ContentRecord.of(key, home, found.file, read_skill(home, found))
        records.append(record)
        findings += [(record, problem) for problem in record.problems]
        room -= record.skill.characters if record.skill else 0
        if room < 0:
            findings.append((None, _too_much(home, limits)))
            records = list(_take_fitting(records, limits.max_characters))
            break
    # In a mounted tree `_root.md` and `_index.md` have one path: the rules first.
    records.sort(key=lambda each: (each.file != f"{home.prefix}{ROOT}.md", each.file))
    findings.sort(key=lambda each: each[1].file)
    return HomeReading(records, findings)


def _take_fitting(
    records: Iterable[ContentRecord], max_characters: int
) -> Iterator[ContentRecord]:
    """Iterate over the records that have room together, in the order of the walk."""
    for record in records:
        max_characters -= record.skill.characters if record.skill else 0
        if max_characters < 0:
            return
        yield record


def _too_much(home: Home, limits: Limits) -> Problem:
    most = f"{limits.max_characters:,}"
    hint = "serve a subfolder of it, or raise limits.max_characters"
    reason = f"has more than {most} characters, the rest is not served"
    return Problem(f"{home.prefix}.", reason, hint, rule="max-characters")


@dataclass(slots=True)
class _Reading:
    """What was found so far in all sources; homes are counted from 0."""

    homes: list[Home] = field(default_factory=list)
    skills: dict[SkillPath, tuple[int, ContentRecord]] = field(default_factory=dict)
    """The records that have got their paths, each with its home."""
    blank: list[tuple[int, ContentRecord]] = field(default_factory=list)
    """The records without a skill."""
    findings: list[tuple[int, ContentRecord | None, Problem]] = field(
        default_factory=list
    )

    def report(self, *problems: Problem) -> None:
        """Add problems that are of no record."""
        self.findings += [(-1, None, problem) for problem in problems]

    def add(self, home: Home, read: HomeReading, rules: Visibility) -> None:
        """Add what was read of a home; a path that is taken stays taken."""
        here = len(self.homes)
        self.homes.append(home)
        self.findings += [(here, record, problem) for record, problem in read.findings]
        for record in read.records:
            if record.skill is None:
                self.blank.append((here, record))
                continue
            path = record.skill.path
            at, first = self.skills.setdefault(path, (here, record))
            if at == here and first is record:
                continue
            if _is_denied(first, self.homes[at], rules):
                self.skills[path] = here, record
            elif _location(self.homes[at], first) != _location(home, record):
                self.report(_same_path(record, first))

    def conclude(self, content: Content, known: Sequence[Collection]) -> Collection:
        """Return the collection; one that is known if it is the same."""
        placed = [self.skills[path] for path in sorted(self.skills)]
        owners = {record.key: home for home, record in placed}
        for home, record in self.blank:
            owners.setdefault(record.key, home)
        findings = tuple(
            KeyedProblem(problem, record.key)
            if record and owners.get(record.key) == home
            else KeyedProblem(problem)
            for home, record, problem in self.findings
        )
        origins = tuple(map(Origin.of, content.parts))
        same = (c for c in known if (c.origins, c.findings) == (origins, findings))
        for each in same:
            if each.table.has_packed(placed, self.homes):
                return each
        return Collection(
            origins=origins,
            table=SkillTable.pack(placed, self.homes),
            findings=findings,
            blank_keys=tuple(r.key for _, r in self.blank if not r.problems),
        )


def _is_denied(record: ContentRecord, home: Home, rules: Visibility) -> bool:
    skill = record.skill
    if skill is None:
        return False
    listed = ListedSkill(skill.path, skill.name, skill.category, home.scope)
    return is_denied(listed, rules)


def _find_ids(part: Part) -> Mapping[str, str]:
    """Return the ids of a commit's files; none for a folder."""
    source = part.mount.source
    if not isinstance(source, RemoteBranch):
        return {}
    return source.content_ids(part.checkout) or {}


def _content_id(part: Part, home: Home, ids: Mapping[str, str]) -> ContentId:
    inside = home.directory.relative_to(part.checkout.directory).as_posix()
    prefix = "" if inside == "." else f"{inside}/"
    # Where Git has deleted the commit, or never had the file, nothing but the commit
    # itself can name the content.
    otherwise = part.checkout.revision or ""
    return lambda file: ids.get(prefix + file, otherwise)


def _same_path(record: ContentRecord, first: ContentRecord) -> Problem:
    reason = f"is not served: {first.file} has the same path"
    hint = "rename one of them, or mount the sources at different places"
    return Problem(record.file, reason, hint, rule="same-path")


def _location(home: Home, record: ContentRecord) -> Path:
    return home.directory / record.file.removeprefix(home.prefix)


def _prefix(part: Part, home: Home) -> str:
    at = part.mount.at.strip("/")
    return f"{at}/{home.prefix}" if at else home.prefix


def _has_subfolder(part: Part) -> bool:
    wanted = part.mount.subfolder
    # A folder that cannot be looked into is reported by the walk.
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
