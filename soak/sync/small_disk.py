"""A cache on a disk of its own that is too small, or read-only.  Needs to mount.

Run as a program, in a namespace that may mount: it prints what happened as JSON.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from skills_mcp.errors import SyncError
from soak.scenario import Unavailable
from soak.sync.mirror import Mirror
from tests.support import PROJECT

_NAMESPACE = ("unshare", "--map-root-user", "--mount")
_LARGE_BYTES = 64 * 1024 * 1024
_STEP_BYTES, _FINE_BYTES = 512 * 1024, 64 * 1024
_FEW = 5
# What does not become smaller when it is packed.
_CONTENT_BYTES = 300_000


def run_on_small_disks(folder: Path, sizes: int) -> Mapping[str, list[bool]]:
    """Return for each rule whether it held, in each case.

    Raises:
        Unavailable: Nothing may be mounted here.
    """
    _require_mounts(folder)
    done = subprocess.run(
        [*_NAMESPACE, sys.executable, "-m", "soak.sync.small_disk", folder, str(sizes)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, list[bool]] = json.loads(done.stdout)
    return found


def _require_mounts(folder: Path) -> None:
    if not shutil.which("unshare") or not hasattr(os, "geteuid"):
        raise Unavailable("a disk of its own needs unshare (Linux)")
    words = (*_NAMESPACE, "mount", "-t", "tmpfs", "none", str(folder))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"nothing may be mounted here: {done.stderr.strip()}")


class _Trial:
    """A repository, and disks of any size for the cache."""

    def __init__(self, folder: Path) -> None:
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.mirror = Mirror.create(folder)
        self.mirror.cache = self.disk / "cache"
        self.found: dict[str, list[bool]] = {}

    def run(self, sizes: int) -> None:
        """Try all sizes, on a disk with an old commit and on an empty one."""
        for is_empty in (False, True):
            most = self._find_need(is_empty=is_empty, is_exact=sizes > _FEW)
            for number in range(sizes):
                share = most * number // max(sizes - 1, 1)
                self._try_size(share, is_empty=is_empty)
        self._try_read_only()

    def _find_need(self, *, is_empty: bool, is_exact: bool) -> int:
        """Return how much room a sync takes at most."""
        rough = range(_STEP_BYTES, _LARGE_BYTES, _STEP_BYTES)
        need = next(room for room in rough if self._suffices(room, is_empty=is_empty))
        if not is_exact:
            return need
        fine = range(need - _STEP_BYTES, need, _FINE_BYTES)
        exact = (room for room in fine if self._suffices(room, is_empty=is_empty))
        return next(exact, need)

    def _suffices(self, room: int, *, is_empty: bool) -> bool:
        with self._mounted(is_empty=is_empty):
            self._publish()
            self._resize(self._used() + room)
            return self.mirror.sync() is None

    def _try_size(self, room: int, *, is_empty: bool) -> None:
        kind = "empty" if is_empty else "old"
        with self._mounted(is_empty=is_empty):
            old, new = self._old, self._publish()
            self._resize(self._used() + room)
            error = self._sync()
            self._note(f"{kind}: full", error is not None)
            self._note(f"{kind}: typed", error is None or isinstance(error, SyncError))
            # It may fail after it has published: it cannot say so any more.
            served = self.mirror.served()
            self._note(f"{kind}: kept", served == new or (error and served == old))
            self._resize(_LARGE_BYTES)
            is_healed = self.mirror.sync() is None and self.mirror.serves(new)
            self._note(f"{kind}: healed", is_healed)

    def _sync(self) -> Exception | None:
        """Return the error of a sync, also an unexpected one."""
        try:
            return self.mirror.sync()
        except OSError as error:
            return error

    def _try_read_only(self) -> None:
        with self._mounted(is_empty=False):
            old, new = self._old, self._publish()
            self._remount("ro")
            error = self._sync()
            self._note("read-only: typed", isinstance(error, SyncError))
            self._note("read-only: kept", self.mirror.served() == old)
            self._remount("rw")
            is_healed = self.mirror.sync() is None and self.mirror.serves(new)
            self._note("read-only: healed", is_healed)

    @contextmanager
    def _mounted(self, *, is_empty: bool) -> Iterator[None]:
        size = f"size={_LARGE_BYTES}"
        _run("mount", "-t", "tmpfs", "-o", size, "none", str(self.disk))
        try:
            self._old = None if is_empty else self.mirror.newest
            self.mirror.source = self.mirror.open()
            if not is_empty:
                self.mirror.sync()
            yield
        finally:
            # A process with an open file there does not block the next disk.
            _run("umount", "--lazy", str(self.disk))

    def _publish(self) -> str:
        number = len(self.mirror.commits)
        return self.mirror.push(
            f"number {number}",
            {f"skills/a/new-{number % 2}.bin": os.urandom(_CONTENT_BYTES)},
        )

    def _used(self) -> int:
        found = os.statvfs(self.disk)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def _resize(self, size_bytes: int) -> None:
        # To the system, none at all means as much as one likes.
        self._remount(f"size={max(size_bytes, 4096)}")

    def _remount(self, option: str) -> None:
        # With a device, even if it is none, nothing of the mount's own is repeated:
        # its user may have another number in this namespace.
        _run("mount", "-o", f"remount,{option}", "none", str(self.disk))

    def _note(self, what: str, holds: object) -> None:
        self.found.setdefault(what, []).append(bool(holds))


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    trial = _Trial(Path(sys.argv[1]))
    trial.run(int(sys.argv[2]))
    print(json.dumps(trial.found))
