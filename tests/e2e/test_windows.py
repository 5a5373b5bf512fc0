"""Windows that share a server: what each of them notices when something ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

import skills_mcp
from skills_mcp.cli import program
from skills_mcp.server.windows.rendezvous import ACCEPTED, compose_greeting, find_rendezvous
from skills_mcp.skills.source_layout import EXPORT_LOCK
from tests.clients import LEGACY, MODERN, Lifeline, ServerProcess
from tests.content.git_server import serving
from tests.e2e.conftest import Start
from tests.e2e.test_lifecycle import _CALL, _content_with
from tests.support import (
    PATIENCE_SECONDS,
    SKILLS_CONTENT,
    Upstream,
    is_running,
    running_python,
    skill_text,
    wait_for,
    write,
    write_skill,
)
from tests.windows import find_process, find_servers, find_sockets, freeze

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

LOGIN = {"context": "add login to the React app"}


def start_in(folder: Path, start: Start, *arguments: str, **environment: str) -> ServerProcess:
    """Start a window as a host does that works in a folder."""
    with chdir(folder):
        return start(*arguments, **environment)


def kill_server() -> int:
    """Kill the only server, and return which process it was."""
    [number] = find_servers()
    os.kill(number, signal.SIGKILL)
    wait_for(lambda: not is_running(number))
    return number


def test_two_windows_with_the_same_settings_have_one_server(start: Start) -> None:
    first, second = start(), start()

    replies = [window.call("get_skill", **LOGIN) for window in (first, second)]

    assert len(find_servers()) == 1
    assert [reply["skill_path"] for reply in replies] == ["ui/react/auth"] * 2


def test_windows_that_start_at_once_start_one_server(start: Start) -> None:
    windows = [start() for _ in range(6)]

    for window in windows:
        assert "result" in window.request("server/discover")

    assert len(find_servers()) == 1


@pytest.mark.usefixtures("started_anew")
def test_the_process_of_a_window_imports_nothing_of_the_server(start: Start) -> None:
    window = start()
    window.call("get_skill", **LOGIN)

    maps = Path(f"/proc/{window.process.pid}/maps").read_text()

    assert "pydantic" not in maps
    assert "numpy" not in maps


@pytest.mark.parametrize(
    "other",
    [
        {"SKILLS_BRANCH": "other"},
        {"GITHUB_TOKEN": "another-token"},
        {"LOG_LEVEL": "DEBUG"},
        {"USER": "grace"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_windows_that_differ_in_a_variable_have_servers_of_their_own(
    start: Start, other: dict[str, str]
) -> None:
    first = start()
    second = start(SKILLS_DIR=str(SKILLS_CONTENT), **other)

    for window in (first, second):
        window.request("server/discover")

    assert len(find_servers()) == 2


def test_windows_before_and_after_a_change_of_the_settings_have_two_servers(
    start: Start, home: Path
) -> None:
    first = start()
    first.request("server/discover")
    write(home / ".skills-mcp/config.yaml", "toolsets: [core, packages]")
    second = start()

    tools = [window.request("tools/list")["result"]["tools"] for window in (first, second)]

    assert len(tools[0]) < len(tools[1])


@pytest.mark.parametrize(
    "off",
    ["share: false", "share: {enabled: off}", "share:\n  enabled: false"],
    ids=["short", "flow", "long"],
)
def test_a_window_serves_by_itself_if_the_settings_say_so(
    start: Start, home: Path, off: str
) -> None:
    write(home / ".skills-mcp/config.yaml", off)
    window = start()

    reply = window.call("get_skill", **LOGIN)

    assert reply["skill_path"] == "ui/react/auth"
    assert find_servers() == []


def test_a_window_serves_by_itself_if_the_environment_says_so(start: Start) -> None:
    window = start(SKILLS_DIR=str(SKILLS_CONTENT), SKILLS_MCP_SHARE="0")

    reply = window.call("get_skill", **LOGIN)

    assert reply["skill_path"] == "ui/react/auth"
    assert find_sockets() == []


def test_a_window_serves_by_itself_in_a_folder_that_others_can_enter(
    start: Start, runtime_folder: Path
) -> None:
    runtime_folder.chmod(0o755)
    window = start()

    window.request("server/discover")

    assert not [*runtime_folder.iterdir()]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_call_in_flight_is_asked_again_when_the_server_is_killed(
    start: Start, tmp_path: Path, era: str
) -> None:
    content = tmp_path / "content"
    write_skill(content, "login.md", keywords=["login"])
    window = start(SKILLS_DIR=str(content))
    if era == "legacy":
        window.shake_hands()
    window.request("tools/list")
    [number] = find_servers()
    freeze(number)

    asked = window.send("tools/call", name="get_skill", arguments={"context": "login"})
    os.kill(number, signal.SIGKILL)
    answer = window.receive()
    while "id" not in answer:
        answer = window.receive()

    assert answer["id"] == asked
    text = answer["result"]["content"][0]["text"]
    assert json.loads(text)["skill_path"] == "login"
    assert find_servers() != [number]
    answered = [json.loads(line).get("id") for line in window.lines]
    assert answered.count(asked) == 1


def test_a_script_in_flight_is_not_run_again_and_the_client_learns_it(
    start: Start, tmp_path: Path, lifeline: Lifeline
) -> None:
    window = start(SKILLS_DIR=str(_content_with(lifeline, tmp_path)))
    asked = window.send("tools/call", name="run_script", arguments=_CALL)
    lifeline.wait_for_start()

    kill_server()
    answer = window.receive()

    lifeline.wait_for_end()
    assert answer["id"] == asked
    assert answer["result"]["isError"] is True
    error = json.loads(answer["result"]["content"][0]["text"])["error"]
    assert error["code"] == "SERVER_LOST"
    assert "may have taken effect" in error["message"]
    assert window.call("get_skill", context="login")["skill_path"] == "login"


def test_a_server_that_was_killed_between_two_calls_is_not_missed(start: Start) -> None:
    window = start()
    window.shake_hands()
    window.request("tools/list")

    killed = kill_server()
    answer = window.request("tools/list")

    assert answer["result"]["tools"]
    assert find_servers() != [killed]
    handshakes = [line for line in window.lines if '"protocolVersion"' in line]
    assert len(handshakes) == 1


def test_a_server_that_is_killed_before_the_handshake_is_not_missed(start: Start) -> None:
    start().request("server/discover")
    window = start()
    wait_for(lambda: len(find_servers()) == 1)
    [number] = find_servers()
    freeze(number)

    asked = window.send("initialize", **LEGACY, _meta={})
    os.kill(number, signal.SIGKILL)

    assert window.receive()["id"] == asked


def test_a_client_is_told_that_skills_may_have_changed_while_no_server_looked(
    start: Start,
) -> None:
    window = start()
    window.shake_hands()
    window.request("tools/list")

    kill_server()

    told = {window.receive()["method"] for _ in range(2)}
    assert told == {
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
    }


def test_a_subscription_goes_on_with_the_next_server(start: Start, tmp_path: Path) -> None:
    content = tmp_path / "content"
    write_skill(content, "one.md", keywords=["one"])
    window = start(SKILLS_DIR=str(content))
    wanted = {"toolsListChanged": True, "resourcesListChanged": True}
    window.send("subscriptions/listen", notifications=wanted)
    assert window.receive()["method"] == "notifications/subscriptions/acknowledged"
    window.call("get_skill", context="one")

    kill_server()
    told = {window.receive()["method"] for _ in range(2)}

    assert "notifications/subscriptions/acknowledged" not in told


def test_only_the_scripts_of_a_killed_window_end(
    start: Start, tmp_path: Path, lifeline: Lifeline
) -> None:
    content = str(_content_with(lifeline, tmp_path))
    other = Lifeline(tmp_path / "other-lifeline")
    write(tmp_path / "content/login/scripts/other.sh", other.script())
    declared = [{"file": f"scripts/{n}.sh", "execution": "server"} for n in ("long", "other")]
    write_skill(tmp_path / "content", "login.md", keywords=["login"], scripts=declared)
    first, second = start(SKILLS_DIR=content), start(SKILLS_DIR=content)
    first.send("tools/call", name="run_script", arguments=_CALL)
    second.send("tools/call", name="run_script", arguments={**_CALL, "file": "scripts/other.sh"})
    lifeline.wait_for_start()
    other.wait_for_start()

    first.process.kill()

    lifeline.wait_for_end()
    assert second.call("get_skill", context="login")["skill_path"] == "login"
    assert not [line for line in second.lines if '"isError":true' in line]
    second.process.kill()
    other.wait_for_end()
    other.close()


def test_a_script_sees_the_environment_of_its_own_window(start: Start, tmp_path: Path) -> None:
    content = tmp_path / "content"
    declared = [{"file": "scripts/env.sh", "execution": "server"}]
    write_skill(content, "spy.md", scripts=declared)
    write(content / "spy/scripts/env.sh", "echo $SYSTEMROOT")
    windows = [start(SKILLS_DIR=str(content), SYSTEMROOT=name) for name in ("one", "two")]

    spy = {"skill_path": "spy", "file": "scripts/env.sh", "args": {}}
    seen = [window.call("run_script", **spy)["stdout"] for window in windows]

    assert len(find_servers()) == 1
    assert seen == ["one\n", "two\n"]


def test_a_script_may_run_in_the_project_of_its_own_window_only(
    start: Start, tmp_path: Path
) -> None:
    content = tmp_path / "content"
    declared = [{"file": "scripts/where.sh", "execution": "server"}]
    write_skill(content, "spy.md", scripts=declared)
    write(content / "spy/scripts/where.sh", "pwd")
    projects = [tmp_path / "project-one", tmp_path / "project-two"]
    windows = []
    for project in projects:
        project.mkdir()
        windows.append(start_in(project, start, SKILLS_DIR=str(content)))

    spy = {"skill_path": "spy", "file": "scripts/where.sh", "args": {}}
    replies = [
        window.call("run_script", **spy, cwd=str(project))
        for window in windows
        for project in projects
    ]

    assert len(find_servers()) == 1
    codes = [reply.get("error", {}).get("code") or reply["stdout"].strip() for reply in replies]
    refused = "CWD_NOT_ALLOWED"
    assert codes == [str(projects[0]), refused, refused, str(projects[1])]


def test_a_stale_socket_is_replaced(start: Start) -> None:
    first = start()
    first.request("server/discover")
    freeze(first.process.pid)  # or it would start the next server
    kill_server()
    first.process.kill()
    first.wait()
    [stale] = find_sockets()
    wait_for(lambda: find_process(stale) is None)  # its last thread has ended

    second = start()

    assert "result" in second.request("server/discover")
    assert find_sockets() == [stale]


def test_a_server_that_answers_nothing_is_done_without(start: Start) -> None:
    first = start()
    first.request("server/discover")
    [number] = find_servers()
    freeze(number)

    second = start()

    assert "result" in second.request("server/discover")
    os.kill(number, signal.SIGCONT)
    assert "result" in first.request("server/discover")


def test_a_socket_that_nobody_of_ours_listens_at_is_done_without(start: Start) -> None:
    first = start()
    first.request("server/discover")
    [address] = find_sockets()
    [number] = find_servers()
    freeze(number)
    address.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()

        second = start()

        assert "result" in second.request("server/discover")
    os.kill(number, signal.SIGKILL)


def test_a_process_that_a_file_beside_the_socket_names_is_left_alone(start: Start) -> None:
    """A process id on the disk may be somebody else's by now, so none counts."""
    first = start()
    first.request("server/discover")
    [address] = find_sockets()
    freeze(first.process.pid)  # or it would start the next server
    kill_server()
    wait_for(lambda: find_servers() == [])
    first.process.kill()
    with running_python("import time; time.sleep(600)") as other:
        for place in (address.with_suffix(".lock"), address.with_suffix(".pid")):
            place.write_text(str(other.pid))

        done = CliRunner(catch_exceptions=False).invoke(program, ["stop"])
        second = start()

        assert done.stdout == "No server was running.\n"
        assert "result" in second.request("server/discover")
        assert find_servers() != [other.pid]
        assert other.poll() is None


