"""The strongest tier that works is taken, and nothing runs in a weaker one unsaid."""

import ctypes
import errno
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skills_mcp.config import Scripts
from skills_mcp.config.values import SandboxDemand
from skills_mcp.errors import RunnerNotFoundError, SandboxUnavailableError
from skills_mcp.scripts.execution import (
    CONFINING_TIERS,
    Grants,
    PreparedCommand,
    ProcessLimits,
)
from skills_mcp.scripts.landlock_program import OLDEST_ABI
from skills_mcp.scripts.sandbox import Sandbox
from tests.support import write

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a sandbox of Linux")
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sandbox")
_PATH = "/usr/bin:/bin"


@pytest.fixture
def grants(tmp_path: Path) -> Grants:
    """Return what a run may reach: a private home."""
    (tmp_path / "run/home").mkdir(parents=True)
    return Grants(home=(tmp_path / "run/home").resolve())


def sandbox(path: str = _PATH, *, only: tuple[str, ...] = CONFINING_TIERS) -> Sandbox:
    offered = tuple(name for name in CONFINING_TIERS if name in only)
    return Sandbox(Path.home(), path, offered)


def a_command(grants: Grants, *words: str, path: str = _PATH) -> PreparedCommand:
    return PreparedCommand(
        words=words,
        environment={"PATH": path},
        working_directory=grants.home,
        timeout_seconds=10,
        max_output_bytes=1000,
    )


def a_fake_bwrap(folder: Path, text: str) -> str:
    """Return a PATH in which this is bwrap."""
    program = write(folder / "fake/bwrap", f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return f"{program.parent}:{_PATH}"


# --- which tier ----------------------------------------------------------------


def can_bubblewrap() -> bool:
    """Whether bwrap itself works here, with none of our options."""
    options = ("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net")
    mounts = ("--ro-bind", "/", "/", "--proc", "/proc")
    try:
        done = subprocess.run(
            ["bwrap", *options, *mounts, "true"], check=False, capture_output=True
        )
    except OSError:
        return False
    return done.returncode == 0


def can_landlock() -> bool:
    """Whether the kernel says that it has enough of Landlock."""
    abi: int = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return abi >= OLDEST_ABI and os.uname().machine in {"x86_64", "aarch64"}


@linux
@pytest.mark.parametrize("name, can", [("bubblewrap", can_bubblewrap), ("landlock", can_landlock)])
def test_a_tier_that_the_machine_can_have_works(name: str, can: Callable[[], bool]) -> None:
    if not can():
        pytest.skip(f"{name} does not work here")

    choice = sandbox(only=(name,)).choose("best_effort")

    assert choice.name == name, choice.missing


@linux
@pytest.mark.parametrize(
    "text, reason",
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No perm"),
        ("exit 7", "it does not restrict access to files"),
        # What only starts its arguments is no sandbox, whatever it is called.
        ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "does not restrict"),
    ],
    ids=["no-namespaces", "silent", "holds-nothing"],
)
def test_a_bubblewrap_that_does_not_hold_is_passed_over(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = a_fake_bwrap(tmp_path, text)

    choice = sandbox(path).choose("best_effort")

    assert choice.name in {"landlock", "limits"}
    assert choice.missing[0].startswith("bubblewrap: ")
    assert reason in choice.missing[0]


@linux
def test_a_kernel_that_forbids_user_namespaces_leaves_landlock() -> None:
    words = ("unshare", "--user", "--map-root-user", "sh", "-c")
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    code = (
        "from pathlib import Path\n"
        "from skills_mcp.scripts.sandbox import Sandbox\n"
        f"print(Sandbox(Path('/'), {_PATH!r}).choose('best_effort').name)"
    )
    done = subprocess.run(
        [*words, forbid, "sh", sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ,
    )

    if "unshare failed" in done.stderr or "max_user_namespaces" in done.stderr:
        pytest.skip(f"not permitted here: {done.stderr}")
    assert done.stdout.strip() in {"landlock", "limits"}, done.stderr


def test_a_machine_without_any_has_limits_or_nothing() -> None:
    choice = sandbox(only=()).choose("best_effort")

    assert choice.name == ("none" if sys.platform == "win32" else "limits")


@pytest.mark.spec("12.2")
def test_where_one_is_required_a_machine_without_is_told_what_to_do() -> None:
    advice = {"darwin": "start the server outside", "win32": "run the server in WSL 2"}
    said = advice.get(sys.platform, r"it is not installed\. Install bubblewrap 0\.8")

    with pytest.raises(SandboxUnavailableError, match=said):
        sandbox("/nowhere", only=("bubblewrap",)).choose("required")


def test_an_operator_who_wants_none_gets_none_and_no_probe(tmp_path: Path) -> None:
    path = a_fake_bwrap(tmp_path, f"touch {tmp_path}/probed; exit 1")

    choice = sandbox(path, only=("bubblewrap",)).choose("off")

    assert choice.name == "none"
    assert not (tmp_path / "probed").exists()


@linux
def test_each_tier_is_probed_once(tmp_path: Path) -> None:
    path = a_fake_bwrap(tmp_path, f"echo >> {tmp_path}/probes; exit 1")
    chosen = sandbox(path, only=("bubblewrap",))

    for _ in range(3):
        chosen.choose("best_effort")

    assert (tmp_path / "probes").read_text() == "\n"


@linux
def test_without_room_to_try_nothing_weaker_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = sandbox()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))

    with pytest.raises(SandboxUnavailableError, match=r"No such file.*TMPDIR"):
        each.choose("best_effort")

    monkeypatch.undo()
    assert each.choose("best_effort").name == sandbox().choose("best_effort").name


