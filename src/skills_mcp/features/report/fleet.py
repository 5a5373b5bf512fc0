"""The servers of a fleet, by their newest heartbeats.  Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nsmallest

from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.features.report.usage_report import Fleet, FleetCommit, FleetVersion, Release

FLEET_DAYS = 7
"""A server without a heartbeat for so long has left the fleet."""

_MAX_COMMITS, _MAX_VERSIONS = 1_000, 100
"""The most frequent; a fleet has a few, and a sender may invent a million."""


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
