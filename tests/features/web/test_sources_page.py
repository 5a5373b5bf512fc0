"""Sources and servers, and what of them a caller may know."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest

from skills_mcp.content.source import Hold, Loss, SourceState
from skills_mcp.errors import SyncError
from skills_mcp.events.collector.event_store import EventStore, open_event_store
from skills_mcp.events.heartbeat import Heartbeat, ServedSource
from skills_mcp.features.web.content_pages import _summarise
from skills_mcp.features.web.site import create_site
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING, Access
from tests.features.web.test_rest import ask_site, let_in
from tests.support import open_library, skill_text, write

NOW = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
FRESH = SourceState(
    mount="teams/web",
    name="https://git.example.com/web.git (main)",
    mode="git",
    commit="a" * 40,
    synced_at=NOW,
    error=None,
    age_seconds=130.0,
)


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    write(tmp_path / "content" / "ui" / "good.md", skill_text())
    return open_library(tmp_path / "content")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    with closing(open_event_store("", tmp_path)) as store:
        store.ensure_schema()
        yield store


def test_a_repository_says_its_branch_commit_and_age() -> None:
    shown = _summarise(FRESH, NOW)

    assert shown.name == "https://git.example.com/web.git (main)"
    assert (shown.place, shown.condition) == ("at teams/web", "good")
    assert dict(shown.facts) == {"Commit": "a" * 40, "Synced": "2 minutes ago"}


@pytest.mark.parametrize(
    "state, condition, facts",
    [
        (
            replace(
                FRESH,
                error=SyncError("no answer from https://ada:ghp_012345@example.com"),
                failed_at=NOW - timedelta(hours=3),
                next_attempt_at=NOW + timedelta(minutes=7),
            ),
            "warn",
            {"Failed": "3 hours ago", "Next attempt": "in 7 minutes"},
        ),
        (
            replace(FRESH, hold=Hold(NOW.timestamp() - 90_000, "b" * 40)),
            "warn",
            {"Held": "1 day ago", "Instead of": "b" * 40},
        ),
        (replace(FRESH, is_stale=True), "warn", {}),
        (
            replace(FRESH, loss=Loss(3, 10, NOW.timestamp(), ("ui/a", "ui/b"))),
            "warn",
            {"Lost": "3 of 10 skills are gone: ui/a, ui/b, and 1 more"},
        ),
        (replace(FRESH, commit=None), "bad", {"Commit": "none yet"}),
        (
            replace(FRESH, default_branch="trunk", verified_by="ada", not_served=3),
            "good",
            {"Signed by": "ada", "Not served": "3 packages: see Problems"},
        ),
    ],
)
def test_a_source_in_need_says_what_it_needs(
    state: SourceState, condition: str, facts: dict[str, str]
) -> None:
    shown = _summarise(state, NOW)

    assert shown.condition == condition
    assert facts.items() <= dict(shown.facts).items()
    assert "ghp_012345" not in shown.error


def test_the_place_of_a_folder_on_the_disk_is_not_told(
    library: SkillLibrary, tmp_path: Path
) -> None:
    page = ask_site(library, "/sources").text

    assert str(tmp_path) not in page
    assert "content" in page


def test_a_caller_who_sees_nothing_knows_of_no_source(library: SkillLibrary) -> None:
    page = ask_site(library, "/sources", Access(())).text

    assert "There is no source" in page


def ask_with(store: EventStore, library: SkillLibrary, access: Access = EVERYTHING) -> str:
    """Return the page of a server that keeps events."""

    async def ask() -> str:
        transport = httpx.ASGITransport(let_in(create_site(library, store), access))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as it:
            return (await it.get("/sources")).text

    return anyio.run(ask)


def beat(number: int, commit: str, version: str = "0.1.0") -> Heartbeat:
    return Heartbeat(
        server_id=f"server-{number}",
        happened_at=datetime.now(UTC),
        version=version,
        transport="stdio",
        sources=(
            ServedSource(
                mount="",
                repository="git.example.com/org",
                commit=commit,
                age_seconds=60.0 + number,
                last_error="SYNC_FAILED" if number == 2 else None,
            ),
        ),
    )


def test_the_page_counts_the_servers_of_each_commit_and_version(
    library: SkillLibrary, store: EventStore
) -> None:
    for number, commit in enumerate(("a" * 40, "a" * 40, "b" * 40)):
        store.store((), [beat(number, commit, f"0.{number}.0")])

    page = ask_with(store, library)

    assert "3 servers reported" in page
    assert "0.2.0 (1)" in page
    assert "aaaaaaaaaaaa" in page
    assert "bbbbbbbbbbbb" in page


def test_who_sees_a_part_of_the_skills_knows_of_no_other_server(
    library: SkillLibrary, store: EventStore
) -> None:
    store.store((), [beat(1, "a" * 40)])
    part = EVERYTHING.narrow(("ui/**",), ())

    assert "aaaaaaaaaaaa" not in ask_with(store, library, part)
