"""History of sources and of their skills: owners, last changes, and commits with their words.

Rule: nothing here is a guess. A file without a fetched commit has no date, and a source
without a readable history says why.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from skills_mcp.config.sections import Visibility
from skills_mcp.errors import SyncError
from skills_mcp.features.authoring.code_owners import OWNER_FILES, CodeOwners, read_code_owners
from skills_mcp.library import (
    LibraryView,
    RemoteBranch,
    Snapshot,
    derive_commit_url,
    derive_file_provenance,
    derive_pull_request_url,
    find_repository,
)
from skills_mcp.skills.model import Skill, escape_unprintable
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.skills.skill_index import INDEX, ROOT

if TYPE_CHECKING:
    from skills_mcp.library import ListedCommit, PastCommit


_RECENT_DAYS = 7

_MAX_RECENT = 20
"""Commits with their differences on one page."""

_MAX_RECENT_FILES = 500  # each is an argument of Git


@dataclass(frozen=True)
class SourceLog:
    """The fetched commits of a source, and its owners."""

    commits: "Sequence[ListedCommit]" = ()
    is_complete: bool = False
    """Whether the commits reach back to the first one."""
    owners: CodeOwners = field(default_factory=CodeOwners)
    reason: str = ""
    """Why there are no commits; empty if there are."""
    recent: "Sequence[PastCommit]" = ()
    """Commits of the last days with their differences."""
    url: str = ""

    @cached_property
    def newest(self) -> "Mapping[str, ListedCommit]":
        """The last commit of each file, and of each folder."""
        found: dict[str, ListedCommit] = {}
        for commit in self.commits:
            for file in commit.files:
                name = file
                while name and name not in found:
                    found[name] = commit
                    name = name.rpartition("/")[0]
                found.setdefault("", commit)
        return found


SourceLogs = Mapping[Path, SourceLog]
"""By the folder of the checkout, so that each is of the commit that is served."""


def read_source_logs(snapshot: Snapshot) -> SourceLogs:
    """Read the histories of all sources; uses the network.  Blocking."""
    logs = {}
    for part in snapshot.content.parts:
        source, checkout = part.mount.source, part.checkout
        if checkout.directory in logs:
            continue
        if isinstance(source, RemoteBranch) and checkout.revision:
            log = _read_log(source, checkout.revision, snapshot.config.web.history)
        else:
            log = SourceLog(owners=read_code_owners(checkout.directory), reason=_NO_HISTORY)
        logs[checkout.directory] = log
    return logs


_NO_HISTORY = (
    "A folder has no history; Git keeps one. In a clone, name the repository instead: --repo PATH "
    "--branch NAME"
)
_NO_PARENT = "No commit came with the one before. Complete a shallow clone: git fetch --unshallow"
_SWITCHED_OFF = "The operator has switched the history off (web.history: 0)."


def find_first_recent_day() -> date:
    """First of the last seven days in UTC, today included."""
    return datetime.now(UTC).date() - timedelta(days=_RECENT_DAYS - 1)


def _read_log(source: RemoteBranch, commit: str, max_commits: int) -> SourceLog:
    if not max_commits:
        return SourceLog(reason=_SWITCHED_OFF, url=source.url)
    try:
        log = source.history.read_log(commit, max_commits)
        found = (source.history.read_file(commit, file) for file in OWNER_FILES)
        owners = CodeOwners(next(filter(None, found), b"").decode("utf-8", "replace"))
        since = find_first_recent_day()
        new = [each for each in log.commits if each.at.date() >= since][:_MAX_RECENT]
        files = dict.fromkeys(file for each in new for file in each.files)
        recent = (
            source.history.read(commit, tuple(files)[:_MAX_RECENT_FILES], len(new)) if new else ()
        )
    except SyncError as error:
        return SourceLog(reason=f"There is no history now: {error}", url=source.url)
    is_new = {each.commit for each in new}
    dated = tuple(each for each in recent if each.commit in is_new)
    reason = "" if log.commits else _NO_PARENT
    return SourceLog(log.commits, log.is_complete, owners, reason, dated, source.url)


_WORD = re.compile(r"\w+|\s|[^\w\s]")

_MAX_WORDS = 2_000
"""Of a passage: to compare takes the square of it. A longer one differs as a whole."""

_MIN_RATIO = 0.4
"""Passages that are less alike have no words in common that help a reader."""

RunKind = Literal["same", "added", "removed"]


@dataclass(frozen=True, slots=True)
class TextRun:
    kind: RunKind
    text: str


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    kind: Literal["text", "file", "place"]
    """Text, the name of a file, or the place of the lines below."""
    runs: tuple[TextRun, ...]


def derive_word_differences(lines: Sequence[str]) -> Iterator[DifferenceLine]:
    """Lines of a unified diff, with the words that differ.

    >>> diff = ["diff --git a/x.md b/x.md", "@@ -1 +1 @@", "-Be kind.", "+Be very kind."]
    >>> [[(run.kind, run.text) for run in line.runs] for line in derive_word_differences(diff)][2]
    [('same', 'Be'), ('added', ' very'), ('same', ' kind.')]
    >>> next(derive_word_differences(["@@ -7,3 +8,4 @@ a +9 b"])).runs[0].text
    'Line 8'
    """
    old: list[str] = []
    new: list[str] = []
    is_head = True
    for line in lines:
        is_head = line.startswith("diff ") or (is_head and not line.startswith("@@"))
        if not is_head and line[:1] in {"+", "-"}:
            (new if line[0] == "+" else old).append(line[1:])
            continue
        yield from _compare(old, new)
        old, new = [], []
        yield from _render_other(line, is_head=is_head)
    yield from _compare(old, new)


_PLACE = re.compile(r"@@ -\S+ \+(\d+)")


def _render_other(line: str, *, is_head: bool) -> Iterator[DifferenceLine]:
    if is_head:
        if line.startswith("diff "):
            yield DifferenceLine("file", (TextRun("same", line.rpartition(" b/")[2]),))
        return
    if line.startswith("@@"):
        found = _PLACE.match(line)
        yield DifferenceLine("place", (TextRun("same", f"Line {found[1]}" if found else line),))
    elif not line.startswith("\\"):  # a file without an end of its last line
        yield DifferenceLine("text", (TextRun("same", line[1:]),))


def _compare(old: Sequence[str], new: Sequence[str]) -> Iterator[DifferenceLine]:
    """A changed passage: both texts in one where they are alike, else one after the other."""
    before, after = (_WORD.findall("\n".join(lines)) for lines in (old, new))
    if old and new and max(len(before), len(after)) <= _MAX_WORDS:
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        if matcher.ratio() >= _MIN_RATIO:
            yield from _split_lines(_derive_runs(matcher, before, after))
            return
    yield from (DifferenceLine("text", (TextRun("removed", line),)) for line in old)
    yield from (DifferenceLine("text", (TextRun("added", line),)) for line in new)


def _derive_runs(
    matcher: SequenceMatcher[str], before: Sequence[str], after: Sequence[str]
) -> Iterator[TextRun]:
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag == "equal":
            yield TextRun("same", "".join(before[first:last]))
            continue
        if last > first:
            yield TextRun("removed", "".join(before[first:last]))
        if new_last > new_first:
            yield TextRun("added", "".join(after[new_first:new_last]))


def _split_lines(runs: Iterator[TextRun]) -> Iterator[DifferenceLine]:
    line: list[TextRun] = []
    for run in runs:
        first, *others = run.text.split("\n")
        if first:
            line.append(TextRun(run.kind, first))
        for text in others:
            yield DifferenceLine("text", tuple(line))
            line = [TextRun(run.kind, text)] if text else []
    if line:
        yield DifferenceLine("text", tuple(line))


_MAX_FILES = 500  # of a skill: each is an argument of Git


_MAX_REVIEWED = 2_000
"""Commits, merges included, that are searched for pull requests.

