"""Sources of content: their contract, policy, state, progress and back-off."""

import errno
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

from skills_mcp.config import Limits
from skills_mcp.config.values import Verify
from skills_mcp.errors import AccessRefusedError, SyncError
from skills_mcp.processes.retry import RANDOMNESS, derive_backoff
from skills_mcp.skills.model import Problem, Scope
from skills_mcp.skills.source_layout import DEFAULT_SELECTION, RelativeRoot, Selection

Mode = Literal["local", "git"]
"""Kind of source: a folder on this machine, or a Git repository."""

_ERRORS = SyncError.__module__

# One interval may be missed by chance, and a second while a laptop wakes up.
_MISSED_INTERVALS = 3


SHUTTING_DOWN = "the process is ending"


class ShutdownError(SyncError):
    """A sync cancelled by the end of the process; the source is not at fault."""


@dataclass(frozen=True, slots=True)
class SurveyedPart:
    """Findings of a walk over a whole commit; the disk has servable files alone."""

    homes: tuple[RelativeRoot, ...]
    problems: tuple[Problem, ...]
    """Unserved files; paths are relative to the top of the source."""


Surveyed = Mapping[Selection, SurveyedPart]
"""Surveys by served part of the source."""


LONGEST_PAUSE_SECONDS = 15 * 60.0
"""Maximum back-off: a repaired network is found within this time."""


class Freshness(NamedTuple):
    """Required age of content for a sync without the remote."""

    newer_than: float
    """Content fetched since then is fresh, in seconds since the epoch."""
    is_urgent: bool = False
    """Whether the remote is contacted even during the back-off."""
    longest_pause_seconds: float = LONGEST_PAUSE_SECONDS
    """Maximum back-off after a failure of this sync."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A rollback: an older commit is served until `rollback --resume`."""

    since: float
    """Time of the rollback, in seconds since the epoch."""
    instead_of: str
    """The newer, unserved commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAttempt:
    """State of a source's last syncs, by all processes of this machine."""

    attempted_at: float = 0.0
    """Time of the last one, in seconds since the epoch; 0 without any."""
    failures: int = 0
    """Failures since the last success."""
    next_attempt_at: float = 0.0
    """Earliest time of the next sync, unless urgent."""
    error_code: str = ""
    error_message: str = ""
    refused_commit: str = ""
    """The newest commit of the remote, if it was refused."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Skills that one change of a source removed: three or more, and over a tenth.

    It stays on record until most of them are back, for a week at most.
    """

    removed: int
    served: int
    """Number of skills that were served before."""
    happened_at: float
    """In seconds since the epoch."""
    paths: tuple[str, ...]
    """The first of the removed skills."""

    def __str__(self) -> str:
        return f"{self.removed:,} of {self.served:,} skills are gone: {self.examples}"

    @property
    def examples(self) -> str:
        others = self.removed - len(self.paths)
        return ", ".join([*self.paths, *([f"and {others:,} more"] if others else [])])


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Checkout:
    """One revision of the content, complete; a commit's files never change."""

    directory: Path
    revision: str | None
    """The commit; None for a plain folder."""
    synced_at: datetime
    """Last time this was known to be the newest revision."""
    surveyed: Surveyed = field(default_factory=dict)
    verified_by: str | None = None
    hold: Hold | None = None
    default_branch: str = ""
    """The remote's default branch, if it stands in for a missing `main`."""
    loss: Loss | None = None


CommitCheck = Callable[["ContentSource", Checkout], Loss | None]
"""Checks a commit before its publication; the result is published with it.

The checkout of the new commit has the loss of the published one.

Raises:
    SyncError: It cannot be served.
"""


