"""Commands that a running server answers: their output is that of a process alone."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from skills_mcp.server.windows.command_client import ENDED, STDERR, STDOUT
from skills_mcp.server.windows.rendezvous import ACCEPTED, find_rendezvous
from skills_mcp.server.windows.running_servers import list_servers
from tests.clients import HangingRemote, ServerProcess
from tests.e2e.conftest import Start
from tests.support import (
    BROKEN,
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
from tests.windows import count_clients, find_servers, find_sockets, freeze

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

ALONE = {"SKILLS_MCP_SHARE": "0"}
SAMPLE = {"SKILLS_DIR": str(SKILLS_CONTENT), "TERM": "xterm-256color", "PAGER": "cat"}
TASK = "add login to the React app"

COMMANDS = (
    ("ask", TASK),
    ("ask", TASK, "--json"),
    ("ask", "nothing of this kind whatsoever"),
    ("ask", TASK, "--skill", "ui/react/auth", "--within", "ui", "--json"),
    ("explain", TASK),
    ("explain", TASK, "--algorithm=ranked", "--json"),
    ("search", "customs form"),
    ("search", "login", "--limit", "2", "--json"),
    ("show", "ui/react/auth"),
    ("show", "ui/react/auth", "--raw"),
    ("show", "ui/react/auth", "--files"),
    ("show", "ui/react/auth", "--json"),
    ("tree",),
    ("tree", "--depth", "2", "--problems"),
    ("tree", "--search", "login", "--json"),
    ("status",),
    ("status", "--json"),
)
REFUSED = (
    ("show", "no/such/skill"),
    ("show", "no/such/skill", "--json"),
    ("ask", TASK, "--skill", "no/such/skill"),
    ("ask", TASK, "--within", "../up", "--json"),
    ("search", " "),
)
WRONG = (
    ("ask",),
    ("search", "login", "--limit", "0", "--json"),
    ("show", "a", "--raw", "--files"),
    ("ask", TASK, "--nonsense"),
    ("ask", "--help"),
    ("ask", TASK, "--log-level", "info"),
)


@dataclass(frozen=True)
class Done:
    """How a command has ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


Command = Callable[..., Done]
"""Runs a command with these words, and variables beside those of the test."""


