"""Skills of all sources: walked, compared with known records, and read.

Rule: of two skills with one path, the first source's is served, unless it is denied.
Identical packages are one skill with several paths.
"""

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from skills_mcp.config import Limits, Visibility
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Content, ContentPart, Mount, Progress
from skills_mcp.errors import LimitExceededError, MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import iterate_folders
from skills_mcp.skills import skill_discovery
from skills_mcp.skills.model import Problem, Scope, SkillPath
from skills_mcp.skills.skill_index import ROOT, is_denied
from skills_mcp.skills.skill_parser import is_package_file, is_skill_md
from skills_mcp.skills.source_layout import FolderTree, Layout, RelativeRoot, Selection, SkillRoot
from skills_mcp.snapshots.skill_records import (
    NO_KEY,
    ContentId,
    ContentRecord,
    ListedSkill,
    RecordedSkill,
    SkillTable,
    decode_skill,
    derive_record_key,
)

# Of 50,000 skills, the most that is promised, this is 5,000 of each.
MAX_CHARACTERS = 250_000_000
"""Characters in all skills of a source, at most; their index is in memory."""

LocatedRecord = tuple[SkillRoot, ContentRecord]

BlobId = Callable[[SkillRoot, str], str | None]
"""Content id of a file, by its path in a skill root; None without one."""


def find_copies(
    records: Sequence[LocatedRecord], blob_id: BlobId
) -> tuple[tuple[SkillPath, ...], ...]:
    """Find the paths of packages with identical files and folder name.

    Inherited rules are compared elsewhere (see `SkillIndex`). Only packages of equal
    sizes are read.
    """
    alike: dict[Hashable, list[tuple[SkillRoot, RecordedSkill]]] = defaultdict(list)
    for home, record in records:
        skill = record.skill
        if skill and is_package_file(skill.file, skill.path):
            sizes = tuple(stamp.size_bytes for stamp in skill.stamps)
            folder_name = skill.path.rpartition("/")[2]
            alike[folder_name, skill.name, sizes].append((home, skill))
    same: dict[bytes, dict[SkillPath, None]] = defaultdict(dict)
    for group in alike.values():
        for home, skill in group if len(group) > 1 else ():
            digest = _hash_package(home, skill, blob_id)
            if digest is not None:
                same[digest][skill.path] = None
    return tuple(tuple(group) for group in same.values() if len(group) > 1)


def _hash_package(home: SkillRoot, skill: RecordedSkill, blob_id: BlobId) -> bytes | None:
    digest = blake2b(digest_size=16)
    folder = skill.file.rpartition("/")[0]
    for name in decode_skill(skill.text.read(), home, skill.stamps).files:
        file = f"{folder}/{name}" if folder else name
        found = blob_id(home, file) or _hash_file(home, file)
        if found is None:
            return None
        digest.update(f"{name}\0{found}\0".encode("utf-8", "surrogatepass"))
    return digest.digest()


def _hash_file(home: SkillRoot, file: str) -> str | None:
    try:
        with open_inside(home.directory, tuple(file.split("/"))) as handle:
            return blake2b(handle.read(), digest_size=16).hexdigest()
    except (OSError, MissingFileError):
        return None


_T = TypeVar("_T")

KnownRecords = Mapping[bytes, ContentRecord]


@dataclass(frozen=True, slots=True)
class SourceOrigin:
    """Identity of a source and its revision."""

    source: str
    at: str
    selection: Selection
    scope: Scope
    directory: str
    revision: str | None
    pins: str = ""
    """What is served from here, with pins; empty without them."""

    @classmethod
    def of(cls, part: ContentPart) -> "SourceOrigin":
        mount, checkout = part.mount, part.checkout
        return cls(
            mount.source.name,
            mount.at,
            mount.selection,
            mount.scope,
            os.fspath(checkout.directory),
            checkout.revision,
            "\n".join((*mount.pins, "", *mount.only)) if mount.pins else "",
        )


@dataclass(frozen=True, slots=True)
class KeyedProblem:
    """A problem with its record."""

    problem: Problem
    key: bytes = NO_KEY
    part: int = -1
    """Number of its source in `origins`; -1 for several."""


