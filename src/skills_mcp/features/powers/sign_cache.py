"""Signs of files on disk, by content: what one process has read, no other reads again.

<cache>/powers/signs.sqlite has a row per file.  What is damaged is found again, and where
nothing can be written, the memory of the process keeps them.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path

from skills_mcp.features.powers.power import Sign
from skills_mcp.files.user_folders import find_user_folders

_MAX_ROWS = 100_000  # some 50 megabytes; then it begins anew
_CHECK_BYTES = 8
_SETTINGS = "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"  # a lost row is found again
_TABLE = "CREATE TABLE IF NOT EXISTS signs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"


def recall_signs(key: bytes, find: Callable[[], Sequence[Sign]]) -> tuple[Sign, ...]:
    """The signs of a file, which `find` finds unless they are known.

    Args:
        key: A digest of the file, and of all else that `find` looks at.
        find: Looks for them.
    """
    key = blake2b(key, key=_digest_rules(), digest_size=32).digest()
    rows = _open(find_user_folders(os.environ)[1])
    with suppress(sqlite3.Error):
        row = rows.execute("SELECT value FROM signs WHERE key = ?", (key,)).fetchone()
        if row and row[0][:_CHECK_BYTES] == _check(key, row[0][_CHECK_BYTES:]):
            return tuple(Sign(*each) for each in json.loads(row[0][_CHECK_BYTES:]))
    found = tuple(find())
    with suppress(sqlite3.Error):
        text = json.dumps(found).encode()
        rows.execute("REPLACE INTO signs VALUES (?, ?)", (key, _check(key, text) + text))
    return found


def _check(key: bytes, text: bytes) -> bytes:
    return blake2b(text, key=key, digest_size=_CHECK_BYTES).digest()


@cache
def _digest_rules() -> bytes:
    """A digest of the code that finds signs: another version finds others."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files)).digest()


@cache
def _open(folder: str) -> sqlite3.Connection:
    file = Path(folder, "powers", "signs.sqlite")
    for _ in range(2):
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _connect(file)
        except (OSError, sqlite3.OperationalError):
            break  # read-only, or used by another for long
        except sqlite3.DatabaseError:
            file.unlink()
    return _connect(":memory:")


def _connect(file: Path | str) -> sqlite3.Connection:
    rows = sqlite3.connect(file, timeout=1, isolation_level=None, check_same_thread=False)
    rows.executescript(f"{_SETTINGS}{_TABLE}")
    if rows.execute("SELECT count(*) FROM signs").fetchone()[0] > _MAX_ROWS:
        rows.execute("DELETE FROM signs")
    return rows
