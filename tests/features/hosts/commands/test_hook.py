"""`skills-mcp hook`: the skill for a prompt, soon, briefly, and never in the way."""

import json
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from skills_mcp.features.hosts.early_commands.hook import EVENTS
from tests.cli.conftest import Run
from tests.clients import ServerProcess
from tests.support import (
    PATIENCE_SECONDS,
    SKILLS_CONTENT,
    Upstream,
    skill_text,
    wait_for,
    write,
    write_skill,
)
from tests.windows import end_servers

CONTENT = ("--skills-dir", str(SKILLS_CONTENT))
PROMPT = "add a login to the react app"

Hook = Callable[..., "subprocess.CompletedProcess[str]"]
Serve = Callable[..., ServerProcess]

PROGRAM = "from skills_mcp.__main__ import main; main()"

HEAVY = ("click", "pydantic", "mcp", "anyio", "rich", "numpy", "yaml", "asyncio")

REPORT = f"""
import sys
from skills_mcp.__main__ import main
try:
    main()
finally:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


@pytest.fixture
def hook() -> Hook:
    """Start a hook as a host does, and return what it printed."""

    def start(
        *arguments: str, prompt: str = PROMPT, said: str | None = None, code: str = PROGRAM
    ) -> "subprocess.CompletedProcess[str]":
        given = json.dumps({"prompt": prompt}) if said is None else said
        return subprocess.run(
            [sys.executable, "-c", code, "hook", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return start


@pytest.fixture
def serve(near_home: Path, tmp_path: Path) -> Iterator[Serve]:
    """Start a server, and wait until hooks can ask it."""
    started: list[ServerProcess] = []

    def start(*arguments: str) -> ServerProcess:
        log = tmp_path / f"{len(started)}.log"
        alone = {"SKILLS_MCP_SHARE": "0"}
        server = ServerProcess(*arguments, environment=alone, log=log)
        started.append(server)
        server.request("server/discover")
        name = f"*-{server.process.pid}.sock"
        wait_for(lambda: list(near_home.glob(f"run/{name}")))
        return server

    yield start
    for server in started:
        server.close()


@pytest.fixture
def opened() -> list[ServerProcess]:
    """The windows of `windows`."""
    return []


@pytest.fixture
def windows(
    near_home: Path, runtime_folder: Path, tmp_path: Path, opened: list[ServerProcess]
) -> Iterator[Sequence[Path]]:
    """Open windows that share a server, in two projects."""
    projects = [tmp_path / "one", tmp_path / "two"]
    started = opened
    for number, project in enumerate(projects):
        project.mkdir()
        prefix = ("sh", "-c", 'cd "$0" && exec "$@"', str(project))
        log = tmp_path / f"window-{number}.log"
        window = ServerProcess(*CONTENT, environment={}, log=log, prefix=prefix)
        started.append(window)
        window.request("server/discover")
    wait_for(lambda: len([*near_home.glob("run/*.sock")]) == 1 + len(projects))
    yield projects
    for window in started:
        window.close()
    end_servers(runtime_folder)  # before its home is deleted


def test_the_server_of_several_windows_answers_the_hooks_of_each_project(
    hook: Hook, windows: Sequence[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints = []
    for project in windows:
        monkeypatch.chdir(project)
        hints.append(read_hint(hook("claude-code", *CONTENT)))

    assert all("ui/react/auth" in hint for hint in hints)
    monkeypatch.chdir(tmp_path)
    alone = hook("claude-code", *CONTENT, code=REPORT)
    assert "['click'" in alone.stderr  # no server is asked there


def read_hint(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the hint that a hook of Claude Code printed."""
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    hint: str = output["additionalContext"]
    return hint


@pytest.mark.usefixtures("started_anew")
def test_a_running_server_answers_without_heavy_imports(hook: Hook, serve: Serve) -> None:
    serve(*CONTENT)

    done = hook("claude-code", *CONTENT, code=REPORT)

    hint = read_hint(done)
    assert "ui/react/auth (Login" in hint
    assert 'get_skill with this task and skill_path "ui/react/auth"' in hint
    assert len(hint) <= 500
    assert done.stderr == "[]\n"


COMPACTIONS = {
    "claude-code": {"source": "compact"},
    "codex": {"source": "compact"},
    "gemini": {"trigger": "auto"},
    "copilot": {"trigger": "manual"},
}