@dataclass(frozen=True, kw_only=True)
class LoadedSkills:
    """The skills of one state of the content, offered or not.  Immutable."""

    origins: tuple[SourceOrigin, ...]
    table: SkillTable
    findings: tuple[KeyedProblem, ...]
    blank_keys: tuple[bytes, ...] = ()
    """Keys of files without skill and without problem: `README.md`."""
    copies: tuple[tuple[SkillPath, ...], ...] = ()
    """Paths of identical packages, in order of precedence."""
    package_parts: frozenset[int] = frozenset()

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        found = _summarise(self.findings, self._is_ordinary)
        return tuple(replace(each, mount=self.origins[part].at) for part, each in found)

    def _is_ordinary(self, finding: KeyedProblem) -> bool:
        """Whether Markdown without keywords is no rule file that lacks them."""
        if finding.part in self.package_parts:
            return True
        folders = iterate_folders(finding.problem.file)
        aside = [each for each in folders if each.rpartition("/")[2] in _OTHER_MARKDOWN]
        return bool(aside) and self._skill_folders.isdisjoint(aside)

    @cached_property
    def _skill_folders(self) -> AbstractSet[str]:
        """Folders with skills in them, or below."""
        return {folder for file in self.table.files() for folder in iterate_folders(file)}

    @cached_property
    def not_served(self) -> Mapping[int, int]:
        """Count the packages outside of the skill roots, by number of the source."""
        left_out = Counter[int]()
        for finding in self.findings:
            left_out[finding.part] += skill_discovery.count_outside_packages([finding.problem])
        return left_out

    def matches_content(self, content: Content) -> bool:
        """Whether it was read from exactly these commits, without transient errors."""
        is_complete = not any(finding.problem.is_passing for finding in self.findings)
        origins = tuple(map(SourceOrigin.of, content.parts))
        return is_complete and origins == self.origins and all(o.revision for o in origins)

    def keys(self) -> Iterator[bytes]:
        """Iterate over the keys of reusable records; some come twice."""
        forgotten = {NO_KEY, *(f.key for f in self.findings if f.problem.is_passing)}
        all_keys = chain(self.blank_keys, self._finding_keys(), self.table.keys)
        return (key for key in all_keys if key not in forgotten)

    def records(self) -> Iterator[ContentRecord]:
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

    def matches_surveys(self, surveyed: Sequence["_Surveyed"]) -> bool:
        """Whether these walks match exactly, to avoid 10 MB of ten thousand records."""
        homes = [home for source in surveyed for home in source.homes]
        known_homes = tuple(surveyed_root.home for surveyed_root in homes)
        own = [f for f in self.findings if f.key == NO_KEY]
        return (
            known_homes == self.table.homes
            and own == list(_find_problems(surveyed))
            and self._has_keys([surveyed_root.found for surveyed_root in homes])
        )

    def _has_keys(self, found: Iterable[Iterable["WalkItem"]]) -> bool:
        keys = self.table.keys
        blank = {*self.blank_keys, *self._finding_keys()} - {NO_KEY, *keys}
        home_by_key = dict(zip(keys, self.table.arrays["homes"].tolist(), strict=True))
        for number, items in enumerate(found):
            for item in items:
                if isinstance(item, Problem):
                    continue
                if not isinstance(item, bytes):
                    return False  # it has to be read
                if item in blank:
                    blank.remove(item)
                elif home_by_key.pop(item, -1) != number:
                    return False
        return not home_by_key and not blank

    def _finding_keys(self) -> Iterator[bytes]:
        return (finding.key for finding in self.findings)


def read_sources(  # noqa: PLR0913 - most have a default
    content: Content,
    limits: Limits,
    rules: Visibility,
    known: Sequence[LoadedSkills] = (),
    progress: Progress | None = None,
    *,
    on_read: skill_discovery.OnRead | None = None,
) -> LoadedSkills:
    """Read the skills of all sources.  Blocking; a failure becomes a `Problem`.

    An identical earlier state is reused; a denied skill takes no other skill's path.
    """
    progress = progress or Progress()
    keys = frozenset(chain.from_iterable(candidate.keys() for candidate in known))
    found = [_try_survey(part, limits, keys, progress) for part in content.parts]
    surveyed = [candidate for candidate in found if isinstance(candidate, _Surveyed)]
    origins = tuple(map(SourceOrigin.of, content.parts))
    if len(surveyed) == len(found):
        for candidate in known:
            if candidate.origins == origins and candidate.matches_surveys(surveyed):
                return candidate
    del keys
    records = {record.key: record for candidate in known for record in candidate.records()}
    reading = _Accumulator(content)
    for number, (part, walked) in enumerate(zip(content.parts, found, strict=True)):
        try:
            if isinstance(walked, LimitExceededError):
                raise walked
            homes, copies = _read_source(walked, records, progress, on_read)
        except LimitExceededError as error:
            reading.report(number, [_limit_problem(part, error)])
            continue
        for home, read in homes:
            reading.add(number, home, read, rules)
        reading.report(number, walked.problems)
        reading.copies += copies
    return reading.conclude(known)


