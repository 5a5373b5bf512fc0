"""Deadline and cancellation of one upload."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from skills_mcp.errors import ConfigError, ContentError, PackageRefusedError, UploadStoppedError
from skills_mcp.features.authoring.markdown import read_bytes
from skills_mcp.features.authoring.rules import enumerate_shortly
from skills_mcp.features.authoring.validation import validate_paths
from skills_mcp.files.archive import open_archive, unpack_archive
from skills_mcp.files.locks import locked_temporary_folder
from skills_mcp.files.paths import is_path_component
from skills_mcp.skills.model import Problem, Skill, Stamp
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.skills.skill_parser import derive_slug, is_skill_md, parse_package
from skills_mcp.text.rendering import abbreviate_value

MAX_UPLOAD_SECONDS = 50.0
"""Below the 60 s time-out of proxies; a usual upload takes one second."""


class UploadAttempt:
    """Cancellation token with a deadline, polled by blocking work."""

    def __init__(
        self, seconds: float = MAX_UPLOAD_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends_at = clock() + seconds
        self._stopped = threading.Event()

    def begin(self) -> None:
        """Restart the time-out; called by the worker thread."""
        self._ends_at = self._clock() + self._seconds

    def stop(self) -> None:
        """Cancel at the next check; thread-safe."""
        self._stopped.set()

    @property
    def left_seconds(self) -> float:
        """Time to the deadline, at least zero."""
        if self._stopped.is_set():
            return 0.0
        return max(0.0, self._ends_at - self._clock())

    def check(self) -> None:
        """Check for cancellation.

        Raises:
            UploadStoppedError: The deadline has passed, or the attempt was cancelled.
        """
        if self._stopped.is_set():
            raise UploadStoppedError(
                "The upload was stopped, because the server ends or the connection was "
                "closed. Nothing was added: send it again"
            )
        if not self.left_seconds:
            raise UploadStoppedError(
                f"The upload took more than {self._seconds:g} seconds. Nothing was "
                "added: send it again when the server has less to do, or pack fewer "
                "and smaller files"
            )


UNLIMITED = UploadAttempt(float("inf"))
"""For the command line: Ctrl-C cancels it."""


_MANDATORY_RULES = frozenset({"name", "description", "no-frontmatter"})
"""Mandatory rules: agents choose a skill by its name and its description."""

_MAX_NAME = 64  # as the Agent Skills standard has it


@dataclass(frozen=True, slots=True)
class UnpackedPackage:
    """A package unpacked into a temporary folder."""

    name: str
    description: str
    skill: Skill
    """As a server parses it; its path is the one in the archive."""
    files: tuple[tuple[str, int], ...]
    """`(path, bytes)` of all files, sorted."""
    problems: tuple[Problem, ...]
    digest: str
    """SHA-256 of the archive, in hexadecimal."""
    folder: Path
    """Temporary folder, deleted at the end of the block."""


@contextmanager
def unpacked_package(
    archive: Path, attempt: UploadAttempt = UNLIMITED
) -> Iterator[UnpackedPackage]:
    """Unpack and validate an archive in a temporary folder.  Blocking.

    Raises:
        PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
        UploadStoppedError: The deadline has passed.
    """
    with locked_temporary_folder("skills-mcp-add-") as scratch:
        # In a folder of its own: it gets the name of the package, which may be any.
        unpacked = scratch / "package" / "unpacked"
        unpacked.mkdir(parents=True)
        with open_archive(archive, scratch) as files:
            top = _find_prefix([file.path for file in files])
            selected = [file for file in files if file.path.startswith(top)]
            unpack_archive(selected, top, unpacked, attempt.check)
        sizes = {file.path.removeprefix(top): file.size_bytes for file in selected}
        guessed = [file.path.removeprefix(top) for file in selected if file.is_name_guessed]
        digest = hash_archive(archive)
        package = _inspect(unpacked, top.strip("/"), digest, sizes, attempt)
        yield replace(package, problems=(*map(_report_guessed_name, guessed), *package.problems))


def _report_guessed_name(file: str) -> Problem:
    reason = "has a name in an unknown code page, so it was read as cp437"
    hint = "if it looks wrong, pack the folder with names in UTF-8"
    return Problem(file, reason, hint, "warning", rule="file-name")


def _inspect(
    unpacked: Path, called: str, digest: str, sizes: Mapping[str, int], attempt: UploadAttempt
) -> UnpackedPackage:
    main = next(item.name for item in unpacked.iterdir() if is_skill_md(item.name))
    skill = _read_skill(unpacked, main, called, sizes)
    name = derive_slug(skill.name)
    if len(name) > _MAX_NAME or not is_path_component(name):
        raise PackageRefusedError(
            f"The name {abbreviate_value(skill.name)} can be no folder. Choose a short name of "
            "letters, digits and hyphens"
        )
    folder = unpacked.rename(unpacked.parent / name)
    problems = tuple(
        replace(item, file=Path(item.file).relative_to(folder).as_posix())
        for item in _check(folder, attempt)
    )
    missing = [p for p in problems if p.rule in _MANDATORY_RULES and p.level == "error"]
    if missing:
        raise PackageRefusedError(f"{main} {missing[0].reason}: {missing[0].hint}")
    listed = tuple(sorted(sizes.items()))
    return UnpackedPackage(name, skill.description, skill, listed, problems, digest, folder)


def _check(folder: Path, attempt: UploadAttempt) -> Sequence[Problem]:
    try:
        checks = [audit.warn_of_powers for audit in load_audits()]
        return validate_paths(folder, on_file=attempt.check, checks=checks).problems
    except (ConfigError, ContentError) as error:  # it speaks of the whole content
        raise PackageRefusedError(
            "Its config.yaml has settings that are not valid. No skill needs that "
            "file: remove it, and pack the folder again"
        ) from error


def _read_skill(folder: Path, main: str, called: str, sizes: Mapping[str, int]) -> Skill:
    raw = read_bytes(folder, main)
    if raw is None:
        raise PackageRefusedError(f"{main} is too large to be read. Shorten it")
    path = derive_slug(called or "skill")
    text = raw.decode("utf-8", "replace")
    stamps = {file: Stamp(size, 0, 0) for file, size in sorted(sizes.items())}
    skill, problems = parse_package(text, file=main, path=path, files=stamps)
    if skill is None:
        reason = f"{problems[0].reason}: {problems[0].hint}" if problems else "is empty"
        raise PackageRefusedError(f"{main} {reason}")
    return skill


def _find_prefix(paths: Sequence[str]) -> str:
    """Common prefix of a package's files: empty, or its one top folder."""
    mains = [path for path in paths if is_skill_md(path.rpartition("/")[2])]
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


def hash_archive(archive: Path) -> str:
    """Hash an archive with SHA-256, in hexadecimal.  Blocking."""
    with archive.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