def test_a_lock_that_cannot_be_taken_is_done_without(start: Start) -> None:
    first = start()
    first.request("server/discover")
    [address] = find_sockets()
    first.close_input()
    wait_for(lambda: find_sockets() == [])
    address.with_suffix(".lock").mkdir()

    second = start()

    assert second.call("get_skill", **LOGIN)["skill_path"] == "ui/react/auth"
    assert find_sockets() == []


def test_windows_are_served_on_a_full_disk(start: Start) -> None:
    full = ("sh", "-c", 'ulimit -f 0 && exec "$0" "$@"')
    windows = [start(prefix=full) for _ in range(2)]

    replies = [window.call("get_skill", **LOGIN)["skill_path"] for window in windows]

    assert replies == ["ui/react/auth"] * 2
    assert len(find_servers()) == 1


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder to another user")
def test_a_folder_that_another_user_has_made_first_is_done_without(
    start: Start, runtime_folder: Path
) -> None:
    os.chown(runtime_folder, 65534, 65534)
    window = start()

    window.request("server/discover")

    assert not [*runtime_folder.iterdir()]


@pytest.mark.skipif(os.getuid() != 0, reason="starts a process of another user")
def test_a_window_says_nothing_to_the_server_of_another_user(start: Start) -> None:
    first = start()
    first.request("server/discover")
    [address] = find_sockets()
    first.close_input()
    wait_for(lambda: find_sockets() == [])
    code = (
        "import os, socket, sys\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind(sys.argv[1])\n"
        "os.setuid(65534)\n"
        "listener.listen()\n"  # the kernel takes the user from here
        "os.write(1, b'.')\n"
        "while True:\n"
        "    os.write(1, listener.accept()[0].recv(100) or b'-')\n"
    )
    with running_python(code, address) as other:
        assert other.stdout
        assert other.stdout.read(1) == b"."

        second = start()

        assert "result" in second.request("server/discover")
        assert other.stdout.read(1) == b"-"