class Unread(NamedTuple):
    """A rule file or package without a known record."""

    key: bytes
    found: skill_discovery.RuleFile | skill_discovery.Package


WalkItem = bytes | Unread | Problem
"""A known record's key, an unread file, or a problem; keys save memory."""


class _SurveyedRoot(NamedTuple):
    folder: RelativeRoot
    home: SkillRoot
    found: deque[WalkItem]


class _Surveyed(NamedTuple):
    homes: Sequence[_SurveyedRoot]
    problems: Sequence[Problem]
    ids: Mapping[str, str]


def _try_survey(
    part: ContentPart, limits: Limits, known: AbstractSet[bytes], progress: Progress
) -> _Surveyed | LimitExceededError:
    try:
        return _survey(part, limits, known, progress)
    except LimitExceededError as error:
        return error


def _survey(
    part: ContentPart, limits: Limits, known: AbstractSet[bytes], progress: Progress
) -> _Surveyed:
    mount, checkout = part.mount, part.checkout
    surveyed = checkout.surveyed.get(mount.selection)
    survey = skill_discovery.SourceWalk(
        FolderTree(checkout.directory),
        mount.selection,
        limits,
        Layout(surveyed.homes) if surveyed else None,
    )
    ids = _read_content_ids(part)
    homes = []
    missing = set(mount.only)
    for folder in survey.layout.homes:
        home = folder.at(checkout.directory, mount.prefix, mount.scope)
        content_id = _content_id(folder, ids, checkout.revision or "")
        walk = progress.track("Finding skills", survey.walk(folder))
        if mount.pins:
            walk = _select_pinned(walk, folder.prefix, mount, missing)
        found = deque(classify_walk(home, walk, content_id, known))
        homes.append(_SurveyedRoot(folder, home, found))
    # Of a commit only what is served was written, so the disk cannot tell.
    problems = surveyed.problems if surveyed else tuple(survey.outside())
    if mount.only:
        problems = tuple(_missing_pin_problem(pin, checkout.revision) for pin in sorted(missing))
    located = [replace(problem, file=mount.prefix + problem.file) for problem in problems]
    return _Surveyed(homes, located, ids)


def _select_pinned(
    walk: Iterable[skill_discovery.WalkResult], prefix: str, mount: Mount, missing: set[str]
) -> Iterator[skill_discovery.WalkResult]:
    """Select the skills of a mount, and remove the pins with a skill from `missing`."""
    for found in walk:
        folder, _, name = found.file.rpartition("/")
        path = prefix + (folder if is_skill_md(name) else found.file.removesuffix(".md"))
        if mount.serves(path):
            missing.discard(mount.find_pin(path))
            yield found


def _missing_pin_problem(pin: str, commit: str | None) -> Problem:
    reason = f"is not served: it is pinned to {(commit or '')[:12]}, which has no such skill"
    hint = "name another commit in the pins of the source, or leave the entry out"
    return Problem(pin, reason, hint, rule="pin")


def classify_walk(
    home: SkillRoot,
    walk: Iterable[skill_discovery.WalkResult],
    content_id: ContentId,
    known: AbstractSet[bytes],
) -> Iterator[WalkItem]:
    """Classify the findings of a walk in one skill root, without reading a skill."""
    for found in walk:
        if isinstance(found, Problem):
            yield replace(found, file=home.file_prefix + found.file)
        else:
            key = derive_record_key(found, home, content_id)
            yield key if key in known else Unread(key, found)


def _find_problems(surveyed: Iterable[_Surveyed]) -> Iterator[KeyedProblem]:
    """Iterate over the problems of walks, in the order of `LoadedSkills.findings`."""
    found = [
        (number, -1, None, problem)
        for number, source in enumerate(surveyed)
        for problem in (
            *(p for home in source.homes for p in home.found if isinstance(p, Problem)),
            *source.problems,
        )
    ]
    for number, _, _, problem in sorted(found, key=_sort_key):
        yield KeyedProblem(problem, part=number)