class ContentSource(Protocol):
    """Common interface of folders and repositories."""

    @property
    def mode(self) -> Mode: ...

    @property
    def name(self) -> str:
        """The folder or the repository's address, without secrets."""
        ...

    def open(self) -> Checkout | None:
        """Open the content of this machine, without network; None if there is none.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A source, and the path of its skills in the tree."""

    source: ContentSource
    at: str = ""
    """Path prefix of its skills, such as `teams/web`; empty for the top."""
    selection: Selection = DEFAULT_SELECTION
    scope: Scope = "org"
    pins: tuple[str, ...] = ()
    """All pinned paths of the source; those of folders end with a slash."""
    only: tuple[str, ...] = ()
    """The pins served from here; empty for the source that has the rest."""
    rollout: str = ""
    """Who gets this version of the source before the others; empty without a rollout."""

    def find_pin(self, path: str) -> str:
        """Find the pin of a path without the mount's own; empty without one."""
        fitting = (
            pin for pin in self.pins if path == pin or (pin[-1:] == "/" and path.startswith(pin))
        )
        return max(fitting, key=len, default="")

    def serves(self, path: str) -> bool:
        """Whether a path, without the mount's own, is served from here."""
        return not self.pins or self.find_pin(path) in (self.only or ("",))

    @property
    def prefix(self) -> str:
        """Path prefix with a trailing slash, such as `teams/web/`."""
        at = self.at.strip("/")
        return f"{at}/" if at else ""


class ContentPart(NamedTuple):
    mount: Mount
    checkout: Checkout

    @property
    def directory_prefix(self) -> str:
        return os.path.join(self.checkout.directory, "")  # noqa: PTH118 - Path drops the slash


class Failure(NamedTuple):
    """A failed sync.  The source's previous content stays served."""

    mount: Mount
    error: SyncError


