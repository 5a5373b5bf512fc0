"""A skill goes to a branch for review; the branch that is served stays as it was."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Mount, SyncPolicy
from skills_mcp.errors import ConfigError
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import Access
from skills_mcp.skills.source_layout import Selection
from tests.content.git_server import serving
from tests.features.authoring.intake.archives import GOOD, write_zip
from tests.features.web.conftest import find_barriers, measure_overflow, opened_site
from tests.features.web.uploading import open_site, sees, send
from tests.packages import package_text
from tests.support import Upstream, git, open_library, skill_text, sync, write

UPLOADS = {"upload": {"mode": "branch"}}
NAME = "refs/heads/skills-mcp/"
NO_DRAFTS = Access(((("*",), ("**/draft",)),))


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    made = Upstream.create(tmp_path)
    made.commit(
        {
            "skills/payments/refund.md": skill_text(),
            "skills/old/SKILL.md": package_text(name="old", body="Older."),
            "skills/old/gone.txt": "1",
            "README.md": "# Skills",
        }
    )
    return made


def follow(url: str, folder: Path, *, pin: str = "", subfolder: str = "") -> Mounts:
    selection = Selection(subfolder)
    policy = SyncPolicy(selections=(selection,))
    branch = RemoteBranch(Remote(url, "main", pin=pin), folder / "cache", policy)
    sync(branch)
    return Mounts((Mount(source=branch, selection=selection),))


@pytest.fixture
def library(upstream: Upstream, tmp_path: Path) -> SkillLibrary:
    return open_library(follow(upstream.url, tmp_path), settings=UPLOADS)


def branches(upstream: Upstream) -> dict[str, str]:
    """Return the commits of the remote's branches that wait for a review."""
    shown = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=upstream.bare)
    found = dict(line.split(" ") for line in shown.splitlines())
    return {n.removeprefix(NAME): c for n, c in found.items() if n.startswith(NAME)}


def show(upstream: Upstream, *words: str) -> str:
    return git(*words, cwd=upstream.bare)


