"""Problems, their filters, and who sees them."""

from pathlib import Path

import pytest

from skills_mcp.errors import SyncError
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import Access
from tests.features.web.test_rest import ask_site
from tests.support import open_library, skill_text, write

BROKEN = "---\nkeywords: [\n---\nx"


@pytest.fixture
def content(tmp_path: Path) -> Path:
    write(tmp_path / "ui" / "good.md", skill_text())
    write(tmp_path / "ui" / "broken.md", BROKEN)
    write(tmp_path / "ui" / "odd.md", skill_text(priority="high"))
    return tmp_path


@pytest.fixture
def library(content: Path) -> SkillLibrary:
    return open_library(content)


def test_a_problem_says_where_it_is_and_what_to_do(library: SkillLibrary) -> None:
    page = ask_site(library, "/problems").text

    assert "2 problems" in page
    assert "ui/broken.md:" in page
    assert "no valid YAML" in page
    assert "To do: " in page
    assert '<span class="path">yaml</span>' in page


def test_a_level_leaves_only_its_problems(library: SkillLibrary) -> None:
    errors = ask_site(library, "/problems?level=error").text
    warnings = ask_site(library, "/problems?level=warning&source=.").text
    none = ask_site(library, "/problems?source=elsewhere").text

    assert "ui/broken.md" in errors
    assert "ui/odd.md" not in errors
    assert "ui/odd.md" in warnings
    assert "ui/broken.md" not in warnings
    assert "No problem fits" in none


def test_an_unknown_level_is_refused(library: SkillLibrary) -> None:
    assert ask_site(library, "/problems?level=all").status_code == 400


def test_who_sees_a_part_of_the_skills_is_told_of_no_file(
    library: SkillLibrary,
) -> None:
    page = ask_site(library, "/problems", Access(((("ui/**",), ()),))).text

    assert "Problems are for people who may see every skill" in page
    assert "broken" not in page


def test_without_a_problem_the_page_says_so(tmp_path: Path) -> None:
    write(tmp_path / "ui" / "good.md", skill_text())

    assert "No problem" in ask_site(open_library(tmp_path), "/problems").text


def test_a_source_without_content_is_no_page_without_a_problem(tmp_path: Path) -> None:
    library = open_library(tmp_path / "nowhere", load=False)
    with pytest.raises(SyncError):
        library.sync()

    page = ask_site(library, "/problems").text

    assert "No problem" not in page
    assert f"No content of {tmp_path / 'nowhere'} is served" in page
    assert '<a href="/sources">Sources</a>' in page
