"""*Try a task*, problems and sources in a real browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.features.web.conftest import (
    Site,
    find_faults,
    opened_site,
)
from tests.support import skill_text, write

ASKED = "try?task=add+a+login+page+with+react+auth&skill=api/auth"
BROKEN = "---\nkeywords: [\n---\nx"


def test_an_answer_has_no_barrier_and_fits(site: Site) -> None:
    page = site.open(ASKED)

    assert find_faults(page) == []
    site.require_own_requests()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_task_gets_its_answer_and_the_address_keeps_it(
    site: Site,
    scripts: bool,  # noqa: FBT001
) -> None:
    page = site.open("try", scripts=scripts)

    page.get_by_label("A task").fill("add a login page with react auth")
    page.get_by_role("button", name="Try it").click()

    expect(page.get_by_role("heading", name="The agent gets")).to_contain_text(
        "Auth in the React web app"
    )
    expect(page).to_have_url(re.compile(r"/try\?task=add\+a\+login|/try\?task=add%20a"))
    link = page.get_by_role("link", name="Auth in the React web app").first
    assert (link.get_attribute("href") or "").endswith("/skills/ui/react/auth")


def test_the_filters_work_in_a_browser_at_every_width(browser: Browser, tmp_path: Path) -> None:
    write(tmp_path / "ui" / "broken.md", BROKEN)
    content = write(tmp_path / "ui" / "odd.md", skill_text(priority="high")).parent.parent

    with opened_site(browser, content) as site:
        page = site.open("problems")
        assert find_faults(page) == []

        page.get_by_role("link", name="Warnings").click()
        expect(page.get_by_role("status")).to_have_text("1 problem")
        expect(page.locator(".list")).to_contain_text("ui/odd.md")
        page.get_by_role("link", name="Warnings").click()
        expect(page.get_by_role("status")).to_have_text("2 problems")
        site.require_own_requests()


def test_the_sources_have_no_barrier_and_fit(site: Site) -> None:
    page = site.open("sources")

    assert find_faults(page) == []
    site.require_own_requests()
