import json
import platform
from pathlib import Path
from typing import Any

import pytest

from skills_mcp import __version__
from tests.clients import HangingRemote, ServerProcess
from tests.e2e.conftest import ALONE, OF_2026, WINDOWS, Start, start_as
from tests.support import (
    SKILLS_CONTENT,
    Upstream,
    count_thread_heaps,
    skill_text,
    write,
    write_skill,
)
from tests.windows import find_servers


@pytest.fixture(params=WINDOWS)
def start(start: Start, request: pytest.FixtureRequest) -> Start:
    return start_as(request.param, start)


@pytest.mark.core
@pytest.mark.spec("3.2")
def test_a_client_of_2026_is_served(server: ServerProcess) -> None:
    discovered = server.request("server/discover")["result"]
    reply = server.call("get_skill", context="react login")

    assert "2026-07-28" in discovered["supportedVersions"]
    assert discovered["instructions"].startswith("Call get_skill")
    assert reply["skill_path"] == "ui/react/auth"


@OF_2026
@pytest.mark.spec("3.2")
def test_a_client_of_june_2025_is_served(start: Start) -> None:
    server = start()

    answer = server.shake_hands()
    tools = server.request("tools/list")["result"]["tools"]
    call = {"name": "get_skill", "arguments": {"context": "react login"}}
    result = server.request("tools/call", **call)["result"]

    assert answer["protocolVersion"] == "2025-06-18"
    assert answer["serverInfo"]["version"] == __version__
    assert answer["instructions"].startswith("Call get_skill")
    assert tools[0]["name"] == "get_skill"
    assert json.loads(result["content"][0]["text"])["skill_path"] == "ui/react/auth"
    assert "structuredContent" not in result


@pytest.mark.parametrize("arguments", ['["x"]', '"x"', "7"])
def test_arguments_that_are_no_object_are_explained_on_the_wire_too(
    server: ServerProcess, arguments: str
) -> None:
    answer = server.request("tools/call", name="get_skill", arguments=json.loads(arguments))

    assert answer["result"]["isError"] is True
    text = answer["result"]["content"][0]["text"]
    assert json.loads(text)["error"]["code"] == "INVALID_ARGUMENTS"


def test_a_call_with_half_an_emoji_is_answered_too(server: ServerProcess) -> None:
    reply = server.call("get_skill", context="add login to the React app \ud83d")

    assert reply["skill_path"] == "ui/react/auth"


def test_an_unknown_tool_is_a_json_rpc_error(server: ServerProcess) -> None:
    answer = server.request("tools/call", name="nope", arguments={})

    assert answer["error"]["code"] == -32602
    assert "get_skill" in answer["error"]["message"]


@pytest.mark.spec("1")
def test_only_json_rpc_ever_reaches_standard_output(start: Start, tmp_path: Path) -> None:
    content = tmp_path / "content"
    declared = [{"file": "scripts/noisy.sh", "execution": "server"}]
    write_skill(content, "noisy.md", keywords=["noisy"], scripts=declared)
    write(content / "noisy/scripts/noisy.sh", "seq 1000\nseq 1000 >&2\nexit 1\n")
    write(content / "broken.md", "no frontmatter")
    server = start("--log-level", "debug", SKILLS_DIR=str(content))

    server.request("server/discover")
    server.write("this is no JSON")
    server.write('{"jsonrpc": "2.0", "id": "x", "method": "nobody/knows"}')
    noisy = {"skill_path": "noisy", "file": "scripts/noisy.sh"}
    reply = server.call("run_script", **noisy, args={})
    server.call("report_usage", skill_path="noisy", useful=False, comment="a\nb")
    server.close_input()
    server.wait()
    server.wait_for_end_of_output()

    assert reply["stdout"].startswith("1\n2\n")
    messages: list[dict[str, Any]] = [json.loads(line) for line in server.lines]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    assert "broken.md: has no frontmatter" in server.log


def test_feedback_is_a_line_of_the_log_without_words_of_an_agent(start: Start) -> None:
    server = start()

    comment = "first line\nINFO second line\r\nthird"
    server.call("get_skill", context="add login to the React app")
    for path in ("ui/react/auth", comment):
        server.call("report_usage", skill_path=path, useful=True, comment=comment)
    server.close_input()
    server.wait()

    lines = [line for line in server.log.splitlines() if "Feedback" in line]
    assert [line.partition("INFO ")[2] for line in lines] == [
        "library: Feedback for ui/react/auth: useful",
        "library: Feedback for an unknown skill: useful",
    ]
    assert "second line" not in server.log


@pytest.mark.parametrize("level, is_said", [("debug", True), ("info", True), ("warning", False)])
def test_the_environment_sets_how_much_is_logged(
    start: Start,
    level: str,
    is_said: bool,  # noqa: FBT001 - a column of the table
) -> None:
    server = start(SKILLS_DIR=str(SKILLS_CONTENT), SKILLS_MCP_LOG_LEVEL=level)

    server.call("report_usage", skill_path="a", useful=True)
    server.close_input()
    server.wait()

    assert ("Feedback for an unknown skill" in server.log) is is_said


@OF_2026
@pytest.mark.spec("3.1")
def test_the_first_answer_comes_while_the_remote_hangs(
    start: Start, hanging_remote: HangingRemote
) -> None:
    server = start(SKILLS_REPO=hanging_remote.url)

    discovered = server.request("server/discover")
    hanging_remote.wait_for_request()
    tools = server.request("tools/list")

    assert "result" in discovered
    assert len(tools["result"]["tools"]) == 6


