"""A loss of many skills is reported wherever an operator looks."""

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from skills_mcp.bootstrap import Options, build, read_heartbeat
from skills_mcp.errors import SkillsRemovedError
from skills_mcp.events.privacy import Privacy
from skills_mcp.library import SkillLibrary, render_state
from skills_mcp.server.replies import Reply, refresh_result
from skills_mcp.skills.access import Access
from tests.support import Upstream, open_library, skill_text, write

TEN = {f"skills/ui/{name}.md": skill_text() for name in "abcdefghij"}


def without(*names: str) -> dict[str, str | None]:
    return {f"skills/ui/{name}.md": None for name in names}


def serve(upstream: Upstream, home: Path, sync: Mapping[str, Any] | None = None) -> SkillLibrary:
    write(home / "config.yaml", json.dumps({"sync": sync or {}, "trust_content_config": True}))
    environment = {"SKILLS_MCP_HOME": str(home)}
    return build(Options(repo=upstream.url), environment).library


@pytest.fixture
def library(upstream: Upstream, tmp_path: Path) -> SkillLibrary:
    """A library that has synced ten skills."""
    upstream.commit(TEN)
    library = serve(upstream, tmp_path / "home")
    library.sync()
    return library


def find_loss(library: SkillLibrary) -> dict[str, Any] | None:
    [state] = library.view().states()
    loss: dict[str, Any] | None = render_state(state).get("loss")
    return loss


def test_a_commit_that_removes_many_skills_is_a_loss_of_its_source(
    library: SkillLibrary, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.commit(without(*"abc"))

    with caplog.at_level(logging.WARNING):
        library.sync()

    loss = find_loss(library)
    assert loss is not None
    assert (loss["removed"], loss["served"]) == (3, 10)
    assert loss["skills"] == ["ui/a", "ui/b", "ui/c"]
    assert "3 of 10 skills are gone: ui/a, ui/b, ui/c" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        without("a", "b"),
        {**without(*"abc"), **{f"skills/web/{name}.md": skill_text() for name in "abc"}},
        {f"skills/ui/{name}.md": skill_text() for name in "klmno"},
    ],
    ids=["two of ten", "moved with their names", "added"],
)
def test_what_takes_little_away_is_no_loss(
    library: SkillLibrary, upstream: Upstream, change: Mapping[str, str | None]
) -> None:
    upstream.commit(change)

    library.sync()

    assert find_loss(library) is None


