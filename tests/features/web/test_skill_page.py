import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.features.web.conftest import (
    Site,
    find_barriers,
    find_faults,
    opened_site,
)
from tests.support import SKILLS_CONTENT, write, write_skill

AUTH = "skills/ui/react/auth"


@pytest.mark.parametrize(
    "query", ["", "?parts=open", "?view=origin", "?view=raw", "?file=scripts/scaffold-auth.sh"]
)
def test_a_skill_has_no_barrier_and_fits(site: Site, query: str) -> None:
    page = site.open(f"{AUTH}{query}")

    assert find_faults(page) == []
    site.require_own_requests()


def test_the_powers_of_a_skill_and_of_what_it_inherits_are_listed(site: Site) -> None:
    page = site.open("skills/api/auth")

    powers = page.locator("section", has=page.get_by_role("heading", name="Powers"))

    expect(powers.get_by_role("listitem").filter(has_text="sends text")).to_be_visible()
    expect(powers.get_by_text("api/auth.md:16")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_its_own_text_comes_first_and_one_click_opens_what_it_inherits(
    site: Site,
    scripts: bool,  # noqa: FBT001
) -> None:
    page = site.open(AUTH, scripts=scripts)
    expect(page.locator(".part").first).to_contain_text("Its own text")
    inherited = page.locator("details.part .prose")
    assert [each.is_visible() for each in inherited.all()] == [False] * 3

    page.get_by_role("link", name="Open all").click()

    expect(inherited.first).to_be_visible()
    assert page.locator("details.part .origin .path").all_inner_texts() == [
        "skills/_root.md",
        "skills/ui/_index.md",
        "skills/ui/react/_index.md",
    ]


def test_what_a_person_needs_stands_beside_the_text_and_on_a_phone_before_it(site: Site) -> None:
    page = site.open(AUTH, width=1_280)
    beside = page.get_by_role("complementary", name="Use, files and agents")
    text, facts = page.locator(".part.own").bounding_box(), beside.bounding_box()
    assert text
    assert facts
    assert (facts["x"] > text["x"] + text["width"] - 1, facts["y"] < text["y"]) == (True, True)

    page.set_viewport_size({"width": 390, "height": 900})
    text, facts = page.locator(".part.own").bounding_box(), beside.bounding_box()

    assert text
    assert facts
    assert facts["y"] + facts["height"] <= text["y"]


def test_the_lines_are_those_of_the_file(site: Site) -> None:
    page = site.open(f"{AUTH}?view=origin")

    shown = page.locator(".part.own td").all_inner_texts()

    file = (SKILLS_CONTENT / "skills/ui/react/auth.md").read_text()
    body = file.partition("\n---\n")[2].strip().splitlines()
    assert [line.strip() for line in shown] == [line.strip() for line in body]


def test_the_raw_file_is_that_of_its_author(site: Site) -> None:
    page = site.open(f"{AUTH}?view=raw")

    shown = page.locator(".main pre.code").first.inner_text()

    assert shown.strip() == (SKILLS_CONTENT / f"{AUTH}.md").read_text().strip()


def test_the_catalogue_leads_to_a_skill_and_its_files(site: Site) -> None:
    page = site.open("?q=login+in+the+react+app", scripts=False)

    page.locator(".skills a[href$='ui/react/auth']").click()
    page.get_by_role("link", name="scripts/scaffold-auth.sh").click()

    expect(page.locator("#file pre")).to_contain_text("#!")


def test_a_file_that_is_not_there_says_so(site: Site) -> None:
    page = site.open(f"{AUTH}?file=no/such.md")

    expect(page.locator("#file")).to_contain_text("has no file")
    expect(page.locator("#file")).to_contain_text("Its page lists them.")
    assert "find_skill_files" not in page.content()


def test_tokens_are_inherited_where_there_are_rules_above_alone(site: Site) -> None:
    page = site.open(AUTH)
    expect(page.locator("dt:text('Text') + dd")).to_contain_text("of them inherited")

    page.goto(f"{site.url}skills/_root")
    expect(page.locator("dt:text('Text') + dd")).to_have_text(re.compile(r"^[\d,]+ tokens$"))


def test_a_skill_that_is_not_there_is_a_page(site: Site) -> None:
    page = site.open("skills/no/such")

    expect(page.locator("main")).to_contain_text("There is no skill 'no/such'")
    assert find_barriers(page) == []


HOSTILE = """
# Title

<script>document.title = "taken"</script>
<img src="https://evil.example/a.png" onerror="document.title = 'taken'">

[script](javascript:document.title='taken') [data](data:text/html,x)
[away](https://acme.com) [beside](other.md) [root](//evil.example/x) [top](/sign-out)

![picture](https://evil.example/b.png)
"""


def test_nothing_of_a_skill_runs_or_is_loaded(browser: Browser, tmp_path: Path) -> None:
    write(tmp_path / "x/SKILL.md", f"---\nname: x\ndescription: A test\n---\n{HOSTILE}")
    write(tmp_path / "x/other.md", "Other")

    with opened_site(browser, tmp_path) as site:
        page = site.open("skills/x")
        links = page.locator(".prose a[href]")
        found = {link.inner_text(): link.get_attribute("href") for link in links.all()}
        loaded = page.locator(".prose img, .prose script").count()
        page.get_by_role("link", name="beside").click()
        expect(page.locator("#file pre")).to_have_text("Other")
        title = page.title()
        site.require_own_requests()

    assert found == {
        "away": "https://acme.com",
        "beside": "/skills/x?file=other.md#file",
        "Image: picture": "https://evil.example/b.png",
    }
    assert loaded == 0
    assert "taken" not in title


def test_who_may_see_a_skill_is_said(browser: Browser, tmp_path: Path) -> None:
    write_skill(tmp_path, "web/login.md")
    grants = [{"allow": ["web/*"]}, {"when": {"groups": ["ops"]}, "allow": ["*"]}]

    with opened_site(browser, tmp_path, access=grants) as site:
        page = site.open("skills/web/login")

        expect(page.locator(".facts.more")).to_contain_text("Everybody who may use this server")
        expect(page.locator(".facts.more")).not_to_contain_text("groups: ops")
