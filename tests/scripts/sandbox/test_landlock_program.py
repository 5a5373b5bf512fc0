"""The program that confines itself: all of it holds, or nothing is run."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.landlock_program import compose_call_filter
from skills_mcp.scripts.sandbox import derive_landlock_prefix, probe_tier

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or bool(probe_tier(derive_landlock_prefix)),
    reason="Landlock does not work here",
)


def confine(grants: Grants, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which(words[0]) or words[0]
    return subprocess.run(
        [*derive_landlock_prefix(grants), program, *words[1:]],
        check=False,
        capture_output=True,
        text=True,
        cwd=grants.home,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


def python(grants: Grants, code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    own = Grants(
        home=grants.home,
        readable=(Path(sys.base_prefix).resolve(), *grants.readable),
        network=grants.network,
    )
    interpreter = str(Path(sys.executable).resolve())
    return confine(own, interpreter, "-I", "-S", "-c", code, **environment)


@pytest.fixture
def grants(tmp_path: Path) -> Grants:
    return Grants(home=tmp_path.resolve())


def test_the_program_becomes_the_command_and_its_exit_code(grants: Grants) -> None:
    done = confine(grants, "sh", "-c", 'echo "$0 $X"; exit 7', "a b", X="1")

    assert (done.stdout, done.stderr, done.returncode) == ("a b 1\n", "", 7)


@pytest.mark.parametrize(
    "told",
    [
        "",
        "/usr",
        "{}",
        "runnable=/usr",
        "readable=/no/such/place",
    ],
)
def test_what_cannot_be_confined_is_not_run(told: str, tmp_path: Path) -> None:
    program = derive_landlock_prefix(Grants(home=tmp_path))[:4]

    done = subprocess.run(
        [*program, told, "--", "touch", f"{tmp_path}/ran"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 125
    assert done.stderr.startswith("[skills-mcp] sandbox: ")
    assert not (tmp_path / "ran").exists()


def test_a_command_that_is_not_there_is_said(grants: Grants) -> None:
    done = confine(grants, "no-such-program")

    assert done.returncode == 125
    assert "No such file" in done.stderr


def test_nothing_of_the_project_is_imported_by_it(grants: Grants) -> None:
    for name in ("struct.py", "ctypes.py", "os.py"):
        (grants.home / name).write_text("raise SystemExit('imported')")

    done = confine(grants, "true", PYTHONPATH=str(grants.home))

    assert (done.returncode, done.stderr) == (0, "")


SOCKETS = """
import socket
def attempt(name, act):
    try:
        act()
        print(name, "made")
    except OSError as error:
        print(name, error.strerror)
