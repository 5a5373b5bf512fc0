"""The program itself, started as the runner starts it, and told to end in every way."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from skills_mcp.processes.group import kill_group
from skills_mcp.scripts import supervisor
from tests.support import PATIENCE_SECONDS, is_running, wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has subreapers and its limits"
)

PROGRAM = supervisor.__file__
ENVIRONMENT = {"PATH": os.environ["PATH"]}


class Supervised:
    """A supervisor, and the ends of its pipes."""

    def __init__(self, folder: Path, script: str, **options: object) -> None:
        words = ["/bin/bash", "-c", script]
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        order = b"".join(os.fsencode(each) + b"\0" for each in (*words, *variables))
        self._status, writing = os.pipe()
        given: dict[str, object] = {
            "status": writing,
            "bytes": len(order),
            "words": len(words),
            "grace": PATIENCE_SECONDS,
            "wrapper": "no",
            **options,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", PROGRAM]
            + [f"{name}={value}" for name, value in given.items()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={},
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        self._folder = folder
        assert self.process.stdin is not None
        self.process.stdin.write(order)
        self.process.stdin.flush()

    def pid(self, name: str = "pid") -> int:
        """Return the process that the script has written down."""
        file = self._folder / name
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())

    def leave(self) -> None:
        """Go away, as a server does that is killed."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> str:
        """Return what it says of the program, once it has ended."""
        self.process.wait(timeout=PATIENCE_SECONDS)
        started, *ended = os.read(self._status, 4096).decode().splitlines()
        assert started.startswith("started ")
        return "; ".join(ended)

    def close(self) -> None:
        kill_group(self.process.pid)
        self.process.wait(timeout=PATIENCE_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()
        os.close(self._status)


@contextmanager
def supervised(folder: Path, script: str, **options: object) -> Iterator[Supervised]:
    each = Supervised(folder, script, **options)
    try:
        yield each
    finally:
        each.close()


@pytest.mark.parametrize(
    "script, said",
    [
        ("exit 0", "exited 0"),
        ("exit 255", "exited 255"),
        ("exit 137", "exited 137"),
        ("kill -KILL $$", "signalled 9"),
        ("kill -SEGV $$", "signalled 11"),
    ],
)
def test_how_the_program_ended_is_said_exactly(script: str, said: str, tmp_path: Path) -> None:
    with supervised(tmp_path, script) as each:
        assert each.wait() == said


TREES = {
    "child": "sleep 60 & echo $! > pid",
    "session": "setsid sh -c 'echo $$ > pid; exec sleep 60' &",
    "double fork": "setsid sh -c 'setsid sleep 60 & echo $! > pid' &",
    "deaf": "(trap '' TERM HUP INT; echo $BASHPID; exec sleep 60) > pid &",
    "stopped": "sh -c 'echo $$ > pid; kill -STOP $$' &",
    "nohup": "nohup sleep 60 > /dev/null 2>&1 & echo $! > pid",
}
TREE = pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
ENDED = "\nuntil [ -s pid ]; do sleep 0.01; done"


@linux
@TREE
def test_nobody_is_left_when_the_program_has_ended(tree: str, tmp_path: Path) -> None:
    with supervised(tmp_path, tree + ENDED) as each:
        assert each.wait() == "exited 0"

        assert not is_running(each.pid())


@linux
@TREE
def test_nobody_is_left_when_the_server_is_gone(tree: str, tmp_path: Path) -> None:
    with supervised(tmp_path, f"{tree}{ENDED}\nsleep 60") as each:
        pid = each.pid()

        each.leave()

        assert each.wait() == "signalled 15"
        assert not is_running(pid)


@linux
@TREE
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nobody_is_left_when_it_is_told_to_end(
    tree: str, number: signal.Signals, tmp_path: Path
) -> None:
    with supervised(tmp_path, f"{tree}{ENDED}\nsleep 60") as each:
        pid = each.pid()

        each.process.send_signal(number)

        assert each.wait() == "signalled 15"
        assert not is_running(pid)


@linux
def test_processes_that_multiply_do_not_get_away(tmp_path: Path) -> None:
    # Each lives only until it has a successor, in a session of its own.
    chain = """import os, sys
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    open("born", "a").write(f"{os.getpid()}\\n")
"""
    (tmp_path / "chain.py").write_text(chain)
    born = tmp_path / "born"

    with supervised(tmp_path, f"{sys.executable} -I -S chain.py; sleep 60") as each:
        wait_for(lambda: born.exists() and len(born.read_text().split()) > 1)
        each.leave()

        assert each.wait() == "signalled 15"
        assert not any(map(is_running, map(int, born.read_text().split())))


@linux
def test_a_wrapper_is_not_asked_so_that_the_program_inside_can_answer(
    tmp_path: Path,
) -> None:
    inside = "trap 'echo cleaned; exit 3' TERM; echo $$ > pid; sleep 60 & wait"
    (tmp_path / "inside.sh").write_text(inside)
    wrapper = "trap 'echo torn' TERM; sh inside.sh; exit $?"

    with supervised(tmp_path, wrapper, wrapper="yes") as each:
        each.pid()
        each.process.send_signal(signal.SIGTERM)

        assert each.wait() == "exited 3"
        assert each.process.stdout is not None
        assert each.process.stdout.read() == b"cleaned\n"


@linux
def test_no_orphan_becomes_a_zombie(tmp_path: Path) -> None:
    orphan = """sh -c '(exec sh -c "echo \\$\\$ > pid") &'
until [ -s pid ] && ! [ -e "/proc/$(cat pid)" ]; do sleep 0.01; done"""

    with supervised(tmp_path, orphan) as each:
        assert each.wait() == "exited 0"


def test_the_program_inherits_only_its_three_streams(tmp_path: Path) -> None:
    count = "import os; print(sorted(map(int, os.listdir('/dev/fd')))[:-1])"

    with supervised(tmp_path, f'exec {sys.executable} -I -c "{count}"') as each:
        assert each.wait() == "exited 0"
        assert each.process.stdout is not None
        assert each.process.stdout.read() == b"[0, 1, 2]\n"


LIMITS = {"memory": 2**30, "file": 4096, "processes": 20, "cpu": 7}


@linux
def test_the_limits_hold_for_the_program(tmp_path: Path) -> None:
    script = "ulimit -c; ulimit -d; ulimit -n; ulimit -t"

    with supervised(tmp_path, script, **LIMITS) as each:
        assert each.wait() == "exited 0"
        assert each.process.stdout is not None
        assert each.process.stdout.read() == b"0\n1048576\n1024\n7\n"


@linux
@pytest.mark.parametrize("access, end", [(0, "exited 0"), (3, "exited 1")])
def test_memory_that_is_only_reserved_does_not_count(access: int, end: str, tmp_path: Path) -> None:
    # As Node.js does for each worker, and Java for its heap.
    private = 0x22  # MAP_PRIVATE | MAP_ANONYMOUS
    code = f"import mmap; mmap.mmap(-1, 64 << 30, flags={private}, prot={access})"

    with supervised(tmp_path, f"exec {sys.executable} -I -c '{code}'", **LIMITS) as each:
        assert each.wait() == end


@linux
def test_a_file_that_grows_too_large_ends_the_program(tmp_path: Path) -> None:
    script = "exec head -c 10000 /dev/zero > large"

    with supervised(tmp_path, script, **LIMITS) as each:
        assert each.wait() == f"signalled {signal.SIGXFSZ.value}"

    assert (tmp_path / "large").stat().st_size == 4096


@linux
@pytest.mark.skipif(os.getuid() == 0, reason="the superuser has no limit of processes")
def test_there_can_be_only_so_many_processes(tmp_path: Path) -> None:
    script = "for n in $(seq 60); do sleep 60 & done; echo all"

    with supervised(tmp_path, script, **LIMITS) as each:
        each.wait()
        assert each.process.stdout is not None
        assert b"all" not in each.process.stdout.read()


def test_a_server_that_is_gone_before_it_has_said_what_to_run_starts_nothing(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM, "status=2", "bytes=10", "words=1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )

    assert (done.returncode, done.stderr) == (127, b"")


@linux
def test_a_kernel_that_lists_no_children_is_searched_for_them() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        listed = set(supervisor._read_children(os.getpid()))
        found = set(supervisor._scan_for_children(os.getpid()))
    finally:
        child.kill()
        child.wait()

    assert child.pid in found
    assert found == listed
