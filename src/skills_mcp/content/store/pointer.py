"""The small JSON files of a store: the published commit, its survey, the state.

Rule: other versions of this program read these files, and people edit them. A value
that makes no sense is ignored, and a missing key has its default.
"""

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from skills_mcp.content.source import Attempt, Hold, Surveyed, SurveyedPart
from skills_mcp.skills.homes import HomeFolder, Selection
from skills_mcp.skills.model import Problem

# No other text in the pointer may become the name of a folder.
_COMMIT = re.compile(r"[0-9a-f]{40,64}")

_NONSENSE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, OSError),  # numbers that are no time
    RecursionError,  # a million brackets
)


@dataclass(frozen=True, slots=True)
class Current:
    """The published commit, its age, and the one before it."""

    commit: str
    fetched_at: float
    """When its fetch began, in seconds since the epoch."""
    verified_by: str | None = None
    """Its signer, if signatures are checked."""
    previous: str | None = None
    """The commit that was published before; it is kept for a rollback."""
    hold: Hold | None = None
    """The rollback to this commit, if there was one."""
    default_branch: str = ""
    """The remote's default branch, if that was fetched because there is no `main`."""

    @property
    def synced_at(self) -> datetime:
        """When this commit was last known to be the newest one."""
        return datetime.fromtimestamp(self.fetched_at, UTC)

    @property
    def commits(self) -> frozenset[str]:
        """The commits that must not be deleted."""
        instead_of = self.hold.instead_of if self.hold else None
        named = (self.commit, self.previous, instead_of)
        return frozenset(commit for commit in named if commit)


def is_commit(name: str) -> bool:
    """Whether a name is that of a commit, and so of a folder."""
    return _COMMIT.fullmatch(name) is not None


def compose_current(current: Current) -> str:
    """Return what is written to `current.json`."""
    return json.dumps(asdict(current), indent=2)


def parse_current(text: bytes | None) -> Current | None:
    """Return what a pointer says, or None if it makes no sense.

    >>> parse_current(b'{"commit": "..", "fetched_at": 1}') is None
    True
    """
    try:
        said = json.loads(text or b"")
        commit = _parse_commit(said["commit"])
        fetched_at = _parse_moment(said["fetched_at"])
        return Current(
            commit,
            fetched_at,
            _parse_text(said.get("verified_by")),
            _parse_other(said.get("previous")),
            _parse_hold(said.get("hold"), commit, fetched_at),
            _parse_text(said.get("default_branch")) or "",
        )
    except _NONSENSE:
        return None


def compose_attempt(attempt: Attempt) -> str:
    """Return what is written to `state.json`."""
    return json.dumps(asdict(attempt), indent=2)


def parse_attempt(text: bytes | None) -> Attempt:
    """Return how the last syncs went; an empty state if the text makes no sense."""
    try:
        said = json.loads(text or b"")
        return Attempt(
            attempted_at=_parse_moment(said["attempted_at"]),
            failures=max(0, int(said["failures"])),
            next_attempt_at=_parse_moment(said["next_attempt_at"]),
            error_code=str(said["error_code"]),
            error_message=str(said["error_message"]),
            refused_commit=_parse_other(said.get("refused_commit")) or "",
        )
    except _NONSENSE:
        return Attempt()


def compose_surveyed(surveyed: Surveyed) -> str:
    """Return what is written beside a snapshot."""
    return json.dumps([[asdict(key), asdict(part)] for key, part in surveyed.items()])


def parse_surveyed(text: bytes | None) -> Surveyed:
    """Return what is known of a snapshot; nothing if the text makes no sense."""
    try:
        return dict(_parse_part(*each) for each in json.loads(text or b"[]"))
    except _NONSENSE:
        return {}


def _parse_part(
    selection: dict[str, Any], said: dict[str, Any]
) -> tuple[Selection, SurveyedPart]:
    plugins = tuple(selection.pop("plugins"))
    homes = tuple(
        HomeFolder(
            **{**home, "only": tuple(home["only"]), "without": tuple(home["without"])}
        )
        for home in said["homes"]
    )
    problems = tuple(Problem(**problem) for problem in said["problems"])
    return Selection(**selection, plugins=plugins), SurveyedPart(homes, problems)


def _parse_commit(value: Any) -> str:
    if not isinstance(value, str) or not is_commit(value):
        raise ValueError
    return value


def _parse_other(value: Any) -> str | None:
    """Return a commit, or None: without it the rest of the pointer still counts."""
    return value if isinstance(value, str) and is_commit(value) else None


def _parse_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parse_hold(value: Any, commit: str, fetched_at: float) -> Hold | None:
    """Return the hold; one that makes no sense still holds.

    If a damaged file ended the hold, the commit that was rolled back would return.
    """
    if value is None:
        return None
    try:
        return Hold(_parse_moment(value["since"]), _parse_commit(value["instead_of"]))
    except _NONSENSE:
        return Hold(fetched_at, commit)


def _parse_moment(value: Any) -> float:
    moment = float(value)
    datetime.fromtimestamp(moment, UTC)  # or it is no time
    return moment
