"""The report over a database is that over the same events in files."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.events.collector import schema as database
from skills_mcp.events.collector.event_store import (
    EventStore,
    RollUpTable,
    open_event_store,
    run_steps,
)
from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.events.received_event import parse_received
from skills_mcp.features.report import database_report
from skills_mcp.features.report.database_report import (
    ReportLimits,
    load_report,
    roll_up_days,
)
from skills_mcp.features.report.event_rows import UsageRow, parse_row
from skills_mcp.features.report.figure_queries import derive_fleet
from skills_mcp.features.report.usage_report import Answers, Release, Span, UsageReport
from tests.features.report.happenings import (
    NEW,
    OLD,
    aggregate,
    event,
    judged,
    missed,
    ran,
    served,
    torn,
)

SPAN = Span(date(2026, 11, 3), date(2026, 11, 6))

days = st.integers(1, 8)
hours = st.sampled_from([0, 7.5, 12, 23.999])
people = st.sampled_from(["dev-ada", "dev-bob", "dev", "dev-cy"])
commits = st.sampled_from([OLD, NEW, None])
tasks = st.sampled_from(
    [
        "add a login",
        "a login, add!",
        "写一个测试",
        "hmac-sha256:" + "a" * 64,
        "",
        "drop",
    ]
)
paths = st.sampled_from(["ui/auth", "api/auth", "ui", "tools"])
groups = st.sampled_from(["", "web", "payments"])
common = {
    "day": days,
    "hour": hours,
    "person": people,
    "commit": commits,
    "group": groups,
}
flags = st.booleans()

events = st.one_of(
    st.builds(
        served,
        paths,
        **common,
        context=tasks,
        was_ambiguous=flags,
        unchanged=flags,
        was_near=flags,
    ),
    st.builds(missed, tasks, **common, near=st.lists(paths, max_size=2)),
    st.builds(
        lambda task, found, **more: torn(
            task, *found, matched_keywords=[["auth"] for _ in found], **more
        ),
        tasks,
        st.lists(paths, min_size=1, max_size=3, unique=True),
        **common,
    ),
    st.builds(judged, paths, useful=flags, comment=tasks, **common),
    st.builds(
        ran,
        st.sampled_from(["a.sh", "b.py"]),
        **common,
        success=flags,
        timed_out=flags,
        exit_code=st.sampled_from([0, 1, None]),
        duration_ms=st.integers(0, 40),
    ),
    st.builds(event, st.just("refresh"), **common, success=flags),
    st.builds(event, st.just("events_dropped"), **common, count=st.integers(0, 9)),
    st.builds(event, st.just("asset_served"), **common, skill_path=paths),
)


@pytest.fixture(scope="module")
def emptied(
    shared_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], EventStore]]:
    """A store that is used again and again, without what was in it."""
    store = open_event_store(shared_address, tmp_path_factory.mktemp("home"))

    def empty() -> EventStore:
        with store.writing() as connection:
            for table in database.metadata.sorted_tables:
                connection.execute(table.delete())
        return store

    yield empty
    store.close()


@pytest.fixture
def store(emptied: Callable[[], EventStore]) -> EventStore:
    """An empty store."""
    return emptied()


def keep(store: EventStore, wanted: Sequence[dict[str, Any]]) -> None:
    store.store([parse_received(each) for each in wanted])


def figures(store: EventStore) -> UsageReport:
    """Return the report without what servers say about themselves."""
    return replace(load_report(store, SPAN, None), sources=None, fleet=None)


@given(st.lists(events, max_size=30), st.lists(events, max_size=10))
def test_figures_of_a_database_are_those_of_files(
    emptied: Callable[[], EventStore],
    first: list[dict[str, Any]],
    later: list[dict[str, Any]],
) -> None:
    store = emptied()

    keep(store, first)
    early = figures(store)
    keep(store, later)
    late = figures(store)

    assert early == aggregate(first, span=SPAN)
    assert late == aggregate([*first, *later], span=SPAN)


def test_a_pick_and_all_else_of_days_adds_up(store: EventStore) -> None:
    happened = [
        each
        for day in (3, 4)
        for each in (
            torn("auth", "ui/auth", "api/auth", day=day, matched_keywords=[["a"]] * 2),
            served("ui/auth", day, context="auth", was_ambiguous=True),
            judged("ui/auth", useful=False, day=day, comment=f"day {day}"),
            ran("a.sh", day, duration_ms=day),
            missed("write a haiku", day, near=["ui/auth"]),
        )
    ]
    keep(store, happened)

    made, kept = (figures(store) for _ in range(2))

    assert made == kept == aggregate(happened, span=SPAN)
    assert kept.rivalries[0].picks == (0, 2)


def test_of_a_day_only_new_events_are_read(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = ("ui/auth", "api/auth")
    happened = [
        missed("a", 3),
        torn("sign in", *auth, day=4),
        served("api/auth", 4, context="sign in", was_ambiguous=True),
    ]
    pick = served("ui/auth", 4, context="sign in", was_ambiguous=True)
    keep(store, happened)
    figures(store)
    keep(store, [pick])
    read = note_reading(monkeypatch)

    report = figures(store)

    assert read == [pick["event_id"]]
    assert report == aggregate([*happened, pick], span=SPAN)
    assert report.rivalries[0].picks == (1, 1)


def test_an_event_that_was_received_earlier_than_others_is_not_missed(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened, late = [missed("a", 3), missed("b", 3)], missed("c", 3)
    keep(store, happened)
    figures(store)
    keep(store, [late])
    with store.writing() as connection:
        row = database.events.c.event_id == late["event_id"]
        before = {"received_at": datetime(2026, 11, 3, tzinfo=UTC)}
        connection.execute(database.events.update().where(row).values(before))
    read = note_reading(monkeypatch)

    report = figures(store)

    assert len(read) == 3
    assert report == aggregate([*happened, late], span=SPAN)


def test_of_two_servers_that_count_a_new_day_the_slower_one_changes_nothing(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened, late = missed("a", 3), missed("b", 3)
    keep(store, [happened])
    read_day = database_report._read_day

    def read_slowly(*arguments: Any) -> Any:
        found = read_day(*arguments)
        monkeypatch.undo()
        keep(store, [late])
        list(roll_up_days(store))
        return found

    monkeypatch.setattr(database_report, "_read_day", read_slowly)

    list(roll_up_days(store))

    assert figures(store) == aggregate([happened, late], span=SPAN)


def test_days_with_too_many_new_events_wait_until_they_are_counted(
    store: EventStore,
) -> None:
    happened = [missed("a", 3), missed("b", 3), missed("c", 4), missed("d", 5)]
    keep(store, happened)

    part = load_report(store, SPAN, None, limits=ReportLimits(2))
    counted = list(roll_up_days(store))
    whole = load_report(store, SPAN, None, limits=ReportLimits(0, max_gaps=3))

    assert (part.counts.uncounted, part.counts.outside) == (2, 0)
    assert [gap.task for gap in part.gaps] == ["c", "d"]
    assert counted == [date(2026, 11, 3)]
    assert (whole.counts.uncounted, whole.answers.no_match) == (0, 4)
    assert [gap.task for gap in whole.gaps] == ["a", "b", "c"]


def test_a_report_that_nobody_waits_for_stops_between_days(store: EventStore) -> None:
    keep(store, [missed("a", 3), missed("b", 4), missed("c", 5)])
    checks = []

    def check() -> None:
        checks.append(1)
        if len(checks) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        load_report(store, SPAN, None, limits=ReportLimits(check_cancelled=check))
    assert len(checks) == 2


async def test_the_maintenance_counts_what_a_page_would_have_to(store: EventStore) -> None:
    keep(store, [missed("a", 3), missed("b", 4)])

    await run_steps(partial(roll_up_days, store), pause_seconds=0)

    assert len(RollUpTable(store).load(SPAN.first, SPAN.last)) == 2


def note_reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each event that is read adds its name."""
    read: list[str] = []

    def note(raw: dict[str, str]) -> UsageRow | None:
        read.append(raw["event_id"])
        return parse_row(raw)

    monkeypatch.setattr(database_report, "parse_row", note)
    return read


