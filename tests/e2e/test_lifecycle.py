"""001 §3.3: whatever the reason, the process ends by itself and leaves nothing."""

import json
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.events.spool import LocalEvents
from tests.clients import HangingRemote, Lifeline, ServerProcess
from tests.e2e.conftest import ALONE, WINDOWS, Start, start_as
from tests.support import PATIENCE_SECONDS, SKILLS_CONTENT, wait_for, write, write_skill

End = Callable[[ServerProcess], None]


@pytest.fixture(params=(WINDOWS[0], WINDOWS[2]))
def start(start: Start, request: pytest.FixtureRequest) -> Start:
    return start_as(request.param, start)


def _terminate(server: ServerProcess) -> None:
    server.process.send_signal(signal.SIGTERM)


def _interrupt(server: ServerProcess) -> None:
    server.process.send_signal(signal.SIGINT)


def _hang_up(server: ServerProcess) -> None:
    server.process.send_signal(signal.SIGHUP)


ENDS = pytest.mark.parametrize(
    "end",
    [ServerProcess.close_input, _terminate, _interrupt, _hang_up],
    ids=["EOF", "SIGTERM", "SIGINT", "SIGHUP"],
)


@ENDS
@pytest.mark.spec("3.3")
def test_an_idle_server_ends_with_status_0(start: Start, end: End) -> None:
    server = start()
    server.request("server/discover")

    end(server)

    assert server.wait() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
def test_a_running_script_ends_with_a_server_that_is_killed(
    start: Start, tmp_path: Path, lifeline: Lifeline
) -> None:
    server = start(SKILLS_DIR=str(_content_with(lifeline, tmp_path)))
    server.send("tools/call", name="run_script", arguments=_CALL)
    lifeline.wait_for_start()

    server.process.kill()

    server.wait()
    lifeline.wait_for_end()


@ENDS
@pytest.mark.spec("3.3")
@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
def test_a_running_script_ends_with_the_server_and_is_audited(
    start: Start, tmp_path: Path, home: Path, lifeline: Lifeline, end: End
) -> None:
    server = start(SKILLS_DIR=str(_content_with(lifeline, tmp_path)))
    server.send("tools/call", name="run_script", arguments=_CALL)
    lifeline.wait_for_start()

    end(server)

    assert server.wait() == 0
    lifeline.wait_for_end()
    audit = home / ".skills-mcp/audit.jsonl"
    wait_for(audit.exists)
    [line] = audit.read_text().splitlines()
    assert json.loads(line)["outcome"] == "cancelled"


@ENDS
@ALONE  # the other window needs the fetch
@pytest.mark.spec("3.3")
def test_a_running_fetch_ends_with_the_server(
    start: Start, hanging_remote: HangingRemote, end: End
) -> None:
    server = start(SKILLS_REPO=hanging_remote.url)
    server.request("server/discover")
    hanging_remote.wait_for_request()

    end(server)

    assert server.wait() == 0
    hanging_remote.wait_for_hang_up()


@pytest.mark.parametrize("end", [ServerProcess.close_input, _terminate])
@pytest.mark.spec("3.3")
def test_a_call_that_waits_for_the_first_sync_does_not_delay_the_end(
    start: Start, hanging_remote: HangingRemote, end: End
) -> None:
    server = start(SKILLS_REPO=hanging_remote.url)
    server.send("tools/call", name="get_skill", arguments={"context": "x"})
    server.request("tools/list")  # the fetch may begin before the window catches signals
    hanging_remote.wait_for_request()

    end(server)

    assert server.wait() == 0


@ENDS
@pytest.mark.spec("10.4")
def test_events_are_on_disk_when_the_server_ends(start: Start, home: Path, end: End) -> None:
    write(home / ".skills-mcp/config.yaml", "analytics: {enabled: true}")
    server = start()
    server.call("report_usage", skill_path="ui/react/auth", useful=True)

    end(server)

    assert server.wait() == 0
    events = list(LocalEvents(home / ".skills-mcp").events())
    assert [event["type"] for event in events] == ["skill_feedback"]


@pytest.mark.spec("10.4")
def test_events_are_on_disk_when_the_server_is_killed(start: Start, home: Path) -> None:
    write(home / ".skills-mcp/config.yaml", "analytics: {enabled: true}")
    server = start()
    server.call("get_skill", context="react login")

    server.process.kill()

    server.wait()
    events = list(LocalEvents(home / ".skills-mcp").events())
    assert [event["type"] for event in events] == ["skill_served"]