A message that names one proves nothing: each push can hold any.
"""

_NUMBERS = (
    re.compile(r"(?:Merge pull|Pull) request (#\d+)\b"),  # GitHub, Bitbucket Data Center
    re.compile(r"Merged PR (\d+):"),  # Azure
    re.compile(r".*\((?:pull request )?(#\d+)\)(?:$| from )"),  # squashed; Bitbucket, Gitea
)
"""In a subject."""

_TRAILER = re.compile(
    r"^(?:See merge request \S*(!\d+)|Reviewed-on: \S+/(?:pulls?|\+)/(\d+))$", re.MULTILINE
)
"""Of GitLab, Gitea, Forgejo and Gerrit."""


@dataclass(frozen=True, slots=True)
class Review:
    """A pull request or merge request."""

    number: str
    """As the forge writes it, such as `#12` or `!12`."""
    merge: str = ""
    """The merge commit; empty if the commit itself names the number."""
    merged_by: str = ""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    commit: str
    parents: tuple[str, ...]
    author: str
    subject: str
    body: str

    @property
    def number(self) -> str:
        for pattern in _NUMBERS:
            if found := pattern.match(self.subject):
                return f"#{found[1].removeprefix('#')}"
        found = _TRAILER.search(self.body)
        return (found[1] or f"#{found[2]}") if found else ""


_FORMAT = "%H %P%x00%an%x00%s%x00%b"
"""For `git log -z`: no message holds a NUL."""

_FIELDS = 4


def parse_records(printed: str) -> Iterator[CommitRecord]:
    fields = printed.split("\0")
    for first in range(0, len(fields) - _FIELDS + 1, _FIELDS):
        head, author, subject, body = fields[first : first + _FIELDS]
        commit, *parents = head.split()
        yield CommitRecord(commit, tuple(parents), author, subject, body)


def derive_reviews(records: Sequence[CommitRecord]) -> Mapping[str, Review]:
    """Map commits to their pull requests, the branch's newest commit first.

    The merge into the followed branch counts, before one into another branch.
    """
    by_name = {record.commit: record for record in records}
    reviews: dict[str, Review] = {}
    seen: set[str] = set()
    for merge in reversed(list(_follow_first_parents(records, by_name))):
        for commit in _find_unseen(merge.commit, by_name, seen):
            if review := _choose_review(by_name[commit], merge):
                reviews[commit] = review
    return reviews


def _follow_first_parents(
    records: Sequence[CommitRecord], by_name: Mapping[str, CommitRecord]
) -> Iterator[CommitRecord]:
    record = records[0] if records else None
    while record:
        yield record
        record = by_name.get(record.parents[0]) if record.parents else None


def _find_unseen(commit: str, by_name: Mapping[str, CommitRecord], seen: set[str]) -> Iterator[str]:
    pending = [commit]
    while pending:
        name = pending.pop()
        if name in by_name and name not in seen:
            seen.add(name)
            yield name
            pending.extend(by_name[name].parents)


def _choose_review(record: CommitRecord, merge: CommitRecord) -> Review | None:
    if len(merge.parents) > 1 and merge.number:
        return Review(merge.number, merge.commit, escape_unprintable(merge.author))
    return Review(record.number) if record.number else None


@dataclass(frozen=True, slots=True)
class SkillChange:
    """Commit changing a skill, or another part of its composed text."""

    past: "PastCommit"
    url: str
    parts: tuple[str, ...] = ()
    """Paths of the changed skills; the file of one that is gone."""
    signer: str = ""
    """Empty without a signature by one of `sync.allowed_signers`."""
    review: Review | None = None
    review_url: str = ""
    files: tuple[str, ...] = ()
    """Changed files of these skills, relative to the repository."""


@dataclass(frozen=True, slots=True)
class SkillHistory:
    changes: tuple[SkillChange, ...] = ()
    searched_commits: int = 0
    is_complete: bool = False
    """Whether these are all commits of the branch."""
    reason: str = ""
    owner: str = ""
    """Whom the skill or its folders name, else CODEOWNERS."""


def read_history(
    view: LibraryView, name: str, logs: SourceLogs | None, max_changes: int | None = None
) -> SkillHistory:
    """Commits changing the composed text or files of a skill.  Blocking.

    They are read from what `logs` has fetched, as no request waits for the network.

    An older version may have had a name or path hidden by the operator: so this
    requires access to every skill.

    Raises:
        SkillsError: No, several or a hidden skill; see the subclass.
    """
    snapshot = view.snapshot
    skill = snapshot.index.resolve(name)
    if not may_see_history(view):
        return SkillHistory(
            reason="The history is shown where no skill is hidden: an older version "
            "may have had a name by which it was."
        )
    source = find_repository(snapshot.content, skill)
    commit = derive_file_provenance(snapshot.content, skill).commit
    log = _find_log(snapshot, skill, logs or {})
    if log is None:
        return SkillHistory(reason="The history is being read. Reload the page in a moment.")
    if log.reason or source is None or commit is None:
        return SkillHistory(reason=log.reason)
    files = _find_files(snapshot, skill, source)
    limit = snapshot.config.web.history
    try:
        found = source.history.read(commit, tuple(files), limit)[:max_changes]
        printed = source.history.print_log(commit, _FORMAT, _MAX_REVIEWED) if found else ""
        reviews = derive_reviews(tuple(parse_records(printed)))
        signers = source.history.read_signers(past.commit for past in found)
    except SyncError as error:
        return SkillHistory(reason=f"There is no history now: {error}")
    changed = {each.commit: each.files for each in log.commits}
    forges = snapshot.config.web.forges
    changes = tuple(
        SkillChange(
            past=past,
            url=derive_commit_url(source.url, past.commit, forges),
            parts=_name_parts(files, changed.get(past.commit, ())),
            files=tuple(each for each in changed.get(past.commit, ()) if each in files),
            signer=signers.get(past.commit, ""),
            review=(review := reviews.get(past.commit)),
            review_url=derive_pull_request_url(source.url, review.number, forges) if review else "",
        )
        for past in found
    )
    owner = skill.lifecycle.owner or log.owners.find(
        derive_file_provenance(snapshot.content, skill).path
    )
    return SkillHistory(changes, len(log.commits), log.is_complete, owner=owner)


_MAX_COMPARED_FILES = 10  # of a commit: each takes two calls of Git


def find_power_changes(
    view: LibraryView, name: str, change: SkillChange
) -> tuple[Sequence[str], Sequence[str]]:
    """The powers that a commit has added to the composed skill, and removed.  Blocking."""
    source = find_repository(view.snapshot.content, view.snapshot.index.resolve(name))
    if source is None:
        return (), ()
    commit, files = change.past.commit, change.files[:_MAX_COMPARED_FILES]
    before, after = (
        {file: source.history.read_file(at, file) or b"" for file in files}
        for at in (f"{commit}^", commit)
    )
    compared = (audit.compare_files(before, after) for audit in load_audits())
    return next(filter(None, compared), ((), ()))


def may_see_history(view: LibraryView) -> bool:
    """Whether neither grants nor the operator hide a skill from the caller."""
    shown = view.config.visibility.model_copy(update={"drafts": False})
    return view.sees_everything and shown == Visibility()


def _find_log(snapshot: Snapshot, skill: Skill, logs: SourceLogs) -> SourceLog | None:
    if skill.location is None:
        return None
    part = snapshot.content.find_part(skill.location, skill.path, skill.scope)
    return logs.get(part.checkout.directory) if part else None


def _name_parts(files: Mapping[str, str], changed: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(files[file] for file in changed if file in files))


def _find_files(snapshot: Snapshot, skill: Skill, source: RemoteBranch) -> Mapping[str, str]:
    """Map the files of a composed skill to the paths of its parts."""
    content = snapshot.content
    parts = snapshot.compose(skill).parts
    found = {
        derive_file_provenance(content, member).path: str(member.path)
        for member in parts
        if find_repository(content, member) is source
    }
    for file in skill.files:
        found.setdefault(derive_file_provenance(content, skill, file).path, skill.path)
    if skill.inherit:
        for file in _find_former_rules(derive_file_provenance(content, skill).path, skill):
            found.setdefault(file, file)
    return dict(list(found.items())[:_MAX_FILES])


def _find_former_rules(file: str, skill: Skill) -> Iterator[str]:
    """Yield the files from which a skill may have inherited in an earlier commit."""
    depth = skill.path.count("/") + 1
    for folder in PurePosixPath(file).parents[: depth + 1]:
        yield from ((folder / f"{rules}.md").as_posix() for rules in (INDEX, ROOT))
