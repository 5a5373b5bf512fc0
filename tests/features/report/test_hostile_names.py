"""A sender chooses the names in its events: a report over many of them is bounded."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.events.collector import event_store
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.events.received_event import parse_received
from skills_mcp.features.report import day_figures, figure_queries
from skills_mcp.features.report.database_report import count_skills
from skills_mcp.features.report.day_figures import MAX_NAMES, OTHERS, DayFigures
from skills_mcp.features.report.figure_queries import derive_fleet
from tests.features.report.happenings import (
    aggregate,
    event,
    judged,
    missed,
    ran,
    row,
    served,
    torn,
)

NOW = datetime.now(UTC)
FEW = 50


@pytest.fixture
def few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test reaches at once."""
    for module in day_figures, figure_queries:
        monkeypatch.setattr(module, "MAX_NAMES", FEW)


def hostile(number: int) -> list[dict[str, Any]]:
    """Return events of each kind whose names nobody else has."""
    name, commit = f"name-{number}", f"commit-{number}"
    return [
        served(name, commit=commit, group=name),
        missed(f"task{number} other{number}", near=[name]),
        torn(f"task{number}", *(f"{name}-{other}" for other in range(20))),
        judged(name, useful=True, comment=name),
        ran(name, skill_path=name),
        event("refresh", person=name),
    ]


@pytest.mark.usefixtures("few_names")
def test_the_rows_of_a_report_are_bounded_and_their_sums_right() -> None:
    report = aggregate(each for number in range(300) for each in hostile(number))

    tables = report.skills, report.feedback, report.scripts, report.gaps
    for rows in (*tables, report.releases, report.rivalries):
        assert FEW // 2 <= len(rows) <= FEW + 1
    assert report.groups is not None
    assert len(report.groups) <= FEW + 1
    assert sum(each.served for each in report.skills) == 300
    assert sum(each.runs for each in report.scripts) == 300
    assert OTHERS in {each.skill for each in report.skills}
    assert FEW // 2 <= report.people <= FEW
    assert report.unrecorded.count == 300 - FEW


@pytest.mark.usefixtures("few_names")
def test_the_figures_of_many_days_are_bounded_when_they_are_added() -> None:
    report = aggregate(
        {**each, "timestamp": f"2026-11-{day:02}T12:00:00Z"}
        for day in range(1, 21)
        for number in range(10)
        for each in hostile(100 * day + number)
    )

    assert len(report.skills) == FEW + 1
    assert sum(each.served for each in report.skills) == 200
    assert len(report.releases) == FEW + 1


@pytest.mark.usefixtures("few_names")
def test_what_is_known_is_counted_on_when_there_are_many_names() -> None:
    report = aggregate(
        served(path) for number in range(300) for path in ("react/auth", f"name-{number}")
    )

    counts = {each.skill: each.served for each in report.skills}
    assert counts["react/auth"] == 300


def test_a_catalogue_of_fifty_thousand_skills_is_counted_by_name() -> None:
    figures = DayFigures()
    for number in range(MAX_NAMES):
        figures.add(row(event("asset_served", skill_path=f"skill-{number}")))

    names = {each["skill"] for each in figures.rows() if each["figure"] == "files"}
    assert len(names) == MAX_NAMES
    assert OTHERS not in names


def test_the_rows_of_a_day_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_figures, "MAX_NAMES", 5)
    figures = DayFigures()
    for number in range(20):
        figures.add(row(event("refresh", person=f"person-{number % 7}")))

    rows = [each for each in figures.rows() if each["figure"] == "person"]
    assert len(rows) == 6
    assert sum(each["number"] for each in rows) == 20


def test_counts_of_the_pages_keep_the_most_frequent_paths(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure_queries, "MAX_NAMES", 3)
    paths = [*("x" * 300 + str(number) for number in range(5)), *["a", "b"] * 4]
    store = open_event_store(address, tmp_path)
    store.store([parse_received({**served(p), "timestamp": NOW.isoformat()}) for p in paths])

    counts = count_skills(store, NOW.date())
    store.close()

    # Those that differ only behind the longest name are one.
    assert {path: each.served for path, each in counts.skills.items()} == {
        "a": 4,
        "b": 4,
        "x" * 199 + "…": 5,
    }


def beat(number: int) -> Heartbeat:
    source = ServedSource(
        mount="",
        repository=f"git.example.com/{number}",
        commit=f"commit-{number}",
        age_seconds=1.0,
        last_error=None,
    )
    return Heartbeat(
        server_id=f"server-{number}",
        happened_at=NOW - timedelta(seconds=number),
        version=f"{number}.0",
        transport="stdio",
        sources=(source, source),
    )


def test_the_fleet_is_read_up_to_a_bound_the_newest_first(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_event_store(address, tmp_path)
    store.store((), [beat(number) for number in range(30)])

    monkeypatch.setattr(event_store, "_MAX_SERVERS", 10)
    by_servers = store.read_fleet(NOW - timedelta(days=1))
    monkeypatch.setattr(event_store, "_MAX_FLEET_SOURCES", 8)
    by_sources = store.read_fleet(NOW - timedelta(days=1))
    store.close()

    assert [each.server_id for each in by_servers] == [f"server-{n}" for n in range(10)]
    assert len(by_sources) == 4


def test_a_page_shows_the_most_served_of_many_commits_and_versions() -> None:
    fleet = derive_fleet([*(beat(number) for number in range(3_000)), beat(7), beat(7)])

    assert (len(fleet.commits), len(fleet.versions)) == (1_000, 100)
    assert fleet.servers == 3_002
    assert "commit-7" in {each.commit for each in fleet.commits}
    assert fleet.versions[0].version == "7.0"