def test_a_server_refuses_what_is_no_greeting(start: Start) -> None:
    window = start()
    window.request("server/discover")
    [address] = find_sockets()

    for nonsense in (b"\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 1000, b"skills-mcp 0 list 0\n"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(address))
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""

    assert "result" in window.request("server/discover")


def test_a_window_without_standard_error_shares_a_server_that_leaves_its_place(
    start: Start,
) -> None:
    window = start(prefix=("sh", "-c", 'exec "$0" "$@" 2>&-'))

    assert "result" in window.request("server/discover")
    [number] = find_servers()
    window.close_input()

    assert window.wait() == 0
    wait_for(lambda: not is_running(number))
    assert find_sockets() == []


@pytest.mark.parametrize("share", ["0", "1"])
def test_a_window_without_standard_input_ends_as_at_the_end_of_it(start: Start, share: str) -> None:
    window = start(
        prefix=("sh", "-c", 'exec "$0" "$@" <&-'),
        SKILLS_DIR=str(SKILLS_CONTENT),
        SKILLS_MCP_SHARE=share,
    )

    assert window.wait() == 0
    assert "Traceback" not in window.log


def test_a_client_that_leaves_a_reply_in_its_socket_ends_the_window(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "SKILLS_DIR": str(SKILLS_CONTENT)}
    log = tmp_path / "window.log"
    with ours, theirs, log.open("wb") as stderr:
        command = (sys.executable, "-m", "skills_mcp")
        window = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=stderr, env=environment
        )
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY}
        ours.sendall(json.dumps(request).encode() + b"\n")
        assert ours.recv(1) == b"{"

        ours.close()

        assert window.wait(PATIENCE_SECONDS) == 0
    assert "Traceback" not in log.read_text()


