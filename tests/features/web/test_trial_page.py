"""*Try a task*, with and without a browser's scripts."""

from pathlib import Path

import pytest

from skills_mcp.events.spool import Spool
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING
from tests.features.web.test_rest import ask_site
from tests.support import open_library, spooled, write_skill


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    for name in ("login", "logout"):
        write_skill(tmp_path, f"{name}.md", keywords=[name, "session"])
    return open_library(tmp_path)


def test_it_says_why_and_what_would_change_it(library: SkillLibrary) -> None:
    page = ask_site(library, "/try?task=session").text

    assert "The agent has to choose from 2 skills" in page
    assert "What would change it" in page
    assert page.count("<td>session</td><td>keyword</td>") == 2
    assert "<li>Ambiguous because login and logout score the same" in page
    assert "<li>If login is meant, " in page


def test_a_skill_that_is_expected_is_looked_into(library: SkillLibrary) -> None:
    page = ask_site(library, "/try?task=login&skill=logout").text

    assert "The agent gets Login" in page
    assert "Nothing in this skill speaks for the task" in page


def test_a_skill_that_does_not_exist_costs_no_answer(library: SkillLibrary) -> None:
    page = ask_site(library, "/try?task=login&skill=logon").text

    assert "There is no skill &#39;logon&#39;" in page
    assert "The catalogue shows what there is" in page
    assert "list_skills" not in page
    assert "The agent gets Login" in page


def test_a_task_that_fits_nothing_says_so(library: SkillLibrary) -> None:
    assert "No skill fits" in ask_site(library, "/try?task=cake").text


def test_a_hidden_skill_is_no_answer_and_no_rival(library: SkillLibrary) -> None:
    access = EVERYTHING.narrow((), ("logout",))

    page = ask_site(library, "/try?task=session&skill=logout", access).text

    assert "The agent gets Login" in page
    assert "skills/logout" not in page
    assert "There is no skill &#39;logout&#39;" in page


def test_a_task_is_text_and_no_markup(library: SkillLibrary) -> None:
    page = ask_site(library, "/try?task=%3Cscript%3Ealert(1)%3C/script%3E").text

    assert "<script>alert" not in page


def test_a_trial_is_no_event(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "login.md", keywords=["login"])
    spool = Spool(tmp_path / "spool")
    counted = {"analytics": {"enabled": True}}
    library = open_library(tmp_path / "skills", spool=spool, settings=counted)

    ask_site(library, "/try?task=login")

    assert spooled(spool) == []
    library.view().route("login")
    assert len(spooled(spool)) == 1
