"""001 §13, row by row, as a client sees it."""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.library.skill_library import SkillLibrary
from tests.clients import Lifeline, SlowSource, ask, connected
from tests.support import (
    SKILLS_CONTENT,
    Upstream,
    open_library,
    skill_text,
    sync,
    write,
    write_skill,
)


@pytest.mark.spec("13")
async def test_if_the_network_is_down_at_startup_the_cache_is_served(
    tmp_path: Path, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    sync(_branch(upstream, tmp_path))
    _make_older(tmp_path)  # or the sync at the start would find it new enough
    upstream.bare.rename(tmp_path / "gone")
    library = open_library(_branch(upstream, tmp_path), load=False)

    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="one")
        refreshed = await ask(client, "refresh_skills")

    assert reply["skill_path"] == "one"
    assert refreshed["success"] is False
    warnings = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert any("Check its address" in message for message in warnings)


@pytest.mark.spec("13")
async def test_if_the_network_is_down_at_refresh_what_is_here_stays_until_it_is_back(
    tmp_path: Path, upstream: Upstream
) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    library = open_library(_branch(upstream, tmp_path), load=False)

    async with connected(library) as client:
        await ask(client, "get_skill", context="one")
        upstream.commit({"skills/two.md": skill_text(keywords=["two"])})
        upstream.bare.rename(tmp_path / "gone")
        failed = await ask(client, "refresh_skills")
        meanwhile = await ask(client, "get_skill", context="one")
        (tmp_path / "gone").rename(upstream.bare)
        recovered = await ask(client, "refresh_skills")
        after = await ask(client, "get_skill", context="two")

    assert failed["error"]["code"] == "REMOTE_NOT_FOUND"
    assert meanwhile["skill_path"] == "one"
    assert recovered["success"] is True
    assert after["skill_path"] == "two"


@pytest.mark.spec("13")
async def test_a_file_with_invalid_frontmatter_is_skipped_and_the_others_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "skills_mcp")
    write_skill(tmp_path, "good.md", keywords=["good"])
    write(tmp_path / "bad.md", "---\nkeywords: [good\n---\n")

    async with connected(open_library(tmp_path)) as client:
        tree = await ask(client, "list_skills")
        reply = await ask(client, "get_skill", context="good")

    assert [child["path"] for child in tree["tree"]["children"]] == ["good"]
    assert reply["skill_path"] == "good"
    assert any("bad.md" in message for message in caplog.messages)


@pytest.mark.spec("13")
async def test_if_no_skill_matches_the_answer_says_so_and_is_no_error() -> None:
    async with connected(open_library(SKILLS_CONTENT)) as client:
        reply = await ask(client, "get_skill", context="zebra crossing")

    assert reply == {
        "no_match": True,
        "message": "No skill matches the given context.",
    }


@pytest.mark.spec("13")
async def test_an_asset_that_is_declared_but_missing_leaves_its_skill_working(
    tmp_path: Path,
) -> None:
    assets = [{"file": "assets/here.txt"}, {"file": "assets/gone.txt"}]
    write_skill(tmp_path, "login.md", keywords=["login"], assets=assets)
    write(tmp_path / "login/assets/here.txt", "here")

    async with connected(open_library(tmp_path)) as client:
        missing = await ask(client, "get_asset", skill_path="login", file="assets/gone.txt")
        skill = await ask(client, "get_skill", context="login")
        other = await ask(client, "get_asset", skill_path="login", file="assets/here.txt")

    assert missing["error"]["code"] == "FILE_MISSING"
    assert [asset["file"] for asset in skill["assets"]] == [
        "assets/here.txt",
        "assets/gone.txt",
    ]
    assert other["content"] == "here"


@pytest.mark.spec("13")
async def test_an_asset_that_exceeds_the_size_limit_is_refused_with_both_sizes(
    tmp_path: Path,
) -> None:
    assets = [{"file": "at.txt"}, {"file": "over.txt"}]
    write_skill(tmp_path, "login.md", assets=assets)
    write(tmp_path / "login/at.txt", "x" * 1000)
    write(tmp_path / "login/over.txt", "x" * 1001)
    library = open_library(tmp_path, settings={"assets": {"max_size_bytes": 1000}})

    async with connected(library) as client:
        at_limit = await ask(client, "get_asset", skill_path="login", file="at.txt")
        over = await ask(client, "get_asset", skill_path="login", file="over.txt")

    assert at_limit["size_bytes"] == 1000
    assert over["error"]["code"] == "FILE_TOO_LARGE"
    assert "1,001 bytes; the limit is 1,000" in over["error"]["message"]


@pytest.mark.spec("13")
async def test_a_script_with_execution_claude_is_not_run_but_explained() -> None:
    file = "scripts/scaffold-auth.sh"

    async with connected(open_library(SKILLS_CONTENT)) as client:
        reply = await ask(
            client,
            "run_script",
            skill_path="ui/react/auth",
            file=file,
            args={"component_name": "Depot"},
        )

    assert reply["error"]["code"] == "SCRIPT_RUNS_IN_AGENT"
    guidance = f"get_asset(skill_path='ui/react/auth', file='{file}')"
    assert guidance in reply["error"]["message"]
    assert "bash" in reply["error"]["message"]