# --- what is put around a command ------------------------------------------------


def test_a_program_that_is_not_installed_is_said(grants: Grants) -> None:
    with pytest.raises(RunnerNotFoundError, match="'no-such-program' is not installed"):
        sandbox().wrap(a_command(grants, "no-such-program"), grants, Scripts())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_without_a_sandbox_the_program_runs_as_it_is(grants: Grants) -> None:
    command = a_command(grants, "sh", "-c", "true")

    wrapped = sandbox().wrap(command, grants, Scripts(sandbox="off"))

    assert wrapped.words[1:] == ("-c", "true")
    assert Path(wrapped.words[0]).is_absolute()
    assert (wrapped.sandbox, wrapped.limits) == ("none", None)


@pytest.mark.skipif(sys.platform == "win32", reason="needs rlimits")
@pytest.mark.parametrize("only", [(), *((name,) for name in CONFINING_TIERS)])
def test_every_tier_has_limits(grants: Grants, only: tuple[str, ...]) -> None:
    rules = Scripts(max_memory_bytes=1, max_file_bytes=2)

    wrapped = sandbox(only=only).wrap(a_command(grants, "sh"), grants, rules)

    assert wrapped.limits == ProcessLimits(memory_bytes=1, file_bytes=2, processes=64)


@posix
@pytest.mark.parametrize("name", CONFINING_TIERS)
def test_what_is_named_readable_can_be_read_and_nothing_beside_it(
    grants: Grants, name: str, tmp_path: Path
) -> None:
    opened = write(tmp_path / "opened/file", "text")
    closed = write(tmp_path / "closed/file", "text")
    rules = Scripts(readable=(str(opened.parent), "/no/such/folder"))

    def read(file: Path) -> int:
        command = a_command(grants, "cat", str(file))
        wrapped = sandbox(only=(name,)).wrap(command, grants, rules)
        if wrapped.sandbox != name:
            pytest.skip(f"{name} does not work here")
        done = subprocess.run(
            wrapped.words,
            check=False,
            capture_output=True,
            cwd=wrapped.working_directory,
            env=wrapped.environment,
        )
        return done.returncode

    assert read(opened) == 0
    assert read(closed) != 0


@posix
@pytest.mark.parametrize("name", CONFINING_TIERS)
def test_a_program_that_may_not_be_started_hides_no_other(
    grants: Grants, name: str, tmp_path: Path
) -> None:
    # As the folders of pyenv and nvm do, which stand first in the PATH.
    write(tmp_path / "closed/cat", "#!/bin/sh\n").chmod(0o755)
    path = f"{tmp_path}/closed:{_PATH}"
    command = a_command(grants, "bash", "-c", "echo found | cat", path=path)

    wrapped = sandbox(only=(name,)).wrap(command, grants, Scripts())

    if wrapped.sandbox != name:
        pytest.skip(f"{name} does not work here")
    done = subprocess.run(
        wrapped.words,
        check=False,
        capture_output=True,
        cwd=grants.home,
        env=wrapped.environment,
    )
    assert (done.stdout, done.stderr) == (b"found\n", b"")


