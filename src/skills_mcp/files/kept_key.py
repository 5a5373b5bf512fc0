"""A secret key in a file of this installation, made when it is first needed."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from skills_mcp.files.durable import append, open_private, open_regular

KEY_BYTES = 32
"""As long as a SHA-256 digest, as RFC 2104 recommends."""


def load_key(path: Path) -> bytes:
    """Return the key of this installation; the first of several processes makes it.

    If the key can be neither read nor written, it lasts as long as the process: what
    is made with it then differs between processes, and is no easier to guess.
    """
    with suppress(OSError):
        if found := read_key(path):
            return found
    key = secrets.token_bytes(KEY_BYTES)
    try:
        return _keep_key(path, key)
    except OSError:
        return key


def read_key(path: Path) -> bytes | None:
    """Return the key in a file; None if there is none, or not a complete one."""
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        return None
    if handle is None:
        return None
    with handle:
        text = handle.read(KEY_BYTES * 2).decode("ascii", "replace")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES else None


def _keep_key(path: Path, key: bytes) -> bytes:
    """Write a key, and return the one in the file: another process may be first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open_private(new, is_new=True) as handle:
            append(handle, key.hex().encode("ascii"))
            os.fsync(handle.fileno())
        try:
            os.link(new, path)  # unlike a rename, it never replaces another key
        except FileExistsError:
            if kept := read_key(path):
                return kept
            new.replace(path)  # the file is damaged, or not ours
    finally:
        new.unlink(missing_ok=True)
    return key
