"""The pull request of a commit, as the forges name it in their merge messages.

Rule: a message proves nothing: each push can hold any.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skills_mcp.skills.model import escape_unprintable

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


FORMAT = "%H %P%x00%an%x00%s%x00%b"
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