def test_a_new_skill_is_one_commit_on_a_branch_of_its_own(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    main = show(upstream, "rev-parse", "main")

    reply = send(library, write_zip(tmp_path / "pdf.zip"))

    assert reply.status_code == 201, reply.text
    told = reply.json()
    assert (told["path"], told["isActive"], told["currentVersion"]) == (
        "pdf",
        False,
        "",
    )
    assert told["branch"] == f"skills-mcp/pdf-{told['digest'][:12]}"
    [(_, commit)] = branches(upstream).items()
    assert show(upstream, "rev-parse", "main", f"{commit}^").split() == [main, main]
    changed = show(upstream, "diff", "--name-status", main, commit).splitlines()
    assert sorted(changed) == sorted(f"A\tskills/pdf/{file}" for file in GOOD)
    message = show(upstream, "log", "-1", "--format=%B", commit)
    assert message.startswith("Add pdf\n")
    assert "Suggested-by: " in message
    assert library.view().snapshot.index.get("pdf") is None


def test_what_is_replaced_loses_the_files_that_the_archive_has_not(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    newer = {"SKILL.md": package_text(name="old", body="Newer.")}

    send(library, write_zip(tmp_path / "old.zip", newer))

    [commit] = branches(upstream).values()
    changed = show(upstream, "diff", "--name-status", "main", commit).splitlines()
    assert sorted(changed) == ["D\tskills/old/gone.txt", "M\tskills/old/SKILL.md"]
    assert "Older." in library.view().load_skill("old").instructions


def test_a_branch_deletes_no_skill_that_its_author_may_not_see(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    text = package_text(name="draft")
    upstream.commit({"skills/old/draft/SKILL.md": text})
    library.sync()
    upstream.commit({"skills/old/sub/draft/SKILL.md": text, "skills/old/sub/x": "1"})
    (upstream.work / "skills/old/draft/run.sh").write_text("#!/bin/sh\n")
    (upstream.work / "skills/old/draft/run.sh").chmod(0o755)
    (upstream.work / "skills/old/draft/link").symlink_to("run.sh")
    upstream.commit({})
    newer = {"SKILL.md": package_text(name="old", body="Newer.")}

    reply = send(library, write_zip(tmp_path / "old.zip", newer), sees(NO_DRAFTS))

    assert reply.status_code == 201, reply.text
    [commit] = branches(upstream).values()
    changed = show(upstream, "diff", "--name-status", "main", commit).splitlines()
    assert sorted(changed) == [
        "D\tskills/old/gone.txt",
        "D\tskills/old/sub/x",
        "M\tskills/old/SKILL.md",
    ]


def test_a_branch_reaches_into_no_skill_that_its_author_may_not_see(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/old/notes/SKILL.md": package_text(name="Secret")})
    files = {"SKILL.md": package_text(name="old"), "notes/a.txt": "1"}
    caller = sees(Access(((("*",), ("Secret",)),)))

    reply = send(library, write_zip(tmp_path / "old.zip", files), caller)

    assert reply.status_code == 409
    assert "You may not add a skill called old here" in reply.text
    assert branches(upstream) == {}


def test_it_builds_on_the_newest_commit(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    newest = upstream.commit({"skills/later.md": skill_text()})

    send(library, write_zip(tmp_path / "pdf.zip"))

    [commit] = branches(upstream).values()
    assert show(upstream, "rev-parse", f"{commit}^") == newest


def test_the_same_archive_twice_is_one_branch(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    archive = write_zip(tmp_path / "pdf.zip")

    first, second = send(library, archive), send(library, archive)

    assert first.json() == second.json()
    assert len(branches(upstream)) == 1


def test_what_is_there_already_needs_no_review(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    same = {
        "SKILL.md": package_text(name="old", body="Older."),
        "gone.txt": "1",
    }

    reply = send(library, write_zip(tmp_path / "old.zip", same))

    assert reply.status_code == 409
    assert "nothing to review" in reply.text
    assert branches(upstream) == {}


def test_a_branch_that_is_refused_is_said_with_the_reason(
    library: SkillLibrary,
    upstream: Upstream,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook = write(upstream.bare / "hooks/pre-receive", "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)

    reply = send(library, write_zip(tmp_path / "pdf.zip"))

    assert reply.status_code == 409
    assert "pre-receive hook declined" in reply.json()["error"]["message"]
    assert "Refused an upload of " in caplog.text
    assert branches(upstream) == {}


def test_a_token_that_may_only_read_is_said(upstream: Upstream, tmp_path: Path) -> None:
    git("config", "http.receivepack", "false", cwd=upstream.bare)
    with serving(upstream.bare.parent) as server:
        library = open_library(follow(f"{server.url}/upstream.git", tmp_path), settings=UPLOADS)

        reply = send(library, write_zip(tmp_path / "pdf.zip"))

    assert reply.status_code == 409
    assert "may also write" in reply.json()["error"]["message"]


def test_it_is_pushed_over_http_with_the_token(upstream: Upstream, tmp_path: Path) -> None:
    git("config", "http.receivepack", "true", cwd=upstream.bare)
    with serving(upstream.bare.parent) as server:
        server.token = "only-for-this-test"  # noqa: S105
        branch = RemoteBranch(
            Remote(f"{server.url}/upstream.git", "main", server.token),
            tmp_path / "cache",
        )
        sync(branch)
        library = open_library(branch, settings=UPLOADS)

        reply = send(library, write_zip(tmp_path / "pdf.zip"))

    assert reply.status_code == 201, reply.text
    assert len(branches(upstream)) == 1
    assert "only-for-this-test" not in reply.text


def test_it_goes_into_the_part_that_is_served(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"teams/web/one/SKILL.md": package_text(name="one")})
    mounts = follow(upstream.url, tmp_path, subfolder="teams/web")
    library = open_library(mounts, settings=UPLOADS)

    send(library, write_zip(tmp_path / "pdf.zip"))

    [commit] = branches(upstream).values()
    changed = show(upstream, "diff", "--name-only", "main", commit).splitlines()
    assert "teams/web/pdf/SKILL.md" in changed


@pytest.mark.parametrize(
    "mode, pin, said",
    [
        ("branch", "v1", "is a tag or a commit"),
        ("folder", "", "is a repository"),
    ],
)
def test_a_source_that_does_not_fit_stops_the_start(
    upstream: Upstream, tmp_path: Path, mode: str, pin: str, said: str
) -> None:
    git("tag", "v1", "main", cwd=upstream.bare)
    mounts = follow(upstream.url, tmp_path, pin=pin)
    library = open_library(mounts, settings={"upload": {"mode": mode}})

    with pytest.raises(ConfigError, match=said):
        open_site(library)


def test_a_folder_has_no_branches(tmp_path: Path) -> None:
    write(tmp_path / "skills/a.md", skill_text())
    library = open_library(tmp_path / "skills", settings=UPLOADS)

    with pytest.raises(ConfigError, match="is a folder"):
        open_site(library)


@pytest.mark.parametrize("width", [390, 1_280])
def test_a_person_sends_a_skill_for_review(
    browser: Browser, upstream: Upstream, tmp_path: Path, width: int
) -> None:
    options = ("--repo", upstream.url, "--branch", "main")
    archive = write_zip(tmp_path / "pdf.zip")
    with opened_site(browser, options=options, upload={"mode": "branch"}) as site:
        page = site.open("add", width=width)

        page.get_by_label("An archive of one skill").set_input_files(archive)
        page.get_by_role("button", name="Look into it").click()
        page.get_by_role("button", name="Send pdf for review").click()

        expect(page.get_by_role("heading", name="waits for a review")).to_be_visible()
        expect(page.get_by_text("skills-mcp/pdf-").first).to_be_visible()
        assert find_barriers(page) == []
        assert measure_overflow(page) == 0
    assert len(branches(upstream)) == 1
