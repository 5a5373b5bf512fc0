"""Commits that are written without Git: it would take two programs for each."""

import hashlib
import os
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

_WHO = b"Ada <ada@example.com>"
_KNOWN_SETTINGS = (
    *("[core]", "repositoryformatversion = 0", "filemode = ", "bare = false", "logallref"),
    *("ignorecase = ", "precomposeunicode = ", '[remote "origin"]', "url = ", "fetch = "),
    *("[maintenance]", "auto = false"),
)
_NEEDS_GIT = ("MERGE_HEAD", "packed-refs", "hooks", "info/attributes", "modules")
"""What is in `.git` where more than the files decides about a commit."""

_Entry = tuple[bytes, os.stat_result, int, bytes]
"""Path of a file, what is known of it, its mode and the name of its object."""


def write_commit(work: Path, objects: Path) -> str | None:
    """Commit all files of a clone to its branch, into a folder of objects.

    None where only Git knows how: attributes, repositories within, settings of a test.
    """
    own = work / ".git"
    head = (own / "HEAD").read_text().strip()
    settings = (line.strip() for line in (own / "config").read_text().splitlines())
    if (
        os.name == "nt"
        or not head.startswith("ref: ")
        or not all(line.startswith(_KNOWN_SETTINGS) for line in settings)
        or any((own / name).exists() for name in _NEEDS_GIT)
    ):
        return None
    index: list[_Entry] = []
    try:
        tree = _write_tree(work, b"", objects, index)
    except _NeedsGitError:
        return None
    branch = own / head.removeprefix("ref: ")
    parent = [b"parent " + branch.read_bytes().strip()] if branch.exists() else []
    signed = _WHO + f" {int(time.time())} +0000".encode()
    lines = [b"tree " + tree.hex().encode(), *parent, b"author " + signed, b"committer " + signed]
    commit = _write_object(objects, b"commit", b"\n".join([*lines, b"", b"Change\n"])).hex()
    (own / "index").write_bytes(_render_index(index))
    branch.parent.mkdir(parents=True, exist_ok=True)
    branch.write_text(f"{commit}\n")
    return commit


class _NeedsGitError(Exception):
    pass


def _write_tree(folder: Path, above: bytes, objects: Path, index: list[_Entry]) -> bytes:
    rows = []
    for key, entry in sorted(_list_folder(folder, is_top=not above)):
        name, before = os.fsencode(entry.name), len(index)
        if key.endswith(b"/"):
            mode = 0o40000
            written = _write_tree(Path(entry.path), above + key, objects, index)
            if len(index) == before:
                continue  # a commit has no empty folder
        else:
            found = entry.stat(follow_symlinks=False)
            mode, data = _read_file(entry.path, found.st_mode)
            written = _write_object(objects, b"blob", data)
            index.append((above + name, found, mode, written))
        rows.append(b"%o %s\0%s" % (mode, name, written))
    return _write_object(objects, b"tree", b"".join(rows))


def _list_folder(folder: Path, *, is_top: bool) -> Iterator[tuple[bytes, "os.DirEntry[str]"]]:
    """Entries, each with what Git sorts it by."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == ".git" and is_top:
                continue
            if entry.name in {".git", ".gitattributes"}:
                raise _NeedsGitError
            ending = b"/" if entry.is_dir(follow_symlinks=False) else b""
            yield os.fsencode(entry.name) + ending, entry


def _read_file(path: str, mode: int) -> tuple[int, bytes]:
    if stat.S_ISLNK(mode):
        return 0o120000, os.fsencode(os.readlink(path))  # noqa: PTH115 - as bytes
    if not stat.S_ISREG(mode):
        raise _NeedsGitError
    return 0o100755 if mode & stat.S_IXUSR else 0o100644, Path(path).read_bytes()


def _write_object(objects: Path, kind: bytes, data: bytes) -> bytes:
    raw = b"%s %d\0%s" % (kind, len(data), data)
    name = hashlib.sha1(raw, usedforsecurity=False)
    place = objects / name.hexdigest()[:2] / name.hexdigest()[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(zlib.compress(raw, 1))
        place.chmod(0o444)
    return name.digest()


def _render_index(entries: list[_Entry]) -> bytes:
    parts = [struct.pack(">4sII", b"DIRC", 2, len(entries))]
    for path, found, mode, name in entries:
        times = (*divmod(found.st_ctime_ns, 10**9), *divmod(found.st_mtime_ns, 10**9))
        numbers = (*times, found.st_dev, found.st_ino, mode, found.st_uid, found.st_gid)
        fields = (number & 0xFFFFFFFF for number in (*numbers, found.st_size))
        head = struct.pack(">10I20sH", *fields, name, min(len(path), 0xFFF))
        parts.append((head + path).ljust((len(head) + len(path)) // 8 * 8 + 8, b"\0"))
    data = b"".join(parts)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()
