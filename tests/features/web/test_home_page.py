"""The home page says what is known, and of the rest that it is not known."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from skills_mcp.events.spool import LocalEvents
from skills_mcp.features.web.site import create_site
from skills_mcp.skills.access import OPERATOR
from tests.features.report.happenings import missed
from tests.features.web.conftest import Site, find_faults, opened_site
from tests.features.web.test_rest import let_in
from tests.features.web.test_skill_history import make_history
from tests.support import SKILLS_CONTENT, open_library, wait_for


@pytest.fixture(scope="module")
def browser_site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    upstream = make_history(tmp_path_factory.mktemp("history"))
    options = ("--repo", upstream.url, "--branch", "main")
    with opened_site(browser, options=options) as opened:
        yield opened


def test_the_home_page_has_no_barrier_and_fits(site: Site) -> None:
    page = site.open()

    expect(page.get_by_role("heading", level=1)).to_have_text("Skills at a glance")
    assert find_faults(page, (390, 1_280)) == []
    site.require_own_requests()


def test_use_that_is_not_known_is_no_zero(site: Site) -> None:
    page = site.open(scripts=False)

    figure = page.locator(".figures div", has_text="Given to agents")
    expect(figure).to_contain_text("not known")
    expect(page.get_by_text("No agent got")).to_have_count(0)


def test_a_change_of_this_week_says_who_why_and_which_words(
    browser_site: Site,
) -> None:
    page = browser_site.open()
    while not page.locator(".commit").count():
        page.reload()

    newest = page.locator(".commit").first
    newest.locator("summary").click()

    expect(newest.locator("summary")).to_contain_text("Change")
    expect(newest.locator("ins").first).to_have_text("Second")
    assert find_faults(page, (390, 1_280)) == []


def test_old_addresses_of_the_catalogue_lead_to_it(site: Site) -> None:
    page = site.open("?q=auth")

    expect(page.locator(".skills li").first).to_be_visible()


class _CountedEvents(LocalEvents):
    """Events of a machine that count how often they are read."""

    readings = 0

    def events(self) -> Iterator[Mapping[str, Any]]:
        self.readings += 1
        yield missed("a haiku") | {"timestamp": datetime.now(UTC).isoformat()}


def test_tasks_that_found_nothing_are_read_beside_the_requests(tmp_path: Path) -> None:
    events = _CountedEvents(tmp_path)
    library = open_library(SKILLS_CONTENT)
    site = create_site(library, local_events=events)
    with TestClient(let_in(site, OPERATOR), base_url="http://x") as client:
        wait_for(lambda: "a haiku" in client.get("/").text)

    assert events.readings == 1
