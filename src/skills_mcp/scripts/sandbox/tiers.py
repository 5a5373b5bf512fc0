"""What stands before the words of a command, in each tier that confines it.

Bubblewrap gives a run namespaces for files, processes, users and the network: what it
may not reach does not exist inside.  A filter of system calls takes away what no
namespace holds: the keys that the kernel keeps for the user, sockets of virtual
machines, and sockets in folders that the run can see.  Source: bwrap(1); versions
before 0.8 lack `--disable-userns`, so their probe fails.

Landlock needs no privilege, and no namespace that a container might forbid: a program
(`landlock_program`) gives up rights and then becomes the command.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.sandbox.programs import find_system_files, find_system_folders

BUBBLEWRAP = "bwrap"

_ALONE = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL"),
    *("--hostname", "sandbox", "--die-with-parent", "--new-session"),
)
_MAX_SHARED_BYTES = 64 * 1024 * 1024  # of /tmp and of /dev/shm: memory, not disk

_FILTER_DESCRIPTOR = "9"  # the highest that every shell can open
_OPEN_FILTER = f'exec "$@" {_FILTER_DESCRIPTOR}<"$0"'

_LANDLOCK_PROGRAM = Path(__file__).with_name("landlock_program.py")

# In /proc, memory and environment of other processes stay closed: Landlock sees to it.
_READABLE_DEVICES = ("/proc", "/dev/urandom", "/dev/random", "/dev/zero", "/dev/full")
_WRITABLE_DEVICES = ("/dev/null",)


def prepare_bubblewrap(program: Path, grants: Grants) -> tuple[str, ...]:
    """Return the words that stand before those of a command.

    Writes the filter of system calls beside the private home.

    Args:
        program: Where `bwrap` is.
        grants: What the command may reach.

    Raises:
        NotImplementedError: There is no filter for this machine.
        OSError: The filter cannot be written.
    """
    from skills_mcp.scripts.sandbox.landlock_program import compose_filter

    file = grants.home.parent / "calls.filter"
    file.write_bytes(
        compose_filter(
            os.uname().machine, has_network=grants.network, has_namespaces=True
        )
    )
    filtered = derive_bubblewrap(program, grants, ("--seccomp", _FILTER_DESCRIPTOR))
    return ("/bin/sh", "-c", _OPEN_FILTER, str(file), *filtered)


def derive_bubblewrap(
    program: Path, grants: Grants, more: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command line of bwrap, up to the words of the command.

    Args:
        program: Where `bwrap` is.
        grants: What the command may reach.
        more: Options of bwrap.
    """
    network = () if grants.network else ("--unshare-net",)
    mounts = _mounts(grants)
    # A folder has to be there before what lies in it.
    ordered = sorted(mounts, key=lambda path: len(path.parts))
    placed = [word for path in ordered for word in mounts[path]]
    # What bwrap makes up for the places above would be writable, and without limits.
    sealed = [word for top in ("/", "/dev", "/proc") for word in ("--remount-ro", top)]
    return (str(program), *_ALONE, *network, *more, *placed, *sealed, "--")


def _mounts(grants: Grants) -> dict[Path, tuple[str, ...]]:
    """Return the options that make each place; the last rule for a place wins."""
    return {
        **dict(_system_mounts()),
        Path("/proc"): ("--proc", "/proc"),
        Path("/dev"): ("--dev", "/dev"),
        Path("/dev/shm"): _memory(Path("/dev/shm"), _MAX_SHARED_BYTES),  # noqa: S108
        Path("/tmp"): _memory(Path("/tmp"), _MAX_SHARED_BYTES),  # noqa: S108
        **{path: ("--bind", str(path), str(path)) for path in grants.writable},
        **{path: _read_only(path) for path in grants.readable},
        grants.home: _memory(grants.home, grants.home_bytes),
    }


def _system_mounts() -> Iterator[tuple[Path, tuple[str, ...]]]:
    for folder in find_system_folders():
        if folder.is_symlink():
            yield folder, ("--symlink", str(folder.readlink()), str(folder))
        else:
            yield folder, _read_only(folder)
    for file in find_system_files():
        yield file, _read_only(file)


def _read_only(path: Path) -> tuple[str, ...]:
    return ("--ro-bind", str(path), str(path))


def _memory(path: Path, max_bytes: int) -> tuple[str, ...]:
    return ("--size", str(max_bytes), "--tmpfs", str(path))


def derive_landlock(grants: Grants) -> tuple[str, ...]:
    """Return the words that stand before those of a command."""
    orders = {
        "readable": [
            *map(str, (*find_system_folders(), *find_system_files())),
            *map(str, grants.readable),
            *_READABLE_DEVICES,
        ],
        "writable": [*map(str, (*grants.writable, grants.home)), *_WRITABLE_DEVICES],
        "network": grants.network,
    }
    # -I and -S: nothing of the user's or the project's is imported.
    return (
        sys.executable,
        "-I",
        "-S",
        str(_LANDLOCK_PROGRAM),
        json.dumps(orders),
        "--",
    )