attempt("tcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("unix", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
attempt("pair", lambda: socket.socketpair())
attempt("datagrams", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
"""


def test_without_a_network_only_streams_of_its_own_are_left(grants: Grants) -> None:
    done = python(grants, SOCKETS)

    denied = "Permission denied"
    assert dict(line.split(" ", 1) for line in done.stdout.splitlines()) == {
        "tcp": denied,
        "udp": denied,
        "unix": "made",
        "pair": "made",
        "datagrams": denied,
    }


def test_with_a_network_there_are_no_sockets_with_a_path(grants: Grants) -> None:
    done = python(Grants(home=grants.home, network=True), SOCKETS)

    denied = "Permission denied"
    assert dict(line.split(" ", 1) for line in done.stdout.splitlines()) == {
        "tcp": "made",
        "udp": "made",
        "unix": denied,
        "pair": "made",
        "datagrams": denied,
    }


SHARED = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    done = getattr(libc, name)(*arguments)
    print(name, "made" if done >= 0 else os.strerror(ctypes.get_errno()))
attempt("shmget", 0, 4096, 0o1600)
attempt("semget", 0, 1, 0o1600)
attempt("msgget", 0, 0o1600)
attempt("mq_open", b"/skills", os.O_RDONLY)
"""


def test_nothing_that_programs_share_by_a_number_is_left(grants: Grants) -> None:
    done = python(grants, SHARED)

    names = ("shmget", "semget", "msgget", "mq_open")
    refused = "Operation not permitted"
    assert done.stdout.splitlines() == [f"{name} {refused}" for name in names]


def test_limits_can_be_set_for_oneself_and_for_nobody_else(grants: Grants) -> None:
    code = (
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "try: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)\n"
        "except PermissionError as error: print(error)"
    )

    done = python(grants, code)

    assert done.stdout == "(50, 50)\n[Errno 1] Operation not permitted\n"


OF_A_CHILD = """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if not child:
    time.sleep(600)
def attempt(name, *arguments):
    ctypes.set_errno(0)
    libc[name](*arguments)
    print(name, os.strerror(ctypes.get_errno()))
processors, number = ctypes.c_ulong(1), ctypes.c_int(0)
attempt("sched_setaffinity", child, 8, ctypes.byref(processors))
attempt("sched_setscheduler", child, os.SCHED_IDLE, ctypes.byref(number))
attempt("sched_setparam", child, ctypes.byref(number))
attempt("setpriority", os.PRIO_PROCESS, child, 1)
attempt("setpriority", os.PRIO_PGRP, 0, 1)
attempt("setpriority", os.PRIO_USER, 0, 1)
attempt("syscall", {"x86_64": 251, "aarch64": 30}[os.uname().machine], 1, child, 0x6000)
attempt("pidfd_open", child, 0)
attempt("process_vm_readv", child, None, 0, None, 0, 0)
attempt("inotify_init")
os.kill(child, 9)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


def test_a_process_is_changed_by_itself_alone(grants: Grants) -> None:
    done = python(grants, OF_A_CHILD)

    *refused, killed_by = done.stdout.splitlines()
    assert len(refused) == 10
    assert {line.split(" ", 1)[1] for line in refused} == {"Operation not permitted"}
    assert killed_by == "9", done.stderr


OF_ITSELF = """
import asyncio, os, shutil
os.nice(1)
os.setpriority(os.PRIO_PROCESS, 0, 2)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
open("file", "w").close()
os.chmod("file", 0o700)
os.utime("file", (1, 1))
shutil.copy2("file", "copy")
async def run():
    process = await asyncio.create_subprocess_exec("/bin/cp", "-p", "copy", "second")
    return await process.wait()
print(asyncio.run(run()), oct(os.stat("second").st_mode & 0o777))
"""


def test_a_process_sets_its_own_priority_and_copies_files(grants: Grants) -> None:
    done = python(grants, OF_ITSELF)

    assert (done.stdout, done.stderr) == ("0 0o700\n", "")


def test_files_have_no_extended_attributes(grants: Grants) -> None:
    code = (
        "import os\n"
        "open('file', 'w').close()\n"
        "try: os.setxattr('file', 'user.skills', b'written')\n"
        "except OSError as error: print(error.strerror)"
    )

    done = python(grants, code)

    assert done.stdout == "Operation not supported\n"


def test_git_works_where_the_system_has_settings_for_it(grants: Grants) -> None:
    done = confine(grants, "git", "init", "-q", "repository")

    assert (done.stderr, done.returncode) == ("", 0)


def test_threads_and_children_work_as_ever(grants: Grants) -> None:
    code = (
        "import subprocess, threading\n"
        "t = threading.Thread(target=lambda: print('thread', flush=True))\n"
        "t.start(); t.join()\n"
        "subprocess.run(['/bin/sh', '-c', 'echo child | cat'])"
    )

    done = python(grants, code)

    assert (done.stdout.split(), done.stderr) == (["thread", "child"], "")


def test_it_cannot_gain_rights_any_more(grants: Grants) -> None:
    done = confine(
        Grants(home=grants.home), "grep", "-E", "^(NoNewPrivs|CapEff|CapBnd|Seccomp):",
        "/proc/self/status",
    )  # fmt: skip

    status = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status["CapEff"], 16) == 0
    if os.geteuid() == 0:
        assert int(status["CapBnd"], 16) == 0


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("has_network", [True, False])
@pytest.mark.parametrize("has_namespaces", [True, False])
def test_each_filter_has_whole_instructions_and_ends(
    machine: str,
    has_network: bool,  # noqa: FBT001
    has_namespaces: bool,  # noqa: FBT001
) -> None:
    code = compose_call_filter(machine, has_network=has_network, has_namespaces=has_namespaces)

    steps = list(struct.iter_unpack("HBBI", code))
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)
    for number, (operation, if_true, if_false, _) in enumerate(steps):
        if operation != 0x06:
            assert number + 1 + max(if_true, if_false) < len(steps)


def test_a_machine_whose_calls_are_not_known_has_no_filter() -> None:
    with pytest.raises(NotImplementedError, match="for pdp11"):
        compose_call_filter("pdp11", has_network=True, has_namespaces=True)


def test_places_are_told_as_the_file_system_spells_them(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()

    words = derive_landlock_prefix(Grants(home=tmp_path, readable=(folder,)))

    assert f"readable={folder}" in words
