"""Secret keys."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from skills_mcp.files.durable import append_line, open_private, open_regular

SECRET_KEY_BYTES = 32
"""Length of a SHA-256 digest, as RFC 2104 recommends."""


def load_secret_key(path: Path) -> bytes:
    """Key of this installation, generated once by concurrent processes.

    Without a readable and writable file it lasts as long as the process: derived values
    differ between processes, and are no easier to guess.
    """
    with suppress(OSError):
        if found := read_secret_key(path):
            return found
    key = secrets.token_bytes(SECRET_KEY_BYTES)
    try:
        return _store_key(path, key)
    except OSError:
        return key


def read_secret_key(path: Path) -> bytes | None:
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        return None
    if handle is None:
        return None
    with handle:
        text = handle.read(SECRET_KEY_BYTES * 2).decode("ascii", "replace")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        return None
    return key if len(key) == SECRET_KEY_BYTES else None


def _store_key(path: Path, key: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open_private(new, is_new=True) as handle:
            append_line(handle, key.hex().encode("ascii"))
            os.fsync(handle.fileno())
        try:
            os.link(new, path)  # unlike a rename, it never replaces another key
        except FileExistsError:
            if existing := read_secret_key(path):
                return existing
            new.replace(path)  # the file is damaged, or not ours
    finally:
        new.unlink(missing_ok=True)
    return key