@pytest.mark.parametrize("host", COMPACTIONS)
def test_after_a_compaction_the_skills_of_the_session_are_named(
    hook: Hook, serve: Serve, host: str
) -> None:
    server = serve(*CONTENT)
    server.call("get_skill", context="x", skill_path="api/auth")

    at_once = hook(host, *CONTENT, said=json.dumps(COMPACTIONS[host]))
    first, second = (hook(host, *CONTENT, prompt="how are you") for _ in range(2))

    shown = [done.stdout for done in (at_once, first, second)]
    reads_at_once = "source" in COMPACTIONS[host]
    reminder = shown[0 if reads_at_once else 1]
    assert "api/auth (digest" in reminder
    assert "never take it from the token's header" in reminder
    assert [text for text in shown if text] == [reminder]


def test_before_a_compaction_claude_code_reads_the_same_as_instructions(
    hook: Hook, serve: Serve
) -> None:
    server = serve(*CONTENT)
    server.call("get_skill", context="x", skill_path="api/auth")

    before = hook("claude-code", *CONTENT, said='{"trigger": "manual"}')
    after = json.loads(hook("claude-code", *CONTENT, said='{"source": "compact"}').stdout)

    assert after["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert after["hookSpecificOutput"]["additionalContext"] == before.stdout.rstrip()


def test_each_window_is_reminded_of_its_own_skills(
    hook: Hook,
    opened: Sequence[ServerProcess],
    windows: Sequence[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for window, path in zip(opened, ("api/auth", "ui/react/auth"), strict=True):
        window.call("get_skill", context="x", skill_path=path)

    reminders = []
    for project in windows:
        monkeypatch.chdir(project)
        reminders.append(hook("claude-code", *CONTENT, said='{"source": "compact"}').stdout)

    assert ["api/auth (" in reminder for reminder in reminders] == [True, False]
    assert ["ui/react/auth (" in reminder for reminder in reminders] == [False, True]


@pytest.mark.parametrize("said", ['{"source": "compact"}', '{"source": "startup"}'])
def test_without_a_served_skill_nothing_is_said(hook: Hook, serve: Serve, said: str) -> None:
    serve(*CONTENT)

    done = hook("claude-code", *CONTENT, said=said)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_a_server_the_kept_index_answers(
    hook: Hook, invoke: Run, upstream: Upstream
) -> None:
    upstream.commit({"skills/ci.md": skill_text(keywords=["pipeline"])})
    invoke("sync", "--repo", upstream.url)
    upstream.bare.rename(upstream.bare.parent / "gone")

    done = hook("claude-code", "--repo", upstream.url, prompt="repair the pipeline")

    assert "ci (An example)" in read_hint(done)


@pytest.mark.parametrize("has_server", [True, False])
def test_it_is_silent_if_no_skill_fits(
    hook: Hook,
    serve: Serve,
    has_server: bool,  # noqa: FBT001
) -> None:
    if has_server:
        serve(*CONTENT)

    done = hook("claude-code", *CONTENT, prompt="how are you")

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "said",
    ["", "no JSON", "[]", "{}", '{"prompt": 7}', '{"prompt": "  "}', "\ud800", "[" * 9],
)
def test_what_is_no_prompt_is_passed_over(hook: Hook, said: str) -> None:
    done = hook("claude-code", *CONTENT, said=said.encode("utf-8", "replace").decode())

    assert (done.returncode, done.stdout) == (0, "")


def test_a_command_is_no_prompt(hook: Hook) -> None:
    done = hook("claude-code", *CONTENT, prompt="/compact react login")

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [(), ("--skills-dir", "/nowhere"), ("--repo", "ext::sh -c x"), ("--offline",)],
)
def test_settings_that_cannot_be_used_never_block_a_prompt(
    hook: Hook, arguments: tuple[str, ...]
) -> None:
    done = hook("claude-code", *arguments)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("arguments", [("emacs",), ("claude-code", "--bogus"), ()])
def test_wrong_usage_is_not_the_status_that_blocks_a_prompt(
    hook: Hook, arguments: tuple[str, ...]
) -> None:
    done = hook(*arguments)

    assert done.returncode == 1
    assert done.stdout == ""
    assert "Usage: skills-mcp hook" in done.stderr


@pytest.mark.parametrize("host", EVENTS)
def test_each_host_reads_the_hint_in_its_own_form(hook: Hook, host: str) -> None:
    output = json.loads(hook(host, *CONTENT).stdout)

    said = output if host == "copilot" else output["hookSpecificOutput"]
    assert "ui/react/auth" in said["additionalContext"]
    assert said.get("hookEventName", EVENTS[host]) == EVENTS[host]


def test_only_this_user_can_ask_and_the_socket_goes_with_the_server(
    near_home: Path, serve: Serve
) -> None:
    server = serve(*CONTENT)
    [socket] = near_home.glob("run/*.sock")

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (socket, socket.parent)]
    server.close_input()
    assert server.wait() == 0

    assert modes == [0o600, 0o700]
    assert not socket.exists()


