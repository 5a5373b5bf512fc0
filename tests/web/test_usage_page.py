import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from skills_mcp.analytics.collector.event_store import open_event_store
from skills_mcp.analytics.received_event import parse_received
from tests.usage.happenings import event, judged, missed, served, torn
from tests.web.conftest import (
    WIDTHS,
    Scheme,
    find_barriers,
    measure_overflow,
    opened_site,
)

COMMIT = "c" * 40


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_has_no_barrier_and_fits(
    browser: Browser, database: str, scheme: Scheme
) -> None:
    with opened_site(browser, events={"database": database}) as site:
        for width in WIDTHS:
            page = site.open("report", width=width, scheme=scheme)

            assert find_barriers(page) == []
            assert measure_overflow(page) == 0
        site.require_own_requests()


def test_days_area_and_commit_are_chosen_without_scripts(
    browser: Browser, database: str
) -> None:
    with opened_site(browser, events={"database": database}) as site:
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


def test_of_hidden_skills_no_name_and_no_task_is_shown(
    browser: Browser, database: str
) -> None:
    grants = [{"allow": ["api/**"]}]
    with opened_site(browser, events={"database": database}, access=grants) as site:
        text = site.open("report").content()

    assert "api/<wbr>errors" in text
    for hidden in ("react", "secrets", "haiku", "hidden plan", COMMIT):
        assert hidden not in text
