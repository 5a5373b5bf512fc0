"""The page of a skill whose text is long or slow to render."""

from pathlib import Path
from typing import Any

import pytest

from skills_mcp.features.web import skill_page
from skills_mcp.features.web.skill_page import (
    MAX_RENDERED_CHARACTERS,
    convert_to_html,
)
from skills_mcp.skills.access import EVERYTHING
from tests.features.web.test_rest import ask_in_turn, ask_site
from tests.support import open_library, write_skill

SLOW = "!["


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that are rendered from now on."""
    texts = []

    def render(text: str, *its: Any) -> Any:
        texts.append(text)
        return convert_to_html(text, *its)

    monkeypatch.setattr(skill_page, "convert_to_html", render)
    return texts


def test_a_text_is_rendered_once_for_all_who_look(tmp_path: Path, rendered: list[str]) -> None:
    write_skill(tmp_path, "_root.md", body="Be *kind*.")
    write_skill(tmp_path, "one.md", body=SLOW * 1_000)

    pages = ask_in_turn(open_library(tmp_path), *[("/skills/one", EVERYTHING)] * 3)

    assert [page.status_code for page in pages] == [200] * 3
    assert pages[0].text == pages[2].text
    assert "Be <em>kind</em>." in pages[0].text
    assert [text.strip() for text in rendered] == ["Be *kind*.", SLOW * 1_000]


@pytest.mark.parametrize("view", ["origin", "agent", "raw", "history"])
def test_only_the_rendered_view_renders(tmp_path: Path, rendered: list[str], view: str) -> None:
    write_skill(tmp_path, "one.md", body=SLOW)

    page = ask_site(open_library(tmp_path), "/skills/one", view=view)

    assert page.status_code == 200
    assert rendered == []


def test_a_text_that_is_too_long_is_shown_as_it_is(tmp_path: Path, rendered: list[str]) -> None:
    write_skill(tmp_path, "_root.md", body="Be *kind*.")
    write_skill(tmp_path, "one.md", body="*a* <b>\n" * (MAX_RENDERED_CHARACTERS // 8 + 1))

    page = ask_site(open_library(tmp_path), "/skills/one").text

    assert [text.strip() for text in rendered] == ["Be *kind*."]
    assert "This text is too long to be rendered." in page
    assert page.count("*a* &lt;b&gt;\n") >= MAX_RENDERED_CHARACTERS // 8


def test_a_page_has_so_many_numbered_lines(tmp_path: Path) -> None:
    write_skill(tmp_path, "_root.md", body="a\n" * 4_000)
    write_skill(tmp_path, "one.md", body="b\n" * 9_000)

    page = ask_site(open_library(tmp_path), "/skills/one", view="origin").text

    assert page.count("<tr>") == 10_000
    assert "And 3,000 more lines" in page