@pytest.mark.spec("13")
async def test_a_script_that_times_out_is_killed_and_its_partial_output_returned(
    tmp_path: Path,
) -> None:
    lifeline = Lifeline(tmp_path / "lifeline")
    library = _library_with_script(
        tmp_path,
        "echo half done\n" + lifeline.script(),
        # A sandbox would hide the pipe by which we watch.
        settings={"scripts": {"timeout_seconds": 1, "sandbox": "off"}},
    )

    async with connected(library) as client:
        reply = await ask(client, "run_script", **_CALL, args={"id": "7", "name": "x"})

    assert (reply["success"], reply["exit_code"]) == (False, 137)
    assert reply["stdout"] == "half done\n"
    assert reply["stderr"].endswith("[skills-mcp] Script killed: timeout exceeded.")
    lifeline.wait_for_start()
    lifeline.wait_for_end()
    lifeline.close()


@pytest.mark.spec("13")
async def test_required_arguments_that_are_missing_are_all_named(tmp_path: Path) -> None:
    library = _library_with_script(tmp_path, "exit 0")

    async with connected(library) as client:
        reply = await ask(client, "run_script", **_CALL, args={})

    assert reply["error"]["code"] == "MISSING_ARGUMENTS"
    assert "id (The number)" in reply["error"]["message"]
    assert "name" in reply["error"]["message"]
    assert "colour" not in reply["error"]["message"]


OUTSIDE = ["../secret.txt", "/etc/passwd", "assets/../../secret.txt", "..", "a/./b", "a\\b"]


@pytest.mark.parametrize("tool", ["get_asset", "run_script", "read_skill_file"])
@pytest.mark.spec("13")
async def test_a_path_traversal_attempt_is_rejected_at_once(tmp_path: Path, tool: str) -> None:
    # It is declared, too: what content says does not make it safe.
    assets = [{"file": file} for file in OUTSIDE]
    scripts = [{"file": file, "execution": "server"} for file in OUTSIDE]
    write_skill(tmp_path / "content", "login.md", assets=assets, scripts=scripts)
    write(tmp_path / "content/login/here.txt")
    write(tmp_path / "content/secret.txt", "secret")
    calls: dict[str, dict[str, Any]] = {
        "get_asset": {"skill_path": "login"},
        "run_script": {"skill_path": "login", "args": {}},
        "read_skill_file": {"skill_name": "login"},
    }
    key = "file_path" if tool == "read_skill_file" else "file"
    both = {"toolsets": ["core", "packages"]}
    library = open_library(tmp_path / "content", settings=both)

    async with connected(library) as client:
        replies = {file: await ask(client, tool, **calls[tool], **{key: file}) for file in OUTSIDE}

    codes = {file: reply["error"]["code"] for file, reply in replies.items()}
    assert codes == dict.fromkeys(OUTSIDE, "INVALID_PATH")


@pytest.mark.spec("13")
async def test_if_scripts_are_globally_disabled_none_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    library = _library_with_script(
        tmp_path, f"touch {mark}", settings={"scripts": {"enabled": False}}
    )

    async with connected(library) as client:
        reply = await ask(client, "run_script", **_CALL, args={"id": "7", "name": "x"})

    assert reply["error"]["code"] == "SCRIPTS_DISABLED"
    assert not mark.exists()


@pytest.mark.spec("13")
async def test_an_empty_skills_directory_is_served_and_nothing_matches(tmp_path: Path) -> None:
    library = open_library(tmp_path, load=False)

    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="react")
        tree = await ask(client, "list_skills")

    assert reply["no_match"] is True
    assert tree["tree"]["children"] == []


@pytest.mark.spec("13")
async def test_concurrent_refresh_attempts_share_one_sync_and_its_result() -> None:
    # DESIGN §3.11: they join the one that is running instead of failing at once. It
    # is the second one: the server's own may have asked before what they are about.
    source = SlowSource(SKILLS_CONTENT)
    library = open_library(source, load=False)
    replies: list[dict[str, Any]] = []

    async with connected(library) as client:

        async def refresh() -> None:
            replies.append(await ask(client, "refresh_skills"))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(refresh)
            await anyio.to_thread.run_sync(source.wait_until_asked)
            await anyio.wait_all_tasks_blocked()
            source.arrived.set()

    assert len(replies) == 5
    assert all(reply["success"] for reply in replies)
    assert source.syncs == 2


_CALL = {"skill_path": "login", "file": "scripts/check.sh"}


def _make_older(folder: Path) -> None:
    [pointer] = (folder / "cache").glob("*/current.json")
    said = json.loads(pointer.read_text())
    pointer.write_text(json.dumps(said | {"fetched_at": said["fetched_at"] - 3600}))


def _branch(upstream: Upstream, folder: Path) -> RemoteBranch:
    return RemoteBranch(Remote(upstream.url, "main"), folder / "cache")


def _library_with_script(
    folder: Path, script: str, settings: dict[str, Any] | None = None
) -> SkillLibrary:
    arguments = [
        {"name": "id", "description": "The number"},
        {"name": "name"},
        {"name": "colour", "required": False},
    ]
    declared = {"file": "scripts/check.sh", "execution": "server", "args": arguments}
    write_skill(folder / "content", "login.md", scripts=[declared])
    write(folder / "content/login/scripts/check.sh", script)
    return open_library(folder / "content", settings=settings)