def test_figures_of_another_layout_are_made_anew(store: EventStore) -> None:
    keep(store, [missed("a", 3)])
    figures(store)
    with store.writing() as connection:
        connection.execute(database.roll_ups.update().values(layout="another"))
        connection.execute(database.day_figures.update().values(number=7))

    assert figures(store).answers.no_match == 1


def test_what_is_kept_of_a_day_is_deleted_with_its_events(store: EventStore) -> None:
    keep(store, [missed("a secret plan", 3)])
    figures(store)

    while store.prune(0):
        pass

    assert not RollUpTable(store).load(date.min, date.max)
    with store.reading() as connection:
        assert not connection.execute(database.day_figures.select()).all()


def test_each_source_has_its_own_figures() -> None:
    heard = [json.loads(beat(commit, commit).to_json()) for commit in (OLD, NEW)]

    report = aggregate(
        [
            *heard,
            served("a", commit=OLD),
            served("b", commit=NEW, person="dev-bob"),
            judged("b", useful=True, commit=NEW),
            missed("x", commit=None),
        ]
    )

    assert report.sources is not None
    shop, unknown = report.sources
    assert (shop.name, shop.answers.served, shop.people, shop.useful) == (
        *("acme/shop", 2),
        *(2, 1),
    )
    assert (unknown.name, unknown.answers.no_match) == ("", 1)


