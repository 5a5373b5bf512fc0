"""A fork is told from a program that was started by nothing but its speed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.forks import CAN_FORK, Forks
from tests.support import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="not on this system")

SAYS_ALL = """
import json, logging, os, signal, sys, threading
json.dump({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "name": __name__,
    "environment": dict(os.environ), "folder": os.getcwd(), "input": sys.stdin.read(),
    "parent": os.getppid(), "leads": os.getpgrp() == os.getpid(),
    "open": os.listdir("/proc/self/fd"), "threads": threading.active_count(),
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "log": [repr(log) for log in (logging.root.handlers, logging.getLogger("skills_mcp").handlers)],
    "encodings": [each.encoding for each in (sys.stdin, sys.stdout, sys.stderr)],
    "buffers": [each.line_buffering for each in (sys.stdin, sys.stdout, sys.stderr)],
}, sys.stdout)
"""

ENDINGS = (
    *("pass", "raise SystemExit(3)", "raise SystemExit('a reason')", "1 / 0"),
    *("import os, signal; os.kill(os.getpid(), signal.SIGINT); input()",),
    *(
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import atexit; atexit.register(print, 1)",
    ),
    "import os; os.close(1); print('lost')",
    "kept = open('kept', 'w'); kept.write('text')",
    "import threading, sys; threading.Timer(0.01, lambda: print('late')).start()",
)


def run(code: str, folder: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, "a word", "--option"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        input="a line\n",
        **options,
    )


@pytest.mark.parametrize("is_leader", [False, True])
def test_a_fork_gets_what_a_program_gets(forks: Forks, tmp_path: Path, is_leader: bool) -> None:  # noqa: FBT001
    environment = {**os.environ, "SKILLS_DIR": "ä", "PYTHONPATH": str(tmp_path)}
    options = {"env": environment, "start_new_session": is_leader}

    forked = json.loads(run(SAYS_ALL, tmp_path, **options).stdout)
    forks.paused = True
    try:
        started = json.loads(run(SAYS_ALL, tmp_path, **options).stdout)
    finally:
        forks.paused = False

    assert forked == started
    assert forked["parent"] == os.getpid()
    assert forked["leads"] is is_leader


@pytest.mark.parametrize("code", ENDINGS)
def test_a_fork_ends_as_a_program_ends(forks: Forks, tmp_path: Path, code: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    places = [tmp_path / "forked", tmp_path / "started"]
    done = []
    for folder, forks.paused in zip(places, (False, True), strict=True):
        folder.mkdir()
        done.append(run(code, folder, env=environment))
    forks.paused = False

    forked, started = done
    assert forked.returncode == started.returncode
    assert forked.stdout == started.stdout
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]
    left = [{file.name: file.read_text() for file in place.iterdir()} for place in places]
    assert left[0] == left[1]


def test_a_fork_is_killed_and_waited_for_as_a_child(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.poll() is None
        process.kill()

    assert process.returncode == -signal.SIGKILL


def test_a_variable_that_python_reads_at_its_start_counts(tmp_path: Path) -> None:
    done = run(
        "import sys; print(sys.stdout.encoding)", tmp_path, env={"PYTHONIOENCODING": "latin-1"}
    )

    assert done.stdout == "iso8859-1\n"


@pytest.mark.parametrize("looks_at", ["modules", "meta_path"])
def test_a_program_that_looks_at_imports_is_started_anew(tmp_path: Path, looks_at: str) -> None:
    done = run(f"import sys; sys.{looks_at}; print('numpy' in vars(sys)['modules'])", tmp_path)

    assert done.stdout == "False\n"


def test_any_other_program_finds_the_libraries(tmp_path: Path) -> None:
    done = run("import sys; print('numpy' in vars(sys)['modules'])", tmp_path)

    assert done.stdout == "True\n"


def test_a_folder_that_is_gone_is_an_error_as_ever(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run("pass", tmp_path / "gone")


def test_a_fork_runs_our_program_without_a_warning(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "skills_mcp", "--version"]

    done = subprocess.run(words, capture_output=True, check=True, cwd=tmp_path)

    assert done.stdout
    assert done.stderr == b""


def test_a_shell_starts_a_fork_like_our_program(tmp_path: Path, shell_path: str) -> None:
    script = "cd /; skills-mcp --version | cat; SKILLS_DIR=gone skills-mcp tree 2>&1; echo $?"
    shim, _, started = shell_path.partition(os.pathsep)

    printed = [
        subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
        ).stdout
        for path in (shell_path, started)
    ]

    assert Path(shim, "skills-mcp").is_file()
    assert printed[0] == printed[1]
    assert b"gone" in printed[0]
