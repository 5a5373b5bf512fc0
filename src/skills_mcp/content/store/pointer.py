"""JSON files of a store: published commit, survey and sync state.

Rule: other versions of this program read these files, and people edit them. An invalid
value is ignored, and a missing key has its default.
"""

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from skills_mcp.content.source import Hold, Surveyed, SurveyedPart, SyncAttempt
from skills_mcp.skills.homes import RelativeRoot, Selection
from skills_mcp.skills.model import Problem

# No other text in the pointer may become the name of a folder.
_COMMIT = re.compile(r"[0-9a-f]{40,64}")

_PARSE_ERRORS = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, OSError),  # numbers that are no time
    RecursionError,  # a million brackets
)


@dataclass(frozen=True, slots=True)
class PublishedCommit:
    """The published commit, its age, and its predecessor."""

    commit: str
    fetched_at: float
    """Start of its fetch, in seconds since the epoch."""
    verified_by: str | None = None
    previous: str | None = None
    """The previously published commit, retained for a rollback."""
    hold: Hold | None = None
    default_branch: str = ""
    """The remote's default branch, if it stands in for a missing `main`."""

    @property
    def synced_at(self) -> datetime:
        return datetime.fromtimestamp(self.fetched_at, UTC)

    @property
    def commits(self) -> frozenset[str]:
        """The commits to retain."""
        instead_of = self.hold.instead_of if self.hold else None
        named = (self.commit, self.previous, instead_of)
        return frozenset(commit for commit in named if commit)


def is_commit_id(name: str) -> bool:
    """Whether a name is a commit id, and so safe as a folder name."""
    return _COMMIT.fullmatch(name) is not None


def compose_pointer(current: PublishedCommit) -> str:
    return json.dumps(asdict(current), indent=2)


def parse_pointer(text: bytes | None) -> PublishedCommit | None:
    """Parse `current.json`; None if it is invalid.

    >>> parse_pointer(b'{"commit": "..", "fetched_at": 1}') is None
    True
    """
    try:
        data = json.loads(text or b"")
        commit = _parse_commit(data["commit"])
        fetched_at = _parse_timestamp(data["fetched_at"])
        return PublishedCommit(
            commit,
            fetched_at,
            _parse_text(data.get("verified_by")),
            _parse_optional_commit(data.get("previous")),
            _parse_hold(data.get("hold"), commit, fetched_at),
            _parse_text(data.get("default_branch")) or "",
        )
    except _PARSE_ERRORS:
        return None


def compose_attempt(attempt: SyncAttempt) -> str:
    return json.dumps(asdict(attempt), indent=2)


def parse_attempt(text: bytes | None) -> SyncAttempt:
    """Parse `state.json`; an empty state if it is invalid."""
    try:
        data = json.loads(text or b"")
        return SyncAttempt(
            attempted_at=_parse_timestamp(data["attempted_at"]),
            failures=max(0, int(data["failures"])),
            next_attempt_at=_parse_timestamp(data["next_attempt_at"]),
            error_code=str(data["error_code"]),
            error_message=str(data["error_message"]),
            refused_commit=_parse_optional_commit(data.get("refused_commit")) or "",
        )
    except _PARSE_ERRORS:
        return SyncAttempt()


def compose_surveyed(surveyed: Surveyed) -> str:
    return json.dumps([[asdict(key), asdict(part)] for key, part in surveyed.items()])


def parse_surveyed(text: bytes | None) -> Surveyed:
    try:
        return dict(_parse_part(*row) for row in json.loads(text or b"[]"))
    except _PARSE_ERRORS:
        return {}


def _parse_part(
    selection: dict[str, Any], survey: dict[str, Any]
) -> tuple[Selection, SurveyedPart]:
    plugins = tuple(selection.pop("plugins"))
    homes = tuple(
        RelativeRoot(**{**home, "only": tuple(home["only"]), "without": tuple(home["without"])})
        for home in survey["homes"]
    )
    problems = tuple(Problem(**problem) for problem in survey["problems"])
    return Selection(**selection, plugins=plugins), SurveyedPart(homes, problems)


def _parse_commit(value: Any) -> str:
    if not isinstance(value, str) or not is_commit_id(value):
        raise ValueError
    return value


def _parse_optional_commit(value: Any) -> str | None:
    """Parse an optional commit; an invalid one does not invalidate the pointer."""
    return value if isinstance(value, str) and is_commit_id(value) else None


def _parse_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parse_hold(value: Any, commit: str, fetched_at: float) -> Hold | None:
    """Parse the rollback; an invalid one still holds, or its commit would return."""
    if value is None:
        return None
    try:
        return Hold(_parse_timestamp(value["since"]), _parse_commit(value["instead_of"]))
    except _PARSE_ERRORS:
        return Hold(fetched_at, commit)


def _parse_timestamp(value: Any) -> float:
    moment = float(value)
    datetime.fromtimestamp(moment, UTC)  # or it is no time
    return moment