def test_each_group_has_its_own_figures_and_how_they_changed() -> None:
    report = aggregate(
        [
            missed("x", 2, group="web"),
            served("a", 3, group="web"),
            served("a", 5, group="web", person="dev-bob"),
            missed("x", 5, group="web"),
            judged("a", useful=True, day=5, group="web"),
            served("a", 4),
        ],
        span=Span(date(2026, 11, 3), date(2026, 11, 5)),
    )

    assert report.groups is not None
    web, other = report.groups
    assert (web.name, web.answers, web.people) == ("web", Answers(2, 0, 1), 2)
    assert (web.useful, web.before) == (1, Answers(0, 0, 1))
    assert web.periods == ((date(2026, 11, 3), 1), (date(2026, 11, 5), 2))
    assert (other.name, other.answers.served) == ("", 1)


def test_an_agent_is_a_group_of_its_own_and_no_person() -> None:
    asked = [served("a", 3, group="web"), served("a", 3, group="web", agent="agent-bot")]

    report = aggregate(asked, span=SPAN)

    assert report.groups is not None
    assert {(each.name, each.people) for each in report.groups} == {("web", 1), ("agent-bot", 0)}


def test_files_with_heartbeats_name_sources_and_servers() -> None:
    now = datetime(2026, 11, 6, tzinfo=UTC)
    beats = [
        json.loads(replace(beat(server, commit), happened_at=moment).to_json())
        for server, commit, moment in (
            ("one", NEW, now),
            ("one", OLD, now - timedelta(days=1)),
            ("gone", OLD, now - timedelta(days=30)),
        )
    ]

    report = aggregate(
        [*beats, {"type": "heartbeat"}, served("a", 4), served("b", 5, commit=NEW)],
        span=SPAN,
    )

    assert report.sources is not None
    assert report.fleet is not None
    assert [each.name for each in report.sources] == ["acme/shop"]
    assert [(each.commit, each.servers) for each in report.fleet.commits] == [(NEW, 1)]
    assert (report.counts.events, report.counts.unreadable) == (2, 1)


def beat(server: str, commit: str | None, **more: Any) -> Heartbeat:
    source = {"mount": "", "repository": "acme/shop", "last_error": None}
    given = {**source, "commit": commit, "age_seconds": 60.0, **more}
    return Heartbeat(
        server_id=server,
        happened_at=datetime.now(UTC),
        version="1.0",
        transport="stdio",
        sources=(ServedSource(**given),),
    )


def test_the_fleet_says_how_many_servers_serve_which_commit() -> None:
    fleet = derive_fleet(
        [
            beat("a", NEW),
            beat("b", NEW, age_seconds=7200.0, last_error="SYNC_FAILED"),
            beat("c", OLD),
        ],
        [Release(commit=OLD, first_seen=date(2026, 11, 2))],
    )

    new, old = fleet.commits
    assert (fleet.servers, fleet.versions[0].servers) == (3, 3)
    assert (new.commit, new.servers, new.failing) == (NEW, 2, 1)
    assert (new.oldest_sync_seconds, new.first_seen) == (7200.0, None)
    assert (old.servers, old.first_seen) == (1, date(2026, 11, 2))


def test_folders_are_sources_of_the_fleet() -> None:
    folder = beat("a", None, repository="", age_seconds=None)
    below = beat("b", None, repository="", mount="teams/web", age_seconds=None)

    fleet = derive_fleet([folder, below, beat("c", NEW)])

    sources = [(entry.source, entry.commit, entry.servers) for entry in fleet.commits]
    assert sources == [
        ("acme/shop", NEW, 1),
        ("folder at teams/web", "", 1),
        ("folder at the top", "", 1),
    ]


def test_a_commit_has_an_effect_before_and_after_its_first_use(
    store: EventStore,
) -> None:
    bad = [judged("a", useful=False, day=day, commit=OLD) for day in (8, 9)]
    good = [judged("a", useful=True, day=day, commit=NEW) for day in (10, 11)]
    keep(store, [served("a", 9), *bad, *good, served("a", 10, commit=NEW)])

    effect = load_report(store, SPAN, None, NEW[:7]).effect

    assert effect is not None
    assert effect.commit == NEW
    assert effect.after.since == date(2026, 11, 10)
    assert (effect.before.not_useful, effect.after.useful) == (2, 2)
    [skill] = effect.skills
    assert (skill.useful, skill.not_useful, skill.served) == ((0, 2), (2, 0), (1, 1))


def test_an_unknown_commit_is_answered_with_those_that_are_known(
    store: EventStore,
) -> None:
    keep(store, [served("a", 3), served("a", 4, commit="a" * 39 + "b")])

    with pytest.raises(InvalidArgumentsError, match=r"No event names.*aaaa"):
        load_report(store, SPAN, None, "beef")
    with pytest.raises(InvalidArgumentsError, match="2 commits or more begin with aa"):
        load_report(store, SPAN, None, "aa")


def test_a_source_is_what_servers_say_of_its_commit(store: EventStore) -> None:
    keep(store, [served("a", 3, commit=NEW)])
    early = datetime(2026, 11, 3, tzinfo=UTC)
    store.store((), [replace(beat("s", NEW), happened_at=early)])

    report = load_report(store, SPAN, None)

    assert report.sources is not None
    assert [each.name for each in report.sources] == ["acme/shop"]
