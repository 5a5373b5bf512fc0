import subprocess
import sys

import pytest

from skills_mcp.processes.group import GROUP_OPTIONS, Lifeline, kill_group
from tests.support import group_members, running_python, wait_for

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no process groups to signal"
)

PARENT_AND_CHILD = "sleep 60 & echo ready; wait"
DEAF = "trap '' TERM; echo ready; while :; do sleep 60; done"


def start(script: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, **GROUP_OPTIONS)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return process


def test_the_child_and_its_own_children_end() -> None:
    process = start(PARENT_AND_CHILD)
    before = group_members(process.pid)

    kill_group(process.pid)

    process.wait()
    assert len(before) == 2
    wait_for(lambda: not group_members(process.pid))


def test_a_child_that_ignores_signals_is_ended_too() -> None:
    process = start(DEAF)

    kill_group(process.pid)

    assert process.wait() == -9
    wait_for(lambda: not group_members(process.pid))


def test_children_that_outlive_their_parent_are_ended() -> None:
    process = start("sleep 60 & echo ready")
    process.wait()
    left = group_members(process.pid)

    kill_group(process.pid)

    assert len(left) == 1
    wait_for(lambda: not group_members(process.pid))


def test_ending_a_group_that_has_ended_does_nothing() -> None:
    process = start("echo ready")
    process.wait()

    kill_group(process.pid)

    assert process.returncode == 0


def test_the_child_does_not_share_our_group() -> None:
    process = start(PARENT_AND_CHILD)

    ours = group_members(process.pid)
    kill_group(process.pid)

    assert process.pid in ours
    assert process.wait() == -9


TIED = """
import subprocess, sys
from skills_mcp.processes.group import GROUP_OPTIONS, Lifeline
words = ["sh", "-c", "sleep 60 & echo ready; wait"]
child = subprocess.Popen(words, stdout=subprocess.PIPE, **GROUP_OPTIONS)
lifeline = Lifeline(child.pid)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_group_ends_with_a_process_that_is_killed() -> None:
    with running_python(TIED) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert len(group_members(child)) == 2

        parent.kill()

        wait_for(lambda: not group_members(child))


def test_a_lifeline_that_was_cut_leaves_no_process_and_ends_none() -> None:
    process = start(PARENT_AND_CHILD)
    lifeline = Lifeline(process.pid)
    assert lifeline._shell is not None
    shell = lifeline._shell.pid

    lifeline.close_shell()
    lifeline.close_shell()

    assert not group_members(shell)
    assert len(group_members(process.pid)) == 2
    kill_group(process.pid)
    process.wait()


def test_where_no_shell_can_be_started_there_is_no_lifeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError("/bin/sh")

    monkeypatch.setattr(subprocess, "Popen", refuse)

    Lifeline(1).close_shell()
