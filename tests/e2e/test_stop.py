"""`stop`, and what `status` and `doctor` say of servers for all windows."""

import json
import os
import signal
from pathlib import Path

from click.testing import CliRunner, Result

from skills_mcp import __version__
from skills_mcp.cli import program
from skills_mcp.server.windows.running_servers import stop_servers
from tests.clients import MODERN, ServerProcess
from tests.e2e.conftest import Start
from tests.support import SKILLS_CONTENT, is_running, running_python, wait_for
from tests.windows import find_servers, freeze


def invoke(*arguments: str) -> Result:
    """Run a command within this process."""
    return CliRunner(catch_exceptions=False).invoke(program, arguments, prog_name="skills-mcp")


def open_window(start: Start) -> ServerProcess:
    window = start()
    window.shake_hands()
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
    answer = window.request("tools/list")

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


def test_a_server_that_nobody_waits_for_has_ended_when_it_is_killed(
    runtime_folder: Path,
) -> None:
    """Some containers have no process that does."""
    code = (
        "import socket, sys, time\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind(sys.argv[1])\n"
        "listener.listen()\n"
        "print('.', flush=True)\n"
        "time.sleep(600)\n"
    )
    with running_python(code, runtime_folder / "key.sock") as server:
        assert server.stdout
        server.stdout.readline()

        stopped = stop_servers(os.environ)

        assert [each.pid for each in stopped] == [server.pid]
        assert server.returncode is None  # as it was not waited for


def test_without_a_server_there_is_nothing_to_stop() -> None:
    done = invoke("stop")

    assert (done.exit_code, done.stdout) == (0, "No server was running.\n")


def test_status_lists_the_servers_with_their_windows(start: Start) -> None:
    first, second = open_window(start), start()
    second.meta = {**MODERN, "io.modelcontextprotocol/clientInfo": {"name": "n", "version": "1"}}
    second.request("server/discover")
    first.call("get_skill", context="login")
    [number] = find_servers()

    shown = invoke("status", "--skills-dir", str(SKILLS_CONTENT)).stdout
    told = json.loads(invoke("status", "--json", "--skills-dir", str(SKILLS_CONTENT)).stdout)

    [line] = [line for line in shown.splitlines() if line.startswith("Server")]
    assert f"{number}, version {__version__}, 2 windows (elder just now, n just now)" in line
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
