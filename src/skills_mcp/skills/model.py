"""The domain model: skills, their files, their problems and their standard names.

Values are frozen, and free of any file format. Only the problems of one file are
collected in a list, so that an author sees all of them at once.

A standard name (Agent Skills) depends on the path alone, so that it stays the same when
other skills come and go, and no two paths have one name. The standard allows 1 to 64 of
a-z, 0-9 and single hyphens. A path of this form stays as it is. Every other is spelled
with hyphens and ends in `-x` and seven digits of its digest, and so does a path with
such an ending of its own.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, NewType

from skills_mcp.text.unicode import normalize_unicode

SkillPath = NewType("SkillPath", str)
"""`ui/react/auth`: a path in the tree, never on a disk."""

Execution = Literal["claude", "server"]
"""Who runs a script: the agent in its own shell, or this server."""

Scope = Literal["org", "repo", "user"]
"""Whose skill it is: the operator's sources, the project's folder, the user's own."""


Status = Literal["draft", "active", "deprecated"]
"""Stage in the life cycle of a skill."""


class Lifecycle(NamedTuple):
    """Life cycle of a skill: declared by its file, or inherited from its folders."""

    status: Status | None = None
    """None if nothing is declared: then the skill is active."""
    replaced_by: str = ""
    """Path or name of the successor of a deprecated skill."""
    reason: str = ""
    """Why it is deprecated, in its author's words."""
    review_by: str = ""
    """Date of the next review (ISO 8601)."""
    owner: str = ""
    """The person or team that is responsible."""

    @property
    def is_draft(self) -> bool:
        return self.status == "draft"

    @property
    def is_deprecated(self) -> bool:
        return self.status == "deprecated"

    @property
    def marked_status(self) -> Status | None:
        """The status that replies name; None for an active skill."""
        return None if self.status == "active" else self.status


NO_LIFECYCLE = Lifecycle()


class Applicability(NamedTuple):
    """A package that a skill is written for, and a range of its versions."""

    ecosystem: str
    """A type of package URLs (purl); empty for each that the project uses."""
    package: str
    versions: str
    """Empty for any version."""

    def __str__(self) -> str:
        return f"{self.package} {self.versions}".strip()


@dataclass(frozen=True, slots=True)
class Asset:
    """A file for agents: a template, an example, an image."""

    file: str
    description: str
    type: str


@dataclass(frozen=True, slots=True)
class Argument:
    """A named argument of a script."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class Script:
    """A runnable file, and its runner."""

    file: str
    description: str
    execution: Execution
    args: tuple[Argument, ...]


_LATEST_NS = 2**63
"""The year 2262: a file may claim a later one, and an array has 64 bits."""


EXPORTED_TIMES_NS = range(946_684_800 * 10**9, (946_684_800 + (1 << 29)) * 10**9, 2 * 10**9)
"""Modification times of files exported from a commit, from 2000 to 2017.

A file's time depends on its content (see `content.export`), so an edit shows by its
time. Whole seconds of even numbers, as some file systems keep no others.
"""


class Stamp(NamedTuple):
    """Size and times of a file when the skills were read."""

    size_bytes: int
    modified_ns: int
    changed_ns: int
    """Unlike the time of the last edit, no copy or archive can set this one.

    0 for a file exported from a commit: such files share their content between commits
    as hard links, and each link changes this time.
    """

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        is_read_only = not found.st_mode & 0o222
        if is_read_only and found.st_mtime_ns in EXPORTED_TIMES_NS:
            return cls(found.st_size, found.st_mtime_ns, 0)
        times = found.st_mtime_ns % _LATEST_NS, found.st_ctime_ns % _LATEST_NS
        return cls(found.st_size, *times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The contents of a package's folder."""

    script_files: tuple[str, ...]
    reference_files: tuple[str, ...]
    template_files: tuple[str, ...]
    total_files: int
    total_size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One piece of knowledge, with its files and metadata.

    A Markdown file in a tree of rules and a package with a `SKILL.md` are the same
    after reading; nothing depends on its origin.
    """

    path: SkillPath
    file: str
    """The Markdown file, relative to the content's root."""
    name: str
    description: str
    keywords: tuple[str, ...]
    body: str = field(repr=False)
    inherit: bool
    priority: int
    assets: tuple[Asset, ...]
    scripts: tuple[Script, ...]
    directory: Path | None = field(repr=False)
    """The folder of the assets and scripts, if there is one."""
    root: Path | None = field(default=None, compare=False, repr=False)
    """The folder below which no link is followed; `directory` lies in it."""
    location: Path | None = field(default=None, repr=False)
    """The absolute path of the Markdown file, on this machine."""
    category: str = ""
    """The author's own word for the kind of skill, folded."""
    examples: tuple[str, ...] = ()
    """Tasks that its author expects it to be found for, in a user's words."""
    entry: tuple[str, ...] = ()
    """The words of the command of `run_skill_entry`; empty if none."""
    always_apply: bool = False
    """Whether it is a core skill: one that its author wants agents to know always."""
    user_only: bool = False
    """Whether users alone invoke it: it is served by its path or name, to no task."""
    lifecycle: Lifecycle = NO_LIFECYCLE
    requires: tuple[str, ...] = ()
    """Paths or names of skills whose text is served with this one."""
    related: tuple[str, ...] = ()
    """Paths or names of skills that a reply names."""
    applies_to: tuple[Applicability, ...] = ()
    """Packages and versions that it is written for."""
    scope: Scope = "org"
    files: Mapping[str, Stamp] = field(default_factory=dict, hash=False, repr=False)
    """Every file that may be read, by its path in `directory`."""
    inventory: Inventory | None = None
    """For a package; a skill that declares its files has them listed already."""

    @property
    def owner(self) -> str:
        """The person or team that is responsible; empty if none is named."""
        return self.lifecycle.owner

    def entries(self) -> Iterator[Asset | Script]:
        yield from self.assets
        yield from self.scripts