def run(*words: str, **variables: str) -> Done:
    """Run a command whose output goes into pipes."""
    done = subprocess.run(
        [sys.executable, "-m", "skills_mcp", *words],
        check=False,
        capture_output=True,
        env=os.environ | SAMPLE | variables,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def at_terminal(size: tuple[int, int] = (300, 70), *, has_stderr: bool = True) -> Command:
    """Run commands at a terminal with lines and columns, which may show standard error."""

    def run_there(*words: str, **variables: str) -> Done:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, size)
        process = subprocess.Popen(
            [sys.executable, "-m", "skills_mcp", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs if has_stderr else subprocess.PIPE,
            env=os.environ | SAMPLE | variables,
        )
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # how Linux tells that the other end is closed
            pass
        os.close(ours)
        _, stderr = process.communicate()
        return Done(process.returncode, shown, stderr or b"")

    return run_there


run_at_terminal = at_terminal()


def normalise(done: Done) -> Done:
    """Leave out what differs between two runs of one process."""
    patterns = (
        # The frames of a progress bar, which is gone at the end.
        (rb"\x1b\[\?25l.*\x1b\[\?25h(\r|\x1b\[\d*[A-K])*", b""),
        (rb"\x1b\]8;id=\d+;", b"\x1b]8;id=1;"),  # Rich draws the number of a link
        (rb"\nServer [^\n]*", b"\nServer"),
        (rb'"last_sync": "[^"]*"', b'"last_sync": ""'),
        (rb'"(seconds|commands|resident_bytes|private_bytes)": \d+', rb'"\1": 0'),
    )
    stdout, stderr = done.stdout, done.stderr
    for pattern, text in patterns:
        stdout, stderr = (re.sub(pattern, text, each, flags=re.DOTALL) for each in (stdout, stderr))
    return Done(done.exit_code, stdout, stderr)


def count_answered() -> int:
    """Return how many commands the servers of this test have answered."""
    return sum(server.commands for server in list_servers(os.environ))


@pytest.fixture
def window(start: Start) -> ServerProcess:
    """A window, whose server serves the sample content."""
    window = start()
    window.request("server/discover")
    return window


@pytest.mark.parametrize("start_command", [run, run_at_terminal])
@pytest.mark.usefixtures("window")
def test_a_server_answers_as_the_command_does_alone(start_command: Command) -> None:
    for words in (*COMMANDS, *REFUSED):
        alone, done = start_command(*words, **ALONE), start_command(*words)

        assert normalise(done) == normalise(alone)
        assert done.exit_code == (words in REFUSED)

    assert count_answered() == len((*COMMANDS, *REFUSED))


@pytest.mark.parametrize(
    "variables",
    [
        {"NO_COLOR": "1"},
        {"FORCE_COLOR": "1"},
        {"COLORTERM": "truecolor"},
        {"TERM": "dumb"},
        {"COLUMNS": "50"},
        {"LINES": "5"},
        {"TTY_COMPATIBLE": "0"},
        {"PYTHONUNBUFFERED": "1"},
        {"PYTHONIOENCODING": "latin-1"},
        {"SKILLS_MCP_NONSENSE": "1"},
    ],
    ids=str,
)
def test_a_variable_of_the_terminal_counts_for_the_answer_of_a_server(
    start: Start, variables: Mapping[str, str]
) -> None:
    shapes = {name: value for name, value in variables.items() if name.startswith(("PY", "SK"))}
    start(**SAMPLE, **shapes).request("server/discover")

    # It counts when Python starts: the server cannot answer as with it.
    is_read_by_python = "PYTHONIOENCODING" in variables
    for start_command in (run, at_terminal(has_stderr=False)):
        alone = start_command("explain", TASK, **variables, **ALONE)

        assert normalise(start_command("explain", TASK, **variables)) == normalise(alone)

    assert count_answered() == (0 if is_read_by_python else 2)


@pytest.mark.usefixtures("window")
def test_a_terminal_with_other_colours_than_the_first_one_gets_its_own() -> None:
    for variables in ({"TERM": "xterm-256color"}, {"TERM": "xterm"}, {"COLORTERM": "truecolor"}):
        alone = run_at_terminal("show", "ui/react/auth", **variables, **ALONE)

        done = run_at_terminal("show", "ui/react/auth", **variables)

        assert normalise(done) == normalise(alone)

    run_at_terminal("show", "ui/react/auth")
    assert count_answered() == 2


@pytest.mark.parametrize("size", [(10, 40), (0, 0)], ids=str)
@pytest.mark.usefixtures("window")
def test_the_answer_of_a_server_is_paged_as_the_terminal_needs_it(size: tuple[int, int]) -> None:
    start_command = at_terminal(size, has_stderr=False)
    for words in (("show", "ui/react/auth"), ("tree", "--no-pager"), ("tree",)):
        alone = start_command(*words, **ALONE)

        assert normalise(start_command(*words)) == normalise(alone)

    assert count_answered() == 3


@pytest.mark.usefixtures("window")
def test_a_command_that_only_its_own_process_can_answer_does_so() -> None:
    for words in WRONG:
        alone, done = run(*words, **ALONE), run(*words)

        assert (done.exit_code, done.stdout) == (alone.exit_code, alone.stdout)
        assert done.stderr == alone.stderr or "--log-level" in words

    assert count_answered() == 0


def test_a_command_with_other_settings_is_not_answered_by_the_server(
    window: ServerProcess, tmp_path: Path, home: Path
) -> None:
    write_skill(tmp_path / "other", "one.md")
    settings = write(tmp_path / "own.yaml", "visibility: {deny: ['*']}")

    other = run("tree", "--skills-dir", str(tmp_path / "other"))
    hidden = run("tree", "--config", str(settings))
    token = run("tree", GITHUB_TOKEN="another-token")  # noqa: S106 - of nothing
    write(home / ".skills-mcp/config.yaml", "visibility: {deny: ['*']}")
    changed = run("tree")

    assert count_answered() == 0
    assert b"1 skill served" in other.stdout
    assert b"0 skills served" in hidden.stdout
    assert b"27 skills served" in token.stdout
    assert b"hidden by visibility" in changed.stdout
    assert window.request("server/discover")


def test_options_of_the_window_are_those_of_the_command(start: Start) -> None:
    start("serve", "--skills-dir", str(BROKEN), **SAMPLE).request("server/discover")

    done = run("tree", "--problems", f"--skills-dir={BROKEN}")

    assert done == run("tree", "--problems", "--skills-dir", str(BROKEN), **ALONE)
    assert count_answered() == 1


def test_no_server_is_started_for_a_command(runtime_folder: Path) -> None:
    assert run("ask", TASK).exit_code == 0

    assert find_servers() == []
    assert [*runtime_folder.iterdir()] == []


def test_a_command_reads_an_edit_that_was_made_just_before(start: Start, tmp_path: Path) -> None:
    content = tmp_path / "content"
    write_skill(content, "one.md", keywords=["one"])
    start(SKILLS_DIR=str(content)).call("get_skill", context="one")

    write(content / "two.md", skill_text(keywords=["two"]))
    done = run("ask", "two", SKILLS_DIR=str(content))

    assert done.stdout.startswith(b"two ")
    assert count_answered() == 1


def test_a_command_fetches_what_was_pushed_just_before(start: Start, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    start(SKILLS_REPO=upstream.url, SKILLS_DIR="").call("get_skill", context="one")

    commit = upstream.commit({"skills/two.md": skill_text(keywords=["two"])})
    done = run("show", "two", "--json", SKILLS_REPO=upstream.url, SKILLS_DIR="")

    assert json.loads(done.stdout)["commit"] == commit
    assert count_answered() == 1


def test_a_failed_sync_is_told_as_by_the_command_alone(start: Start, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    variables = {"SKILLS_REPO": upstream.url, "SKILLS_DIR": ""}
    start(**variables).call("get_skill", context="one")
    upstream.bare.rename(upstream.bare.with_suffix(".away"))

    done = run("show", "one", **variables)

    assert done == run("show", "one", **variables, **ALONE)
    assert b"Sync failed; showing the previous content" in done.stderr
    assert count_answered() == 1


def test_a_command_is_no_use_of_a_skill_and_no_line_of_a_log(window: ServerProcess) -> None:
    window.call("get_skill", context=TASK)
    wait_for(lambda: "Using the index" in window.log)  # after the first sync
    before = window.log

    run("ask", TASK)
    run("tree")

    assert count_answered() == 2
    assert window.log == before
    [server] = list_servers(os.environ)
    assert len(server.windows) == 1


def test_windows_are_answered_while_a_command_runs(
    start: Start, hanging_remote: HangingRemote
) -> None:
    variables = {"SKILLS_REPO": hanging_remote.url, "SKILLS_DIR": ""}
    window = start(**variables)
    window.request("server/discover")
    command = [sys.executable, "-m", "skills_mcp", "tree"]
    with subprocess.Popen(command, env=os.environ | variables, stderr=subprocess.PIPE) as process:
        hanging_remote.wait_for_request()

        assert window.request("tools/list")["result"]["tools"]
        assert process.poll() is None
        process.kill()

    assert window.request("tools/list")["result"]["tools"]


def test_a_command_whose_server_is_killed_runs_by_itself(
    start: Start, hanging_remote: HangingRemote
) -> None:
    variables = {"SKILLS_REPO": hanging_remote.url, "SKILLS_DIR": ""}
    start(**variables).request("server/discover")
    [number] = find_servers()
    command = [sys.executable, "-m", "skills_mcp", "tree"]
    with subprocess.Popen(command, env=os.environ | variables, stderr=subprocess.PIPE) as process:
        hanging_remote.wait_for_request()

        os.kill(number, signal.SIGKILL)
        wait_for(lambda: not is_running(number))
        hanging_remote.close()
        assert process.stderr is not None
        message = process.stderr.read()

    assert process.returncode == 4
    assert message.count(b"skills-mcp: ") == 1


def test_a_server_that_does_not_answer_is_done_without(window: ServerProcess) -> None:
    [number] = find_servers()
    freeze(number)

    done = run("ask", TASK)

    assert done == run("ask", TASK, **ALONE)
    os.kill(number, signal.SIGCONT)
    assert window.request("server/discover")


_CUT_ANSWERS = {
    "nothing": b"",
    "refused": b"no\n",
    "accepted": ACCEPTED,
    "half a frame": ACCEPTED + STDOUT + b"\0\0\0\x09half",
    "output": ACCEPTED + STDOUT + b"\0\0\0\x05half\n" + STDERR + b"\0\0\0\x05half\n",
    "another protocol": ACCEPTED + ENDED + b"\0\0\0\x01x",
}


@pytest.mark.parametrize("answer", _CUT_ANSWERS.values(), ids=_CUT_ANSWERS)
def test_what_a_server_has_sent_before_its_end_is_not_shown(answer: bytes) -> None:
    place = find_rendezvous([], os.environ | SAMPLE)
    assert place is not None
    with place.listen() as listener:
        listener.settimeout(PATIENCE_SECONDS)
        command = [sys.executable, "-m", "skills_mcp", "ask", TASK]
        with subprocess.Popen(
            command, env=os.environ | SAMPLE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**20)
                connection.sendall(answer)
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)

    assert Done(process.returncode, stdout, stderr) == run("ask", TASK, **ALONE)


def test_a_progress_bar_of_a_killed_server_is_removed() -> None:
    place = find_rendezvous([], os.environ | SAMPLE)
    assert place is not None
    frame = b"\x1b[?25lReading"
    code = (
        "import socket, sys; listener = socket.socket(fileno=int(sys.argv[1]));"
        "connection, _ = listener.accept(); connection.recv(2**20);"
        f"connection.sendall({ACCEPTED + STDERR + len(frame).to_bytes(4, 'big') + frame!r})"
    )
    with place.listen() as listener:
        listener.settimeout(None)
        server = subprocess.Popen(
            [sys.executable, "-c", code, str(listener.fileno())], pass_fds=[listener.fileno()]
        )

        done = run_at_terminal("ask", TASK)

        server.wait()
    begin, _, rest = done.stdout.partition(b"\r\x1b[2K\x1b[?25h")
    assert begin == frame
    alone = run_at_terminal("ask", TASK, **ALONE)
    assert normalise(Done(0, rest, b"")) == normalise(alone)


def test_ctrl_c_at_a_command_that_a_server_answers_is_told(
    start: Start, hanging_remote: HangingRemote
) -> None:
    variables = {"SKILLS_REPO": hanging_remote.url, "SKILLS_DIR": ""}
    start(**variables).request("server/discover")
    [address] = find_sockets()
    windows = count_clients(address)
    command = [sys.executable, "-m", "skills_mcp", "tree", "--json"]
    with subprocess.Popen(
        command, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_for(lambda: count_clients(address) > windows)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130
    assert json.loads(stdout)["error"]["code"] == "INTERRUPTED"
    assert stderr.startswith(b"\nskills-mcp: tree was interrupted.")


@pytest.mark.usefixtures("window")
def test_output_that_nobody_reads_ends_a_command_as_it_does_alone() -> None:
    def run_without_reader(**variables: str) -> tuple[int, bytes]:
        reading, writing = os.pipe()
        os.close(reading)
        command = [sys.executable, "-m", "skills_mcp", "tree", "--json"]
        environment = os.environ | SAMPLE | variables
        done = subprocess.run(
            command, check=False, stdout=writing, stderr=subprocess.PIPE, env=environment
        )
        os.close(writing)
        return done.returncode, done.stderr

    assert run_without_reader() == run_without_reader(**ALONE)


def test_several_commands_at_once_are_all_answered(window: ServerProcess) -> None:
    command = [sys.executable, "-m", "skills_mcp", "ask", TASK]
    environment = os.environ | SAMPLE
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(8)
    ]

    outputs = {process.communicate(timeout=PATIENCE_SECONDS)[0] for process in processes}

    assert outputs == {run("ask", TASK, **ALONE).stdout}
    assert window.request("server/discover")


@pytest.mark.usefixtures("started_anew")
def test_the_process_of_a_command_imports_nothing_of_the_program() -> None:
    code = (
        "import os, sys; from skills_mcp.server.windows.command_client import ask_server;"
        "print(sorted({'click', 'json', 'typing', 'dataclasses', 're'} & set(sys.modules)))"
    )

    with running_python(code) as process:
        output, _ = process.communicate()

    assert output == b"[]\n"
