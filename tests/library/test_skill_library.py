"""The use cases of 001 §8, without MCP."""

import json
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import LocalFolder
from skills_mcp.errors import (
    ChangedFileError,
    ContentUnavailableError,
    FileTooLargeError,
    InvalidPathError,
    MissingFileError,
    SkillNotFoundError,
    SyncError,
    UndeclaredFileError,
)
from skills_mcp.events.spool import Spool
from skills_mcp.events.tracker import Tracker
from skills_mcp.library.answers import Match
from skills_mcp.library.skill_library import MAX_SERVED_PATHS, SkillLibrary
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.scripts.policy import ScriptRequest
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.skill_index import SkillFilter
from tests.support import (
    Upstream,
    mounted,
    open_library,
    running,
    skill_text,
    spooled,
    sync,
    write,
    write_skill,
)

COUNTED = {"analytics": {"enabled": True, "context": "full"}}


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """Return a small tree: two skills that both say `auth`, and what they inherit."""
    root = tmp_path / "content"
    write_skill(root, "_root.md", keywords=["everything"], body="Global rules.")
    write_skill(
        root,
        "ui/_index.md",
        keywords=["interface"],
        body="UI rules.",
        assets=[{"file": "assets/tokens.json", "description": "T", "type": "config"}],
    )
    write(root / "ui/_index/assets/tokens.json", '{"red": "#f00"}')
    write_skill(
        root,
        "ui/auth.md",
        keywords=["react", "auth"],
        body="UI auth rules.",
        assets=[
            {"file": "assets/own.txt", "description": "Own", "type": "template"},
            {"file": "assets/lost.txt", "description": "Lost"},
        ],
        scripts=[
            {
                "file": "scripts/greet.sh",
                "description": "Greets",
                "execution": "server",
                "args": [{"name": "name", "description": "Whom"}],
            },
            {"file": "scripts/agent.sh", "description": "For the agent"},
        ],
    )
    write(root / "ui/auth/assets/own.txt", "own")
    write(root / "ui/auth/scripts/greet.sh", 'echo "hello $SKILL_ARG_NAME"')
    write(root / "ui/auth/scripts/agent.sh", "echo agent")
    write_skill(root, "api/auth.md", keywords=["api", "auth"], body="API auth rules.")
    return root


def counting(
    content: Path, spool: Spool, settings: Mapping[str, Any] | None = None
) -> SkillLibrary:
    return open_library(content, settings={**COUNTED, **(settings or {})}, spool=spool)


def event_in(spool: Spool) -> tuple[str, dict[str, Any]]:
    """Return the only event, as its type and its data."""
    [event] = spooled(spool)
    return event["type"], event["data"]


