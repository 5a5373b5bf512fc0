"""Memory of this process: what it gives back, and when garbage is collected."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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


def freeze_garbage_collector() -> None:
    """Exclude all present objects from garbage collection (`gc.freeze`).

    What a server has imported stays for its life.  Going through all of it takes as
    long as reading the skills, and would delay the first answer.
    """
    gc.freeze()
