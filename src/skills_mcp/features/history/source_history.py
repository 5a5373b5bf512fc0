"""History of the sources: owner and last change of files, and commits with their words.

Rule: nothing here is a guess. A file without a fetched commit has no date, and a source
without a readable history says why.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from skills_mcp.errors import SyncError
from skills_mcp.library import RemoteBranch, Snapshot
from skills_mcp.library.code_owners import OWNER_FILES, CodeOwners, read_code_owners

if TYPE_CHECKING:
    from skills_mcp.library import ListedCommit, PastCommit

RECENT_DAYS = 7

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
    """Commits of `RECENT_DAYS` days with their differences."""
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
_SWITCHED_OFF = "The operator has switched the history off (web.history: 0)."


def _read_log(source: RemoteBranch, commit: str, max_commits: int) -> SourceLog:
    if not max_commits:
        return SourceLog(reason=_SWITCHED_OFF, url=source.url)
    try:
        log = source.history.read_log(commit, max_commits)
        found = (source.history.read_file(commit, file) for file in OWNER_FILES)
        owners = CodeOwners(next(filter(None, found), b"").decode("utf-8", "replace"))
        since = datetime.now(UTC) - timedelta(days=RECENT_DAYS)
        new = [each for each in log.commits if each.at >= since][:_MAX_RECENT]
        files = dict.fromkeys(file for each in new for file in each.files)
        recent = (
            source.history.read(commit, tuple(files)[:_MAX_RECENT_FILES], len(new)) if new else ()
        )
    except SyncError as error:
        return SourceLog(reason=f"There is no history now: {error}", url=source.url)
    is_new = {each.commit for each in new}
    dated = tuple(each for each in recent if each.commit in is_new)
    return SourceLog(log.commits, log.is_complete, owners, "", dated, source.url)


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
