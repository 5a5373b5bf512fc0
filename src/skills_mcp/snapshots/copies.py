"""Packages that are the same in several places: one skill, and where else it lies."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.homes import Home
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.package import is_main
from skills_mcp.snapshots.records import ContentRecord, RecordedSkill, decode

Placed = tuple[Home, ContentRecord]

BlobId = Callable[[Home, str], str | None]
"""Returns the id of a file's content, by its path in a home; None if it has none."""


def find_copies(
    records: Sequence[Placed], blob_id: BlobId
) -> tuple[tuple[SkillPath, ...], ...]:
    """Return the paths of packages that are identical, in the order of the records.

    They have the same files with the same content, and the same name of their folder.
    Whether they inherit the same rules is another question (see `SkillIndex`). Only
    packages whose sizes are the same are read.

    Args:
        records: What one source holds, the homes in their order.
        blob_id: Tells the content of a file without reading it.
    """
    alike: dict[Hashable, list[tuple[Home, RecordedSkill]]] = defaultdict(list)
    for home, record in records:
        skill = record.skill
        if skill and is_main(skill.file.rpartition("/")[2]):
            sizes = tuple(stamp.size_bytes for stamp in skill.stamps)
            alike[_last(skill.path), skill.name, sizes].append((home, skill))
    same: dict[bytes, dict[SkillPath, None]] = defaultdict(dict)
    for group in alike.values():
        for home, skill in group if len(group) > 1 else ():
            digest = _digest(home, skill, blob_id)
            if digest is not None:
                same[digest][skill.path] = None
    return tuple(tuple(group) for group in same.values() if len(group) > 1)


def _last(path: SkillPath) -> str:
    return path.rpartition("/")[2]


def _digest(home: Home, skill: RecordedSkill, blob_id: BlobId) -> bytes | None:
    """Return a hash of the names and contents; None if one cannot be read."""
    whole = blake2b(digest_size=16)
    folder = skill.file.rpartition("/")[0]
    for name in decode(skill.text.read(), home, skill.stamps).files:
        file = f"{folder}/{name}" if folder else name
        found = blob_id(home, file) or _hash_file(home, file)
        if found is None:
            return None
        whole.update(f"{name}\0{found}\0".encode("utf-8", "surrogatepass"))
    return whole.digest()


def _hash_file(home: Home, file: str) -> str | None:
    try:
        with open_inside(home.directory, tuple(file.split("/"))) as handle:
            return blake2b(handle.read(), digest_size=16).hexdigest()
    except (OSError, MissingFileError):
        return None
