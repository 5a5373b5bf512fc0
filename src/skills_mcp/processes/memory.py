"""What this process no longer needs, and when it looks for it."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def give_back_memory() -> None:
    """Return free memory to the system, where the C library can be asked to.

    The GNU one keeps what was freed in pieces: after an index was built that is more
    than the whole server needs, in each of ten windows.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def collecting_later() -> Iterator[None]:
    """Look for no cyclic garbage while many objects are made that are none.

    Each look goes through all of them, and stops every other thread meanwhile: a
    third of the time of a rebuild, and of the pauses of a server.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def look_away_from_what_is_here() -> None:
    """Never again look for cyclic garbage among the objects that there are now.

    What a server has imported stays for its life.  To look through all of it takes as
    long as to read the skills, and always came between a client and its first answer.
    """
    gc.freeze()
