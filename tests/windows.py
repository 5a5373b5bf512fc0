"""Servers of several windows: how tests find, kill and count them."""

import os
import signal
import socket
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.support import is_running, wait_for

FOLDER = "SKILLS_MCP_RUNTIME_DIR"
LINGER = "SKILLS_MCP__SHARE__LINGER_MINUTES"


def find_sockets() -> list[Path]:
    """Return the sockets of all servers that this run can reach, the oldest first."""
    found = Path(os.environ[FOLDER]).glob("*.sock")
    return sorted(found, key=lambda path: path.lstat().st_mtime_ns)


def find_process(address: Path) -> int | None:
    """Return the process that listens at a socket; None if none does."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(address))
        except OSError:
            return None
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[:4], "little")


def find_servers() -> list[int]:
    """Return the processes of all servers that listen."""
    return [number for path in find_sockets() if (number := find_process(path)) is not None]


def count_clients(address: Path) -> int:
    """Return how many clients are connected to the server at a socket."""
    sockets = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return sum(each[5] == "03" and each[7:] == [str(address)] for each in sockets)


def end_servers(folder: Path) -> None:
    """Kill the servers with sockets in a runtime folder."""
    for address in folder.glob("*.sock"):
        if (number := find_process(address)) is not None:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
            wait_for(partial(_has_ended, number))


def _has_ended(number: int) -> bool:
    return not is_running(number)


def count_processes(text: str) -> int:
    """Return how many processes have a text in their environment."""
    found = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += text.encode() in (entry / "environ").read_bytes()
    return found


def read_private_bytes(number: int) -> int:
    """Return the memory that a process shares with no other."""
    lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def freeze(number: int) -> None:
    """Stop a process, as Ctrl-Z does."""
    os.kill(number, signal.SIGSTOP)
    state = ["ps", "-o", "stat=", "-p", str(number)]
    wait_for(lambda: subprocess.run(state, capture_output=True, check=True).stdout[:1] == b"T")
