import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.features.web.conftest import (
    Site,
    find_barriers,
    find_faults,
    opened_site,
)
from tests.support import write_skill


def test_the_catalogue_has_no_barrier_and_fits(site: Site) -> None:
    page = site.open("catalogue")

    assert find_faults(page) == []
    site.require_own_requests()


def test_what_is_typed_is_searched_and_stands_in_the_address(site: Site) -> None:
    page = site.open("catalogue")
    everything = page.locator(".skills li").count()

    page.get_by_role("searchbox").press_sequentially("auth")

    expect(page).to_have_url(re.compile(r"\?q=auth$"))
    expect(page.locator(".skills li").first).to_contain_text("Auth")
    assert page.locator(".skills li").count() < everything
    expect(page.get_by_role("searchbox")).to_be_focused()
    site.require_own_requests()


def test_the_count_is_told_to_a_screen_reader(site: Site) -> None:
    page = site.open("catalogue")

    page.get_by_role("searchbox").press_sequentially("qqqq")

    expect(page.get_by_role("status")).to_have_text("0 skills")
    expect(page.get_by_role("heading", name="No skill fits")).to_be_visible()


def test_without_javascript_the_form_searches(site: Site) -> None:
    page = site.open("catalogue", scripts=False)

    page.get_by_role("searchbox").fill("auth")
    page.get_by_role("button", name="Search").click()

    expect(page).to_have_url(re.compile(r"\?q=auth$"))
    expect(page.locator(".skills li").first).to_be_visible()


def test_a_facet_narrows_and_is_taken_away_again(site: Site) -> None:
    page = site.open("catalogue")
    everything = page.locator(".skills li").count()

    page.locator(".facets").get_by_role("link", name="UI").first.click()
    expect(page).to_have_url(re.compile(r"\?area=ui$"))
    narrowed = page.locator(".skills .path").all_inner_texts()
    page.locator(".facets a.chosen").click()

    assert narrowed
    assert all(path.startswith("ui/") for path in narrowed)
    expect(page.locator(".skills li")).to_have_count(everything)


def test_a_search_keeps_the_facet(site: Site) -> None:
    page = site.open("catalogue?area=ui")

    page.get_by_role("searchbox").press_sequentially("react")

    expect(page).to_have_url(re.compile(r"\?q=react&area=ui$"))


def test_the_tree_leads_to_a_folder_and_the_breadcrumbs_back(site: Site) -> None:
    page = site.open("catalogue", scripts=False)
    tree = page.locator(".facets")

    tree.get_by_role("link", name="UI").click()
    tree.get_by_role("link", name="React").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("React")
    paths = page.locator(".skills .path").all_inner_texts()
    assert paths
    assert all(path.startswith("ui/react/") for path in paths)
    page.get_by_role("navigation", name="Breadcrumbs").get_by_role("link", name="UI").click()
    expect(page).to_have_url(re.compile(r"\?area=ui$"))


def test_an_order_stands_in_the_address(site: Site) -> None:
    page = site.open("catalogue", scripts=False)

    page.get_by_role("navigation", name="Order").get_by_role("link", name="Name").click()

    expect(page).to_have_url(re.compile(r"\?sort=name$"))
    titles = page.locator(".skills h2").all_inner_texts()
    assert titles == sorted(titles, key=str.casefold)
    assert "Most used" not in page.locator(".sorts").inner_text()  # nothing is known of it


def test_a_slash_goes_to_the_search_and_code_is_copied(site: Site) -> None:
    page = site.open("skills/ui/react/auth")
    page.get_by_text("Ask for it, or connect").click()
    assert page.get_by_role("button", name="Copy").count() == page.locator("pre.copy").count() > 0
    assert find_barriers(page) == []

    page.keyboard.press("/")

    expect(page).to_have_url(re.compile(r"/catalogue#q$"))
    expect(page.get_by_role("searchbox")).to_be_focused()
    site.require_own_requests()


def test_the_keyboard_reaches_the_content_first(site: Site) -> None:
    page = site.open("catalogue")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.locator("main")).to_be_focused()


def test_a_page_that_does_not_exist_says_so_without_a_barrier(site: Site) -> None:
    page = site.open("no/such/page")

    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
    assert find_barriers(page) == []


def test_many_skills_have_pages(browser: Browser, tmp_path: Path) -> None:
    for number in range(120):
        write_skill(tmp_path, f"area/skill-{number:03}.md")

    with opened_site(browser, tmp_path) as site:
        page = site.open("catalogue")
        shown = page.locator(".skills .path:first-child").all_inner_texts()
        while (following := page.get_by_role("link", name="Next page")).count():
            following.click()
            shown += page.locator(".skills .path:first-child").all_inner_texts()

    assert shown == [f"area/skill-{number:03}" for number in range(120)]


def test_content_cannot_write_html(browser: Browser, tmp_path: Path) -> None:
    hostile = "<script>document.title = 'taken'</script><img src=x onerror=alert(1)>"
    write_skill(tmp_path, "hostile.md", description=hostile)

    with opened_site(browser, tmp_path) as site:
        page = site.open("catalogue")

        expect(page.locator(".skills li")).to_contain_text(hostile)
        assert "taken" not in page.title()
        site.require_own_requests()
