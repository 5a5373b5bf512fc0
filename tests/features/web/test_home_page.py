"""The home page says what is known, and of the rest that it is not known."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Mount
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.privacy import HASH_PREFIX
from skills_mcp.events.received_event import parse_received
from skills_mcp.events.spool import LocalEvents
from skills_mcp.features.web.site import create_site
from skills_mcp.skills.access import EVERYTHING, OPERATOR, Access
from tests.features.report.happenings import missed
from tests.features.web.conftest import Site, find_faults, opened_site
from tests.features.web.test_rest import let_in
from tests.features.web.test_skill_history import follow, make_history
from tests.support import SKILLS_CONTENT, Upstream, open_library, skill_text, wait_for, write_skill


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


def test_a_wide_window_shows_each_part_without_scrolling(site: Site) -> None:
    page = site.open(width=1_440)

    places = [part.bounding_box() for part in page.get_by_role("heading", level=2).all()]
    assert [bool(place and place["y"] < 700) for place in places] == [True] * 4
    assert len({place["x"] for place in places if place}) == 2


def test_a_title_beside_a_long_owner_can_be_read_on_a_telephone(
    browser: Browser, tmp_path: Path
) -> None:
    owner = "@the-platform-team, @the-team-of-the-web-pages"
    file = write_skill(tmp_path, "api.md", body="# API Design Principles", owner=owner)
    os.utime(file, (1_580_000_000, 1_580_000_000))

    with opened_site(browser, tmp_path) as site:
        page = site.open(width=360)
        place = page.get_by_role("link", name="API Design Principles").bounding_box()

    assert place
    assert place["height"] < 60 < place["width"]


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


def test_the_count_of_changes_is_that_of_the_list_below(tmp_path: Path) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=1)
    evening = today.replace(hour=23, minute=59)
    moments = {
        "today": today,
        "six": today - timedelta(days=6),
        "seven": evening - timedelta(days=7),
    }
    for name, moment in moments.items():
        file = write_skill(tmp_path, f"{name}.md", keywords=[name])
        os.utime(file, (moment.timestamp(), moment.timestamp()))
    with TestClient(let_in(create_site(open_library(tmp_path)), OPERATOR)) as client:
        page = client.get("/").text

    section = page.partition("Changed this week")[2].partition("</section>")[0]
    assert re.findall(r'/skills/(\w+)"', section) == ["today", "six"]
    assert re.search(r"Changed in 7 days</a></dt>\s*<dd>2 ", page)


def test_tasks_whose_words_were_not_recorded_are_counted_and_lead_nowhere(tmp_path: Path) -> None:
    store = open_event_store(f"sqlite:///{tmp_path / 'events.db'}", tmp_path)
    now = datetime.now(UTC).isoformat()
    hashed = [missed(f"{HASH_PREFIX}{n:064x}") for n in range(9) for _ in range(2)]
    events = [*hashed, missed(""), missed("write a haiku")]
    store.store([parse_received(each | {"timestamp": now}) for each in events])
    with TestClient(let_in(create_site(open_library(SKILLS_CONTENT), store), OPERATOR)) as client:
        wait_for(lambda: "haiku" in client.get("/").text)
        page = client.get("/").text
    store.close()

    tasks = page.partition("Tasks that found nothing")[2].partition("</section>")[0]
    assert re.findall(r'<li>(.*?) <span class="number">(\d+)', tasks) == [
        ('<a href="/try?task=write+a+haiku">write a haiku</a>', "1"),
        ("Tasks whose words were not recorded", "19"),
    ]


def test_a_source_without_a_visible_skill_is_not_named(tmp_path: Path) -> None:
    seen, hidden = Upstream.create(tmp_path / "seen"), Upstream.create(tmp_path / "hidden")
    seen.commit({"skills/one.md": skill_text()})
    hidden.commit({"skills/two.md": skill_text()})
    mounts = Mounts(
        [
            Mount(source=follow(seen, tmp_path / "seen")),
            Mount(source=follow(hidden, tmp_path / "hidden"), at="secret"),
        ]
    )
    site = create_site(open_library(mounts))
    hidden.bare.rename(tmp_path / "gone")

    pages = {}
    for name, access in {"all": EVERYTHING, "some": Access(((("one",), ()),))}.items():
        with TestClient(let_in(site, access)) as client:
            wait_for(lambda: "Being read" not in client.get("/").text)
            pages[name] = client.get("/").text

    assert {name: "There is no history now" in page for name, page in pages.items()} == {
        "all": True,
        "some": False,
    }
    assert "hidden" not in pages["some"]
