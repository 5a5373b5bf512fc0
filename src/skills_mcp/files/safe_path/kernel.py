"""`openat2`: the call of Linux that opens a path and cannot be led out of a folder.

Python has no name for it, so it is called by its number.
"""

import errno
import os
import sys
from collections.abc import Callable
from functools import cache

MAX_PATH_BYTES = 4095
"""As much as the kernel takes for a path, without the NUL behind it."""

_OPENAT2 = 437  # the same on every processor that Python is built for
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


def open_beneath(folder: int, path: bytes, flags: int) -> int:
    """Open a path below the descriptor of a folder, and follow no link on the way.

    Raises:
        OSError: It is not there, a link is on the way, or it leads out.
        ValueError: It has a NUL, behind which the kernel would not look.
    """
    if b"\0" in path:
        raise ValueError(path)
    ask, read_error = _load_call()
    while (number := ask(folder, path, flags)) < 0:
        error = read_error()
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return number


def is_able() -> bool:
    """Whether this kernel has the call, and nothing around us forbids it.

    A container may filter it out, and answer that it is not permitted or not there.
    """
    # Elsewhere the number belongs to another call.
    if sys.platform != "linux":
        return False
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_beneath(here, b".", os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(here)
    return True


@cache
def _load_call() -> tuple[Callable[[int, bytes, int], int], Callable[[], int]]:
    """Return the call, and what says why it failed."""
    import ctypes  # late: the first answer opens nothing

    how = ctypes.c_uint64 * 3  # `struct open_how`: flags, mode, resolve
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (
        *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p),
        *(ctypes.POINTER(how), ctypes.c_size_t),
    )

    def ask(folder: int, path: bytes, flags: int) -> int:
        wanted = how(flags, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
        found: int = syscall(_OPENAT2, folder, path, wanted, ctypes.sizeof(how))
        return found

    return ask, ctypes.get_errno
