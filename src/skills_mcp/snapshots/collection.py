"""All skills of all sources, as one table, and what is wrong with them.

Rule 1: what a source offers never depends on another one that fails.
Rule 2: of two skills with one path, the operator's order decides, never a walk's.
Rule 3: all folders are walked, but only records of unknown keys are read.
"""

import os
from collections import Counter, defaultdict, deque
from collections.abc import Collection as AbstractCollection
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from skills_mcp.config import Limits, Visibility
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.progress import Progress
from skills_mcp.content.source import Content, Part
from skills_mcp.errors import LimitExceededError
from skills_mcp.skills.discovery import read_skill
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.homes import Home, HomeFolder, Layout, Selection
from skills_mcp.skills.index import ROOT
from skills_mcp.skills.model import Problem, Scope, SkillPath
from skills_mcp.skills.package import is_main
from skills_mcp.skills.visibility import is_denied
from skills_mcp.skills.walk import (
    Found,
    Package,
    RuleFile,
    Survey,
    WalkLimits,
    count_not_served,
)
from skills_mcp.snapshots.copies import find_copies
from skills_mcp.snapshots.records import (
    NO_KEY,
    ContentId,
    ContentRecord,
    ListedSkill,
    derive_key,
)
from skills_mcp.snapshots.skill_table import SkillTable

_T = TypeVar("_T")

KnownRecords = Mapping[bytes, ContentRecord]
"""Records of earlier states, by their keys."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which revision of which source was read."""

    source: str
    at: str
    selection: Selection
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
            mount.selection,
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
    part: int = -1
    """The number of its source in `origins`; -1 if it is of several."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """The skills of one state of the content, offered or not.  Never changes."""

    origins: tuple[Origin, ...]
    table: SkillTable
    findings: tuple[KeyedProblem, ...]
    blank_keys: tuple[bytes, ...] = ()
    """The keys of files that are no skills, and that is no problem: `README.md`."""
    copies: tuple[tuple[SkillPath, ...], ...] = ()
    """The paths of packages with the same files, in the order in which they count."""
    package_parts: frozenset[int] = frozenset()
    """The numbers of the sources that hold packages."""

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the content; one line for all ordinary Markdown."""
        return tuple(_summarise(self.findings, self.package_parts))

    @cached_property
    def not_served(self) -> Mapping[int, int]:
        """How many packages lie outside of the homes, by the number of the source."""
        left_out = Counter[int]()
        for finding in self.findings:
            left_out[finding.part] += count_not_served([finding.problem])
        return left_out

    def is_of(self, content: Content) -> bool:
        """Whether it was read from exactly these commits, without a passing failure."""
        is_whole = not any(each.problem.is_passing for each in self.findings)
        origins = tuple(map(Origin.of, content.parts))
        return is_whole and origins == self.origins and all(o.revision for o in origins)

    def keys(self) -> Iterator[bytes]:
        """Iterate over the keys of what need not be read again; some come twice."""
        forgotten = {NO_KEY, *(f.key for f in self.findings if f.problem.is_passing)}
        every = chain(self.blank_keys, self._finding_keys(), self.table.keys)
        return (key for key in every if key not in forgotten)

    def records(self) -> Iterator[ContentRecord]:
        """Iterate over everything that need not be read again."""
        known = frozenset(self.keys())
        problems: dict[bytes, list[Problem]] = defaultdict(list)
        for finding in self.findings:
            problems[finding.key].append(finding.problem)
        for key in (*self.blank_keys, *problems):
            if key in known:
                yield ContentRecord(key, "", None, tuple(problems[key]))
        for record in self.table.records():  # the last record of a key is the one
            if record.key in known:
                yield replace(record, problems=tuple(problems[record.key]))

    def is_what(self, surveyed: Sequence["_Surveyed"], limits: Limits) -> bool:
        """Whether these walks have found exactly what this was read from.

        Most refreshes find nothing new, and ten thousand records would take 10 MB.
        """
        homes = [home for source in surveyed for home in source.homes]
        known_homes = tuple(each.home for each in homes)
        own = [f for f in self.findings if f.key == NO_KEY]
        return (
            known_homes == self.table.homes
            and own == list(_find_problems(surveyed))
            and self._has_keys([each.found for each in homes])
            and self._has_room(surveyed, limits)
        )

    def _has_keys(self, found: Iterable[Iterable["Sighting"]]) -> bool:
        """Whether exactly these keys were found in the homes, each of them once."""
        keys = self.table.keys
        blank = {*self.blank_keys, *self._finding_keys()} - {NO_KEY, *keys}
        places = dict(zip(keys, self.table.arrays["homes"].tolist(), strict=True))
        for number, its in enumerate(found):
            for each in its:
                if isinstance(each, Problem):
                    continue
                if not isinstance(each, bytes):
                    return False  # it has to be read
                if each in blank:
                    blank.remove(each)
                elif places.pop(each, -1) != number:
                    return False
        return not places and not blank

    def _has_room(self, surveyed: Sequence["_Surveyed"], limits: Limits) -> bool:
        """Whether no source has more text than the limits, which may have changed."""
        homes = self.table.arrays["homes"]
        lengths = self.table.arrays["characters"]
        first = 0
        for source in surveyed:
            last = first + len(source.homes)
            its = lengths[(homes >= first) & (homes < last)]
            if int(its.sum()) > limits.max_characters:
                return False
            first = last
        return True

    def _finding_keys(self) -> Iterator[bytes]:
        return (finding.key for finding in self.findings)


