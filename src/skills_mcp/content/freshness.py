"""How new the content of a source is, and when that is too old.  Pure."""

from datetime import UTC, datetime
from math import isfinite

from skills_mcp.content.source import Attempt, Checkout, Mount, SourceState, recall

# One interval may be missed by chance, and a second while a laptop wakes up.
_MISSED_INTERVALS = 3


def derive_state(  # noqa: PLR0913 - each of them is something that a source knows
    mount: Mount,
    checkout: Checkout | None,
    attempt: Attempt,
    *,
    next_sync_at: float,
    interval_seconds: float | None,
    now: float,
) -> SourceState:
    """Return how a source is doing.

    Args:
        mount: The source, and where it stands.
        checkout: What is served of it.
        attempt: How its last syncs went, on this machine.
        next_sync_at: When it is synced again, in seconds since the epoch; infinity if
            it never is, because it is held, pinned, offline, or a folder.
        interval_seconds: The pause between two syncs; None if there is no timer.
        now: In seconds since the epoch.
    """
    is_git = mount.source.mode == "git"
    age = _derive_age(checkout, now) if is_git else None
    is_missed = (
        age is not None
        and interval_seconds is not None
        and isfinite(next_sync_at)
        and age > _MISSED_INTERVALS * interval_seconds
    )
    is_retried = attempt.failures > 0 and isfinite(next_sync_at)
    return SourceState(
        mount=mount.at,
        name=mount.source.name,
        mode=mount.source.mode,
        commit=checkout.revision if checkout else None,
        synced_at=checkout.synced_at if checkout else None,
        error=recall(attempt),
        age_seconds=age,
        is_stale=checkout is None or is_missed,
        verified_by=checkout.verified_by if checkout else None,
        hold=checkout.hold if checkout else None,
        failed_at=_time(attempt.attempted_at) if attempt.failures else None,
        next_attempt_at=_time(attempt.next_attempt_at) if is_retried else None,
    )


def _derive_age(checkout: Checkout | None, now: float) -> float | None:
    # A time to come was written while the clock was wrong.
    return max(0.0, now - checkout.synced_at.timestamp()) if checkout else None


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
