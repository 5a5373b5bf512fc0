"""A person changes the text of a skill: it is checked, shown, and sent or written."""

import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from playwright.sync_api import Browser, expect

from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING, READ, Access, Principal
from tests.content.git_server import serving
from tests.features.web.conftest import find_faults, opened_site
from tests.features.web.test_upload_branch import branches, follow, show
from tests.features.web.uploading import ADA, open_site, sees
from tests.packages import package_text
from tests.support import Upstream, open_library, skill_text, write

REFUND = "skills/payments/refund.md"
BRANCH = {"upload": {"mode": "branch"}}
FOLDER = {"upload": {"mode": "folder"}}
TASK = "pay the money back"


def refund(body: str = "Refund it.", **fields: Any) -> str:
    given: dict[str, Any] = {"keywords": ["refund"], "examples": ["refund a payment"], **fields}
    return skill_text(description="Refund payments.", body=body, **given)


CONTENT = {
    REFUND: refund(),
    "skills/payments/refund/notes.txt": "kept",
    "skills/payments/invoice.md": skill_text(
        description="Pay the money of an invoice.", keywords=["pay", "money"], examples=[TASK]
    ),
    "skills/old/SKILL.md": package_text(name="old", body="Older."),
    "skills/old/run.sh": "1",
}


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    made = Upstream.create(tmp_path)
    made.commit(CONTENT)
    return made


@pytest.fixture
def reviewed(upstream: Upstream, tmp_path: Path) -> SkillLibrary:
    settings = {**BRANCH, "matching": {"algorithm": "ranked"}}
    return open_library(follow(upstream.url, tmp_path), settings=settings)


@pytest.fixture
def written(tmp_path: Path) -> SkillLibrary:
    for file, text in CONTENT.items():
        write(tmp_path / "content" / file, text)
    return open_library(tmp_path / "content", settings=FOLDER)


def visit(
    library: SkillLibrary,
    path: str,
    fields: Mapping[str, str] | None = None,
    caller: Principal = ADA,
) -> httpx.Response:
    """Get a page, or send its form, while the library is kept fresh."""
    app = open_site(library, caller)

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with (
            anyio.create_task_group() as tasks,
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as it,
        ):
            if library.config.upload.mode == "folder":  # what is written is read at once
                tasks.start_soon(library.refresher.run)
                library.refresher.wake()
            reply = await (it.post(path, data=fields) if fields else it.get(path))
            tasks.cancel_scope.cancel()
        return reply

    return anyio.run(run)