def collect(
    content: Content,
    limits: Limits,
    rules: Visibility,
    known: Sequence[Collection] = (),
    progress: Progress | None = None,
) -> Collection:
    """Read all skills.  Blocking; what is wrong becomes a `Problem`.

    Args:
        content: The files of every source.
        limits: How much is looked at and read.
        rules: A skill that is denied takes no other skill's path.
        known: Earlier states, the newest last. One that is the same is returned.
        progress: Is told how far this has got.
    """
    progress = progress or Progress()
    keys = frozenset(chain.from_iterable(each.keys() for each in known))
    found = [_try_survey(part, limits, keys, progress) for part in content.parts]
    surveyed = [each for each in found if isinstance(each, _Surveyed)]
    origins = tuple(map(Origin.of, content.parts))
    if len(surveyed) == len(found):
        for each in known:
            if each.origins == origins and each.is_what(surveyed, limits):
                return each
    del keys
    records = {record.key: record for each in known for record in each.records()}
    reading = _Reading()
    for number, (part, walked) in enumerate(zip(content.parts, found, strict=True)):
        try:
            source = _read_source(walked, limits, records, progress)
        except LimitExceededError as error:
            reading.report(number, [_exceeded(part, error)])
            continue
        for home, read in source.homes:
            reading.add(number, home, read, rules)
        reading.report(number, source.problems)
        reading.copies += source.copies
    return reading.conclude(content, known)


class Unread(NamedTuple):
    """A rule file or package of which no record is known."""

    key: bytes
    found: RuleFile | Package


Sighting = bytes | Unread | Problem
"""What a walk has found: the key of a known record, what has to be read, or a problem.

Of ten thousand skills nearly all are known, and a key takes a tenth of what is behind.
"""


class _SurveyedHome(NamedTuple):
    folder: HomeFolder
    home: Home
    found: deque[Sighting]


class _Surveyed(NamedTuple):
    """What the walk over one source has found."""

    homes: Sequence[_SurveyedHome]
    problems: Sequence[Problem]
    """What lies outside of the homes."""
    ids: Mapping[str, str]


def _try_survey(
    part: Part, limits: Limits, known: AbstractSet[bytes], progress: Progress
) -> _Surveyed | LimitExceededError:
    try:
        return _survey(part, limits, known, progress)
    except LimitExceededError as error:
        return error


def _survey(
    part: Part, limits: Limits, known: AbstractSet[bytes], progress: Progress
) -> _Surveyed:
    """Walk over one source.

    Raises:
        LimitExceededError: It has more than it may have.
    """
    mount, checkout = part.mount, part.checkout
    surveyed = checkout.surveyed.get(mount.selection)
    survey = Survey(
        FolderTree(checkout.directory),
        mount.selection,
        WalkLimits.of(limits),
        Layout(surveyed.homes) if surveyed else None,
    )
    ids = _find_ids(part)
    homes = []
    for folder in survey.layout.homes:
        home = folder.at(checkout.directory, mount.prefix, mount.scope)
        content_id = _content_id(folder, ids, checkout.revision or "")
        walk = progress.track("Finding skills", survey.walk(folder))
        found = deque(look_up(home, walk, content_id, known))
        homes.append(_SurveyedHome(folder, home, found))
    # Of a commit only what is served was written, so the disk cannot tell.
    problems = surveyed.problems if surveyed else tuple(survey.outside())
    shown = [replace(each, file=mount.prefix + each.file) for each in problems]
    return _Surveyed(homes, shown, ids)


def look_up(
    home: Home,
    walk: Iterable[Found],
    content_id: ContentId,
    known: AbstractSet[bytes],
) -> Iterator[Sighting]:
    """Iterate over what a walk finds in one folder, without reading a skill.

    Args:
        home: The folder.
        walk: What it holds.
        content_id: Names the content of its files.
        known: The keys of records that need not be read.
    """
    for found in walk:
        if isinstance(found, Problem):
            yield replace(found, file=home.file_prefix + found.file)
        else:
            key = derive_key(found, home, content_id)
            yield key if key in known else Unread(key, found)


