import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser
from starlette.testclient import TestClient

from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.received_event import parse_received
from skills_mcp.events.spool import LocalEvents
from skills_mcp.features.web.site import create_site
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING, OPERATOR, READ, REPORT, Access
from tests.features.report.happenings import event, judged, missed, served, torn
from tests.features.web.conftest import (
    Site,
    find_barriers,
    find_faults,
    measure_overflow,
    opened_site,
)
from tests.features.web.test_rest import let_in
from tests.support import SKILLS_CONTENT, open_library, wait_for, write

COMMIT = "c" * 40


@pytest.fixture
def library() -> SkillLibrary:
    return open_library(SKILLS_CONTENT)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The events of three weeks that end today."""
    folder = tmp_path_factory.mktemp("events")
    url = f"sqlite:///{folder / 'events.db'}"
    now = datetime.now(UTC)
    happened = [
        each
        for day in range(20)
        for each in (
            served("ui/react/auth", commit=COMMIT if day < 9 else "b" * 40),
            served("api/errors"),
            missed("write a haiku about parcels", near=["security/secrets"]),
            torn("auth", "ui/react/auth", "api/auth", matched_keywords=[["auth"]] * 2),
            judged("ui/react/auth", useful=False, comment="the hidden plan"),
            event("refresh", success=True),
        )
        for each in [each | {"timestamp": (now - timedelta(days=day)).isoformat()}]
    ]
    store = open_event_store(url, Path(folder))
    store.store([parse_received(each) for each in happened])
    store.close()
    with closing(sqlite3.connect(folder / "events.db")) as opened:
        assert opened.execute("SELECT count(*) FROM events").fetchone() == (120,)
    return url


@pytest.fixture(scope="module")
def site(browser: Browser, database: str) -> Iterator[Site]:
    """The pages of the fixtures, and those events."""
    with opened_site(browser, events={"database": database}) as opened:
        yield opened


def test_the_report_has_no_barrier_and_fits(site: Site) -> None:
    page = site.open("report")

    assert find_faults(page) == []
    site.require_own_requests()


def test_days_area_and_commit_are_chosen_without_scripts(site: Site) -> None:
    page = site.open("report", scripts=False)
    assert "write a haiku about parcels" in page.content()

    page.get_by_role("link", name="7 days").click()
    page.get_by_role("link", name="ui", exact=True).click()
    page.get_by_label("Before and after the commit").fill("cccc")
    page.get_by_role("button", name="Compare").click()

    assert "days=7" in page.url
    assert "Before and after" in page.locator("#effect").inner_text()
    page.goto(f"{page.url.partition('?')[0]}?around=beef")
    assert "begins with beef" in page.get_by_role("alert").inner_text()


def test_of_a_hidden_skill_no_event_is_shown(library: SkillLibrary, database: str) -> None:
    store = open_event_store(database, Path())
    shown = {}
    for folder in ("api/**", "ui/**", "*"):
        access = Access((((folder,), ()),))
        with TestClient(let_in(create_site(library, store), access)) as client:
            shown[folder] = client.get("/report").text
    store.close()

    words = ("haiku", "secrets", "api/<wbr>errors", "hidden plan", COMMIT)
    assert {folder: [word in text for word in words] for folder, text in shown.items()} == {
        "api/**": [True, False, True, False, False],
        "ui/**": [True, False, False, True, False],
        "*": [True, True, True, True, True],
    }


def test_tasks_that_found_nothing_stand_on_the_home_page_as_in_the_report(
    library: SkillLibrary, database: str
) -> None:
    store = open_event_store(database, Path())
    shown = {}
    for folder in ("api/**", "*"):
        with TestClient(let_in(create_site(library, store), Access((((folder,), ()),)))) as client:
            shown[folder] = "haiku" in client.get("/").text
    store.close()

    assert shown == {"api/**": True, "*": True}


def test_the_home_page_says_whether_skills_help_those_whom_it_is_for(
    library: SkillLibrary, database: str
) -> None:
    store = open_event_store(database, Path())
    shown = {}
    for folder in ("api/**", "ui/**"):
        with TestClient(let_in(create_site(library, store), Access((((folder,), ()),)))) as client:
            wait_for(lambda: "Ratings in 13 weeks" in client.get("/").text)
            page = client.get("/").text
        shown[folder] = re.findall(
            r"Ratings in 13 weeks</dt>\s*<dd>([^<]*)(?:<[^>]+>)?([^<]*)", page
        )
    store.close()

    assert shown == {"api/**": [("0", "")], "ui/**": [("20 ", "0 % useful")]}


def test_a_skill_that_no_agent_got_is_judged_after_a_month_of_counting_only(
    library: SkillLibrary, database: str, tmp_path: Path
) -> None:
    judgement, titled = "fix or delete it", ">Error responses</a>"
    begin = datetime.now(UTC) - timedelta(days=29)
    old = open_event_store(f"sqlite:///{tmp_path / 'events.db'}", tmp_path)
    old.store([parse_received(served("api/errors") | {"timestamp": begin.isoformat()})])
    young = open_event_store(database, Path())
    pages = {}
    for name, store in (("old", old), ("young", young)):
        with TestClient(let_in(create_site(library, store), EVERYTHING)) as client:
            pages[name] = client.get("/report").text
        store.close()

    assert judgement in pages["old"]
    assert judgement not in pages["young"]
    assert "too few days" in pages["young"]
    assert all(titled in page for page in pages.values())


def test_a_report_without_events_says_how_to_get_some(browser: Browser, tmp_path: Path) -> None:
    tokens = write(tmp_path / "tokens", f"{'a' * 40}\n")
    empty = {
        "database": f"sqlite:///{tmp_path / 'none.db'}",
        "ingest_token_file": str(tokens),
    }
    with opened_site(browser, events=empty) as site:
        page = site.open("report", width=390, scheme="dark")
        lines = page.locator("pre").inner_text()

        assert yaml.safe_load(lines)["analytics"]["endpoint"] == f"{site.url}events"
        assert "token_file" in lines
        assert find_barriers(page) == []
        assert measure_overflow(page) == 0


class _OwnEvents(LocalEvents):
    def events(self) -> Iterator[Mapping[str, Any]]:
        yield served("api/errors") | {"timestamp": datetime.now(UTC).isoformat()}


def test_the_report_of_a_machine_offers_no_comparison_that_needs_a_database(
    library: SkillLibrary, tmp_path: Path
) -> None:
    site = create_site(library, local_events=_OwnEvents(tmp_path))
    with TestClient(let_in(site, OPERATOR), base_url="http://x") as client:
        home, page = client.get("/").text, client.get("/report").text

    assert "Tasks and their answers" in page
    assert "Compare" not in page
    # A report with events of earlier days does not say how they are turned on.
    assert "analytics are off on this machine; analytics.enabled turns them on" in home


def test_a_report_of_other_days_leads_to_those_with_events(
    library: SkillLibrary, tmp_path: Path
) -> None:
    store = open_event_store(f"sqlite:///{tmp_path / 'events.db'}", tmp_path)
    old = (datetime.now(UTC) - timedelta(days=40)).isoformat()
    store.store([parse_received({**missed("x"), "timestamp": old})])
    with TestClient(let_in(create_site(library, store), EVERYTHING)) as client:
        page = client.get("/report?days=7").text
    store.close()

    assert "/report?days=90" in page
    assert "config.yaml" not in page


def test_a_skill_says_how_often_agents_got_it_and_what_they_said(site: Site) -> None:
    page = site.open("skills/ui/react/auth")
    use = page.locator("section", has=page.get_by_text("Use in 13 weeks"))
    while use.get_by_text("Being counted").count():
        page.reload()

    chart = use.get_by_role("img")
    assert "Given to agents per week" in (chart.get_attribute("aria-label") or "")
    assert chart.locator("rect").count() == 13
    text = use.inner_text()
    assert "40, 20 of them chosen" in text or "Given\n20" in text
    assert "Did not help\n20" in text
    assert use.get_by_text("the hidden plan").count() == 10
    assert find_barriers(page) == []
    unused = site.open("skills/security/secrets").locator("aside").first.inner_text()
    assert "No agent got it since" in unused
    assert "may be wrong" not in unused  # after three weeks nobody knows


def test_comments_are_for_callers_with_the_scope_of_the_report(
    library: SkillLibrary, database: str, tmp_path: Path
) -> None:
    store = open_event_store(database, tmp_path)
    shown = {}
    for scopes in (frozenset({READ}), frozenset({READ, REPORT})):
        principal = replace(OPERATOR, scopes=scopes)
        with TestClient(let_in(create_site(library, store), principal)) as client:
            wait_for(lambda: "Did not help" in client.get("/skills/ui/react/auth").text)
            text = client.get("/skills/ui/react/auth").text
            shown[REPORT in scopes] = "the hidden plan" in text
    store.close()

    assert shown == {False: False, True: True}


def test_the_effect_of_a_commit_fits_a_telephone_and_keeps_to_the_area(site: Site) -> None:
    page = site.open("report?around=cccc&area=ui", width=360)

    rows = page.locator("#effect table").first.locator("tbody tr")
    assert [row.locator("td:visible").count() for row in rows.all()] == [3] * 5
    assert "api/" not in page.locator("#effect").inner_text()
