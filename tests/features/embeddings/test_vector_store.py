import io
import os
import pickle
import signal
import threading
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from skills_mcp.features.embeddings.client import Matrix
from skills_mcp.features.embeddings.skill_embeddings import VectorStore
from tests.support import run_python, running_python


def keys(*names: str) -> list[bytes]:
    return [sha256(name.encode()).digest() for name in names]


def units(count: int, length: int = 4) -> Matrix:
    matrix = np.arange(1, count * length + 1, dtype=np.float32).reshape(count, length)
    normal: Matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return normal


def saved(store: VectorStore, names: list[bytes], matrix: Matrix) -> Path:
    path = store.save(names, matrix)
    assert path is not None
    return path


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    return VectorStore(tmp_path / "embeddings", "space")


def test_what_was_saved_is_loaded_and_outlives_its_file(store: VectorStore) -> None:
    path = saved(store, keys("a", "b"), units(2))

    matrix = store.load(keys("a", "b"))
    # A mapped file would end this process with SIGBUS.
    os.truncate(path, 0)

    assert matrix is not None
    np.testing.assert_array_equal(matrix, units(2))


def test_only_the_very_same_texts_in_the_same_order_are_loaded(
    store: VectorStore,
) -> None:
    saved(store, keys("a", "b"), units(2))

    assert store.load(keys("b", "a")) is None
    assert store.load(keys("a")) is None
    assert VectorStore(store._root, "other").load(keys("a", "b")) is None


def test_single_vectors_are_found_in_whatever_file_they_are(store: VectorStore) -> None:
    matrix = units(3)
    saved(store, keys("a", "b"), matrix[:2])
    saved(store, keys("c"), matrix[2:])

    found = store.collect(set(keys("a", "c", "d")))

    assert found.keys() == set(keys("a", "c"))
    np.testing.assert_array_equal(found[keys("c")[0]], matrix[2])


def test_vectors_of_another_length_are_not_mixed_in(store: VectorStore) -> None:
    old = saved(store, keys("a"), units(1, length=8))
    os.utime(old, (1, 1))
    saved(store, keys("b"), units(1))

    assert store.collect(set(keys("a", "b"))).keys() == set(keys("b"))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x7F
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def rename(path: Path) -> None:
    other = VectorStore(path.parent.parent, path.parent.name)
    theirs = other.save(keys("x", "y"), units(2))
    assert theirs
    theirs.replace(path)


def put_nan(path: Path) -> None:
    with path.open("rb") as handle:
        table = np.load(handle)
    table["vector"][0, 0] = np.nan
    put(path, table)


def put_numbers(path: Path) -> None:
    put(path, np.zeros(3))


def put_objects(path: Path) -> None:
    put(path, np.array([{"a": 1}], dtype=object))


def put(path: Path, array: NDArray[Any]) -> None:
    """Write an array with the checksum that belongs to it."""
    whole = io.BytesIO()
    np.save(whole, array, allow_pickle=True)
    seal(path, whole.getvalue())


def put_pickle(path: Path) -> None:
    seal(path, pickle.dumps([1, 2]))


def seal(path: Path, data: bytes) -> None:
    path.write_bytes(data + zlib.crc32(data).to_bytes(4))


@pytest.mark.parametrize(
    "damage",
    [truncate, flip, empty, rename, put_nan, put_numbers, put_objects, put_pickle],
)
def test_a_damaged_file_is_as_good_as_none_and_deleted(
    damage: Callable[[Path], None], store: VectorStore
) -> None:
    path = saved(store, keys("a", "b"), units(2))
    damage(path)

    assert store.load(keys("a", "b")) is None
    assert not path.exists()
    assert store.collect(set(keys("a", "b"))) == {}