def _find_problems(surveyed: Iterable[_Surveyed]) -> Iterator[KeyedProblem]:
    """Iterate over the problems of walks, in the order of `Collection.findings`."""
    found = [
        (number, -1, None, problem)
        for number, source in enumerate(surveyed)
        for problem in (
            *(p for its in source.homes for p in its.found if isinstance(p, Problem)),
            *source.problems,
        )
    ]
    for number, _, _, problem in sorted(found, key=_place_of):
        yield KeyedProblem(problem, part=number)


@dataclass(frozen=True, slots=True)
class _SourceReading:
    """What one source holds."""

    homes: Sequence[tuple[Home, "HomeReading"]]
    problems: Sequence[Problem]
    copies: Sequence[tuple[SkillPath, ...]]


def _read_source(
    walked: _Surveyed | LimitExceededError,
    limits: Limits,
    known: KnownRecords,
    progress: Progress,
) -> _SourceReading:
    """Read the skills of one source.

    Raises:
        LimitExceededError: It has more than it may have.
    """
    if isinstance(walked, LimitExceededError):
        raise walked
    homes = []
    for _, home, found in walked.homes:
        told = progress.track("Reading skills", _take_all(found), len(found))
        homes.append((home, read_home(home, told, known)))
    _check_length(sum(read.characters for _, read in homes), limits.max_characters)
    records = [(home, record) for home, read in homes for record in read.records]
    inside = {each.home: each.folder.below for each in walked.homes}
    ids = walked.ids
    copies = find_copies(records, lambda home, file: ids.get(inside[home](file)))
    return _SourceReading(homes, walked.problems, copies)


def _check_length(characters: int, most: int) -> None:
    if characters > most:
        raise LimitExceededError(
            f"the skills have {characters:,} characters, and limits.max_characters is "
            f"{most:,}. Serve a part of them with subfolder, or raise "
            "limits.max_characters"
        )


@dataclass(frozen=True, slots=True)
class HomeReading:
    """What one folder holds."""

    records: Sequence[ContentRecord]
    """In the order of their files."""
    findings: Sequence[tuple[ContentRecord | None, Problem]]
    """The problems, each with its record if it is of one."""

    @property
    def characters(self) -> int:
        """The length of the texts of all its skills."""
        return sum(each.skill.characters for each in self.records if each.skill)


def read_home(
    home: Home, found: Iterable[Sighting], known: KnownRecords
) -> HomeReading:
    """Read what was found in one folder, and is not known.  Blocking.

    Args:
        home: The folder.
        found: What `look_up` has found in it.
        known: Records that need not be read.
    """
    records: list[ContentRecord] = []
    findings: list[tuple[ContentRecord | None, Problem]] = []
    for each in found:
        if isinstance(each, Problem):
            findings.append((None, each))
            continue
        record = known[each] if isinstance(each, bytes) else _read(home, *each)
        records.append(record)
        findings += [(record, problem) for problem in record.problems]
    # In a mounted tree `_root.md` and `_index.md` have one path: the rules first.
    rules = f"{home.file_prefix}{ROOT}.md"
    records.sort(key=lambda each: (each.file != rules, each.file))
    findings.sort(key=lambda each: each[1].file)
    return HomeReading(records, findings)


def _read(home: Home, key: bytes, found: RuleFile | Package) -> ContentRecord:
    return ContentRecord.of(key, home, found.file, read_skill(home, found))


def _exceeded(part: Part, error: LimitExceededError) -> Problem:
    reason, _, hint = str(error).partition(". ")
    at = part.mount.at.strip("/") or "."
    return Problem(at, f"is not served: {reason}", hint.rstrip("."), rule="limit")


_NO_SKILL = frozenset({"no-frontmatter", "no-keywords"})
"""The rules that a file breaks that was never meant to be a skill."""
_PLAIN = _NO_SKILL | {"description"}

_MOST_NAMED = 3


def _summarise(
    findings: Sequence[KeyedProblem], package_parts: AbstractCollection[int]
) -> Iterator[Problem]:
    """Yield the problems; one for all ordinary Markdown beside packages."""
    rules: dict[tuple[int, str], set[str]] = defaultdict(set)
    for each in findings:
        rules[each.part, each.problem.file].add(each.problem.rule)
    plain: dict[int, dict[str, None]] = defaultdict(dict)
    for each in findings:
        file = each.problem.file
        if each.part in package_parts and _is_plain(file, rules[each.part, file]):
            plain[each.part][file] = None
        else:
            yield each.problem
    for files in plain.values():
        yield _plain_markdown(list(files))