@pytest.mark.spec("10.3")
def test_an_endpoint_that_hangs_does_not_delay_the_end(
    start: Start, home: Path, hanging_remote: HangingRemote
) -> None:
    server = start(SKILLS_DIR=str(SKILLS_CONTENT), ANALYTICS_ENDPOINT=hanging_remote.url)
    server.call("get_skill", context="react login")

    server.close_input()

    assert server.wait() == 0
    events = list(LocalEvents(home / ".skills-mcp").events())
    assert [event["type"] for event in events] == ["skill_served"]


@pytest.mark.spec("3.3")
def test_the_server_ends_when_its_parent_dies_although_its_input_stays_open(
    start: Start, tmp_path: Path, lifeline: Lifeline
) -> None:
    # A parent that hands its own standard streams down; we hold their other ends.
    starter = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    content = _content_with(lifeline, tmp_path)
    server = start(prefix=(sys.executable, "-c", starter), SKILLS_DIR=str(content))
    server.send("tools/call", name="run_script", arguments=_CALL)
    lifeline.wait_for_start()

    server.process.kill()

    server.wait_for_end_of_output()
    lifeline.wait_for_end()


@ALONE
@pytest.mark.spec("3.3")
def test_the_server_ends_when_nobody_reads_its_answers(start: Start, tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    os.mkfifo(answers)
    reading = os.open(answers, os.O_RDONLY | os.O_NONBLOCK)
    server = start(prefix=("sh", "-c", 'exec "$@" > "$0"', str(answers)))
    server.send("server/discover")
    select.select([reading], [], [], PATIENCE_SECONDS)
    os.close(reading)

    server.send("server/discover")

    assert server.wait() == 0


@ALONE
@pytest.mark.spec("3.3")
def test_the_server_ends_when_its_answers_have_filled_the_pipe(
    start: Start, tmp_path: Path, lifeline: Lifeline
) -> None:
    answers = tmp_path / "answers"
    os.mkfifo(answers)
    reading = os.open(answers, os.O_RDONLY | os.O_NONBLOCK)
    server = start(
        prefix=("sh", "-c", 'exec "$@" > "$0"', str(answers)),
        SKILLS_DIR=str(_content_with(lifeline, tmp_path)),
    )
    server.send("tools/call", name="run_script", arguments=_CALL)
    lifeline.wait_for_start()
    for _ in range(100):  # far more than a pipe holds
        server.send("tools/list")

    server.close_input()

    assert server.wait() == 0
    lifeline.wait_for_end()
    os.close(reading)


def test_a_second_signal_changes_nothing(start: Start, hanging_remote: HangingRemote) -> None:
    server = start(SKILLS_DIR=str(SKILLS_CONTENT), ANALYTICS_ENDPOINT=hanging_remote.url)
    server.call("get_skill", context="react login")

    def end_again() -> bool:
        _terminate(server)
        _interrupt(server)
        return server.process.poll() is not None

    wait_for(end_again)

    assert server.wait() == 0


@pytest.mark.spec("8.4")
def test_a_cancelled_call_kills_its_script_and_gets_no_answer(
    start: Start, tmp_path: Path, lifeline: Lifeline
) -> None:
    server = start(SKILLS_DIR=str(_content_with(lifeline, tmp_path)))
    number = server.send("tools/call", name="run_script", arguments=_CALL)
    lifeline.wait_for_start()

    server.notify("notifications/cancelled", requestId=number)

    lifeline.wait_for_end()
    assert server.call("get_skill", context="login")["skill_path"] == "login"
    assert f'"id":{number},' not in "".join(server.lines)


_CALL: dict[str, Any] = {"skill_path": "login", "file": "scripts/long.sh", "args": {}}


def _content_with(lifeline: Lifeline, folder: Path) -> Path:
    """Write a script that never ends; no sandbox keeps it from its lifeline."""
    write(folder / "home/.skills-mcp/config.yaml", "scripts: {sandbox: off}")
    content = folder / "content"
    declared = {"file": "scripts/long.sh", "execution": "server"}
    write_skill(content, "login.md", keywords=["login"], scripts=[declared])
    write(content / "login/scripts/long.sh", lifeline.script())
    return content
