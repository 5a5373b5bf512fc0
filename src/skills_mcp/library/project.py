"""The project that an agent works on: which versions of packages it uses.

Rule: only files of the project's folder and of those above, up to the repository's, are
read; no link is followed. A file is read again when its stamp changes.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from skills_mcp.errors import InvalidArgumentsError, MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.library.lock_files import (
    FORMATS,
    PackageFile,
    find_format,
    normalize_package,
    parse_package_file,
)
from skills_mcp.skills.applicability import ECOSYSTEMS
from skills_mcp.skills.model import Applicability, Skill
from skills_mcp.skills.version_range import parse_range

MAX_HEADER_CHARACTERS = 4096

_MAX_DEPTH = 12  # of a folder in its repository
_MAX_ENTRIES = 2_000  # of one folder
_MAX_FILES = 40
_MAX_NAMED = 3  # versions, and packages of one reply

_STATED = re.compile(
    rf"(?:({'|'.join(ECOSYSTEMS)}):)?(@?[\w./:+~-]{{1,200}})@v?(\d[\w.+-]{{0,63}})"
)

_Stamp = tuple[int, int, int]


class Comparison(NamedTuple):
    """A package of a project, compared with the versions that a skill is written for."""

    fits: bool
    line: str
    """One sentence for a reply; empty if it fits."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project in a folder, or as a caller states it."""

    folder: Path | None = None
    stated: Sequence[PackageFile] = ()
    _parsed: dict[Path, tuple[_Stamp, PackageFile | None]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def is_found(self) -> bool:
        """Whether there is any file that is read.  Blocking, but cheap."""
        return bool(self.stated) or (
            self.folder is not None and next(_find_files(self.folder), None) is not None
        )

    def read_files(self) -> list[PackageFile]:
        """Read its changed files again; the nearest and best come first.  Blocking."""
        if self.folder is None:
            return [*self.stated]
        paths = islice(_find_files(self.folder), _MAX_FILES)
        return [file for path in paths if (file := self._read(path))]

    def compare(self, skills: Iterable[Skill]) -> list[Comparison]:
        """Compare it with what skills are written for, each package once.

        A package that the project does not name says nothing.
        """
        wanted = dict.fromkeys(each for skill in skills for each in skill.applies_to)
        files = self.read_files() if wanted else []
        compared = (_compare(each, files) for each in wanted)
        return [comparison for comparison in compared if comparison]

    def describe_misfits(self, skills: Iterable[Skill]) -> str:
        """The line for a reply; empty if nothing disagrees."""
        lines = dict.fromkeys(each.line for each in self.compare(skills) if not each.fits)
        return " ".join([*lines][:_MAX_NAMED])

    def _read(self, path: Path) -> PackageFile | None:
        try:
            found = path.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._parsed.get(path)
        if known is None or known[0] != stamp:
            known = self._parsed[path] = (stamp, _parse(path))
        return known[1]


@lru_cache(maxsize=32)
def open_project(folder: Path) -> Project:
    """Open a project once for all windows and prompts; nothing is read yet."""
    return Project(folder)


def parse_stated_project(header: str) -> Project | None:
    """Parse the packages that a caller states over HTTP; None for an empty header.

    Raises:
        InvalidArgumentsError: It is too long, or an entry is no NAME@VERSION.
    """
    if not header.strip():
        return None
    entries = [entry.strip() for entry in header.split(",") if entry.strip()]
    found = [_STATED.fullmatch(entry) for entry in entries]
    if len(header) > MAX_HEADER_CHARACTERS or not all(found):
        raise InvalidArgumentsError(
            "X-Skills-Project: write packages as NAME@VERSION, such as react@19.1 or "
            f"pypi:django@5.2, with commas in between, in at most {MAX_HEADER_CHARACTERS:,} "
            "characters."
        )
    return Project(stated=[file for each in found if each for file in _state(*each.groups())])


def _state(ecosystem: str | None, name: str, version: str) -> Iterator[PackageFile]:
    """Without a type, the caller means that of any ecosystem."""
    for each in [ecosystem] if ecosystem else ECOSYSTEMS:
        named = normalize_package(each, name.replace(":", "/"))
        stated = {named: (f"={version}",)}
        yield PackageFile(name="", ecosystem=each, is_lock=False, versions=stated)


def _find_files(folder: Path) -> Iterator[Path]:
    for each in _find_folders(folder):
        names: list[str] = []
        with suppress(OSError), os.scandir(each) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
        known = sorted(name for name in names if find_format(name))
        yield from (each / name for name in sorted(known, key=_rank))


def _rank(name: str) -> int:
    return [*FORMATS].index(name) if name in FORMATS else len(FORMATS)


def _find_folders(folder: Path) -> Sequence[Path]:
    """The folder, and those above it in its repository."""
    above = [folder, *folder.parents][:_MAX_DEPTH]
    for depth, each in enumerate(above):
        if os.path.lexists(each / ".git"):
            return above[: depth + 1]
    return [folder]


def _parse(path: Path) -> PackageFile | None:
    known = find_format(path.name)
    limit = known.max_bytes if known else 0
    try:
        with open_inside(path.parent, [path.name]) as file:
            raw = file.read(limit + 1)
    except (MissingFileError, OSError):
        return None
    return parse_package_file(path.name, raw) if len(raw) <= limit else None


def _compare(wanted: Applicability, files: Sequence[PackageFile]) -> Comparison | None:
    """Compare one package; None if the project names it in no ecosystem."""
    names = [wanted.ecosystem] if wanted.ecosystem else ECOSYSTEMS
    found = [each for name in names if (each := _compare_in(name, wanted, files))]
    return next((each for each in found if each.fits), found[0] if found else None)


def _compare_in(
    ecosystem: str, wanted: Applicability, files: Sequence[PackageFile]
) -> Comparison | None:
    """Compare versions with those of the nearest lock file, or ranges of a manifest."""
    name = normalize_package(ecosystem, wanted.package)
    named = [file for file in files if file.ecosystem == ecosystem and name in file.versions]
    if not named:
        return None
    allowed = parse_range(wanted.versions, ecosystem) if wanted.versions else None
    manifest = next((file for file in named if not file.is_lock), None)
    texts = manifest.versions[name] if manifest else ()
    declared = [each for text in texts if (each := parse_range(text, ecosystem))]
    file = next((file for file in named if file.is_lock), named[0])
    versions = file.versions[name] if file.is_lock else [each.text for each in declared]
    if not versions:
        return None  # such as `latest`, or an address
    if allowed is None:
        fits = True
    elif file.is_lock:
        # Of several versions, the others are those of packages of packages.
        direct = [v for v in versions if any(each.contains(v) for each in declared)]
        versions = (*direct,) or versions
        fits = any(map(allowed.contains, versions))
    else:
        fits = any(map(allowed.overlaps, declared))
    return Comparison(fits, "" if fits else _describe(wanted, versions, file.name))


def _describe(wanted: Applicability, versions: Sequence[str], file: str) -> str:
    listed = " and ".join(version.lstrip("= ") for version in versions[:_MAX_NAMED])
    where = f" ({file})" if file else ""
    return f"Written for {wanted}; this project has {listed}{where}."