def test_a_window_that_is_killed_before_its_last_replies_is_no_error_of_the_server(
    start: Start, home: Path
) -> None:
    window = start()
    window.request("server/discover")
    [address] = find_sockets()
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": MODERN}}

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        connection.sendall(compose_greeting("window", ["1", "", "0"]))
        assert connection.recv(len(ACCEPTED), socket.MSG_WAITALL) == ACCEPTED
        connection.sendall((json.dumps(request).encode() + b"\n") * 200)
        assert connection.recv(1) == b"{"

    log = home / ".skills-mcp" / "server.log"
    wait_for(lambda: "The client has" in log.read_text())
    assert "unexpected error" not in log.read_text()
    assert "result" in window.request("server/discover")


def test_a_server_ends_with_its_last_window(start: Start) -> None:
    first, second = start(), start()
    for window in (first, second):
        window.request("server/discover")
    [number] = find_servers()

    first.close_input()
    first.wait()
    assert "result" in second.request("server/discover")
    second.close_input()

    wait_for(lambda: not is_running(number))
    assert find_sockets() == []


def test_a_server_holds_nothing_open_that_its_host_has_left_open(
    start: Start, lifeline: Lifeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLS_MCP__SHARE__LINGER_MINUTES", "5")
    code = (
        "import os, sys\n"
        "os.dup2(os.open(sys.argv[1], os.O_WRONLY), 300)\n"
        "os.execv(sys.argv[2], sys.argv[2:])\n"
    )
    window = start(prefix=(sys.executable, "-c", code, str(lifeline.path)))
    window.request("server/discover")

    window.close_input()
    window.wait()

    lifeline.wait_for_end()
    assert len(find_servers()) == 1


def test_a_server_that_lingers_serves_the_next_window(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLS_MCP__SHARE__LINGER_MINUTES", "5")
    first = start()
    first.request("server/discover")
    [number] = find_servers()
    first.close_input()
    first.wait()

    second = start()
    second.request("server/discover")

    assert find_servers() == [number]


def test_windows_of_two_projects_serve_the_skills_of_their_own(
    start: Start, tmp_path: Path
) -> None:
    projects = [tmp_path / "one", tmp_path / "two"]
    windows = []
    for project in projects:
        skills = project / ".agents/skills" / f"from-{project.name}"
        write(project / ".git/HEAD", "ref: refs/heads/main\n")
        text = f"---\nname: {skills.name}\ndescription: Deploys.\n---\nDeploy."
        write(skills / "SKILL.md", text)
        windows += [start_in(project, start, "--discover") for _ in range(2)]

    listed = [json.dumps(window.call("list_skills")) for window in windows]

    assert [("from-one" in each, "from-two" in each) for each in listed] == [
        *[(True, False)] * 2,
        *[(False, True)] * 2,
    ]
    assert len(find_servers()) == 2


@pytest.mark.parametrize(
    "spelling", ['"disc\\u006fver": true', '"sh\\u0061re": false'], ids=["discover", "share"]
)
def test_settings_in_an_unusual_spelling_count_as_in_the_usual_one(
    start: Start, home: Path, tmp_path: Path, spelling: str
) -> None:
    write(home / ".skills-mcp/config.yaml", spelling)
    skill = tmp_path / "one/.agents/skills/of-here/SKILL.md"
    write(skill, "---\nname: of-here\ndescription: Deploys.\n---\nDeploy.")
    window = start_in(tmp_path / "one", start)

    listed = json.dumps(window.call("list_skills"))

    assert ("of-here" in listed) is ("disc" in spelling)
    assert find_servers() == []


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="starts a confined process")
def test_a_window_that_its_host_confines_has_a_server_of_its_own(start: Start) -> None:
    windows = [
        start(),
        start(prefix=("setpriv", "--no-new-privs")),
        start(prefix=("sh", "-c", 'umask 077 && exec "$0" "$@"')),
    ]

    for window in windows:
        window.request("server/discover")

    assert len(find_servers()) == 3


def test_a_window_is_warned_of_exports_into_its_own_project(start: Start, tmp_path: Path) -> None:
    windows = []
    for name in ("one", "two"):
        write(tmp_path / name / ".gemini/skills" / EXPORT_LOCK, "{}")
        windows.append(start_in(tmp_path / name, start))

    for window in windows:
        window.request("server/discover")

    assert len(find_servers()) == 1
    # After the first answer, when there is content.
    wait_for(lambda: all(".gemini" in window.log for window in windows))
    for window, own, other in zip(windows, ("one", "two"), ("two", "one"), strict=True):
        assert str(tmp_path / own / ".gemini") in window.log
        assert str(tmp_path / other / ".gemini") not in window.log


def test_a_window_of_another_folder_has_another_server_if_its_project_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []
    for name in ("one", "two", "one"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        for words in (["--discover"], ["--skills-dir", "skills"], ["--skills-dir", "/skills"]):
            found = find_rendezvous(words, os.environ)
            assert found is not None
            keys.append(found.key)

    assert keys[:2] == keys[6:8]
    assert keys[0] != keys[3]
    assert keys[1] != keys[4]
    assert keys[2] == keys[5] == keys[8]


def test_a_greeting_holds_what_a_process_was_started_with() -> None:
    greeting = compose_greeting("window", ["7", "/", "1", "--discover", "A=\udcff"])

    assert greeting == b"skills-mcp 1 window 20\n7\0/\0001\0--discover\0A=\xff"


def test_skills_that_change_are_announced_to_all_windows(start: Start, tmp_path: Path) -> None:
    content = tmp_path / "content"
    write_skill(content, "one.md", keywords=["one"])
    windows = [start(SKILLS_DIR=str(content)) for _ in range(2)]
    for window in windows:
        window.shake_hands()
        window.request("tools/list")
    windows[0].call("get_skill", context="one")

    write(content / "two.md", skill_text(keywords=["two"]))
    windows[0].call("refresh_skills")

    def count_told() -> int:
        return sum(any("list_changed" in line for line in window.lines) for window in windows)

    wait_for(lambda: count_told() == len(windows))


def test_a_new_window_has_a_new_server_after_an_update(start: Start, tmp_path: Path) -> None:
    package = tmp_path / "site" / "skills_mcp"
    shutil.copytree(Path(skills_mcp.__file__).parent, package)
    environment = {"SKILLS_DIR": str(SKILLS_CONTENT), "PYTHONPATH": str(package.parent)}
    first = start(**environment)
    first.request("server/discover")
    [old] = find_servers()

    with (package / "errors.py").open("a") as file:
        file.write("# Another version.\n")
    second = start(**environment)
    second.request("server/discover")
    [new] = find_servers()

    assert new != old
    assert first.call("get_skill", **LOGIN)["skill_path"] == "ui/react/auth"
    first.close_input()
    wait_for(lambda: not is_running(old))
    assert find_servers() == [new]


@pytest.fixture
def clock(tmp_path: Path, started_anew: None) -> Path:  # noqa: ARG001 - reads its own modules
    """A file with the seconds by which the clock of a program is put forward."""
    put_forward = write(tmp_path / "forward", "0")
    code = (
        "import time\n"
        "right = time.time\n"
        f"time.time = lambda: right() + float(open({str(put_forward)!r}).read() or 0)\n"
    )
    write(tmp_path / "clock/sitecustomize.py", code)
    return put_forward


def test_ten_windows_fetch_as_often_as_one(
    start: Start, upstream: Upstream, tmp_path: Path, clock: Path
) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})

    def count_fetches(number: int) -> Counter[str]:
        """Count requests while windows open, during an hour, and at a refresh."""
        clock.write_text("0")
        home = str(tmp_path / f"home-{number}")
        with serving(tmp_path) as forge:
            place = {"SKILLS_REPO": f"{forge.url}/{upstream.bare.name}", "SKILLS_MCP_HOME": home}
            windows = [
                start(PYTHONPATH=str(clock.parent / "clock"), **place) for _ in range(number)
            ]
            for window in windows:
                assert window.call("get_skill", context="one")["skill_path"] == "one"
            opened = len(forge.kinds)
            clock.write_text("3600")
            wait_for(lambda: len(forge.kinds) > opened)
            windows[0].call("refresh_skills")  # waits for the sync of the timer
            for window in windows:  # although the clock has changed
                assert "result" in window.request("tools/list")
                window.close()
            return forge.counts

    alone, together = count_fetches(1), count_fetches(10)

    assert together == alone
    assert alone["info/refs"] > 2


def test_the_log_of_a_window_has_its_own_lines_and_those_of_the_background(
    start: Start, tmp_path: Path
) -> None:
    content = tmp_path / "content"
    write_skill(content, "one.md", keywords=["one"])
    write(content / "broken.md", "no frontmatter")
    first, second = (start(SKILLS_DIR=str(content)) for _ in range(2))
    for window in (first, second):
        window.call("get_skill", context="one")

    first.call("report_usage", skill_path="one", useful=True)

    wait_for(lambda: "Feedback for one" in first.log)
    assert "broken.md: has no frontmatter" in first.log
    assert "broken.md: has no frontmatter" in second.log
    assert "Feedback" not in second.log
