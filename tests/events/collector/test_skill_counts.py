from datetime import UTC, date, datetime, timedelta
from typing import Any

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.received_event import parse_received
from skills_mcp.features.report.database_report import WEEKS, count_skills
from tests.features.report.happenings import judged, missed, served

TODAY = date(2026, 11, 23)


def at(event: dict[str, Any], days_ago: int) -> dict[str, Any]:
    """Return an event that happened so many days ago, at noon."""
    noon = datetime(2026, 11, 23, 12, tzinfo=UTC) - timedelta(days=days_ago)
    return {**event, "timestamp": noon.isoformat()}


def keep(store: EventStore, *events: dict[str, Any]) -> None:
    """Store events."""
    store.store([parse_received(each) for each in events])


def test_each_week_has_what_agents_got_in_it(store: EventStore) -> None:
    days = 7 * WEEKS
    keep(
        store,
        at(served("ui/auth"), 0),
        at(served("ui/auth", was_ambiguous=True), 6),
        at(served("ui/auth"), 7),
        at(served("ui/auth"), days - 1),
        at(served("ui/auth"), days),
        at(served("api/errors"), 0),
        at(missed("a haiku"), 0),
    )

    counted = count_skills(store, TODAY)

    its = counted.skills["ui/auth"]
    assert its.weeks == [1, *[0] * (WEEKS - 3), 1, 2]
    assert (its.served, its.picked) == (4, 1)
    assert its.last_served == datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert counted.since == TODAY - timedelta(days=days - 1)
    assert counted.week(WEEKS - 1) == date(2026, 11, 17)


def test_feedback_is_no_use_and_its_comments_are_the_newest(
    store: EventStore,
) -> None:
    rated = [
        at(judged("ui/auth", useful=n % 2 == 0, comment=f"said {n} days ago"), n) for n in range(12)
    ]
    keep(store, *rated, at(judged("ui/auth", useful=True, comment=None), 0))

    counted = count_skills(store, TODAY)

    its = counted.skills["ui/auth"]
    assert (its.useful, its.not_useful) == (7, 6)
    assert [each.text for each in its.comments] == [f"said {n} days ago" for n in range(10)]
    assert [each.useful for each in its.comments[:2]] == [True, False]
    assert counted.skills["ui/auth"].served == 0


def test_without_an_event_nothing_is_known(store: EventStore) -> None:
    assert count_skills(store, TODAY).since is None


def test_values_of_another_type_are_no_fault_of_the_others(store: EventStore) -> None:
    odd: dict[str, Any] = {"useful": "perhaps", "was_ambiguous": [1]}
    keep(store, at(served("ui/auth", **odd), 0), at(served("ui/auth"), 0))

    its = count_skills(store, TODAY).skills["ui/auth"]

    assert (its.served, its.picked) == (2, 0)
