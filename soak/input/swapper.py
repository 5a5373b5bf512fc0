"""A process that swaps names of a folder for links, as fast as the kernel lets it.

`python -m soak.input.swapper FIRST SECOND …` exchanges the two names of each pair in
one step, so that neither is ever missing, and goes on until its standard input ends.
"""

import ctypes
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

from soak.scenario import Unavailable

_EXCHANGE = 2  # RENAME_EXCHANGE of Linux
_HERE = -100  # AT_FDCWD
_AT_ONCE = 1000  # exchanges between two looks at standard input

Exchange = Callable[[bytes, bytes], int]


@contextmanager
def swapping(*pairs: tuple[Path, Path]) -> Iterator["Popen[bytes]"]:
    """Start a process that swaps pairs of names; it is ended with the block.

    Raises:
        Unavailable: The system cannot exchange two names in one step.
    """
    for first, second in pairs:
        _try(first, second)
    names = [os.fspath(name) for pair in pairs for name in pair]
    command = [sys.executable, "-m", "soak.input.swapper", *names]
    top = Path(__file__).parent.parent.parent
    with Popen(command, stdin=PIPE, stdout=PIPE, cwd=top) as process:
        try:
            if process.stdout:
                process.stdout.read(1)  # it has begun
            yield process
        finally:
            process.kill()


def _try(first: Path, second: Path) -> None:
    exchange = _load_exchange()
    for _ in range(2):  # there and back
        if exchange is None or exchange(os.fsencode(first), os.fsencode(second)):
            raise Unavailable("names are exchanged by renameat2 (Linux)")


def _load_exchange() -> Exchange | None:
    if sys.platform != "linux":
        return None
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return None

    def exchange(first: bytes, second: bytes) -> int:
        result: int = rename(_HERE, first, _HERE, second, _EXCHANGE)
        return result

    return exchange


def _run(names: list[bytes]) -> None:
    exchange = _load_exchange()
    if exchange is None:
        sys.exit("names are exchanged by renameat2 (Linux)")
    pairs = list(zip(names[::2], names[1::2], strict=True))
    os.write(1, b"!")
    while not select.select([0], [], [], 0)[0]:
        for _ in range(_AT_ONCE):
            for first, second in pairs:
                exchange(first, second)


if __name__ == "__main__":
    _run(list(map(os.fsencode, sys.argv[1:])))
