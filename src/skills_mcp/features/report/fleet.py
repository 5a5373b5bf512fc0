"""The fleet: versions and commits of servers, from their newest heartbeats."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from heapq import nsmallest

from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.features.report.usage_report import (
    Fleet,
    FleetCommit,
    FleetVersion,
    Release,
)

FLEET_DAYS = 7
"""A server without a heartbeat for so long has left the fleet."""


_MAX_COMMITS, _MAX_VERSIONS = 1_000, 100
"""The most frequent; a fleet has a few, and a sender may invent a million."""


class FleetTally:
    """The newest heartbeat of each server, and the commits of all."""

    def __init__(self) -> None:
        self._newest: dict[str, Heartbeat] = {}
        self._names: dict[str, str] = {}

    def add(self, beat: Heartbeat) -> None:
        known = self._newest.setdefault(beat.server_id, beat)
        if known.happened_at < beat.happened_at:
            self._newest[beat.server_id] = beat
        for source in beat.sources:
            if source.commit:
                self._names[source.commit] = source.repository or source.mount

    @property
    def names(self) -> dict[str, str]:
        """From a commit to its repository, or else its mount."""
        return self._names

    def derive(self, releases: Sequence[Release]) -> Fleet | None:
        """The fleet in the days up to the newest heartbeat."""
        if not self._newest:
            return None
        newest = max(beat.happened_at for beat in self._newest.values())
        since = newest - timedelta(days=FLEET_DAYS)
        beats = [heartbeat for heartbeat in self._newest.values() if heartbeat.happened_at >= since]
        return derive_fleet(beats, releases)


def derive_fleet(beats: Sequence[Heartbeat], releases: Sequence[Release] = ()) -> Fleet:
    first_seen = {entry.commit: entry.first_seen for entry in releases}
    served: defaultdict[tuple[str, str], list[ServedSource]] = defaultdict(list)
    for beat in beats:
        for entry in beat.sources:
            if entry.commit:
                served[entry.repository or entry.mount, entry.commit].append(entry)
    commits = [
        FleetCommit(
            source=source,
            commit=commit,
            servers=len(entry),
            failing=sum(one.last_error is not None for one in entry),
            oldest_sync_seconds=max(
                (one.age_seconds for one in entry if one.age_seconds is not None),
                default=None,
            ),
            first_seen=first_seen.get(commit),
        )
        for (source, commit), entry in served.items()
    ]
    commits = nsmallest(_MAX_COMMITS, commits, lambda entry: -entry.servers)
    versions = Counter(beat.version for beat in beats)
    return Fleet(
        days=FLEET_DAYS,
        servers=len(beats),
        commits=tuple(sorted(commits, key=lambda c: (c.source, -c.servers, c.commit))),
        versions=tuple(
            FleetVersion(version=version, servers=count)
            for version, count in nsmallest(
                _MAX_VERSIONS,
                versions.items(),
                key=lambda item: (-item[1], item[0]),
            )
        ),
    )
