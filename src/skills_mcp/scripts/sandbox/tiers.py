"""Bubblewrap and Landlock tiers."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.sandbox.programs import find_system_files, find_system_folders

BUBBLEWRAP = "bwrap"

_ISOLATION_OPTIONS = (
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


def prepare_bubblewrap_prefix(program: Path, grants: Grants) -> tuple[str, ...]:
    """Command prefix of bubblewrap; writes the seccomp filter.

    Raises:
        NotImplementedError: There is no filter for this architecture.
        OSError: The filter cannot be written.
    """
    from skills_mcp.scripts.sandbox.landlock_program import compose_call_filter

    file = grants.home.parent / "calls.filter"
    file.write_bytes(
        compose_call_filter(os.uname().machine, has_network=grants.network, has_namespaces=True)
    )
    filtered = derive_bubblewrap_prefix(program, grants, ("--seccomp", _FILTER_DESCRIPTOR))
    return ("/bin/sh", "-c", _OPEN_FILTER, str(file), *filtered)


def derive_bubblewrap_prefix(
    program: Path, grants: Grants, more: Sequence[str] = ()
) -> tuple[str, ...]:
    network = () if grants.network else ("--unshare-net",)
    mounts = _mount_options(grants)
    # A folder has to be there before what lies in it.
    ordered = sorted(mounts, key=lambda path: len(path.parts))
    placed = [word for path in ordered for word in mounts[path]]
    # What bwrap makes up for the places above would be writable, and without limits.
    sealed = [word for top in ("/", "/dev", "/proc") for word in ("--remount-ro", top)]
    return (str(program), *_ISOLATION_OPTIONS, *network, *more, *placed, *sealed, "--")


def _mount_options(grants: Grants) -> dict[Path, tuple[str, ...]]:
    """Options for each mount point; the last rule for a path wins."""
    return {
        **dict(_system_mounts()),
        Path("/proc"): ("--proc", "/proc"),
        Path("/dev"): ("--dev", "/dev"),
        Path("/dev/shm"): _tmpfs_mount(Path("/dev/shm"), _MAX_SHARED_BYTES),  # noqa: S108
        Path("/tmp"): _tmpfs_mount(Path("/tmp"), _MAX_SHARED_BYTES),  # noqa: S108
        **{path: ("--bind", str(path), str(path)) for path in grants.writable},
        **{path: _read_only_mount(path) for path in grants.readable},
        grants.home: _tmpfs_mount(grants.home, grants.home_bytes),
    }


def _system_mounts() -> Iterator[tuple[Path, tuple[str, ...]]]:
    for folder in find_system_folders():
        if folder.is_symlink():
            yield folder, ("--symlink", str(folder.readlink()), str(folder))
        else:
            yield folder, _read_only_mount(folder)
    for file in find_system_files():
        yield file, _read_only_mount(file)


def _read_only_mount(path: Path) -> tuple[str, ...]:
    return ("--ro-bind", str(path), str(path))


def _tmpfs_mount(path: Path, max_bytes: int) -> tuple[str, ...]:
    return ("--size", str(max_bytes), "--tmpfs", str(path))


def derive_landlock_prefix(grants: Grants) -> tuple[str, ...]:
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
