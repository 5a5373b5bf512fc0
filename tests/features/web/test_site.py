"""What holds for every answer of the pages."""

from pathlib import Path

import anyio
import httpx
import pytest

from skills_mcp.features.web.site import CONTENT_SECURITY_POLICY, create_site
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING
from tests.features.web.test_rest import ask_site
from tests.support import open_library, write_skill


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    write_skill(tmp_path, "one.md")
    return open_library(tmp_path)


@pytest.mark.parametrize(
    "path",
    ["/", "/skills/one", "/none", "/static/site.css", "/api/skills", "/api/none"],
)
def test_every_answer_tells_the_browser_what_it_may_do(library: SkillLibrary, path: str) -> None:
    headers = ask_site(library, path).headers

    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in CONTENT_SECURITY_POLICY


def test_no_template_has_a_script_or_a_style_of_its_own() -> None:
    import skills_mcp.features.web

    folder = Path(skills_mcp.features.web.__file__).parent / "templates"
    for template in folder.glob("*.html"):
        text = template.read_text(encoding="utf-8")
        assert "<style" not in text
        assert " style=" not in text
        assert "<script>" not in text
        assert " on" + "click=" not in text


def test_a_navigation_link_leads_to_a_page(library: SkillLibrary) -> None:
    page = ask_site(library, "/").text
    links = page.partition('aria-label="Pages"')[2].partition("</nav>")[0]

    for part in links.split('href="')[1:]:
        path = part.partition('"')[0]
        assert ask_site(library, path).status_code == 200


def test_before_there_is_content_a_page_says_so(tmp_path: Path) -> None:
    library = open_library(tmp_path, load=False)

    reply = ask_site(library, "/")

    assert reply.status_code == 503
    assert "not loaded yet" in reply.text


def test_a_defect_is_a_page_without_its_details(library: SkillLibrary) -> None:
    async def ask() -> httpx.Response:
        # Without a caller in its scope, which the guards always bind.
        transport = httpx.ASGITransport(create_site(library), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as it:
            return await it.get("/")

    reply = anyio.run(ask)

    assert reply.status_code == 500
    assert "log of the server" in reply.text
    assert "KeyError" not in reply.text


def test_a_caller_finds_no_hidden_skill_on_a_page(library: SkillLibrary) -> None:
    access = EVERYTHING.narrow((), ("one",))

    assert ask_site(library, "/skills/one", access).status_code == 404
    assert "There is no skill yet" in ask_site(library, "/catalogue", access).text


def test_a_person_who_finds_no_skill_is_not_sent_to_a_tool(
    library: SkillLibrary,
) -> None:
    page = ask_site(library, "/skills/ui/on").text
    program = ask_site(library, "/api/skills/ui/on/preview").text

    assert "list_skills" in program
    assert "list_skills" not in page
    assert "The catalogue shows what there is." in page
    assert 'href="/catalogue?q=on"' in page


def test_the_page_of_a_skill_names_its_competitors_and_what_parts_them(tmp_path: Path) -> None:
    write_skill(tmp_path, "bills.md", description="Write invoices for customers, and book them")
    write_skill(tmp_path, "dunning.md", description="Write invoices for customers, and remind them")
    write_skill(tmp_path, "pdf.md", description="Fill in forms")

    page = ask_site(open_library(tmp_path), "/skills/bills").text

    _, near = page.split("<h2>Near to it</h2>")
    assert "Write invoices for customers" in near
    assert "only there: dunning, remind" in near
    assert "/skills/pdf" not in near