def test_a_tenth_of_many_is_no_loss(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({f"skills/s{number}.md": skill_text() for number in range(30)})
    library = serve(upstream, tmp_path / "home")
    library.sync()
    upstream.commit({f"skills/s{number}.md": None for number in range(3)})

    library.sync()

    assert find_loss(library) is None


def test_a_loss_stays_on_record_until_the_skills_are_back(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(without(*"abc"))
    library.sync()
    upstream.commit({"skills/ui/d.md": skill_text(body="New")})
    later = serve(upstream, tmp_path / "home")
    later.sync()
    assert find_loss(later) is not None
    upstream.commit({f"skills/ui/{name}.md": skill_text() for name in "abc"})

    later.sync()

    assert find_loss(later) is None


def test_a_rollback_takes_the_loss_back(library: SkillLibrary, upstream: Upstream) -> None:
    upstream.commit(without(*"abc"))
    library.sync()

    library.roll_back("")
    library.load_stored()

    assert find_loss(library) is None


def test_settings_of_the_content_that_hide_skills_are_a_loss(
    library: SkillLibrary, upstream: Upstream
) -> None:
    upstream.commit({"skills/config.yaml": "visibility:\n  deny: ['ui/*']\n"})

    library.sync()

    loss = find_loss(library)
    assert loss is not None
    assert loss["removed"] == 10


def test_files_that_vanish_from_a_folder_are_a_loss(tmp_path: Path) -> None:
    for file, text in TEN.items():
        write(tmp_path / file, text)
    library = open_library(tmp_path / "skills")
    shutil.rmtree(tmp_path / "skills" / "ui")
    write(tmp_path / "skills" / "last.md", skill_text())

    library.sync()

    loss = find_loss(library)
    assert loss is not None
    assert (loss["removed"], loss["served"]) == (10, 10)


def test_the_reply_of_a_refresh_asks_to_tell_the_user(tmp_path: Path) -> None:
    for file, text in TEN.items():
        write(tmp_path / file, text)
    library = open_library(tmp_path / "skills")
    shutil.rmtree(tmp_path / "skills" / "ui")

    async def refresh() -> Reply:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(library.refresher.run)
            refreshed = await library.refresh()
            tasks.cancel_scope.cancel()
        return refresh_result(refreshed)

    reply = anyio.run(refresh)

    assert "10 of 10 skills are gone" in reply.data["warning"]
    assert reply.data["sources"][0]["loss"]["removed"] == 10


def test_a_restricted_caller_learns_of_no_loss_of_others(
    library: SkillLibrary, upstream: Upstream
) -> None:
    upstream.commit(without(*"abc"))
    library.sync()
    restricted = Access(((("ui/j",), ()),))

    [state] = library.view(restricted).states()

    assert "loss" not in render_state(state)


def test_a_restricted_caller_learns_of_no_skills_whose_removal_waits(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(TEN)
    serve(upstream, tmp_path / "home").sync()
    upstream.commit(without(*"abc"))
    library = serve(upstream, tmp_path / "home", {"max_removed": 0})
    library.sync_or_load_stored()

    [state] = library.view(Access(((("ui/j",), ()),))).states()

    assert isinstance(state.error, SkillsRemovedError)
    assert "ui/a" not in str(state.error)


def test_a_heartbeat_counts_the_lost_skills(
    library: SkillLibrary, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(without(*"abc"))
    library.sync()

    beat = read_heartbeat(library, Privacy(tmp_path / "key", {}), "stdio")

    assert beat is not None
    assert [source.lost_skills for source in beat.sources] == [3]


@pytest.mark.parametrize("limit", [0, 0.2, 2], ids=["none", "a share", "a number"])
def test_a_commit_that_removes_more_than_max_removed_waits(
    limit: float, upstream: Upstream, tmp_path: Path
) -> None:
    served = upstream.commit(TEN)
    serve(upstream, tmp_path / "home").sync()
    waiting = upstream.commit(without(*"abc"))
    library = serve(upstream, tmp_path / "home", {"max_removed": limit})

    with pytest.raises(SkillsRemovedError, match="--allow-removal"):
        library.sync()

    [state] = library.stored_states()
    assert (state.commit, state.refused_commit) == (served, waiting)


@pytest.mark.parametrize("limit", [0.3, 3], ids=["a share", "a number"])
def test_a_commit_that_removes_no_more_than_max_removed_is_served(
    limit: float, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(TEN)
    library = serve(upstream, tmp_path / "home", {"max_removed": limit})
    library.sync()
    served = upstream.commit(without(*"abc"))

    library.sync()

    assert library.stored_states()[0].commit == served


def test_a_waiting_commit_is_let_through_once(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit(TEN)
    library = serve(upstream, tmp_path / "home", {"max_removed": 0})
    library.sync()
    waiting = upstream.commit(without(*"abc"))
    library.sync_or_load_stored()

    library.sync(allows_removal=True)

    assert library.view().states()[0].commit == waiting
    later = upstream.commit({"skills/ui/d.md": skill_text(body="New")})
    library.sync()
    assert library.view().states()[0].commit == later
    upstream.commit(without(*"def"))
    with pytest.raises(SkillsRemovedError):
        library.sync()


def test_a_rollback_may_remove_any_number(upstream: Upstream, tmp_path: Path) -> None:
    few = upstream.commit({"skills/only.md": skill_text()})
    library = serve(upstream, tmp_path / "home", {"max_removed": 0})
    library.sync()
    upstream.commit(TEN)
    library.sync()

    library.roll_back("", few)

    assert library.stored_states()[0].commit == few


def test_the_loss_of_one_source_is_not_that_of_another(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit(TEN)
    write(tmp_path / "more" / "teams.md", skill_text())
    sources = [{"repo": upstream.url}, {"folder": str(tmp_path / "more"), "mount": "teams"}]
    write(tmp_path / "both" / "config.yaml", json.dumps({"sources": sources}))
    both = build(Options(), {"SKILLS_MCP_HOME": str(tmp_path / "both")}).library
    both.sync()
    upstream.commit(without(*"abc"))

    both.sync()

    losses = [state.loss for state in both.view().states()]
    assert [loss and (loss.removed, loss.served) for loss in losses] == [(3, 10), None]


@pytest.mark.parametrize(
    "change, lost",
    [
        ({"visibility": {"deny": ["ui/[a-d]"]}}, (4, 10)),
        ({"visibility": {"deny": ["ui/[a-b]"]}}, None),
        ({"matching": {"max_results": 2}}, None),
    ],
    ids=["most are hidden", "few are hidden", "another setting"],
)
def test_settings_that_hide_many_skills_are_a_loss_at_the_first_start_with_them(
    upstream: Upstream,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Mapping[str, Any],
    lost: tuple[int, int] | None,
) -> None:
    upstream.commit(TEN)
    serve(upstream, tmp_path / "home").sync()
    write(tmp_path / "home/config.yaml", json.dumps(change))
    options, environment = Options(repo=upstream.url), {"SKILLS_MCP_HOME": str(tmp_path / "home")}

    first, second = (build(options, environment).library for _ in range(2))
    first.sync()
    found = find_loss(first)
    first.sync()
    second.sync()

    assert (found and (found["removed"], found["served"])) == lost
    assert find_loss(first) == found
    assert find_loss(second) is None
    assert ("since the last start" in caplog.text) is (lost is not None)