def _read_source(
    walked: _Surveyed,
    known: KnownRecords,
    progress: Progress,
    on_read: skill_discovery.OnRead | None,
) -> tuple[Sequence[tuple[SkillRoot, "SkillRootContent"]], Sequence[tuple[SkillPath, ...]]]:
    """Read the skill roots of a source, and find the identical packages in it."""
    homes = []
    for _, home, found in walked.homes:
        tracked = progress.track("Reading skills", _drain(found), len(found))
        homes.append((home, read_skill_root(home, tracked, known, on_read)))
    _check_length(sum(read.characters for _, read in homes))
    records = [(home, record) for home, read in homes for record in read.records]
    inside = {surveyed_root.home: surveyed_root.folder.below for surveyed_root in walked.homes}
    ids = walked.ids
    return homes, find_copies(records, lambda home, file: ids.get(inside[home](file)))


def _check_length(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise LimitExceededError(
            f"the skills have {characters:,} characters, and at most {MAX_CHARACTERS:,} of a "
            "source are served. Serve a part of them with subfolder"
        )


@dataclass(frozen=True, slots=True)
class SkillRootContent:
    """Records and problems of one skill root."""

    records: Sequence[ContentRecord]
    """In file order."""
    findings: Sequence[tuple[ContentRecord | None, Problem]]

    @property
    def characters(self) -> int:
        return sum(record.skill.characters for record in self.records if record.skill)


def read_skill_root(
    home: SkillRoot,
    found: Iterable[WalkItem],
    known: KnownRecords,
    on_read: skill_discovery.OnRead | None = None,
) -> SkillRootContent:
    """Read the unknown files of one skill root.  Blocking."""
    records: list[ContentRecord] = []
    findings: list[tuple[ContentRecord | None, Problem]] = []
    for item in found:
        if isinstance(item, Problem):
            findings.append((None, item))
            continue
        if isinstance(item, bytes):
            record = known[item]
        else:
            skill = skill_discovery.read_skill(home, item.found, on_read)
            record = ContentRecord.of(item.key, home, item.found.file, skill)
        records.append(record)
        findings += [(record, problem) for problem in record.problems]
    # In a mounted tree `_root.md` and `_index.md` have one path: the rules first.
    rules = f"{home.file_prefix}{ROOT}.md"
    records.sort(key=lambda item: (item.file != rules, item.file))
    findings.sort(key=lambda item: item[1].file)
    return SkillRootContent(records, findings)


def _limit_problem(part: ContentPart, error: LimitExceededError) -> Problem:
    reason, _, hint = str(error).partition(". ")
    at = part.mount.at.strip("/") or "."
    return Problem(at, f"is not served: {reason}", hint.rstrip("."), rule="limit")


_MAX_NAMED = 3


_OTHER_MARKDOWN = frozenset({"agents", "commands", "docs", "prompts", "templates"})
"""Where hosts and people keep Markdown that is no skill, unless a rule file is there."""


def _summarise(
    findings: Sequence[KeyedProblem], is_ordinary: Callable[[KeyedProblem], bool]
) -> Iterator[tuple[int, Problem]]:
    """Yield problems with the number of their source; its ordinary Markdown is one."""
    plain: dict[int, dict[str, None]] = defaultdict(dict)
    instructions: dict[int, dict[str, None]] = defaultdict(dict)
    for finding in findings:
        problem = finding.problem
        name = problem.file.rpartition("/")[2]
        is_skill = is_skill_md(name) or name == f"{ROOT}.md"  # or was meant to be one
        is_plain = problem.is_plain and not is_skill
        if is_plain and problem.file.endswith(skill_discovery.INSTRUCTIONS):
            instructions[finding.part][problem.file] = None
        elif is_plain and is_ordinary(finding):
            plain[finding.part][problem.file] = None
        else:
            yield finding.part, problem
    for part, files in plain.items():
        yield part, _plain_markdown(list(files))
    for part, files in instructions.items():
        yield part, skill_discovery.summarize_host_rules(list(files), is_cursor=False)


def _plain_markdown(files: Sequence[str]) -> Problem:
    named = ", ".join(files[:_MAX_NAMED]) + (", …" if files[_MAX_NAMED:] else "")
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
class _Accumulator:
    """Accumulated skills and problems of all sources, by skill root number."""

    content: Content
    homes: list[SkillRoot] = field(default_factory=list)
    skills: dict[SkillPath, tuple[int, ContentRecord]] = field(default_factory=dict)
    blank: list[tuple[int, ContentRecord]] = field(default_factory=list)
    findings: list[tuple[int, int, ContentRecord | None, Problem]] = field(default_factory=list)
    """Problems with source, skill root and record, or -1 and None."""
    package_parts: set[int] = field(default_factory=set)
    """Sources in which Markdown without a frontmatter of ours is ordinary."""
    skill_parts: set[int] = field(default_factory=set)
    copies: list[tuple[SkillPath, ...]] = field(default_factory=list)

    def report(self, part: int, problems: Iterable[Problem]) -> None:
        self.findings += [(part, -1, None, problem) for problem in problems]

    def add(self, part: int, home: SkillRoot, read: SkillRootContent, rules: Visibility) -> None:
        """Add a skill root; the first skill of a path wins."""
        number = len(self.homes)
        self.homes.append(home)
        self.findings += [(part, number, record, problem) for record, problem in read.findings]
        for record in read.records:
            if is_skill_md(record.file.rpartition("/")[2]):
                self.package_parts.add(part)
            if record.skill is None:
                self.blank.append((number, record))
                continue
            self.skill_parts.add(part)
            path = record.skill.path
            at, first = self.skills.setdefault(path, (number, record))
            if at == number and first is record:
                continue
            if _is_denied(first, self.homes[at], rules):
                self.skills[path] = number, record
            elif _location(self.homes[at], first) != _location(home, record):
                self.report(part, [self._duplicate_path_problem(part, record, at, first)])

    def _duplicate_path_problem(
        self, part: int, record: ContentRecord, at: int, first: ContentRecord
    ) -> Problem:
        home, named = self.homes[at], first.file
        owner = self.content.find_part(home.directory, home.prefix)
        # Two sources may call their files the same: only with its source is one named.
        if owner and owner.mount.source is not self.content.parts[part].mount.source:
            named = f"{named} of {owner.mount.source.name}"
        reason = f"is not served: {named} has the same path"
        hint = "rename one of them, or mount the sources at different places"
        return Problem(record.file, reason, hint, rule="same-path")

    def conclude(self, known: Sequence[LoadedSkills]) -> LoadedSkills:
        placed = [self.skills[path] for path in sorted(self.skills)]
        owners = {record.key: home for home, record in placed}
        for home, record in self.blank:
            owners.setdefault(record.key, home)
        findings = tuple(
            KeyedProblem(problem, record.key, part)
            if record and owners.get(record.key) == home
            else KeyedProblem(problem, part=part)
            for part, home, record, problem in sorted(self.findings, key=_sort_key)
        )
        origins = tuple(map(SourceOrigin.of, self.content.parts))
        copies = tuple(sorted(self.copies))
        identity = origins, findings, copies
        same = (c for c in known if (c.origins, c.findings, c.copies) == identity)
        for candidate in same:
            if candidate.table.has_packed(placed, self.homes):
                return candidate
        return LoadedSkills(
            origins=origins,
            table=SkillTable.pack(placed, self.homes),
            findings=findings,
            blank_keys=tuple(r.key for _, r in self.blank if not r.problems),
            copies=copies,
            package_parts=frozenset(self.package_parts.union(self._find_page_parts())),
        )

    def _find_page_parts(self) -> Iterator[int]:
        """Find sources without a skill that hold pages, or rules for one host."""
        found = [(part, p) for part, _, _, p in self.findings if part not in self.skill_parts]
        yield from (part for part, problem in found if problem.rule in skill_discovery.HOST_RULES)
        pages = Counter(part for part, problem in found if problem.is_plain)
        yield from (part for part, number in pages.items() if number > _MAX_NAMED)


def _sort_key(finding: tuple[int, int, object, Problem]) -> tuple[int, str]:
    """Sort key of a finding: a commit's order equals a folder's."""
    part, _, _, problem = finding
    return part, problem.file


def _is_denied(record: ContentRecord, home: SkillRoot, rules: Visibility) -> bool:
    skill = record.skill
    if skill is None:
        return False
    listed = ListedSkill(skill.path, skill.name, skill.category, home.scope)
    return is_denied(listed, rules)


def _drain(found: deque[_T]) -> Iterator[_T]:
    """Drain the queue to free memory: ten thousand findings take 10 MB."""
    while found:
        yield found.popleft()


def _read_content_ids(part: ContentPart) -> Mapping[str, str]:
    source = part.mount.source
    return source.content_ids(part.checkout) if isinstance(source, RemoteBranch) else {}


def _content_id(home: RelativeRoot, ids: Mapping[str, str], commit: str) -> ContentId:
    # Where Git has deleted the commit, or never had the file, nothing but the commit
    # itself can name the content.
    if not ids:
        return lambda _: commit
    return lambda file: ids.get(home.below(file), commit)


def _location(home: SkillRoot, record: ContentRecord) -> Path:
    return home.directory / record.file.removeprefix(home.file_prefix)
