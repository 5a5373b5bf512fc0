"""`stop`, and what `status` and `doctor` say of servers for all windows."""

import json
import os
import signal

import pytest
from click.testing import CliRunner, Result

from skills_mcp import __version__
from skills_mcp.cli import program
from tests.clients import ServerProcess
from tests.e2e.conftest import Start
from tests.support import SKILLS_CONTENT, is_running, wait_for
from tests.windows import find_servers, freeze

pytestmark = pytest.mark.usefixtures("own_runtime_folder")

_CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "claude-code", "version": "1"},
}


def invoke(*arguments: str) -> Result:
    """Run a command within this process."""
    return CliRunner(catch_exceptions=False).invoke(program, arguments, prog_name="skills-mcp")


def open_window(start: Start) -> ServerProcess:
    window = start()
    window.request("initialize", **_CLIENT)
    return window


def test_stop_ends_every_server(start: Start) -> None:
    open_window(start)
    start(SKILLS_DIR=str(SKILLS_CONTENT), USER="grace").request("server/discover")
    servers = find_servers()

    done = invoke("stop")

    assert len(servers) == 2
    assert done.exit_code == 0
    assert done.stdout.count("Ended ") == 2
    assert not any(map(is_running, servers))


def test_a_window_that_is_open_goes_on_after_stop(start: Start) -> None:
    window = open_window(start)

    invoke("stop")
    was_started = bool(find_servers())
    answer = window.request("tools/list", _meta={})

    assert not was_started
    assert answer["result"]["tools"]


def test_stop_kills_a_server_that_does_not_answer(start: Start) -> None:
    open_window(start)
    [number] = find_servers()
    freeze(number)

    done = invoke("stop", "--json")

    [stopped] = json.loads(done.stdout)["stopped"]
    assert (stopped["pid"], stopped["version"]) == (number, "")
    wait_for(lambda: not is_running(number))


def test_without_a_server_there_is_nothing_to_stop() -> None:
    done = invoke("stop")

    assert (done.exit_code, done.stdout) == (0, "No server was running.\n")


def test_status_lists_the_servers_with_their_windows(start: Start) -> None:
    first, second = open_window(start), start()
    second.request("server/discover")
    call = {"name": "get_skill", "arguments": {"context": "login"}, "_meta": {}}
    first.request("tools/call", **call)
    [number] = find_servers()

    shown = invoke("status", "--skills-dir", str(SKILLS_CONTENT)).stdout
    told = json.loads(invoke("status", "--json", "--skills-dir", str(SKILLS_CONTENT)).stdout)

    [line] = [line for line in shown.splitlines() if line.startswith("Server")]
    assert f"{number}, version {__version__}, 2 windows (claude-code just now" in line
    assert " MB" in line
    [server] = told["servers"]
    assert [window["pid"] for window in server["windows"]] == [
        first.process.pid,
        second.process.pid,
    ]
    assert server["memory"]["private_bytes"] <= server["memory"]["resident_bytes"]


def test_status_starts_no_server() -> None:
    invoke("status", "--skills-dir", str(SKILLS_CONTENT))

    assert find_servers() == []


def test_doctor_names_a_server_that_does_not_answer(start: Start) -> None:
    open_window(start)
    [number] = find_servers()
    freeze(number)

    done = invoke("doctor", "--skills-dir", str(SKILLS_CONTENT), "--offline", "--json")
    os.kill(number, signal.SIGCONT)

    [check] = [each for each in json.loads(done.stdout)["checks"] if each["name"] == "server"]
    assert (check["ok"], check["fix"]) == (False, "skills-mcp stop")
    assert str(number) in check["message"]
