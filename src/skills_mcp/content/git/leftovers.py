"""What a killed Git leaves behind in its store, and how large the store is.

Rule: whoever deletes here holds the store's lock, which Git's children hold, too. So
whatever looks unfinished is, and nobody will finish it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from skills_mcp.files.durable import delete

# `gc.pid` is the lock of a cleaning; the head of a fetch is written with a name.
_UNFINISHED = ("gc.pid", "gc.log")
_UNFINISHED_OBJECTS = ("tmp_*", ".tmp-*", "incoming-*", "tmp_objdir-*")

# A pack needs both; what has one alone was not finished, or is half deleted.
_HALVES = frozenset({".pack", ".idx"})


def delete_leftovers(store: Path, ref: str) -> None:
    """Delete every lock, every temporary file and every half of a pack.

    Args:
        store: A bare repository.
        ref: The one that is written next: nothing else may stand in its place.

    Raises:
        OSError: Something cannot be deleted.
    """
    for path in tuple(chain(_locks(store), _temporary_objects(store), _halves(store))):
        delete(path)
    place = store / ref
    if place.is_dir() or _is_blank(place):
        delete(place)


def measure_objects(store: Path) -> int:
    """Return how many bytes Git's objects have, finished or not."""
    return sum(size for _, size in _objects(store))


def count_objects(store: Path) -> tuple[int, int]:
    """Return how many packs there are, and how many objects outside of packs."""
    names = [path for path, _ in _objects(store)]
    packs = sum(name.endswith(".pack") for name in names)
    loose = sum(len(Path(name).parent.name) == len("ab") for name in names)
    return packs, loose


def _locks(store: Path) -> Iterator[Path]:
    yield from store.rglob("*.lock")
    yield from (store / name for name in _UNFINISHED if (store / name).exists())


def _temporary_objects(store: Path) -> Iterator[Path]:
    objects = store / "objects"
    for pattern in _UNFINISHED_OBJECTS:
        yield from objects.rglob(pattern)
    yield from objects.glob("pack/*.keep")


def _halves(store: Path) -> Iterator[Path]:
    found: dict[str, list[Path]] = {}
    for path in (store / "objects" / "pack").glob("pack-*"):
        found.setdefault(path.name.partition(".")[0], []).append(path)
    for paths in found.values():
        if not {path.suffix for path in paths} >= _HALVES:
            yield from paths


def _objects(store: Path) -> Iterator[tuple[str, int]]:
    for folder, _, names in os.walk(store / "objects"):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - there may be thousands
            with suppress(OSError):  # Git renames its files meanwhile
                yield path, os.stat(path).st_size  # noqa: PTH116


def _is_blank(path: Path) -> bool:
    """Whether a crash has left a ref without a commit."""
    try:
        return not path.read_bytes().strip(b"\0\n ")
    except (FileNotFoundError, NotADirectoryError):
        return False