@dataclass(frozen=True, slots=True)
class Content:
    """The newest checkout of every source, in the operator's order."""

    parts: tuple[ContentPart, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def commit(self) -> str | None:
        """The commit of the first source, for replies without a skill."""
        return self.parts[0].checkout.revision if self.parts else None

    def find_part(
        self, location: Path, path: str, scope: Scope | None = None
    ) -> ContentPart | None:
        """Find the source of a file or folder served at a path: source folders may be nested.

        Of several, the innermost one serves it, by its mount before its folder.
        """
        inside = os.path.join(location, "")  # noqa: PTH118 - Path drops the slash
        holding = [part for part in self.parts if inside.startswith(part.directory_prefix)]
        if len(holding) == 1:
            return holding[0]

        def rank(part: ContentPart) -> tuple[bool, int, int]:
            mount = part.mount
            serves = mount.scope == (scope or mount.scope)
            serves = serves and f"{path}/".startswith(mount.prefix)
            return serves, len(mount.prefix) if serves else 0, len(part.directory_prefix)

        return max(holding, key=rank, default=None)

    @property
    def error(self) -> SyncError | None:
        """The failures as one error with all source names; None without failures."""
        if not self.failures:
            return None
        messages = list(dict.fromkeys(map(_name_failure, self.failures)))
        message = "; ".join([*(text.rstrip(".") for text in messages[:-1]), messages[-1]])
        kinds = {type(failure.error) for failure in self.failures}
        # Errors of several kinds share only the code of a sync.
        kind = kinds.pop() if len(kinds) == 1 else SyncError
        is_recalled = any(failure.error.is_recalled for failure in self.failures)
        return kind(message, is_recalled=is_recalled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """Served commit, age and last sync result of one source."""

    mount: str
    """Path prefix of its skills; empty for the top."""
    name: str
    mode: Mode
    commit: str | None
    synced_at: datetime | None
    error: SyncError | None
    age_seconds: float | None = None
    """Time since `synced_at`; None for a folder: it is always current."""
    is_followed: bool = True
    """Whether a sync will follow, and an old age says that it is late."""
    is_stale: bool = False
    """Whether three intervals passed without a success, or nothing is served."""
    verified_by: str | None = None
    hold: Hold | None = None
    default_branch: str = ""
    """The remote's default branch, if it stands in for a missing `main`."""
    failed_at: datetime | None = None
    next_attempt_at: datetime | None = None
    refused_commit: str | None = None
    """The newest commit of the remote, if it was refused."""
    is_failing: bool = False
    """Whether a commit was refused, or all syncs failed for longer than an interval."""
    failed_syncs: int = 0
    """Failed syncs of this process."""
    not_served: int = 0
    """Number of packages outside of the served folders."""
    pins: tuple[str, ...] = ()
    """The pinned paths, if only these are served at this commit."""
    rollout: str = ""
    """Who gets this version before the others; empty without a rollout."""
    loss: Loss | None = None


class LocalFolder:
    """A folder served in place; `setting` names its setting in messages."""

    mode: Literal["local"] = "local"

    def __init__(self, directory: Path, setting: str = "SKILLS_DIR") -> None:
        self.name = str(directory)
        self.directory = directory
        self._advice = f"Create it, or set {setting} to the folder that holds the skills"

    def open(self) -> Checkout | None:
        """Open the folder in its present state.

        Raises:
            SyncError: It does not exist, cannot be read, or is a bare repository.
        """
        try:
            os.scandir(self.directory).close()
        except OSError as error:
            raise SyncError(
                f"the folder {self.name} cannot be read: {error.strerror}. {self._advice}."
            ) from error
        if (self.directory / "objects").is_dir() and (self.directory / "HEAD").is_file():
            raise SyncError(
                f"the folder {self.name} is a bare Git repository, without files. Serve it as a "
                "repository (--repo, SKILLS_REPO or sources[].repo), or name a clone of it."
            )
        return Checkout(self.directory, None, datetime.now(UTC))


class DiscoveredFolder(LocalFolder):
    """An unconfigured folder; it need not exist."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._advice = "Check its permissions, or set discover to false"

    def open(self) -> Checkout | None:
        """Open the folder in its present state; None if it does not exist.

        Raises:
            SyncError: It exists and cannot be read.
        """
        try:
            return super().open()
        except SyncError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return None
            raise


def accept_any_commit(source: ContentSource, checkout: Checkout) -> Loss | None:
    """Accept any commit: a `CommitCheck` for callers without skills."""


def derive_last_error(attempt: SyncAttempt) -> SyncError | None:
    """Recreate the error of the last sync; None after a success."""
    if not attempt.failures:
        return None
    subclasses: list[type[SyncError]] = SyncError.__subclasses__()
    kinds = {kind.code: kind for kind in subclasses if kind.__module__ == _ERRORS}
    kind = kinds.get(attempt.error_code, SyncError)
    return kind(attempt.error_message, is_recalled=True)


def derive_state(  # noqa: PLR0913 - each of them is something that a source knows
    mount: Mount,
    checkout: Checkout | None,
    attempt: SyncAttempt,
    *,
    next_sync_at: float,
    interval_seconds: float | None,
    now: float,
    error: SyncError | None = None,
    failed_syncs: int = 0,
) -> SourceState:
    """Derive the state of a source for display.

    `next_sync_at` is in seconds since the epoch; infinity if no sync will follow:
    rolled back, pinned, offline, or a folder. `error` is of this process alone.
    """
    is_git = mount.source.mode == "git"
    is_followed = isfinite(next_sync_at)
    # A time in the future was written while the clock was wrong.
    age = max(0.0, now - checkout.synced_at.timestamp()) if is_git and checkout else None
    interval = interval_seconds or 0.0
    is_missed = bool(interval and is_followed and age and age > _MISSED_INTERVALS * interval)
    is_retried = attempt.failures > 0 and is_followed
    return SourceState(
        mount=mount.at,
        name=mount.source.name,
        mode=mount.source.mode,
        commit=checkout.revision if checkout else None,
        synced_at=checkout.synced_at if checkout else None,
        error=derive_last_error(attempt) or error,
        age_seconds=age,
        is_followed=is_followed,
        is_stale=checkout is None or is_missed,
        verified_by=checkout.verified_by if checkout else None,
        hold=checkout.hold if checkout else None,
        default_branch=checkout.default_branch if checkout else "",
        loss=checkout.loss if checkout else None,
        failed_at=_to_datetime(attempt.attempted_at) if attempt.failures else None,
        next_attempt_at=_to_datetime(attempt.next_attempt_at) if is_retried else None,
        refused_commit=attempt.refused_commit or None,
        is_failing=attempt.failures > 0
        and (bool(attempt.refused_commit) or age is None or age > interval),
        failed_syncs=failed_syncs,
        pins=mount.only,
        rollout=mount.rollout,
    )


def _name_failure(failure: Failure) -> str:
    name, message = failure.mount.source.name, str(failure.error)
    return message if name in message else f"{name}: {message}"


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# A network that is back after a moment is found at once.
_FIRST_PAUSE_SECONDS = 5.0

# Hosts lock accounts that send a wrong token again and again; a person has to act
# anyway.
_REFUSED_SECONDS = 5 * 60.0


def derive_failure(
    before: SyncAttempt,
    error: SyncError,
    now: float,
    *,
    longest_seconds: float,
    randomness: random.Random = RANDOMNESS,
) -> SyncAttempt:
    """Derive the state after a failed sync, with the back-off.

    It may exceed `longest_seconds` if the host requests that or refuses our token.
    """
    failures = before.failures + 1
    pause = derive_backoff(
        failures,
        first_seconds=_FIRST_PAUSE_SECONDS,
        longest_seconds=longest_seconds,
        retry_after_seconds=error.retry_after_seconds,
        randomness=randomness,
    )
    if isinstance(error, AccessRefusedError):
        pause = max(pause, _REFUSED_SECONDS)
    return SyncAttempt(
        attempted_at=now,
        failures=failures,
        next_attempt_at=now + pause,
        error_code=error.code,
        error_message=str(error),
    )


def derive_longest_pause(interval_seconds: float | None) -> float:
    """Limit the maximum back-off to the timer's interval.

    >>> derive_longest_pause(60.0), derive_longest_pause(None)
    (60.0, 900.0)
    """
    return min(interval_seconds or LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)


_LIMITS = Limits.model_construct()  # without building what checks values


@dataclass(frozen=True, slots=True, kw_only=True)
class Signers:
    allowed: Path
    """File in the format of `ssh-keygen`: a name and a public key on each line."""
    revoked: Path | None = None
    verify: Verify = "commit"
    """Objects with a required signature: commit, tag, or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPolicy:
    """Limits and checks of one repository.  The defaults are those of `Config`."""

    selections: tuple[Selection, ...] = (DEFAULT_SELECTION,)
    max_files: int = _LIMITS.max_files
    max_file_bytes: int = _LIMITS.max_file_bytes
    max_total_bytes: int = _LIMITS.max_total_bytes
    """The limit of all exported files together."""
    timeout_seconds: float = 120.0
    """The limit of one sync, from taking the lock to the new pointer."""
    allow_non_fast_forward: bool = True
    signers: Signers | None = None
    is_offline: bool = False

    @property
    def max_download_bytes(self) -> int:
        """The limit of a fetch, as Git stores it: with files that are not served."""
        return 2 * self.max_total_bytes


_Item = TypeVar("_Item")


@dataclass(slots=True)
class Progress:
    """Current step of one thread; readable from any thread.

    >>> str(Progress("Reading skills", done=12_400, total=20_000))
    'Reading skills 12,400 of 20,000'
    """

    step: str = ""
    """Empty if idle."""
    done: int = 0
    total: int = 0
    """0 if unknown."""

    def begin(self, step: str, total: int = 0) -> None:
        self.done, self.total, self.step = 0, total, step

    def end(self) -> None:
        self.begin("")

    def track(self, step: str, items: Iterable[_Item], total: int = 0) -> Iterator[_Item]:
        self.begin(step, total)
        for item in items:
            yield item
            self.done += 1

    def __str__(self) -> str:
        if not self.step or not (self.done or self.total):
            return self.step
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.step} {self.done:,}{of}"


_ADVICE = {
    errno.ENOSPC: "the disk is full: make room",
    errno.EDQUOT: "your quota is used up: make room",
    errno.EFBIG: "files may not become that large here: raise the limit (ulimit -f)",
    errno.EROFS: "the disk is read-only: set SKILLS_MCP_HOME to a folder on another",
    errno.EACCES: "the folder belongs to another user, or its permissions are wrong: "
    "repair them, or set SKILLS_MCP_HOME to a folder of your own",
    errno.EMFILE: "this process has too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "this machine has too many open files: end other programs",
    errno.EIO: "the disk is failing: check it, or set SKILLS_MCP_HOME to another",
    errno.EEXIST: "something else stands in its place: delete that",
    errno.ENOTDIR: "a file stands where a folder belongs: delete that",
    errno.ENAMETOOLONG: "the path is too long: set SKILLS_MCP_HOME to a shorter one",
}
_ADVICE[errno.EPERM] = _ADVICE[errno.EACCES]
_OTHER_ADVICE = "something is wrong with it: check the disk and the permissions"


@contextmanager
def translate_disk_errors(directory: Path) -> Iterator[None]:
    """Translate `OSError` into `SyncError` with advice.

    Raises:
        SyncError: For any `OSError` in the block.
    """
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, _OTHER_ADVICE)
        raise SyncError(
            f"the cache {directory} cannot be written, as {advice}. The system said: {error}"
        ) from error
