import subprocess
import sys

import pytest

from skills_mcp.processes.group import GROUP_OPTIONS, Watcher, kill_group
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
from skills_mcp.processes.group import GROUP_OPTIONS, WATCHER
words = ["sh", "-c", "sleep 60 & echo ready; wait"]
for _ in range(2):
    child = subprocess.Popen(words, stdout=subprocess.PIPE, **GROUP_OPTIONS)
    WATCHER.add(child.pid)
    child.stdout.readline()
    print(child.pid, flush=True)
WATCHER.remove(child.pid)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_watched_group_ends_with_the_process_and_no_other(is_killed: bool) -> None:  # noqa: FBT001
    with running_python(TIED) as parent:
        assert parent.stdin
        assert parent.stdout
        watched, released = (int(parent.stdout.readline()) for _ in range(2))
        assert len(group_members(watched)) == 2

        parent.kill() if is_killed else parent.stdin.close()

        wait_for(lambda: not group_members(watched))
    assert len(group_members(released)) == 2
    kill_group(released)


def find_shell(watcher: Watcher) -> int:
    assert watcher._shell is not None
    return watcher._shell.pid


def test_one_shell_watches_all_groups_and_is_started_anew_when_it_was_ended() -> None:
    watcher = Watcher()
    first, second = start(PARENT_AND_CHILD), start(PARENT_AND_CHILD)
    watcher.add(first.pid)
    shell = find_shell(watcher)
    watcher.add(second.pid)
    assert find_shell(watcher) == shell

    kill_group(shell)
    wait_for(lambda: not group_members(shell))
    watcher.remove(second.pid)

    assert find_shell(watcher) != shell
    watcher.close()
    watcher.close()
    assert first.wait() == -9
    assert len(group_members(second.pid)) == 2
    kill_group(second.pid)
    second.wait()


def test_where_no_shell_can_be_started_nothing_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError("/bin/sh")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    watcher = Watcher()

    watcher.add(1)
    watcher.remove(1)
    watcher.close()

    assert watcher._shell is None