def test_a_call_waits_while_the_remote_hangs_and_reports_progress(
    start: Start, hanging_remote: HangingRemote
) -> None:
    server = start(SKILLS_REPO=hanging_remote.url)
    call = {"name": "get_skill", "arguments": {"context": "react"}}

    number = server.send("tools/call", **call, _meta={**server.meta, "progressToken": "a"})
    hanging_remote.wait_for_request()
    first = server.receive()
    hanging_remote.close()
    answer = server.receive()
    while answer.get("id") != number:
        answer = server.receive()

    assert first["method"] == "notifications/progress"
    assert "Waiting for the first sync" in first["params"]["message"]
    error = json.loads(answer["result"]["content"][0]["text"])["error"]
    assert error["code"] == "CONTENT_UNAVAILABLE"


@ALONE  # another window starts to read it
@pytest.mark.spec("3.1")
def test_the_first_answer_comes_while_the_content_is_being_read(
    start: Start, tmp_path: Path
) -> None:
    content = tmp_path / "content"
    for number in range(3000):
        write_skill(content, f"area-{number % 50}/skill-{number}.md")
    server = start(SKILLS_DIR=str(content))

    server.request("server/discover")
    log_at_first_answer = server.log
    reply = server.call("list_skills", path="area-7")

    assert "Serving" not in log_at_first_answer
    assert len(reply["tree"]["children"]) == 60


@pytest.mark.spec("9.2")
def test_a_token_is_nowhere_to_be_seen(
    start: Start, hanging_remote: HangingRemote, tmp_path: Path
) -> None:
    url = hanging_remote.url.replace("://", f"://x-access-token:{_CANARY}@")
    server = start("--log-level", "debug", SKILLS_REPO=url, GITHUB_TOKEN=_CANARY)

    server.request("server/discover")
    hanging_remote.wait_for_request()
    hanging_remote.close()
    replies = [server.call("get_skill", context="x"), server.call("refresh_skills")]
    server.close_input()
    server.wait()
    server.wait_for_end_of_output()

    assert [reply["error"]["code"] for reply in replies]
    assert _CANARY not in server.log
    assert _CANARY not in "".join(server.lines)
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert kept
    assert all(_CANARY.encode() not in path.read_bytes() for path in kept)


def test_a_script_cannot_read_the_token(start: Start, tmp_path: Path) -> None:
    content = tmp_path / "content"
    declared = [{"file": "scripts/env.sh", "execution": "server"}]
    write_skill(content, "spy.md", scripts=declared)
    write(content / "spy/scripts/env.sh", "env")
    server = start(SKILLS_DIR=str(content), GITHUB_TOKEN=_CANARY)

    spy = {"skill_path": "spy", "file": "scripts/env.sh"}
    reply = server.call("run_script", **spy, args={})

    assert "PATH=" in reply["stdout"]
    assert _CANARY not in reply["stdout"]


@pytest.mark.spec("8.6")
def test_a_merged_change_is_served_after_a_refresh(start: Start, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    server = start(SKILLS_REPO=upstream.url)

    before = server.call("get_skill", context="one")
    commit = upstream.commit({"skills/two.md": skill_text(keywords=["two"])})
    refreshed = server.call("refresh_skills")
    after = server.call("get_skill", context="two")

    assert before["skill_path"] == "one"
    assert (refreshed["commit_hash"], refreshed["files_changed"]) == (commit, 1)
    assert after["skill_path"] == "two"


_CANARY = "ghp_canary0123456789"


@OF_2026
def test_a_server_without_settings_stays_and_each_tool_says_what_to_set(
    start: Start,
) -> None:
    server = start(SKILLS_DIR="")

    told = server.request("server/discover")["result"]["instructions"]
    tools = server.request("tools/list")["result"]["tools"]
    replies = [
        server.request("tools/call", name=tool["name"], arguments={})["result"] for tool in tools
    ]

    assert "Set SKILLS_REPO" in told
    assert {"get_skill", "list_skills", "report_usage"} <= {t["name"] for t in tools}
    for reply in replies:
        error = json.loads(reply["content"][0]["text"])["error"]
        assert reply["isError"] is True
        assert error["code"] == "CONFIG_INVALID"
        assert "Set SKILLS_REPO" in error["message"]
        assert "Then restart" in error["message"]
    server.close_input()
    assert server.wait() == 3
    assert "No skills to serve." in server.log


@OF_2026
def test_a_client_of_june_2025_is_told_about_wrong_settings_too(
    start: Start, tmp_path: Path
) -> None:
    file = write(tmp_path / "mine.yaml", "sources: [{}]")
    server = start("--config", str(file))

    answer = server.shake_hands()
    call = {"name": "get_skill", "arguments": {"context": "react login"}}
    result = server.request("tools/call", **call)["result"]

    assert "sources[0] needs a folder" in answer["instructions"]
    assert result["isError"] is True
    assert "sources[0] needs a folder" in result["content"][0]["text"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other heaps")
def test_the_threads_of_a_server_share_one_heap(start: Start) -> None:
    window = start()
    window.call("get_skill", context="write a react component")
    [server] = find_servers()

    maps = Path(f"/proc/{server}/maps").read_text()

    assert count_thread_heaps(maps) == 0