def test_what_was_used_last_is_kept_if_there_is_too_much(tmp_path: Path) -> None:
    one = VectorStore(tmp_path / "embeddings", "one", max_bytes=2_600)
    other = VectorStore(tmp_path / "embeddings", "other", max_bytes=2_600)
    first = saved(one, keys("a"), units(1, length=256))
    second = saved(other, keys("b"), units(1, length=256))
    os.utime(first, (100, 100))
    os.utime(second, (200, 200))
    assert one.load(keys("a")) is not None  # and is the newest by that

    third = saved(one, keys("c"), units(1, length=256))

    assert first.exists()
    assert third.exists()
    assert not second.exists()


def test_what_is_too_much_by_itself_is_kept_all_the_same(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, "space", max_bytes=1)

    assert saved(store, keys("a"), units(1)).exists()


def test_what_a_process_left_half_written_is_swept_away(store: VectorStore) -> None:
    folder = saved(store, keys("a"), units(1)).parent
    old, new = folder / ".new-old", folder / ".new-new"
    old.touch()
    new.touch()
    os.utime(old, (1, 1))

    saved(store, keys("b"), units(1))

    assert not old.exists()
    assert new.exists()


def test_a_disk_that_takes_nothing_costs_the_file_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "embeddings").write_text("in the way")
    store = VectorStore(tmp_path / "embeddings", "space")

    assert store.save(keys("a"), units(1)) is None
    assert store.load(keys("a")) is None
    assert store.collect(set(keys("a"))) == {}
    assert "The vectors are not kept" in caplog.text
    with store.exclusive(lambda _: True) as is_held:
        assert is_held


def test_only_the_owner_may_look_into_the_folder(store: VectorStore) -> None:
    folder = saved(store, keys("a"), units(1)).parent

    assert folder.stat().st_mode & 0o077 == 0


def test_forgetting_deletes_the_files_of_this_space_only(tmp_path: Path) -> None:
    mine, theirs = VectorStore(tmp_path, "mine"), VectorStore(tmp_path, "theirs")
    saved(mine, keys("a"), units(1))
    saved(theirs, keys("a"), units(1))

    mine.forget()

    assert mine.load(keys("a")) is None
    assert theirs.load(keys("a")) is not None


HOLD = """
import sys
from pathlib import Path
from skills_mcp.features.embeddings.skill_embeddings import VectorStore
with VectorStore(Path(sys.argv[1]), "space").exclusive(lambda _: True) as is_held:
    print(is_held, flush=True)
    sys.stdin.read()
"""


def test_while_another_process_asks_the_provider_this_one_waits(
    store: VectorStore,
) -> None:
    waits: list[float] = []

    def give_up(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 3

    with running_python(HOLD, store._root) as other:
        assert other.stdout
        assert other.stdout.readline() == b"True\n"
        with store.exclusive(give_up) as is_held:
            assert not is_held
    with store.exclusive(give_up) as is_held:
        assert is_held
    assert len(waits) == 3


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing can be stopped")
def test_a_process_that_was_stopped_is_not_waited_for(store: VectorStore) -> None:
    with running_python(HOLD, store._root) as other:
        assert other.stdout
        assert other.stdout.readline() == b"True\n"
        other.send_signal(signal.SIGSTOP)
        try:
            with store.exclusive(lambda _: False) as is_held:
                assert is_held
        finally:
            other.send_signal(signal.SIGCONT)


def test_threads_that_save_at_once_leave_whole_files(store: VectorStore) -> None:
    matrix = units(1, length=512)
    threads = [threading.Thread(target=store.save, args=(keys("a"), matrix)) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.load(keys("a")) is not None
    assert list(store._directory.glob(".new-*")) == []


READ = """
import sys
from pathlib import Path
from hashlib import sha256
from skills_mcp.features.embeddings.skill_embeddings import VectorStore
matrix = VectorStore(Path(sys.argv[1]), "space").load([sha256(b"a").digest()])
print(matrix.shape)
"""


def test_another_process_reads_what_this_one_wrote(store: VectorStore) -> None:
    saved(store, keys("a"), units(1))

    assert run_python(READ, store._root) == "(1, 4)"
