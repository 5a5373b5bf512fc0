"""What a process gives back to the system."""

import ctypes
import errno
import gc
import platform
import sys

import pytest

from skills_mcp.errors import OutOfMemoryError
from skills_mcp.processes.memory import (
    gc_paused,
    limit_malloc_arenas,
    translate_out_of_memory,
    trim_heap,
)
from tests.support import count_thread_heaps, run_python


def test_free_memory_is_given_back_where_the_library_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    class Library:
        malloc_trim = asked.append

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library)

    trim_heap()

    assert asked == [0]


def test_nothing_happens_where_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())

    trim_heap()
    limit_malloc_arenas()


_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from skills_mcp.processes import memory

memory.limit_malloc_arenas()
together = Barrier(4)

def allocate(_: int) -> list[bytes]:
    together.wait()
    return [bytes(1000) for _ in range(1000)]

with ThreadPoolExecutor(4) as pool:
    kept = list(pool.map(allocate, range(4)))
print(Path("/proc/self/maps").read_text())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other heaps")
def test_threads_share_one_heap() -> None:
    shared = run_python(_THREADS)
    apart = run_python(_THREADS.replace("memory.limit_malloc_arenas()", ""))

    assert count_thread_heaps(shared) == 0 < count_thread_heaps(apart)


def test_garbage_is_looked_for_again_afterwards_whatever_happened() -> None:
    seen: list[bool] = []

    @gc_paused()
    def fail() -> None:
        seen.append(gc.isenabled())
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()

    assert [*seen, gc.isenabled()] == [False, True]


def test_who_looks_for_no_garbage_is_left_alone() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_server_does_not_look_through_what_it_has_imported_again_and_again() -> None:
    program = (
        "import gc\n"
        "from skills_mcp.processes.memory import gc_frozen\n"
        "with gc_frozen():\n"
        "    class Ring: pass\n"
        "before = len(gc.get_objects())\n"
        "ring = Ring(); ring.itself = ring; del ring\n"
        "print(gc.collect() > 0, before < gc.get_freeze_count())\n"
    )

    assert run_python(program).split() == ["True", "True"]


@pytest.mark.parametrize("frozen", [False, True])
def test_what_a_program_imports_is_old_and_what_it_froze_stays_frozen(*, frozen: bool) -> None:
    program = (
        "import gc\n"
        "from skills_mcp.processes.memory import gc_promoted\n"
        f"gc.{'freeze' if frozen else 'unfreeze'}()\n"
        "before = gc.get_freeze_count()\n"
        "with gc_promoted():\n"
        "    class Ring: pass\n"
        "    ring = Ring(); ring.itself = ring; del ring\n"
        "print(gc.collect() > 0, gc.get_freeze_count() == before, before > 0)\n"
    )

    assert run_python(program).split() == ["True", "True", str(frozen)]


def test_a_block_that_needs_too_much_memory_ends_with_one_error() -> None:
    with pytest.raises(OutOfMemoryError, match="not enough memory"):  # noqa: SIM117
        with translate_out_of_memory():
            bytearray(sys.maxsize)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libm.so.6: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
)
def test_what_the_system_says_of_a_lack_of_memory_is_the_same_error(
    error: Exception,
) -> None:
    with pytest.raises(OutOfMemoryError) as raised, translate_out_of_memory():
        raise error

    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOENT, "gone"), ImportError("x"), RuntimeError("x")]
)
def test_every_other_error_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, translate_out_of_memory():
        raise error

    assert raised.value is error
