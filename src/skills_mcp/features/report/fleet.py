"""What servers serve now, from what they said last about themselves."""

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
"""A server that was not heard from for so long is no longer one."""


_MOST_SHOWN_COMMITS, _MOST_SHOWN_VERSIONS = 1_000, 100
"""The most served; a fleet has a few, and a sender of events may name a million."""


class FleetTally:
    """Heartbeats from files: the newest of each server, and the commits of all."""

    def __init__(self) -> None:
        self._newest: dict[str, Heartbeat] = {}
        self._names: dict[str, str] = {}

    def add(self, beat: Heartbeat) -> None:
        """Take a heartbeat, in any order."""
        known = self._newest.setdefault(beat.server_id, beat)
        if known.happened_at < beat.happened_at:
            self._newest[beat.server_id] = beat
        for each in beat.sources:
            if each.commit:
                self._names[each.commit] = each.repository or each.mount

    @property
    def names(self) -> dict[str, str]:
        """From each commit that was served to its repository, or else its mount."""
        return self._names

    def derive(self, releases: Sequence[Release]) -> Fleet | None:
        """Return the servers of the days up to the newest heartbeat; None if none."""
        if not self._newest:
            return None
        newest = max(beat.happened_at for beat in self._newest.values())
        since = newest - timedelta(days=FLEET_DAYS)
        beats = [each for each in self._newest.values() if each.happened_at >= since]
        return derive_fleet(beats, releases)


def derive_fleet(beats: Sequence[Heartbeat], releases: Sequence[Release] = ()) -> Fleet:
    """Return what the servers said last about themselves."""
    first_seen = {each.commit: each.first_seen for each in releases}
    served: defaultdict[tuple[str, str], list[ServedSource]] = defaultdict(list)
    for beat in beats:
        for each in beat.sources:
            if each.commit:
                served[each.repository or each.mount, each.commit].append(each)
    commits = [
        FleetCommit(
            source=source,
            commit=commit,
            servers=len(each),
            failing=sum(one.last_error is not None for one in each),
            oldest_sync_seconds=max(
                (one.age_seconds for one in each if one.age_seconds is not None),
                default=None,
            ),
            first_seen=first_seen.get(commit),
        )
        for (source, commit), each in served.items()
    ]
    commits = nsmallest(_MOST_SHOWN_COMMITS, commits, lambda each: -each.servers)
    versions = Counter(beat.version for beat in beats)
    return Fleet(
        days=FLEET_DAYS,
        servers=len(beats),
        commits=tuple(sorted(commits, key=lambda c: (c.source, -c.servers, c.commit))),
        versions=tuple(
            FleetVersion(version=version, servers=count)
            for version, count in nsmallest(
                _MOST_SHOWN_VERSIONS,
                versions.items(),
                key=lambda item: (-item[1], item[0]),
            )
        ),
    )
