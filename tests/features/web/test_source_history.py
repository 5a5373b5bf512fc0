"""Owners, last changes and orders of the catalogue, from the histories of the sources."""

from datetime import date
from pathlib import Path

import pytest

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.features.authoring.code_owners import CodeOwners
from skills_mcp.features.history.source_history import read_source_logs
from skills_mcp.features.report.database_report import CatalogueCounts, SkillCounts
from skills_mcp.features.web.browsing import BrowseRequest, SkillSummary, browse
from skills_mcp.features.web.content_pages import _list_old
from skills_mcp.library import SkillLibrary
from tests.features.web.test_skill_history import follow
from tests.packages import package_text
from tests.support import Upstream, git, open_library, skill_text

OWNERS = "* @platform\n/skills/ui/ @web @ux\n"


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    made = Upstream.create(tmp_path)
    made.commit(
        {
            "skills/ui/auth.md": skill_text(body="# Sign people in\n\nText."),
            "skills/ui/_index.md": skill_text(body="No heading."),
            "skills/pdf/SKILL.md": package_text(name="pdf", body="Old.", owner="Ada"),
            ".github/CODEOWNERS": OWNERS,
        }
    )
    made.commit({"skills/pdf/notes.md": "Of the package."})
    return made


def list_skills(library: SkillLibrary, sort: str = "", **chosen: str) -> dict[str, SkillSummary]:
    snapshot = library.view().snapshot
    request = BrowseRequest(sort=sort, chosen=chosen, logs=read_source_logs(snapshot))
    return {skill.path: skill for skill in browse(snapshot, request).skills}


def test_a_skill_has_a_title_an_owner_and_the_day_of_its_last_change(
    upstream: Upstream, tmp_path: Path
) -> None:
    library = open_library(follow(upstream, tmp_path))

    found = list_skills(library)

    titles = {path: skill.title for path, skill in found.items()}
    assert titles == {"pdf": "PDF", "ui/_index": "UI", "ui/auth": "Sign people in"}
    owners = {path: skill.owner for path, skill in found.items()}
    assert owners == {"pdf": "Ada", "ui/_index": "@web, @ux", "ui/auth": "@web, @ux"}
    assert all(skill.changed for skill in found.values())
    assert [*list_skills(library, owner="@web, @ux")] == ["ui/_index", "ui/auth"]


def test_a_change_that_was_not_fetched_has_no_day(upstream: Upstream, tmp_path: Path) -> None:
    library = open_library(follow(upstream, tmp_path), settings={"web": {"history": 1}})

    found = list_skills(library)

    assert found["pdf"].changed is not None
    assert found["ui/auth"].changed is None


def test_an_order_puts_first_what_it_is_for(upstream: Upstream, tmp_path: Path) -> None:
    git("config", "user.name", "Ada", cwd=upstream.work)
    library = open_library(follow(upstream, tmp_path))

    assert [*list_skills(library, "name")] == ["pdf", "ui/auth", "ui/_index"]
    assert [*list_skills(library, "owner")] == ["ui/_index", "ui/auth", "pdf"]
    with pytest.raises(InvalidArgumentsError, match="name, used, changed, owner"):
        list_skills(library, "size")


def test_a_page_of_another_order_goes_on_where_the_last_one_ended(
    upstream: Upstream, tmp_path: Path
) -> None:
    snapshot = open_library(follow(upstream, tmp_path)).view().snapshot

    first = browse(snapshot, BrowseRequest(sort="name", limit=2))
    second = browse(snapshot, BrowseRequest(sort="name", limit=2, cursor=first.next))

    paths = [skill.path for skill in (*first.skills, *second.skills)]
    assert paths == ["pdf", "ui/auth", "ui/_index"]


@pytest.mark.parametrize(
    "line, file, fits",
    [
        ("*.md", "a/b.md", True),
        ("docs/*", "docs/a.md", True),
        ("docs/*", "docs/b/a.md", False),
        ("apps/", "x/apps/a.md", True),
        ("/apps/", "x/apps/a.md", False),
        ("/apps/**/a.md", "apps/x/y/a.md", True),
        ("skills/u?", "skills/ui/a.md", True),
        ("skills/my\\ ui/*", "skills/my ui/a.md", True),
        ("**/a.md", "x/y/a.md", True),
        ("# *", "a.md", False),
        ("!", "a.md", False),
    ],
)
def test_owners_are_found_as_the_forges_find_them(line: str, file: str, *, fits: bool) -> None:
    assert CodeOwners(f"{line} @x").find(file) == ("@x" if fits else "")


def test_the_files_of_a_folder_leave_those_below_to_the_rule_before() -> None:
    owners = CodeOwners("* @all\ndocs/* @docs\n")

    assert [owners.find(file) for file in ("docs/a.md", "docs/b/a.md")] == ["@docs", "@all"]


def test_a_section_of_gitlab_names_the_owners_of_its_lines() -> None:
    owners = CodeOwners("[Docs][2] @writers\n/docs/\n/docs/api/ @api\n")

    assert owners.find("docs/a.md") == "@writers"
    assert owners.find("docs/api/a.md") == "@api"


def test_the_home_page_names_what_is_to_be_read_again_with_who_knows(
    upstream: Upstream, tmp_path: Path
) -> None:
    long_ago = {"GIT_COMMITTER_DATE": "2020-01-31T12:00:00Z"}
    upstream.commit(
        {
            "skills/due.md": skill_text(keywords=["due"], review_by="2021-03-01"),
            "skills/later.md": skill_text(keywords=["later"], review_by="2999-01-01"),
        },
        push=False,
    )
    git("commit", "-q", "--amend", "--no-edit", cwd=upstream.work, **long_ago)
    git("push", "-q", "origin", "main", cwd=upstream.work)
    library = open_library(follow(upstream, tmp_path))
    view = library.view()

    [due] = _list_old(view, read_source_logs(view.snapshot), None)

    assert (due.path, due.reason, due.owner) == ("due", "was due 2021-03-01", "@platform")
    assert due.author


def test_that_an_old_skill_is_not_used_is_said_since_counting_began(
    upstream: Upstream, tmp_path: Path
) -> None:
    long_ago = {"GIT_COMMITTER_DATE": "2020-01-31T12:00:00Z"}
    names = ("used", "unused")
    upstream.commit({f"skills/{n}.md": skill_text(keywords=[n]) for n in names}, push=False)
    git("commit", "-q", "--amend", "--no-edit", cwd=upstream.work, **long_ago)
    git("push", "-q", "origin", "main", cwd=upstream.work)
    view = open_library(follow(upstream, tmp_path)).view()
    yesterday = date(2026, 11, 22)
    counts = CatalogueCounts(yesterday, {"used": SkillCounts(weeks=[1])}, since=yesterday)

    old = _list_old(view, read_source_logs(view.snapshot), counts)

    assert {skill.path: skill.reason for skill in old} == {
        "unused": "2020-01-31, not used since 2026-11-22",
        "used": "2020-01-31",
    }
