"""Hostile scripts, and how their effect is observed from outside.

Each attempt is a script of its own and a watcher that knows nothing of the script but
what it leaves behind: a file, a dead process, a line on the user's terminal. What can
only be said inside, such as how much memory there was, the script prints.
"""

import ctypes
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SECRET = "hunter2-" + uuid.uuid4().hex
"""A secret in each place that a script must not see."""

Worked = Callable[[str], bool]
"""Whether the attempt worked, given what the script printed."""
Watch = AbstractContextManager[tuple[Mapping[str, str], Worked]]
"""Prepares an attempt; yields the arguments of the script, and its check."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The surroundings of an attempt, outside of its sandbox."""

    folder: Path
    """A folder of the attempt; the script must not change it."""
    home: Path
    """The user's home."""
    skill: Path
    """The folder of the skill."""
    project: Path
    """The folder that the script is given as `cwd`."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attack."""

    name: str
    group: str
    what: str
    """What the script tries, for a table."""
    script: str
    watch: Callable[[Stage], Watch]
    system: str | None = None
    """The only system that has what is attacked, as in `sys.platform`."""

    @property
    def is_possible(self) -> bool:
        """Whether this system has what is attacked."""
        return self.system in {None, sys.platform}


ATTEMPTS: list[Attempt] = []
MARKER = "still-here-"


def attempt(
    group: str, what: str, script: str, *, system: str | None = None
) -> Callable[[Callable[[Stage], Iterator[tuple[Mapping[str, str], Worked]]]], None]:
    """Register an attempt under the name of its watcher."""

    def register(
        watch: Callable[[Stage], Iterator[tuple[Mapping[str, str], Worked]]],
    ) -> None:
        name = watch.__name__.strip("_").replace("_", "-")
        ATTEMPTS.append(Attempt(name, group, what, script, contextmanager(watch), system))

    return register


def has_secret(printed: str) -> bool:
    """Whether a script has printed the secret."""
    return SECRET in printed


_READ = "print(open(a('path'), errors='replace').read())"
_WRITE = "open(a('path'), 'a').write('written')"


# --- secrets ------------------------------------------------------------------


