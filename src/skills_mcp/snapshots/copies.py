"""Identical packages: one skill with several paths."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.homes import SkillRoot
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.package import is_skill_md
from skills_mcp.snapshots.records import ContentRecord, RecordedSkill, decode_skill

LocatedRecord = tuple[SkillRoot, ContentRecord]

BlobId = Callable[[SkillRoot, str], str | None]
"""Content id of a file, by its path in a skill root; None without one."""


def find_copies(
    records: Sequence[LocatedRecord], blob_id: BlobId
) -> tuple[tuple[SkillPath, ...], ...]:
    """Find the paths of packages with identical files and folder name.

    Inherited rules are compared elsewhere (see `SkillIndex`). Only packages of equal
    sizes are read.
    """
    alike: dict[Hashable, list[tuple[SkillRoot, RecordedSkill]]] = defaultdict(list)
    for home, record in records:
        skill = record.skill
        if skill and is_skill_md(skill.file.rpartition("/")[2]):
            sizes = tuple(stamp.size_bytes for stamp in skill.stamps)
            alike[_folder_name(skill.path), skill.name, sizes].append((home, skill))
    same: dict[bytes, dict[SkillPath, None]] = defaultdict(dict)
    for group in alike.values():
        for home, skill in group if len(group) > 1 else ():
            digest = _hash_package(home, skill, blob_id)
            if digest is not None:
                same[digest][skill.path] = None
    return tuple(tuple(group) for group in same.values() if len(group) > 1)


def _folder_name(path: SkillPath) -> str:
    return path.rpartition("/")[2]


def _hash_package(home: SkillRoot, skill: RecordedSkill, blob_id: BlobId) -> bytes | None:
    digest = blake2b(digest_size=16)
    folder = skill.file.rpartition("/")[0]
    for name in decode_skill(skill.text.read(), home, skill.stamps).files:
        file = f"{folder}/{name}" if folder else name
        found = blob_id(home, file) or _hash_file(home, file)
        if found is None:
            return None
        digest.update(f"{name}\0{found}\0".encode("utf-8", "surrogatepass"))
    return digest.digest()


def _hash_file(home: SkillRoot, file: str) -> str | None:
    try:
        with open_inside(home.directory, tuple(file.split("/"))) as handle:
            return blake2b(handle.read(), digest_size=16).hexdigest()
    except (OSError, MissingFileError):
        return None
