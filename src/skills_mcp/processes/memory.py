"""Memory of this process: what it gives back, when it is collected, and its end."""

import ctypes
import errno
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from skills_mcp.errors import OutOfMemoryError

_TOO_LITTLE = (
    "There is not enough memory. Raise the limit of this process (ulimit -v, or the "
    "one of the container), or serve fewer skills: 10,000 of them need 400 MB of "
    "address space."
)


_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> None:
    """Let all threads allocate from one heap, where the C library can be asked to.

    The GNU C library gives each thread a heap of its own, and what one of them has
    freed is of no use to the others. Here one thread runs at a time, so they do not
    wait for each other. It has no effect on threads that have a heap already.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return free memory to the system, where the C library can be asked to.

    The GNU C library keeps what was freed in pieces: after an index was built that is
    more than the whole server needs, in each of ten windows.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def garbage_collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector while many objects are made that stay.

    Each collection goes through all objects and stops all threads meanwhile: that is a
    third of the time of a rebuild, and of the pauses of a server.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def objects_frozen() -> Iterator[None]:
    """Exclude all present objects from garbage collection (`gc.freeze`) after a block.

    What a program has imported stays for its life. Going through all of it takes as
    long as reading the skills, and would delay the first answer.
    """
    with garbage_collector_paused():
        yield
        # Within the pause: at its end, Python would go through all of it.
        gc.freeze()


@contextmanager
def out_of_memory_named() -> Iterator[None]:
    """Turn the many errors that mean a lack of memory into one.

    Raises:
        OutOfMemoryError: The block needs more memory than there is.
    """
    try:
        yield
    except (ImportError, MemoryError, OSError, RuntimeError) as error:
        if not _lacks_memory(error):
            raise
    else:
        return
    # Here, as the frames of the failed block would keep what they hold alive.
    raise OutOfMemoryError(_TOO_LITTLE)


def _lacks_memory(error: Exception) -> bool:
    """Whether Python, the system, its loader or the start of a thread says so."""
    match error:
        case MemoryError():
            return True
        case OSError():
            return error.errno == errno.ENOMEM
        case ImportError():
            said = str(error)
            return "failed to map segment" in said or "allocate memory" in said
        case _:
            return "can't start new thread" in str(error)