@attempt("Secrets", "Print its environment", "print(os.environ)")
def _environment(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {}, has_secret


@attempt(
    "Secrets",
    "Read the environment of another process",
    "import ctypes, sys\n"
    "if sys.platform == 'linux':\n"
    "    print(open(f\"/proc/{a('pid')}/environ\").read())\n"
    "else:\n"
    "    size = ctypes.c_size_t(1 << 20)\n"
    "    kept = ctypes.create_string_buffer(size.value)\n"
    "    name = (ctypes.c_int * 3)(1, 49, int(a('pid')))  # KERN_PROCARGS2\n"
    "    ctypes.CDLL(None).sysctl(name, 3, kept, ctypes.byref(size), None, 0)\n"
    "    print(kept.raw[:size.value])",
)
def _environment_of_others(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        yield {"pid": str(pid)}, has_secret


@attempt("Secrets", "Read the command line of another process", _READ, system="linux")
def _command_lines(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        yield {"path": f"/proc/{pid}/cmdline"}, has_secret


@attempt("Secrets", "Read a key in the home", _READ)
def _ssh_key(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {"path": str(plant(stage.home / ".ssh/id_ed25519"))}, has_secret


@attempt(
    "Secrets",
    "Read that key by way of `/proc/self/root`",
    _READ.replace("a('path')", "'/proc/self/root' + a('path')"),
    system="linux",
)
def _root_of_itself(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {"path": str(plant(stage.home / ".ssh/id_itself"))}, has_secret


@attempt(
    "Secrets",
    "Read that key by way of `/proc/1/root`",
    _READ.replace("a('path')", "'/proc/1/root' + a('path')"),
    system="linux",
)
def _root_of_the_first(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {"path": str(plant(stage.home / ".ssh/id_first"))}, has_secret


@attempt(
    "Secrets",
    "Read that key by way of the root of another process",
    _READ.replace("a('path')", "'/proc/' + a('pid') + '/root' + a('path')"),
    system="linux",
)
def _root_of_others(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    key = plant(stage.home / ".ssh/id_others")
    with victim(stage) as pid:
        yield {"path": str(key), "pid": str(pid)}, has_secret


@attempt(
    "Secrets",
    "Read that key by way of `/System/Volumes/Data`",
    _READ.replace("a('path')", "'/System/Volumes/Data' + a('path')"),
    system="darwin",
)
def _data_volume(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    key = plant(stage.home / ".ssh/id_volume")
    yield {"path": str(key.resolve())}, has_secret


@attempt("Secrets", "Read `/etc/shadow`", _READ, system="linux")
def _shadow(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {"path": "/etc/shadow"}, lambda printed: "root:" in printed


@attempt(
    "Secrets",
    "Watch which files of the home are opened",
    "import ctypes\n"
    "c = ctypes.CDLL(None)\n"
    "watch = c.inotify_add_watch(c.inotify_init(), a('path').encode(), 0xfff)\n"
    "print('made' if watch >= 0 else '')",
    system="linux",
)
def _watch_home(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    key = plant(stage.home / ".ssh/id_watched")
    yield {"path": str(key.parent)}, lambda printed: "made" in printed


@attempt("Secrets", "Read what other windows keep in the cache and the state", _READ)
def _cache_of_others(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {"path": str(plant(stage.home / ".skills-mcp/spool/events"))}, has_secret


@attempt("Secrets", "Read a file through a link in its `cwd`", _READ)
def _link_out_of_cwd(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    link = stage.project / "notes"
    link.symlink_to(plant(stage.folder / "notes"))
    yield {"path": str(link)}, has_secret


@attempt("Secrets", "Read a file that others share in the temporary folder", _READ)
def _shared_temporary_folder(
    _: Stage,
) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(SECRET)
        file.flush()
        yield {"path": file.name}, has_secret


@attempt(
    "Secrets",
    "Read memory that other processes share",
    "import ctypes\nc = ctypes.CDLL(None)\nc.shmat.restype = ctypes.c_void_p\n"
    "p = c.shmat(int(a('mark')), None, 0o10000)\n"
    "print(ctypes.string_at(p).decode() if p != 2**64 - 1 else '')",
)
def _shared_memory(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(0, 4096, 0o1600)
    place = libc.shmat(number, None, 0)
    try:
        ctypes.memmove(place, SECRET.encode(), len(SECRET))
        yield {"mark": str(number)}, has_secret
    finally:
        libc.shmdt(ctypes.c_void_p(place))
        libc.shmctl(number, 0, None)


@attempt(
    "Secrets",
    "Read a descriptor that the server has open",
    "for n in range(3, 1024):\n    try: print(os.pread(n, 1000, 0))\n    except OSError: pass",
)
def _inherited_descriptor(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with plant(stage.folder / "open").open() as handle:
        os.set_inheritable(handle.fileno(), True)  # noqa: FBT003 - takes no names
        yield {}, has_secret


# --- writing ------------------------------------------------------------------


@attempt("Writing", "Add a file to its skill", _WRITE)
def _write_skill(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_written(stage.skill / "scripts/more.py")


@attempt("Writing", "Change a script of its skill", _WRITE)
def _change_skill(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_written(stage.skill / "scripts/neighbour.py")


@attempt(
    "Writing",
    "Change a script of its skill through a second name in its home",
    "n = os.environ['HOME'] + '/link'\nos.link(a('path'), n)\n" + _WRITE.replace("a('path')", "n"),
)
def _link_of_skill(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_written(stage.skill / "scripts/linked.py")


@attempt("Writing", "Change the permissions of its skill", "os.chmod(a('path'), 0o777)")
def _chmod_skill(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    folder = stage.skill / "scripts"
    before = folder.stat().st_mode
    yield {"path": str(folder)}, lambda _: folder.stat().st_mode != before


@attempt(
    "Writing",
    "Change the permissions of a key in the home",
    "os.chmod(a('path'), 0o666)",
    system="linux",
)
def _chmod_key(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    key = plant(stage.home / ".ssh/id_open")
    before = key.stat().st_mode
    yield {"path": str(key)}, lambda _: key.stat().st_mode != before


@attempt(
    "Writing",
    "Change the times of a key in the home",
    "os.utime(a('path'), (1, 1))",
    system="linux",
)
def _touch_key(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    key = plant(stage.home / ".ssh/id_old")
    yield {"path": str(key)}, lambda _: int(key.stat().st_mtime) == 1


@attempt(
    "Writing",
    "Give a key in the home an extended attribute",
    "os.setxattr(a('path'), 'user.skills', b'written')",
    system="linux",
)
def _attribute_of_key(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    key = plant(stage.home / ".ssh/id_marked")
    yield {"path": str(key)}, lambda _: "user.skills" in os.listxattr(key)


@attempt("Writing", "Write into its `cwd`", _WRITE)
def _write_cwd(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_written(stage.project / "file")


@attempt("Writing", "Write into a folder elsewhere", _WRITE)
def _write_elsewhere(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_written(stage.folder / "file")


@attempt("Writing", "Write into the start file of the user's shell", _WRITE)
def _write_bashrc(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_written(stage.home / ".bashrc")


@attempt("Writing", "Empty a file elsewhere", "os.truncate(a('path'), 0)")
def _truncate_elsewhere(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    file = plant(stage.folder / "full")
    yield {"path": str(file)}, lambda _: not file.stat().st_size


def _is_written(file: Path) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield (
        {"path": str(file)},
        lambda _: file.exists() and "written" in file.read_text(),
    )


# --- network and other processes' sockets ---------------------------------------

_CONNECT = (
    "import socket\ns = socket.socket({family}, socket.SOCK_{kind})\n"
    "s.connect({address})\ns.send(b'come in')"
)


@attempt(
    "Network",
    "TCP to this machine",
    _CONNECT.format(
        family="socket.AF_INET", kind="STREAM", address="('127.0.0.1', int(a('port')))"
    ),
)
def _tcp(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as (
        name,
        worked,
    ):
        yield {"port": str(name[1])}, worked


@attempt(
    "Network",
    "UDP to this machine",
    _CONNECT.format(family="socket.AF_INET", kind="DGRAM", address="('127.0.0.1', int(a('port')))"),
)
def _udp(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)) as (
        name,
        worked,
    ):
        yield {"port": str(name[1])}, worked


_TO_PATH = _CONNECT.format(
    family="socket.AF_UNIX", kind="STREAM", address="a('path').replace('@', chr(0))"
)


@attempt("Network", "A socket with a path, as agents and Docker have", _TO_PATH)
def _socket_with_path(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    # The names of sockets are short, and folders of tests are long.
    with tempfile.TemporaryDirectory() as name:
        path = f"{name}/agent"
        with listening(socket.AF_UNIX, socket.SOCK_STREAM, path) as (_name, worked):
            yield {"path": path}, worked


@attempt(
    "Network",
    "A datagram to a socket with a path, as the system's log has",
    "import socket\n"
    "try: s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "except OSError: s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "s.sendto(b'come in', a('path'))",
)
def _datagram_with_path(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with tempfile.TemporaryDirectory() as name:
        path = f"{name}/log"
        with listening(socket.AF_UNIX, socket.SOCK_DGRAM, path) as (_name, worked):
            yield {"path": path}, worked


_TO_SOCKET_HERE = f"os.chdir(a('path'))\n{_TO_PATH}".replace(
    "a('path').replace('@', chr(0))", "'agent'"
)


@attempt("Network", "A socket in its `cwd`", _TO_SOCKET_HERE)
def _socket_in_cwd(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_reached(stage.project)


@attempt("Network", "A socket in the folder of its skill", _TO_SOCKET_HERE)
def _socket_in_skill(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_reached(stage.skill)


def _is_reached(
    folder: Path, kind: socket.SocketKind = socket.SOCK_STREAM
) -> Iterator[tuple[Mapping[str, str], Worked]]:
    # The names of sockets are short, and folders of tests are long.
    with tempfile.TemporaryDirectory() as name:
        link = Path(name, "folder")
        link.symlink_to(folder)
        path = f"{link}/agent"
        try:
            with listening(socket.AF_UNIX, kind, path) as (_name, worked):
                yield {"path": str(folder)}, worked
        finally:
            Path(path).unlink()


@attempt(
    "Network",
    "A datagram to a socket in its `cwd`",
    "import socket\nos.chdir(a('path'))\n"
    "try: s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "except OSError: s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "s.sendto(b'come in', 'agent')",
)
def _datagram_in_cwd(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_reached(stage.project, socket.SOCK_DGRAM)


@attempt(
    "Network",
    "TCP to an allowed name with a NUL byte, which ends it early",
    "import ctypes, socket\n"
    "class Host(ctypes.Structure):\n"
    "    _fields_ = [('name', ctypes.c_char_p), ('more', ctypes.c_void_p),\n"
    "        ('family', ctypes.c_int), ('length', ctypes.c_int),\n"
    "        ('addresses', ctypes.POINTER(ctypes.c_void_p))]\n"
    "find = ctypes.CDLL(None).gethostbyname\n"
    "find.restype = ctypes.POINTER(Host)\n"
    "found = find(b'127.0.0.1\\0.allowed.example').contents\n"
    "address = socket.inet_ntoa(ctypes.string_at(found.addresses[0], 4))\n"
    + _CONNECT.format(family="socket.AF_INET", kind="STREAM", address="(address, int(a('port')))"),
)
def _name_with_nul(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as (
        name,
        worked,
    ):
        yield {"port": str(name[1])}, worked


@attempt(
    "Network",
    "A socket between virtual machines, to listen for others",
    "import socket\n"
    "s = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)\n"
    "s.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY)); s.listen()\n"
    "print('made')",
    system="linux",
)
def _vsock(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


@attempt(
    "Network",
    "A ring of io_uring, which opens sockets unseen by filters",
    "import ctypes\n"
    "r = ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(200))\n"
    "print('made' if r >= 0 else r)",
    system="linux",
)
def _io_uring(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


@attempt("Network", "An abstract socket, as desktops have", _TO_PATH, system="linux")
def _abstract_socket(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    name = f"skills-{uuid.uuid4().hex}"
    with listening(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{name}") as (_name, worked):
        yield {"path": f"@{name}"}, worked


# --- other processes ------------------------------------------------------------


@attempt("Processes", "Kill another process", "os.kill(int(a('pid')), 9)")
def _kill(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        yield {"pid": str(pid)}, lambda _: _has_ended(pid)


@attempt(
    "Processes",
    "Trace another process",
    "import ctypes\n"
    "p = ctypes.CDLL(None).ptrace\n"
    "p.argtypes = [ctypes.c_long] * 4\n"
    "p(0x4206, int(a('pid')), 0, 0x100000)",  # seize it, and kill it when we end
    system="linux",
)
def _trace(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        yield {"pid": str(pid)}, lambda _: _has_ended(pid)


@attempt(
    "Processes",
    "Take all time of the processor from another process",
    "import resource\nresource.prlimit(int(a('pid')), resource.RLIMIT_CPU, (0, 0))",
    system="linux",
)
def _limit(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        yield {"pid": str(pid)}, lambda _: _has_ended(pid) or _has_no_time(pid)


def _has_no_time(pid: int) -> bool:
    import resource  # Windows has none

    return resource.prlimit(pid, resource.RLIMIT_CPU) == (0, 0)


@attempt(
    "Processes",
    "Keep another process to one processor",
    "os.sched_setaffinity(int(a('pid')), list(os.sched_getaffinity(0))[:1])",
    system="linux",
)
def _affinity(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        before = os.sched_getaffinity(pid)
        yield {"pid": str(pid)}, lambda _: os.sched_getaffinity(pid) != before


@attempt(
    "Processes",
    "Lower the priority of another process",
    "os.setpriority(os.PRIO_PROCESS, int(a('pid')), 19)",
    system="linux",
)
def _priority(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        before = os.getpriority(os.PRIO_PROCESS, pid)
        yield (
            {"pid": str(pid)},
            lambda _: os.getpriority(os.PRIO_PROCESS, pid) != before,
        )


@attempt(
    "Processes",
    "Let another process run only when all others idle",
    "os.sched_setscheduler(int(a('pid')), os.SCHED_IDLE, os.sched_param(0))",
    system="linux",
)
def _scheduler(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        yield (
            {"pid": str(pid)},
            lambda _: os.sched_getscheduler(pid) == os.SCHED_IDLE,
        )


@attempt(
    "Processes",
    "Open a descriptor of another process",
    "os.pidfd_open(int(a('pid')))\nprint('made')",
    system="linux",
)
def _descriptor(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        yield {"pid": str(pid)}, lambda printed: "made" in printed


@attempt(
    "Processes",
    "Start a program in the home through the system's loader",
    "import glob\n"
    "names = ('/lib64/ld-linux-*.so.*', '/lib/ld-linux-*.so.*', '/lib/ld-musl-*')\n"
    "[loader, *_] = [path for name in names for path in glob.glob(name)]\n"
    "os.execv(loader, [loader, a('path'), 'made'])",
    system="linux",
)
def _loader(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    program = plant(stage.home / ".local/tool")
    program.write_bytes(Path("/bin/echo").read_bytes())
    yield {"path": str(program)}, lambda printed: printed == "made\n"


@attempt(
    "Processes",
    "Have launchd start a program, outside of every sandbox",
    "import subprocess\n"
    "submit = ['/bin/launchctl', 'submit', '-l', a('mark'), '--']\n"
    "subprocess.run([*submit, '/usr/bin/touch', a('path')])",
    system="darwin",
)
def _launchd(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    label, file = MARKER + uuid.uuid4().hex, stage.folder / "started"
    try:
        yield {"path": str(file), "mark": label}, lambda _: _appears(file)
    finally:
        remove = ["/bin/launchctl", "remove", label]
        subprocess.run(remove, check=False, capture_output=True)


def _appears(file: Path) -> bool:
    """Whether a file is there, or is about to be."""
    for _ in range(40):
        if file.exists():
            return True
        threading.Event().wait(0.05)
    return False


@attempt("Processes", "Write to where another process writes", _WRITE, system="linux")
def _output_of_others(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    with victim(stage) as pid:
        said = stage.folder / "victim"
        yield {"path": f"/proc/{pid}/fd/1"}, lambda _: "written" in said.read_text()


@attempt("Processes", "Write on the user's terminal", _WRITE.replace("'a'", "'w'"))
def _terminal(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    screen, terminal = pty.openpty()
    os.set_blocking(screen, False)

    def worked(_: str) -> bool:
        with suppress(BlockingIOError):
            return b"written" in os.read(screen, 1000)
        return False

    try:
        yield {"path": os.ttyname(terminal)}, worked
    finally:
        os.close(screen)
        os.close(terminal)


_LIVE_ON = (
    "if not os.fork():\n"
    "    os.setsid()\n"
    "    if not os.fork(): os.execv('/bin/sleep', [a('mark'), '1000'])\n"
    "    os._exit(0)\n"
    "import time\ntime.sleep(0.1)\n"
)


@attempt("Processes", "Live on in a session of its own", _LIVE_ON)
def _live_on(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _survives()


@attempt(
    "Processes",
    "Live on after killing what supervises it",
    f"{_LIVE_ON}os.kill(os.getppid(), 9)",
)
def _kill_supervisor(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _survives()


@attempt(
    "Processes",
    "Start 200 processes at once",
    "r, w = os.pipe()\n"
    "for n in range(200):\n"
    "    if not os.fork():\n"
    "        os.close(w); os.read(r, 1); os._exit(0)\n"
    "print('all of them')",
)
def _many_processes(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {}, lambda printed: "all of them" in printed


def _survives() -> Iterator[tuple[Mapping[str, str], Worked]]:
    mark = MARKER + uuid.uuid4().hex
    try:
        yield {"mark": mark}, lambda _: bool(find_processes(mark))
    finally:
        for pid in find_processes(mark):
            os.kill(pid, signal.SIGKILL)


# --- the kernel -----------------------------------------------------------------

_LIBC = "import ctypes, sys\nc = ctypes.CDLL(None, use_errno=True)\n"
_SAY = "print('made' if {call} == 0 else os.strerror(ctypes.get_errno()))"


def _is_made(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield {}, lambda printed: "made" in printed


@attempt(
    "Kernel",
    "Mount a file system",
    _LIBC + "h = os.environ['HOME'].encode()\n"
    "os.makedirs(h + b'/m', exist_ok=True)\n"
    + _SAY.format(call="c.mount(b'none', h + b'/m', b'tmpfs', 0, None)")
    + "\nc.umount(h + b'/m')",
    system="linux",
)
def _mount(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


@attempt(
    "Kernel",
    "Make a device that is the disk",
    "import stat\nos.mknod(os.environ['HOME'] + '/d', stat.S_IFBLK | 0o600, 0x800)\nprint('made')",
    system="linux",
)
def _make_device(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


@attempt(
    "Kernel",
    "Make a user namespace, in which it is root",
    _LIBC + _SAY.format(call="c.unshare(0x10000000)"),
    system="linux",
)
def _user_namespace(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


_KEY_NAME = f"skills-{uuid.uuid4().hex}"


@attempt(
    "Kernel",
    "Read a key that the kernel keeps for the user's session",
    _LIBC + "n = {'x86_64': 250, 'aarch64': 219}[os.uname().machine]\n"
    "k = c.syscall(n, 10, -3, b'user', a('path').encode(), 0)\n"
    "b = ctypes.create_string_buffer(1000)\n"
    "c.syscall(n, 11, k, b, 1000)\nprint(b.value.decode())",
    system="linux",
)
def _session_key(_: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    add_key = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    libc = ctypes.CDLL(None)
    libc.syscall(add_key, b"user", _KEY_NAME.encode(), SECRET.encode(), len(SECRET), -3)
    yield {"path": _KEY_NAME}, has_secret


# --- resources ------------------------------------------------------------------


@attempt(
    "Resources",
    "Take 1.5 GiB of memory",
    "b = bytearray(3 << 29)\nb[::4096] = b'x' * len(b[::4096])\nprint('made')",
)
def _memory(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


_FILL = (
    "with open(os.environ['HOME'] + f'/{n}', 'wb') as f:\n"
    "    for _ in range({mib}): f.write(bytes(1 << 20))\n"
)


@attempt(
    "Resources",
    "Write a file of 100 MiB",
    "n = 0\n" + _FILL.replace("{mib}", "100") + "print('made')",
)
def _large_file(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


@attempt(
    "Resources",
    "Write ten files of 10 MiB",
    "for n in range(10):\n    "
    + _FILL.replace("{mib}", "10").replace("\n    for", "\n        for")
    + "print('made')",
)
def _many_large_files(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


@attempt(
    "Resources",
    "Open 4,000 files",
    "k = [os.open('/dev/null', os.O_RDONLY) for _ in range(4000)]\nprint('made')",
)
def _open_files(stage: Stage) -> Iterator[tuple[Mapping[str, str], Worked]]:
    yield from _is_made(stage)


# --- the outside ----------------------------------------------------------------


def plant(file: Path) -> Path:
    """Write the secret into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SECRET)
    return file


@contextmanager
def victim(stage: Stage) -> Iterator[int]:
    """Run another process of the same user, which has a secret."""
    with (stage.folder / "victim").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "input()", SECRET],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.DEVNULL,
            env={"TOKEN": SECRET},
        )
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def _has_ended(pid: int) -> bool:
    """Whether a child of this process has ended, or is about to."""
    end = os.WEXITED | os.WNOWAIT
    for _ in range(20):
        if os.waitid(os.P_PID, pid, end | os.WNOHANG):
            return True
        threading.Event().wait(0.01)
    return False


@contextmanager
def listening(
    family: socket.AddressFamily, kind: socket.SocketKind, address: object
) -> Iterator[tuple[tuple[str, int], Worked]]:
    """Listen, and know whether a client has connected."""
    with socket.socket(family, kind) as server:
        server.bind(address)  # type: ignore[arg-type]  # as the family has it
        server.setblocking(False)  # noqa: FBT003 - takes no names
        if kind == socket.SOCK_STREAM:
            server.listen()

        def worked(_: str) -> bool:
            with suppress(BlockingIOError):
                if kind == socket.SOCK_DGRAM:
                    return server.recv(100) == b"come in"
                visitor, _ = server.accept()
                visitor.close()
                return True
            return False

        yield server.getsockname(), worked


def find_processes(mark: str) -> list[int]:
    """Return the processes with this mark in their command lines."""
    if sys.platform != "linux":
        return _list_processes(mark)
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def _list_processes(mark: str) -> list[int]:
    listing = ["/bin/ps", "-A", "-o", "pid=", "-o", "args="]
    listed = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if mark in line]