def _is_plain(file: str, rules: AbstractSet[str]) -> bool:
    if is_main(file.rpartition("/")[2]):
        return False  # it was meant to be a skill
    return not rules.isdisjoint(_NO_SKILL) and rules <= _PLAIN


def _plain_markdown(files: Sequence[str]) -> Problem:
    named = ", ".join(files[:_MOST_NAMED]) + (", …" if files[_MOST_NAMED:] else "")
    nouns = "file of Markdown is" if len(files) == 1 else "files of Markdown are"
    return Problem(
        files[0] if len(files) == 1 else ".",
        f"{len(files):,} {nouns} no skill, without keywords and description: {named}",
        "if one is a rule file, add keywords and description to its frontmatter",
        "warning",
        rule="plain-markdown",
        count=len(files),
    )


@dataclass(slots=True)
class _Reading:
    """What was found so far in all sources; homes are counted from 0."""

    homes: list[Home] = field(default_factory=list)
    skills: dict[SkillPath, tuple[int, ContentRecord]] = field(default_factory=dict)
    """The records that have got their paths, each with its home."""
    blank: list[tuple[int, ContentRecord]] = field(default_factory=list)
    """The records without a skill."""
    findings: list[tuple[int, int, ContentRecord | None, Problem]] = field(
        default_factory=list
    )
    """The problems, each with its source, and its home and record or -1 and None."""
    package_parts: set[int] = field(default_factory=set)
    copies: list[tuple[SkillPath, ...]] = field(default_factory=list)

    def report(self, part: int, problems: Iterable[Problem]) -> None:
        """Add problems that are of no record."""
        self.findings += [(part, -1, None, problem) for problem in problems]

    def add(self, part: int, home: Home, read: HomeReading, rules: Visibility) -> None:
        """Add what was read of a home; a path that is taken stays taken."""
        here = len(self.homes)
        self.homes.append(home)
        self.findings += [(part, here, record, each) for record, each in read.findings]
        for record in read.records:
            if is_main(record.file.rpartition("/")[2]):
                self.package_parts.add(part)
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
                self.report(part, [_same_path(record, first)])

    def conclude(self, content: Content, known: Sequence[Collection]) -> Collection:
        """Return the collection; one that is known if it is the same."""
        placed = [self.skills[path] for path in sorted(self.skills)]
        owners = {record.key: home for home, record in placed}
        for home, record in self.blank:
            owners.setdefault(record.key, home)
        findings = tuple(
            KeyedProblem(problem, record.key, part)
            if record and owners.get(record.key) == home
            else KeyedProblem(problem, part=part)
            for part, home, record, problem in sorted(self.findings, key=_place_of)
        )
        origins = tuple(map(Origin.of, content.parts))
        copies = tuple(sorted(self.copies))
        wanted = origins, findings, copies
        same = (c for c in known if (c.origins, c.findings, c.copies) == wanted)
        for each in same:
            if each.table.has_packed(placed, self.homes):
                return each
        return Collection(
            origins=origins,
            table=SkillTable.pack(placed, self.homes),
            findings=findings,
            blank_keys=tuple(r.key for _, r in self.blank if not r.problems),
            copies=copies,
            package_parts=frozenset(self.package_parts),
        )


def _place_of(finding: tuple[int, int, object, Problem]) -> tuple[int, str]:
    """Return where a finding stands in the list: a commit has those of a folder."""
    part, _, _, problem = finding
    return part, problem.file


def _is_denied(record: ContentRecord, home: Home, rules: Visibility) -> bool:
    skill = record.skill
    if skill is None:
        return False
    listed = ListedSkill(skill.path, skill.name, skill.category, home.scope)
    return is_denied(listed, rules)


def _take_all(found: deque[_T]) -> Iterator[_T]:
    """Iterate over what was found, and let go of each: ten thousand take 10 MB."""
    while found:
        yield found.popleft()


def _find_ids(part: Part) -> Mapping[str, str]:
    """Return the ids of a commit's files; none for a folder."""
    source = part.mount.source
    if not isinstance(source, RemoteBranch):
        return {}
    return source.content_ids(part.checkout) or {}


def _content_id(home: HomeFolder, ids: Mapping[str, str], commit: str) -> ContentId:
    # Where Git has deleted the commit, or never had the file, nothing but the commit
    # itself can name the content.
    if not ids:
        return lambda _: commit
    return lambda file: ids.get(home.below(file), commit)


def _same_path(record: ContentRecord, first: ContentRecord) -> Problem:
    reason = f"is not served: {first.file} has the same path"
    hint = "rename one of them, or mount the sources at different places"
    return Problem(record.file, reason, hint, rule="same-path")


def _location(home: Home, record: ContentRecord) -> Path:
    return home.directory / record.file.removeprefix(home.file_prefix)