def test_an_answer_and_its_explanation_are_of_one_snapshot(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = open_library(content)
    track = Tracker.track

    def track_and_refresh(tracker: Tracker, *event: Any, **data: Any) -> None:
        track(tracker, *event, **data)
        (content / "ui/auth.md").unlink()  # as a refresh at the wrong moment would
        library.sync()

    monkeypatch.setattr(Tracker, "track", track_and_refresh)
    view = library.view()
    answer, explanation = view.route("react auth"), view.explain("react auth")

    assert isinstance(answer, Match)
    assert library.view().snapshot.index.get("ui/auth") is None
    assert explanation.contenders[0].skill.path == answer.skill.path


def branch_of(upstream: Upstream, folder: Path) -> RemoteBranch:
    return RemoteBranch(Remote(upstream.url, "main"), folder / "cache")


@pytest.mark.core
@pytest.mark.spec("8.1")
@pytest.mark.spec("10.2")
def test_a_clear_winner_is_served_with_everything_above_it(content: Path, spool: Spool) -> None:
    match = counting(content, spool).view().route("react auth")

    assert isinstance(match, Match)
    assert match.skill.path == "ui/auth"
    assert match.score == 1
    assert match.matched_keywords == ("react", "auth")
    sections = ("Global rules.", "UI rules.", "UI auth rules.")
    positions = [match.content.index(section) for section in sections]
    assert positions == sorted(positions)
    assert [item.source for item in match.inherited_assets] == ["ui/_index"]
    assert event_in(spool) == (
        "skill_served",
        {
            "context": "react auth",
            "skill_path": "ui/auth",
            "score": 1.0,
            "matched_keywords": ["react", "auth"],
            "was_ambiguous": False,
            "unchanged": False,
            "tokens": 37,
        },
    )


@pytest.mark.spec("8.1")
@pytest.mark.spec("10.2")
def test_a_close_runner_up_makes_it_ambiguous(content: Path, spool: Spool) -> None:
    decision = counting(content, spool).view().route("auth")

    assert isinstance(decision, Ambiguous)
    paths = [candidate.skill.path for candidate in decision.candidates]
    assert paths == ["api/auth", "ui/auth"]
    assert event_in(spool) == (
        "ambiguous",
        {
            "context": "auth",
            "candidates": paths,
            "matched_keywords": [["auth"], ["auth"]],
        },
    )


@pytest.mark.spec("8.1")
@pytest.mark.spec("10.2")
@pytest.mark.spec("13")
def test_a_task_that_no_skill_serves(content: Path, spool: Spool) -> None:
    decision = counting(content, spool).view().route("kubernetes")

    assert decision == NoMatch()
    assert event_in(spool) == ("no_match", {"context": "kubernetes", "near": []})


@pytest.mark.spec("10.2")
def test_near_misses_are_told_apart_from_a_clear_no(content: Path, spool: Spool) -> None:
    write_skill(content, "far.md", keywords=["alpha", "beta", "gamma", "delta", "eps"])
    library = counting(content, spool, {"matching": {"min_score": 0.5}})

    decision = library.view().route("alpha")
    picked = library.view().route("alpha", "far")

    assert isinstance(decision, NoMatch)
    assert [each.skill.path for each in decision.near] == ["far"]
    assert isinstance(picked, Match)
    missed, served = spooled(spool)
    assert missed["data"] == {"context": "alpha", "near": ["far"], "near_score": 0.2}
    assert served["data"]["was_near"] is True


@pytest.mark.spec("8.1")
@pytest.mark.spec("10.2")
@pytest.mark.parametrize(
    "context, picked, was_ambiguous, score",
    [
        ("auth", "ui/auth", True, 0.5),
        ("auth", "api/auth", True, 0.5),
        ("auth", "ui/_index", False, 0.0),
        ("react auth", "api/auth", False, 0.5),
        ("kubernetes", "ui/auth", False, 0.0),
    ],
)
def test_a_skill_that_was_picked_is_served_whatever_the_scores(  # noqa: PLR0913 - a table
    *,
    context: str,
    picked: str,
    was_ambiguous: bool,
    score: float,
    content: Path,
    spool: Spool,
) -> None:
    match = counting(content, spool).view().route(context, picked)

    assert isinstance(match, Match)
    assert match.skill.path == picked
    kind, data = event_in(spool)
    assert kind == "skill_served"
    assert data["skill_path"] == picked
    assert data["was_ambiguous"] is was_ambiguous
    assert data["score"] == score


def test_a_pick_is_from_those_that_the_same_part_of_the_tree_had(
    content: Path, spool: Spool
) -> None:
    write_skill(content, "ui/sso.md", keywords=["sso", "auth"])
    write_skill(content, "api/login.md", keywords=["api", "auth", "login"])
    library, scoping = counting(content, spool), SkillFilter(below="ui")

    library.view().route("auth for the login api", scoping=scoping)
    library.view().route("auth for the login api", "ui/sso", scoping=scoping)

    asked, picked = spooled(spool)
    assert asked["type"] == "ambiguous"
    assert picked["data"]["was_ambiguous"] is True


@pytest.mark.spec("8.1")
def test_a_skill_that_is_not_there_cannot_be_picked(content: Path, spool: Spool) -> None:
    with pytest.raises(SkillNotFoundError):
        counting(content, spool).view().route("auth", "ui/missing")

    assert spooled(spool) == []


@pytest.mark.spec("13")
def test_an_empty_folder_serves_nothing_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    library = open_library(tmp_path / "empty")

    assert library.view().route("anything") == NoMatch()
    assert library.view().tree().children == ()


@pytest.mark.spec("10.1")
def test_nothing_is_counted_unless_the_operator_wants_it(content: Path, spool: Spool) -> None:
    library = open_library(content, spool=spool)

    library.view().route("react auth")
    library.view().report("ui/auth", useful=True, comment=None)

    assert spooled(spool) == []


@pytest.mark.spec("8.2")
def test_the_tree_holds_every_skill(content: Path) -> None:
    tree = open_library(content).view().tree()

    assert [child.name for child in tree.children] == ["api", "ui"]
    [auth] = tree.children[1].children
    assert auth.path == "ui/auth"
    assert auth.skill is not None
    assert (len(auth.skill.assets), len(auth.skill.scripts)) == (2, 2)


@pytest.mark.spec("8.2")
@pytest.mark.parametrize("path", ["ui", "ui/_index"])
def test_a_part_of_the_tree_is_asked_for_by_folder_or_index(path: str, content: Path) -> None:
    assert open_library(content).view().tree(path).path == "ui/_index"


@pytest.mark.spec("8.2")
def test_a_part_of_the_tree_that_is_not_there_is_an_error(content: Path) -> None:
    with pytest.raises(SkillNotFoundError):
        open_library(content).view().tree("mobile")


@pytest.mark.spec("8.3")
@pytest.mark.spec("10.2")
def test_a_file_of_the_skill_itself(content: Path, spool: Spool) -> None:
    served = counting(content, spool).view().read_asset("ui/auth", "assets/own.txt")

    assert (served.content.data, served.type) == (b"own", "template")
    assert served.resolved_from is None
    assert event_in(spool) == (
        "asset_served",
        {
            "skill_path": "ui/auth",
            "file": "assets/own.txt",
            "asset_type": "template",
            "is_inherited": False,
            "size_bytes": 3,
        },
    )


@pytest.mark.core
@pytest.mark.spec("8.3")
@pytest.mark.spec("7.5")
@pytest.mark.spec("10.2")
def test_a_file_that_is_inherited_names_where_it_comes_from(content: Path, spool: Spool) -> None:
    served = counting(content, spool).view().read_asset("ui/auth", "assets/tokens.json")

    assert json.loads(served.content.data) == {"red": "#f00"}
    assert served.resolved_from == "ui/_index"
    kind, data = event_in(spool)
    assert (kind, data["is_inherited"]) == ("asset_served", True)


@pytest.mark.spec("8.3")
def test_a_script_can_be_read_like_an_asset(content: Path, spool: Spool) -> None:
    served = counting(content, spool).view().read_asset("ui/auth", "scripts/agent.sh")

    assert (served.content.data, served.type) == (b"echo agent", "script")


@pytest.mark.spec("8.3")
@pytest.mark.spec("12.3")
@pytest.mark.spec("13")
@pytest.mark.parametrize(
    "error, skill_path, file",
    [
        (SkillNotFoundError, "ui/missing", "../x"),
        (InvalidPathError, "ui/auth", "../_index/assets/tokens.json"),
        (InvalidPathError, "ui/auth", "/etc/passwd"),
        (UndeclaredFileError, "ui/auth", "assets/undeclared.txt"),
        (MissingFileError, "ui/auth", "assets/lost.txt"),
        (FileTooLargeError, "ui/auth", "assets/tokens.json"),
    ],
)
def test_a_file_that_cannot_be_had_is_an_error_and_no_event(
    error: type[Exception], skill_path: str, file: str, content: Path, spool: Spool
) -> None:
    library = counting(content, spool, {"assets": {"max_size_bytes": 10}})

    with pytest.raises(error):
        library.view().read_asset(skill_path, file)

    assert spooled(spool) == []


@pytest.mark.spec("8.5")
@pytest.mark.spec("10.2")
@pytest.mark.parametrize("useful, comment", [(True, None), (False, "The example is outdated")])
def test_feedback_is_logged_and_counted(
    *,
    useful: bool,
    comment: str | None,
    content: Path,
    spool: Spool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    counting(content, spool).view().report("ui/auth", useful=useful, comment=comment)

    assert event_in(spool) == (
        "skill_feedback",
        {"skill_path": "ui/auth", "useful": useful, "comment": comment},
    )
    assert "Feedback for ui/auth" in caplog.text
    assert not comment or comment not in caplog.text


def test_feedback_for_no_skill_of_ours_is_a_text_of_somebodys(content: Path, spool: Spool) -> None:
    hashing = {"analytics": {"enabled": True}}
    library = open_library(content, settings=hashing, spool=spool)

    library.view().report("the plans of ACME", useful=True, comment=None)

    _, data = event_in(spool)
    assert data["skill_path"].startswith("hmac-sha256:")


async def test_every_event_says_which_commit_was_served(
    upstream: Upstream, tmp_path: Path, spool: Spool
) -> None:
    script = {"file": "x.sh", "execution": "server"}
    fields: dict[str, Any] = {"keywords": ["one"], "scripts": [script]}
    two = skill_text(keywords=["two", "both"])
    commit = upstream.commit(
        {
            "one.md": skill_text(**fields),
            "one/x.sh": "true",
            "two.md": two,
            "three.md": two,
        }
    )
    source = branch_of(upstream, tmp_path)
    library = open_library(source, settings=COUNTED, spool=spool)

    library.view().route("zebra")
    library.view().route("both")
    library.view().route("one")
    library.view().read_asset("one", "x.sh")
    await library.view().run(ScriptRequest(skill_path="one", file="x.sh", args={}))
    library.view().report("one", useful=True, comment=None)
    library.view().load_skill("one")
    library.view().read_file("one", "x.sh")

    events = spooled(spool)
    assert len(events) == 8
    assert {event.get("content_commit") for event in events} == {commit}


@pytest.mark.spec("8.6")
@pytest.mark.spec("4.6")
@pytest.mark.spec("10.2")
async def test_a_refresh_of_a_folder_reads_it_again(content: Path, spool: Spool) -> None:
    library = counting(content, spool)
    write_skill(content, "mobile.md", keywords=["mobile"])

    async with running(library):
        refreshed = await library.refresh()

    assert (refreshed.mode, refreshed.commit, refreshed.error) == ("local", None, None)
    assert refreshed.skills_reindexed == 5
    assert isinstance(library.view().route("mobile"), Match)
    kind, data = next(
        (event["type"], event["data"]) for event in spooled(spool) if event["type"] == "refresh"
    )
    assert (kind, data) == (
        "refresh",
        {
            "mode": "local",
            "success": True,
            "commit_hash": None,
            "files_changed": 0,
            "skills_reindexed": 5,
        },
    )


@pytest.mark.core
@pytest.mark.spec("8.6")
@pytest.mark.spec("9.4")
@pytest.mark.spec("10.2")
async def test_a_refresh_of_a_repository_says_what_changed(
    upstream: Upstream, tmp_path: Path, spool: Spool
) -> None:
    upstream.commit({"a.md": skill_text(), "b.md": skill_text(), "c.md": "no skill"})
    source = branch_of(upstream, tmp_path)
    library = open_library(source, settings=COUNTED, spool=spool)
    changes = {"a.md": skill_text(body="New"), "c.md": None, "d.md": skill_text()}
    commit = upstream.commit(changes)

    async with running(library):
        await library.refresher.wait_until_ready(20)
        refreshed = await library.refresh()
        again = await library.refresh()

    assert refreshed.mode == "git"
    assert refreshed.commit == commit
    assert (refreshed.files_changed, refreshed.skills_reindexed) == (3, 3)
    assert refreshed.synced_at is not None
    assert refreshed.error is None
    assert (again.files_changed, again.commit) == (0, commit)
    data = [event["data"] for event in spooled(spool) if event["type"] == "refresh"]
    assert data[0] == {
        "mode": "git",
        "success": True,
        "commit_hash": commit,
        "files_changed": 3,
        "skills_reindexed": 3,
    }


async def test_a_refresh_says_which_files_it_has_broken(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"a.md": skill_text(), "b.md": "no skill, as ever"})
    library = open_library(branch_of(upstream, tmp_path))
    upstream.commit({"a.md": "no skill any more", "c.md": skill_text()})

    async with running(library):
        refreshed = await library.refresh()
        again = await library.refresh()

    assert refreshed.changes.removed == ("a",)
    assert [each.split()[0] for each in refreshed.changes.broken] == ["a.md:"]
    assert again.changes.broken == ()


@pytest.mark.spec("8.6")
@pytest.mark.spec("13")
async def test_a_refresh_that_fails_is_a_result_and_the_old_content_is_served(
    upstream: Upstream, tmp_path: Path, spool: Spool
) -> None:
    commit = upstream.commit({"a.md": skill_text(keywords=["kept"])})
    library = open_library(branch_of(upstream, tmp_path), settings=COUNTED, spool=spool)
    shutil.rmtree(upstream.bare)

    async with running(library):
        refreshed = await library.refresh()

    assert isinstance(refreshed.error, SyncError)
    assert (refreshed.commit, refreshed.skills_reindexed) == (commit, 1)
    assert isinstance(library.view().route("kept"), Match)
    [data] = [event["data"] for event in spooled(spool) if event["type"] == "refresh"]
    assert data["success"] is False


@pytest.mark.spec("8.6")
@pytest.mark.spec("13")
async def test_a_refresh_before_there_is_anything_is_a_result_too(
    tmp_path: Path,
) -> None:
    library = open_library(LocalFolder(tmp_path / "missing"), load=False)

    async with running(library):
        refreshed = await library.refresh()

    assert isinstance(refreshed.error, SyncError)
    assert (refreshed.commit, refreshed.skills_reindexed) == (None, 0)
    assert refreshed.synced_at is None


def test_before_the_first_snapshot_there_is_nothing_to_answer_from(
    tmp_path: Path,
) -> None:
    library = open_library(tmp_path, load=False)

    with pytest.raises(ContentUnavailableError):
        library.view().route("anything")

    assert not library.is_ready
    assert library.config.scripts.enabled  # the operator's settings hold already


@pytest.mark.core
@pytest.mark.spec("3.1")
async def test_the_library_loads_by_itself_once_it_is_woken(content: Path) -> None:
    library = open_library(content, load=False)

    async with running(library):
        library.refresher.wake()
        await library.refresher.wait_until_ready(20)

    assert library.is_ready


@pytest.mark.spec("4.6")
def test_a_commit_that_is_served_already_is_not_read_again(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": skill_text()})
    source = branch_of(upstream, tmp_path)
    library = open_library(source)
    before = library.view().snapshot

    library.sync()

    assert library.view().snapshot.index is before.index
    [old], [new] = before.content.parts, library.view().snapshot.content.parts
    assert new.checkout.synced_at > old.checkout.synced_at


def test_a_commit_whose_files_somebody_has_touched_is_read_again(
    upstream: Upstream, tmp_path: Path
) -> None:
    text = skill_text(assets=[{"file": "note.txt"}])
    upstream.commit({"a.md": text, "a/note.txt": "A note"})
    source = mounted(branch_of(upstream, tmp_path))
    library = open_library(source)
    [part] = library.view().snapshot.content.parts
    (part.checkout.directory / "a/note.txt").chmod(0o644)
    with pytest.raises(ChangedFileError, match="refresh_skills"):
        library.view().read_asset("a", "note.txt")

    library.sync()

    assert library.view().read_asset("a", "note.txt").content.data == b"A note"


def test_the_folder_that_load_skill_names_outlives_the_next_commits(
    upstream: Upstream, tmp_path: Path
) -> None:
    package = "---\nname: x\ndescription: It runs\n---\n"
    upstream.commit({"x/SKILL.md": package})
    source = mounted(branch_of(upstream, tmp_path))
    library = open_library(source, settings={"toolsets": ["core", "packages"]})
    folder = library.view().load_skill("x").skill.directory
    assert folder is not None

    for number in range(3):
        upstream.commit({"x/SKILL.md": f"{package}{number}"})
        library.sync()

    assert (folder / "SKILL.md").is_file()


def test_a_repository_cannot_raise_its_own_privileges(upstream: Upstream, tmp_path: Path) -> None:
    config = "analytics: {enabled: true}\nscripts: {enabled: false}\n"
    upstream.commit({"a.md": skill_text(), "config.yaml": config})

    remote = open_library(branch_of(upstream, tmp_path)).config
    local = open_library(upstream.work).config

    assert (remote.analytics.enabled, remote.scripts.enabled) == (False, True)
    assert (local.analytics.enabled, local.scripts.enabled) == (True, False)


def numbered(number: int) -> dict[str, str | None]:
    """Return content in which everything says the same number."""
    asset = [{"file": "assets/number.txt", "description": "N"}]
    return {
        "_root.md": skill_text(body=f"number={number}"),
        "ui/_index.md": skill_text(body=f"number={number}"),
        "ui/auth.md": skill_text(keywords=["auth"], body=f"number={number}", assets=asset),
        "ui/auth/assets/number.txt": str(number),
    }


@pytest.mark.spec("4.6")
@pytest.mark.spec("9.4")
def test_no_answer_mixes_two_commits_while_refreshes_run(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(numbered(0))
    source = branch_of(upstream, tmp_path)
    library = open_library(source)
    stop = threading.Event()
    wrong: list[object] = []
    seen: set[str] = set()

    def ask() -> None:
        while not stop.is_set():
            match = library.view().route("auth")
            assert isinstance(match, Match)
            numbers = {line for line in match.content.splitlines() if "number=" in line}
            seen.update(numbers)
            if len(numbers) != 1:
                wrong.append(numbers)

    def read() -> None:
        while not stop.is_set():
            try:
                library.view().read_asset("ui/auth", "assets/number.txt")
            except MissingFileError as error:
                wrong.append(error)

    threads = [threading.Thread(target=job) for job in (ask, read)]
    for thread in threads:
        thread.start()
    for number in range(1, 6):
        upstream.commit(numbered(number))
        library.sync()
    stop.set()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert len(seen) > 1


@pytest.mark.spec("8.1")
def test_a_picked_skill_keeps_its_score_however_low(tmp_path: Path) -> None:
    write_skill(tmp_path, "low.md", keywords=["auth", "jwt"], priority=-1000)

    match = open_library(tmp_path).view().route("auth", "low")

    assert isinstance(match, Match)
    assert match.matched_keywords == ("auth",)
    assert match.score == -0.5


@pytest.mark.spec("9.1")
def test_what_git_leaves_out_is_a_problem_also_for_the_next_process(
    upstream: Upstream, tmp_path: Path
) -> None:
    (upstream.work / "skills").mkdir()
    (upstream.work / "skills" / "link.md").symlink_to("good.md")
    (upstream.work / "elsewhere.md").symlink_to("README.md")
    upstream.commit({"skills/good.md": skill_text(), "skills/aux.md": skill_text()})
    remote = Remote(upstream.url, "main")
    sync(RemoteBranch(remote, tmp_path / "cache"))

    source = RemoteBranch(remote, tmp_path / "cache")
    library = open_library(source, load=False)
    shutil.rmtree(upstream.bare)
    error = library.sync_or_load_stored()

    assert error is not None
    assert [skill.path for skill in library.view().snapshot.index] == ["good"]
    assert [(p.file, p.reason) for p in library.view().snapshot.problems] == [
        ("aux.md", "has a name that is not safe on every system"),
        ("link.md", "is a link, so it is not served"),
    ]


def test_a_candidate_that_is_picked_keeps_the_score_that_the_answer_gave_it(
    tmp_path: Path,
) -> None:
    for name in ("forms", "tables", "other"):
        head = f"name: x-{name}\ndescription: Signed {name} in a PDF document"
        write(tmp_path / name / "SKILL.md", f"---\n{head}\n---\nBody\n")
    library = open_library(tmp_path, settings={"matching": {"min_score": 0.01}})
    task = "a signed PDF document with laravel"

    answer = library.view().route(task)

    assert isinstance(answer, Ambiguous)
    for candidate in answer.candidates:
        picked = library.view().route(task, candidate.skill.path)
        assert isinstance(picked, Match)
        assert picked.score == candidate.score


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless_threads")
def test_skills_are_served_on_several_threads_at_once(content: Path) -> None:
    library = open_library(content)

    def serve(thread: int) -> None:
        for number in range(10_000):
            library.remember_served(SkillPath(f"{thread}/{number % 50}"))

    with ThreadPoolExecutor(8) as pool:
        served = [pool.submit(serve, thread) for thread in range(8)]

    assert [call.exception() for call in served] == [None] * 8
    assert len(library.served_paths) == MAX_SERVED_PATHS
