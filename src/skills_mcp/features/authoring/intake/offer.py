"""A package as it is shown before it is taken: name, description, files, findings."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from skills_mcp.errors import ConfigError, ContentError, PackageRefusedError
from skills_mcp.features.authoring.intake.upload_attempt import UNLIMITED, UploadAttempt
from skills_mcp.features.authoring.validation import validate
from skills_mcp.features.authoring.validation.markdown import read_bytes
from skills_mcp.features.authoring.validation.rules import enumerate_shortly
from skills_mcp.files.archive import opened_archive, unpack
from skills_mcp.files.paths import is_path_component
from skills_mcp.files.temporary_folders import temporary_folder
from skills_mcp.skills.model import Problem, Skill, Stamp
from skills_mcp.skills.package import derive_slug, is_main, parse_package
from skills_mcp.text.rendering import shorten

_NEEDED = frozenset({"name", "description"})
"""Rules without which a package is not taken: agents choose by these two."""

_MAX_NAME = 64  # as the Agent Skills standard has it


@dataclass(frozen=True, slots=True)
class OfferedPackage:
    """A package that was unpacked, in a private folder."""

    name: str
    """What the folder will be called."""
    description: str
    skill: Skill
    """As a server reads it; its path is where it lay in the archive."""
    files: tuple[tuple[str, int], ...]
    """Every path with its size in bytes, in order."""
    problems: tuple[Problem, ...]
    """What validation found; files are relative to the package."""
    digest: str
    """The SHA-256 of the archive, in hexadecimal."""
    folder: Path
    """Where it lies until the block ends."""


@contextmanager
def offered(
    archive: Path, attempt: UploadAttempt = UNLIMITED
) -> Iterator[OfferedPackage]:
    """Unpack an archive into a private folder, and yield what it holds.  Blocking.

    Raises:
        PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
        UploadStoppedError: The attempt is over.
    """
    with temporary_folder("skills-mcp-add-") as scratch:
        # In a folder of its own: it gets the name of the package, which may be any.
        unpacked = scratch / "package" / "unpacked"
        unpacked.mkdir(parents=True)
        with opened_archive(archive, scratch) as files:
            top = _find_top([file.path for file in files])
            wanted = [file for file in files if file.path.startswith(top)]
            unpack(wanted, top, unpacked, attempt.check)
        sizes = {file.path.removeprefix(top): file.size_bytes for file in wanted}
        digest = read_digest(archive)
        yield _look(unpacked, top.strip("/"), digest, sizes, attempt)


def _look(
    unpacked: Path,
    called: str,
    digest: str,
    sizes: Mapping[str, int],
    attempt: UploadAttempt,
) -> OfferedPackage:
    main = next(each.name for each in unpacked.iterdir() if is_main(each.name))
    skill = _read_skill(unpacked, main, called, sizes)
    name = derive_slug(skill.name)
    if len(name) > _MAX_NAME or not is_path_component(name):
        raise PackageRefusedError(
            f"The name {shorten(skill.name)} can be no folder. Choose a short name of "
            "letters, digits and hyphens"
        )
    folder = unpacked.rename(unpacked.parent / name)
    problems = tuple(
        replace(each, file=Path(each.file).relative_to(folder).as_posix())
        for each in _check(folder, attempt)
    )
    missing = [p for p in problems if p.rule in _NEEDED and p.level == "error"]
    if missing:
        raise PackageRefusedError(f"{main} {missing[0].reason}: {missing[0].hint}")
    listed = tuple(sorted(sizes.items()))
    return OfferedPackage(
        name, skill.description, skill, listed, problems, digest, folder
    )


def _check(folder: Path, attempt: UploadAttempt) -> Sequence[Problem]:
    try:
        return validate(folder, on_file=attempt.check).problems
    except (ConfigError, ContentError) as error:  # it speaks of the whole content
        raise PackageRefusedError(
            "Its config.yaml has settings that are not valid. No skill needs that "
            "file: remove it, and pack the folder again"
        ) from error


def _read_skill(
    folder: Path, main: str, called: str, sizes: Mapping[str, int]
) -> Skill:
    raw = read_bytes(folder, main)
    if raw is None:
        raise PackageRefusedError(f"{main} is too large to be read. Shorten it")
    path = derive_slug(called or "skill")
    text = raw.decode("utf-8", "replace")
    stamps = {file: Stamp(size, 0, 0) for file, size in sorted(sizes.items())}
    skill, problems = parse_package(text, file=main, path=path, files=stamps)
    if skill is None:
        said = f"{problems[0].reason}: {problems[0].hint}" if problems else "is empty"
        raise PackageRefusedError(f"{main} {said}")
    return skill


def _find_top(paths: Sequence[str]) -> str:
    """Return what stands before every file of the package: nothing, or its folder."""
    mains = [path for path in paths if is_main(path.rpartition("/")[2])]
    if any("/" not in path for path in mains):
        return ""
    tops = {path.partition("/")[0] for path in paths}
    if len(tops) == 1 and any(path.count("/") == 1 for path in mains):
        return f"{tops.pop()}/"
    found = f" It has {enumerate_shortly(mains)}." if mains else ""
    raise PackageRefusedError(
        f"The archive has no SKILL.md at its top or in its one folder.{found} Pack "
        "the folder of one skill"
    )


def read_digest(archive: Path) -> str:
    """Return the SHA-256 of an archive, in hexadecimal.  Blocking."""
    with archive.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