@linux
@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_a_tier_that_breaks_after_its_probe_runs_nothing(
    grants: Grants, name: str, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    broken = Grants(home=grants.home, readable=(gone,))
    command = a_command(grants, "sh", "-c", f"touch {grants.home}/ran")

    wrapped = sandbox(only=(name,)).wrap(command, broken, Scripts())

    if wrapped.sandbox != name:
        pytest.skip(f"{name} does not work here")
    done = subprocess.run(wrapped.words, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "gone" in done.stderr
    assert not (grants.home / "ran").exists()


@linux
def test_a_tier_without_room_for_its_filter_says_so(grants: Grants) -> None:
    each = sandbox(only=("bubblewrap",))
    if each.choose("best_effort").name != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    gone = Grants(home=grants.home / "gone/home")

    with pytest.raises(SandboxUnavailableError, match="No such file"):
        each.wrap(a_command(grants, "sh"), gone, Scripts())


SOCKETS = """
import socket
def attempt(name, family, kind=socket.SOCK_STREAM, number=0, make=socket.socket):
    try: make(family, kind, number)
    except OSError as error: print(name, "refused" if error.errno == 13 else error)
    else: print(name, "made")
attempt("internet", socket.AF_INET)
attempt("unix", socket.AF_UNIX)
attempt("unix datagrams", socket.AF_UNIX, socket.SOCK_DGRAM)
attempt("pair", socket.AF_UNIX, make=socket.socketpair)
attempt("pair of datagrams", socket.AF_UNIX, socket.SOCK_DGRAM, make=socket.socketpair)
attempt("pair across machines", 30, make=socket.socketpair)
attempt("virtual machines", 40)
attempt("cryptography", 38, socket.SOCK_SEQPACKET)
server = socket.socketpair()[0]
try: server.connect("nowhere")
except OSError as error: print("connection", error.errno)
"""


@linux
@pytest.mark.parametrize(
    "name, is_granted, made",
    [
        ("bubblewrap", False, {"internet", "unix", "pair"}),
        ("bubblewrap", True, {"internet", "pair"}),
        ("landlock", False, {"unix", "pair"}),
        ("landlock", True, {"internet", "pair"}),
    ],
)
def test_sockets_that_lead_to_other_programs_cannot_be_made(
    grants: Grants,
    name: str,
    is_granted: bool,  # noqa: FBT001
    made: set[str],
) -> None:
    code = (sys.executable, "-I", "-S", "-c", SOCKETS)

    done = run_in(name, replace(grants, network=is_granted), *code)

    lines = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    said = {kind: end for kind, end in lines if kind != "connection"}
    assert len(said) == 8, done.stderr
    assert {kind for kind, end in said.items() if end == "made"} == made
    assert set(said.values()) == {"made", "refused"}
    # Refused before the kernel looks at the path: a filter cannot tell whose it is.
    missing = str(errno.ENOENT if is_granted else errno.EACCES)
    assert ["connection", missing] in lines


@posix
@pytest.mark.parametrize("name", CONFINING_TIERS)
def test_event_loops_and_children_need_no_other_sockets(grants: Grants, name: str) -> None:
    code = (
        "import asyncio\n"
        "async def main():\n"
        "    pipe = asyncio.subprocess.PIPE\n"
        "    child = await asyncio.create_subprocess_exec('echo', 'hi', stdout=pipe)\n"
        "    print(await child.stdout.read())\n"
        "    await child.wait()\n"  # else its end may be told to a closed loop
        "asyncio.run(main())"
    )

    done = run_in(name, grants, sys.executable, "-I", "-S", "-c", code)

    assert (done.stdout, done.stderr) == ("b'hi\\n'\n", "")


def run_in(name: str, grants: Grants, *words: str) -> "subprocess.CompletedProcess[str]":
    wrapped = sandbox(only=(name,)).wrap(a_command(grants, *words), grants, Scripts())
    if wrapped.sandbox != name:
        pytest.skip(f"{name} does not work here")
    return subprocess.run(
        wrapped.words,
        check=False,
        capture_output=True,
        text=True,
        cwd=grants.home,
        env=wrapped.environment,
    )


@linux
def test_a_machine_whose_calls_cannot_be_filtered_has_no_sandbox() -> None:
    code = (
        "from pathlib import Path\n"
        "from skills_mcp.scripts.sandbox import Sandbox\n"
        f"print(*Sandbox(Path('/'), {_PATH!r}).choose('best_effort').missing)"
    )

    done = subprocess.run(
        ["setarch", "linux32", sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ,
    )

    if "setarch" in done.stderr:
        pytest.skip(f"not permitted here: {done.stderr}")
    for name in ("bubblewrap", "landlock"):
        fault = rf"{name}: (it is not installed|.*no filter of system calls for i686)"
        assert re.search(fault, done.stdout), done.stdout


@posix
@pytest.mark.parametrize("demand", ["best_effort", "required"])
def test_a_demand_takes_the_strongest(demand: SandboxDemand) -> None:
    chosen = sandbox().choose("best_effort")

    if chosen.name not in CONFINING_TIERS:
        pytest.skip("no sandbox works here")
    assert sandbox().choose(demand).name == chosen.name


@posix
@pytest.mark.parametrize("is_granted", [True, False])
@pytest.mark.parametrize("name", CONFINING_TIERS)
def test_the_network_is_there_if_it_is_granted_and_only_then(
    grants: Grants,
    name: str,
    is_granted: bool,  # noqa: FBT001
) -> None:
    if sandbox(only=(name,)).choose("best_effort").name != name:
        pytest.skip(f"{name} does not work here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = a_command(grants, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}")

        wrapped = sandbox(only=(name,)).wrap(
            command, replace(grants, network=is_granted), Scripts()
        )
        done = subprocess.run(wrapped.words, check=False, cwd=grants.home)

    assert (done.returncode == 0) == is_granted
