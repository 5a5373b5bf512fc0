"""Memory of this process: heap, garbage collector and exhaustion."""

import ctypes
import errno
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from skills_mcp.errors import OutOfMemoryError

_OUT_OF_MEMORY = (
    "There is not enough memory. Raise the limit of this process (ulimit -v, or the "
    "one of the container), or serve fewer skills: 10,000 of them need 400 MB of "
    "address space."
)


_M_ARENA_MAX = -8  # malloc.h


def limit_malloc_arenas() -> None:
    """Limit malloc to one arena (glibc), before threads start, to share freed memory."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def trim_heap() -> None:
    """Release freed heap (glibc): after an index is built more than a server needs."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: it takes a third of a rebuild."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Freeze present objects after a block (`gc.freeze`): imports are slow to scan."""
    with gc_paused():
        yield
        # Within the pause: at its end, Python would go through all of it.
        gc.freeze()


@contextmanager
def gc_promoted() -> Iterator[None]:
    """Count present objects as old after a block: imports are slow to scan.

    For a program of others, whose own garbage is still collected.
    """
    with gc_paused():
        yield
        if not gc.get_freeze_count():  # what the program has frozen would be thawed
            gc.freeze()
            gc.unfreeze()


@contextmanager
def translate_out_of_memory() -> Iterator[None]:
    """Translate the many errors of exhausted memory into one.

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
    raise OutOfMemoryError(_OUT_OF_MEMORY)


def _lacks_memory(error: Exception) -> bool:
    match error:
        case MemoryError():
            return True
        case OSError():
            return error.errno == errno.ENOMEM
        case ImportError():
            message = str(error)
            return "failed to map segment" in message or "allocate memory" in message
        case _:
            return "can't start new thread" in str(error)


def read_memory() -> dict[str, int]:
    """Resident and private bytes of this process; empty where the system does not tell."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return {}
    kilobytes = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])
    }
    private = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return {"resident_bytes": kilobytes["Rss"] * 1024, "private_bytes": private * 1024}