def fields_of(reply: httpx.Response, **changed: str) -> dict[str, str]:
    """Return what a browser would send of the form on a page."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', reply.text)
    area = re.search(r"<textarea[^>]*>\n?(.*)</textarea>", reply.text, re.DOTALL)
    assert area, reply.text
    reason = re.search(r'name="reason" value="([^"]*)"', reply.text)
    given = {
        **dict(found),
        "text": unescape(area[1]),
        "reason": unescape(reason[1]) if reason else "",
    }
    sent = {**given, "action": "check", **changed}
    return {**sent, "text": sent["text"].replace("\n", "\r\n")}


def propose(
    library: SkillLibrary, skill: str, text: str, caller: Principal = ADA, reason: str = ""
) -> tuple[httpx.Response, httpx.Response]:
    """Open the form, check a text, and send it; return the last two pages."""
    form = visit(library, f"/propose/{skill}", caller=caller)
    checked = visit(library, f"/propose/{skill}", fields_of(form, text=text, reason=reason), caller)
    sent = visit(library, f"/propose/{skill}", fields_of(checked, action="send"), caller)
    return checked, sent


def test_a_rule_file_is_shown_with_its_effect_and_goes_to_a_branch(
    reviewed: SkillLibrary, upstream: Upstream
) -> None:
    new = refund("Refund it twice.", keywords=["refund", "pay", "money", "back"])

    checked, sent = propose(reviewed, "payments/refund", new, reason="Tasks say <pay back>")

    assert "<ins> twice</ins>" in checked.text
    assert f"{REFUND}:" in checked.text, "a warning has file and line"
    assert "1 of 2 get another answer" in checked.text
    assert TASK in checked.text
    assert sent.status_code == 200, sent.text
    [(branch, commit)] = branches(upstream).items()
    assert f"skills-mcp/{branch}" in sent.text
    changed = show(upstream, "diff", "--name-status", "main", commit).splitlines()
    assert changed == [f"M\t{REFUND}"]
    assert show(upstream, "show", f"{commit}:{REFUND}") == new.strip()
    message = show(upstream, "log", "-1", "--format=%B", commit)
    assert message.startswith("Change payments/refund\n\nTasks say <pay back>\n")
    assert "Suggested-by: ada" in message
    assert "Refund it." in reviewed.view().load_skill("payments/refund").instructions


def test_a_package_goes_to_a_branch_with_its_other_files(
    reviewed: SkillLibrary, upstream: Upstream
) -> None:
    propose(reviewed, "old", package_text(name="old", body="Newer."))

    [commit] = branches(upstream).values()
    changed = show(upstream, "diff", "--name-status", "main", commit).splitlines()
    assert changed == ["M\tskills/old/SKILL.md"]


@pytest.mark.parametrize(
    "skill, file, text",
    [
        ("payments/refund", REFUND, refund("Newer.")),
        ("old", "skills/old/SKILL.md", package_text(name="old", body="Newer.")),
    ],
)
def test_in_a_folder_the_file_is_written_and_all_others_stay(
    written: SkillLibrary, tmp_path: Path, skill: str, file: str, text: str
) -> None:
    _, sent = propose(written, skill, text)

    assert "Agents get the new text" in sent.text
    for each, before in CONTENT.items():
        now = (tmp_path / "content" / each).read_text()
        assert now == (text if each == file else before), each
    assert ("The version before is kept" in sent.text) == (skill == "old")


def test_an_error_is_no_proposal_and_the_form_keeps_the_text(
    reviewed: SkillLibrary, upstream: Upstream
) -> None:
    bad = "---\ndescription: [\n---\nMy words."

    checked, sent = propose(reviewed, "payments/refund", bad)

    for page in (checked, sent):
        assert (page.status_code, "Nothing was changed" in page.text) == (409, True)
        assert "My words." in page.text
        assert 'value="send"' not in page.text
    assert branches(upstream) == {}


def test_what_was_not_shown_is_not_sent(reviewed: SkillLibrary, upstream: Upstream) -> None:
    form = visit(reviewed, "/propose/payments/refund")
    checked = visit(reviewed, "/propose/payments/refund", fields_of(form, text=refund("Shown.")))

    other = fields_of(checked, text=refund("Not shown."), action="send")
    again = visit(reviewed, "/propose/payments/refund", other)

    assert "What it changes" in again.text
    assert branches(upstream) == {}


@pytest.mark.parametrize("is_fetched", [True, False])
def test_a_text_that_changed_meanwhile_is_refused_and_nothing_is_lost(
    reviewed: SkillLibrary,
    upstream: Upstream,
    is_fetched: bool,  # noqa: FBT001
) -> None:
    path = "/propose/payments/refund"
    form = visit(reviewed, path)
    checked = visit(reviewed, path, fields_of(form, text=refund("Mine.")))
    upstream.commit({REFUND: refund("Theirs.")})
    if is_fetched:
        reviewed.sync()

    sent = visit(reviewed, path, fields_of(checked, action="send"))
    reviewed.sync()
    again = visit(reviewed, path, fields_of(sent))
    last = visit(reviewed, path, fields_of(again, action="send"))

    assert sent.status_code == 409
    assert "Mine." in sent.text
    shown = sent if is_fetched else again
    assert "has changed since you opened it" in shown.text
    assert "<del>Theirs</del>" in shown.text
    assert "waits for a review" in last.text
    assert len(branches(upstream)) == 1


def test_a_folder_that_was_changed_meanwhile_is_not_overwritten(
    written: SkillLibrary, tmp_path: Path
) -> None:
    form = visit(written, "/propose/old")
    checked = visit(
        written, "/propose/old", fields_of(form, text=package_text(name="old", body="Mine."))
    )
    theirs = package_text(name="old", body="Theirs.")
    write(tmp_path / "content/skills/old/SKILL.md", theirs)

    sent = visit(written, "/propose/old", fields_of(checked, action="send"))

    assert sent.status_code == 409
    assert "Mine." in sent.text
    assert (tmp_path / "content/skills/old/SKILL.md").read_text() == theirs


def test_nobody_learns_of_skills_that_the_grants_hide(reviewed: SkillLibrary) -> None:
    caller = sees(Access(((("*",), ("payments/invoice",)),)))
    new = refund("Newer.", keywords=["refund", "pay", "money"], requires=["payments/invoic"])

    checked, _ = propose(reviewed, "payments/refund", new, caller)
    hidden = visit(reviewed, "/propose/payments/invoice", caller=caller)
    outside = visit(reviewed, "/propose/payments/..%2F..%2Fx", caller=caller)

    assert "payments/invoice" not in checked.text.replace("payments/invoic<", "")
    assert TASK not in checked.text
    assert (hidden.status_code, outside.status_code) == (404, 404)
    assert "Pay the money" not in hidden.text


def test_the_link_stands_where_a_person_may_change_the_skill(
    reviewed: SkillLibrary, tmp_path: Path
) -> None:
    reader = Principal("ida", ADA.issuer, frozenset({READ}), EVERYTHING)
    write(tmp_path / "off/a.md", skill_text())
    off = open_library(tmp_path / "off")

    pages = [
        visit(reviewed, "/skills/payments/refund"),
        visit(reviewed, "/skills/payments/refund", caller=reader),
        visit(off, "/skills/a"),
    ]

    assert ["/propose/" in page.text for page in pages] == [True, False, False]
    assert "needs the scope" in visit(reviewed, "/propose/old", caller=reader).text
    assert visit(off, "/propose/a").status_code == 404


def test_line_ends_and_the_mark_of_the_file_stay(written: SkillLibrary, tmp_path: Path) -> None:
    file = tmp_path / "content" / REFUND
    file.write_bytes(b"\xef\xbb\xbf" + refund().replace("\n", "\r\n").encode())
    written.sync()

    propose(written, "payments/refund", refund("Newer."))

    assert file.read_bytes() == b"\xef\xbb\xbf" + refund("Newer.").replace("\n", "\r\n").encode()


def test_a_file_at_the_top_of_a_repository_can_be_changed(tmp_path: Path) -> None:
    upstream = Upstream.create(tmp_path)
    upstream.commit({"refund.md": refund(), "other.md": skill_text()})
    library = open_library(follow(upstream.url, tmp_path), settings=BRANCH)

    propose(library, "refund", refund("Newer."))

    [commit] = branches(upstream).values()
    assert show(upstream, "diff", "--name-status", "main", commit) == "M\trefund.md"


def test_edit_opens_the_file_in_the_editor_of_a_known_forge(
    upstream: Upstream, tmp_path: Path
) -> None:
    with serving(upstream.bare.parent) as server:
        mounts = follow(f"{server.url}/upstream.git", tmp_path)
        settings = {"web": {"forges": {"127.0.0.1": "github"}}}
        known = open_library(mounts, settings=settings)
        unknown = open_library(mounts)

        pages = [visit(each, "/skills/payments/refund").text for each in (known, unknown)]

    links = [re.findall(r'href="([^"]*)"[^>]*>Edit<', page) for page in pages]
    assert links == [[f"{server.url}/upstream/edit/main/{REFUND}"], []]


@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_proposes_a_change(
    browser: Browser,
    upstream: Upstream,
    scripts: bool,  # noqa: FBT001
) -> None:
    options = ("--repo", upstream.url, "--branch", "main")
    with opened_site(browser, options=options, upload={"mode": "branch"}) as site:
        page = site.open("skills/payments/refund", scripts=scripts)

        page.get_by_role("link", name="Propose a change").click()
        faults = find_faults(page, widths=(390,)) if scripts else []
        page.get_by_label("Source text").fill(refund("Newer.", keywords=["pay", "money"]))
        page.get_by_role("button", name="Check it").click()
        expect(page.get_by_role("heading", name="effect on example tasks")).to_be_visible()
        faults += find_faults(page, widths=(390, 1_280)) if scripts else []
        page.get_by_role("button", name="Send for review").click()

        expect(page.get_by_role("heading", name="waits for a review")).to_be_visible()
        assert faults == []
        site.require_own_requests()
    assert len(branches(upstream)) == 1