def test_a_server_that_was_killed_leaves_nothing_in_the_way(
    hook: Hook, near_home: Path, serve: Serve
) -> None:
    server = serve(*CONTENT)
    server.process.kill()
    server.process.wait()
    [left] = near_home.glob("run/*.sock")

    hint = read_hint(hook("claude-code", *CONTENT))

    assert "ui/react/auth" in hint
    assert not left.exists()


def test_a_new_server_deletes_what_a_killed_one_has_left(near_home: Path, serve: Serve) -> None:
    killed = serve("--log-level", "info", *CONTENT)
    killed.process.kill()
    killed.process.wait()

    other = serve("--log-level", "warning", *CONTENT, "--offline")

    [socket] = near_home.glob("run/*.sock")
    assert socket.name.endswith(f"-{other.process.pid}.sock")


def test_a_server_with_other_skills_is_not_asked(hook: Hook, serve: Serve, tmp_path: Path) -> None:
    write_skill(tmp_path / "mine", "secret.md", keywords=["login"])
    serve("--skills-dir", str(tmp_path / "mine"), "--log-level", "error")

    ours = read_hint(hook("claude-code", *CONTENT))
    theirs = read_hint(hook("claude-code", "--skills-dir", str(tmp_path / "mine")))

    assert "ui/react/auth" in ours
    assert "secret" not in ours
    assert "secret" in theirs


def test_a_server_of_another_project_is_not_asked(
    hook: Hook, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("theirs", "ours"):
        write_skill(tmp_path / name / "skills", f"{name}.md", keywords=["login"])
    monkeypatch.chdir(tmp_path / "theirs")
    serve("--skills-dir", "skills")

    monkeypatch.chdir(tmp_path / "ours")
    hint = read_hint(hook("claude-code", "--skills-dir", "skills"))

    assert "ours (An example)" in hint


@pytest.mark.parametrize("command", ["hook claude-code", "install", "doctor", ""])
def test_a_working_directory_that_is_gone_costs_no_traceback(tmp_path: Path, command: str) -> None:
    code = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone');"
        "from skills_mcp.__main__ import main; main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, *command.split(), *CONTENT],
        cwd=tmp_path,
        input=json.dumps({"prompt": PROMPT}) if command.startswith("hook") else "",
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if command in {"install", "doctor"} else 0)


def test_skills_that_are_too_close_to_call_are_all_named(hook: Hook, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_skill(tmp_path / "mine", f"{name}.md", keywords=["login"])

    done = hook("claude-code", "--skills-dir", str(tmp_path / "mine"), prompt="login")

    hint = read_hint(done)
    assert "one (An example); two (An example)" in hint
    assert "skill_path of the one that fits" in hint


def test_the_tool_is_one_that_is_offered(hook: Hook, home: Path) -> None:
    write(home / ".skills-mcp/config.yaml", "toolsets: [packages]")

    hint = read_hint(hook("claude-code", *CONTENT))

    assert 'load_skill with skill_name "ui/react/auth"' in hint


def test_a_prompt_is_no_event(hook: Hook, home: Path) -> None:
    write(home / ".skills-mcp/config.yaml", "analytics: {enabled: true}")

    assert read_hint(hook("claude-code", *CONTENT))
    assert [*home.rglob("*.jsonl")] == []


def test_a_question_that_no_hook_would_ask_does_not_end_the_server(
    hook: Hook, near_home: Path, serve: Serve
) -> None:
    import socket

    server = serve(*CONTENT)
    [address] = near_home.glob("run/*.sock")
    for said in (b"", b"no JSON\n", b"[]\n", b'{"other": 1}\n'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(address))
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(10) == b""

    assert "ui/react/auth" in read_hint(hook("claude-code", *CONTENT))
    assert server.process.poll() is None