Level = Literal["error", "warning"]
"""Severity of a problem: it costs the file, or a part."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in the content, for its author: data, never raised."""

    file: str
    reason: str
    hint: str
    """The remedy."""
    level: Level = "error"
    """`error`: the file is not served. `warning`: served, with a part ignored."""

    rule: str = ""
    """The broken rule, such as `name-is-folder`."""
    line: int = 1
    """In the file; 1 for the file as a whole."""
    is_passing: bool = False
    """Whether it is transient, such as a disk error: another read may succeed."""
    count: int = 0
    """How many skills or files it stands for; 0 if it is about one file."""
    is_plain: bool = False
    """Whether its file is Markdown that declares no keywords, such as a page or an agent."""
    mount: str = ""
    """Of its source, once all sources are read: that of another may hold the same path."""

    def __str__(self) -> str:
        return f"{self.file}: {self.reason} ({self.hint})"


_MAX_REASON_CHARACTERS = 300
"""Of a reason: it may quote a file, and a file may be a whole book."""

_MAX_WARNINGS = 50
"""Per file: a thousand would fill the log, and hide the problems of other files."""


def escape_unprintable(text: str) -> str:
    r"""Escape unprintable characters, for every terminal and reply.

    >>> escape_unprintable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(map(_escape_character, text))


@dataclass(slots=True)
class ProblemList:
    """The problems of one file, in order of detection."""

    file: str
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each frontmatter key; the empty key is for problems without one."""
    _found: list[Problem] = field(default_factory=list)

    def fail(self, rule: str, reason: str, hint: str, *, key: str = "") -> None:
        """Report an error: the file is not served; `key` locates it."""
        self._add(rule, reason, hint, key, "error")

    def warn(self, rule: str, reason: str, hint: str, *, key: str = "") -> None:
        """Report a repaired or ignored part."""
        if len(self._found) < _MAX_WARNINGS:
            self._add(rule, reason, hint, key, "warning")

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._found)

    def _add(self, rule: str, reason: str, hint: str, key: str, level: Level) -> None:
        line = self.lines.get(key, 1)
        reason = escape_unprintable(reason)
        if len(reason) > _MAX_REASON_CHARACTERS:
            reason = f"{reason[: _MAX_REASON_CHARACTERS - 1]}…"
        self._found.append(Problem(self.file, reason, hint, level, rule=rule, line=line))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


MAX_NAME_LENGTH = 64
"""Limit of the Agent Skills standard and its validators."""

_STANDARD_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WITH_DIGEST = re.compile(r".*-x(?:[0-9a-f]{7}|[0-9a-f]{39})")
_ACCENTS = re.compile("[\u0300-\u036f]+")  # accents, once they stand alone
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")

# Few paths are spelled alike, so 28 bits keep them apart; 156 bits do where a stranger
# has looked for a path with the same few.
_DIGITS = 7
LONG_DIGITS = 39


def map_standard_names(paths: Iterable[SkillPath]) -> Mapping[str, SkillPath]:
    """Map standard names to paths; colliding names get longer digests."""
    spelled: dict[str, list[SkillPath]] = defaultdict(list)
    for path in paths:
        spelled[to_standard_name(path)].append(path)
    return {
        name if len(alike) == 1 else to_standard_name(path, digits=LONG_DIGITS): path
        for name, alike in spelled.items()
        for path in alike
    }


def to_standard_name(path: str, *, digits: int = _DIGITS) -> str:
    """Convert a path to a standard name; irreversible without a table.

    >>> to_standard_name("pdf")
    'pdf'
    >>> to_standard_name("ui/react/auth")
    'ui-react-auth-x709ad3c'
    """
    if is_standard_name(path) and not _WITH_DIGEST.fullmatch(path):
        return path
    return append_digest(path, digits=digits)


def append_digest(path: str, *, digits: int = _DIGITS) -> str:
    digest = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    # The end of a long path says most about the skill.
    words = hyphenate(path)[-(MAX_NAME_LENGTH - len("-x") - digits) :].strip("-")
    return f"{words or 'skill'}-x{digest}"


def is_standard_name(text: str) -> bool:
    """Whether the Agent Skills standard allows this name.

    >>> [is_standard_name(n) for n in ("code-review", "code--review", "ui/react")]
    [True, False, False]
    """
    return len(text) <= MAX_NAME_LENGTH and _STANDARD_NAME.fullmatch(text) is not None


def hyphenate(text: str) -> str:
    """Transliterate a path to a-z and 0-9, with hyphens between words.

    >>> hyphenate("Ünïcode/Straße")
    'unicode-strasse'
    """
    bare = _ACCENTS.sub("", normalize_unicode("NFKD", text.casefold()))
    return _OTHER_CHARACTERS.sub("-", bare).strip("-")
