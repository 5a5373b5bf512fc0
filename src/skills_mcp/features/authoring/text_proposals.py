"""Proposed texts of served skills: checks, differences, effect on example tasks, and sending.

Rule 1: the file is that of the skill as the caller sees it, in the source of uploads; no
text of the caller names it.

Rule 2: checks and tasks read a copy of the skills that the caller sees, so no finding
tells of others.
"""

import logging
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path

from skills_mcp.errors import (
    ConfigError,
    ContentError,
    PackageNotAddedError,
    PackageRefusedError,
    SyncError,
    UploadStoppedError,
)
from skills_mcp.features.authoring.evaluation import AnswerChange, diff_outcomes, evaluate_snapshot
from skills_mcp.features.authoring.package_archive import UploadAttempt
from skills_mcp.features.authoring.prompts import Prompt, collect_examples
from skills_mcp.features.authoring.uploads import (
    BRANCH_DIGITS,
    BRANCHES,
    Uploader,
    Uploads,
    escape_for_log,
    escape_notes,
)
from skills_mcp.features.authoring.validation import validate_paths
from skills_mcp.features.authoring.version_store import FolderContent, FolderMerge
from skills_mcp.files.durable import atomic_write, read_regular
from skills_mcp.files.locks import locked_temporary_folder
from skills_mcp.library import EditableText, Snapshot, TextReplacement, UneditableError, WorkingCopy
from skills_mcp.library.answers import sha256_of
from skills_mcp.library.source_edits import SkillReview, SkillTarget
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from skills_mcp.skills.skill_parser import derive_slug

logger = logging.getLogger(__name__)

MAX_REASON = 500
"""Characters of a reason."""

_MAX_TASKS = 1_000
"""Example tasks that are tried; each takes a millisecond or two."""

_MAX_COMPARED_LINES = 5_000  # to compare may take the square of it
_MAX_SLUG = 64
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ProposedText:
    """A text as a form sends it."""

    path: str
    """Of the skill."""
    base: str
    """Digest of the text that was edited."""
    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a skill to edit."""

    skill: Skill
    file: str
    """From the root of its repository or folder."""
    raw: bytes

    @property
    def digest(self) -> str:
        return sha256_of(self.raw)

    @property
    def text(self) -> str:
        return self.raw.removeprefix(_BOM).decode().replace("\r\n", "\n")

    def encode(self, text: str) -> bytes:
        """Bytes of an edited text, with the line ends and the mark of the old one."""
        lines = text.replace("\r\n", "\n")
        ends = lines.replace("\n", "\r\n") if b"\r\n" in self.raw else lines
        mark = _BOM if self.raw.startswith(_BOM) else b""
        return mark + ends.encode("utf-8", "replace")

    def compare(self, text: str) -> tuple[str, ...]:
        """Lines of a unified diff; empty for texts that are too long to compare."""
        before, after = self.text.splitlines(), text.replace("\r\n", "\n").splitlines()
        if max(len(before), len(after)) > _MAX_COMPARED_LINES:
            return ()
        return tuple(unified_diff(before, after, lineterm=""))[2:]


@dataclass(frozen=True, slots=True)
class TextCheck:
    """What a proposed text would change."""

    problems: tuple[Problem, ...]
    """Findings in the text and the files of its skill."""
    refusal: str
    """Why it is not sent; empty if it may be."""
    base: str = ""
    """Digest of the text that it was compared with."""
    lines: tuple[str, ...] = ()
    """A unified diff; empty for a text that is too long to compare."""
    tasks: int = 0
    """Number of the example tasks that were tried."""
    changes: tuple[AnswerChange, ...] = ()


@dataclass(frozen=True, slots=True)
class SentText:
    """A text that was sent."""

    path: str
    review: SkillReview | None = None
    """None if it was written to its folder."""
    replaced: str | None = None
    """The version before, if one is kept."""


class TextProposals:
    """Texts of the source that takes uploads.  Blocking."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads
        self._library = uploads.library

    def open(self, path: str, uploader: Uploader) -> SourceText:
        """Read the text of a skill.

        Raises:
            SkillNotFoundError: The caller sees no such skill.
            PackageNotAddedError: Its text cannot be changed here.
        """
        with self._library.edited_copy(uploader.library.access) as copy:
            return self._read(copy, path)

    def _read(self, copy: WorkingCopy, path: str) -> SourceText:
        skill = copy.served.index.require(path)
        try:
            editable = copy.read(skill)
            found = SourceText(skill, editable.file, editable.raw)
            editable.raw.decode()
        except UneditableError as error:
            raise PackageNotAddedError(f"{path} cannot be changed here: {error}") from error
        except UnicodeError as error:
            raise PackageNotAddedError(
                f"{path} cannot be changed here: its file is not UTF-8. Change it in a clone"
            ) from error
        if not self._takes(editable):
            raise PackageNotAddedError(
                f"{path} belongs to a source that takes no changes here. Change it where "
                "that is kept"
            )
        return found

    def _takes(self, editable: EditableText) -> bool:
        mount = self._library.mounts.find(self._uploads.mount)
        source = editable.source
        return mount is not None and (mount.source.name, mount.at) == (source.name, source.mount)

    def takes(self, snapshot: Snapshot, skill: Skill) -> bool:
        """Whether a skill belongs to the source that takes uploads."""
        mount = self._library.mounts.find(self._uploads.mount)
        location = skill.location
        part = snapshot.content.find_part(location, skill.path) if location else None
        return mount is not None and part is not None and part.mount.source is mount.source

    def check(
        self, proposed: ProposedText, uploader: Uploader, attempt: UploadAttempt
    ) -> TextCheck:
        """Check a text.

        Raises:
            SkillNotFoundError: The caller sees no such skill.
            PackageNotAddedError: Its text cannot be changed, or nothing would change.
            PackageRefusedError: The text is too long.
            UploadStoppedError: The deadline has passed.
        """
        return self._check(proposed, uploader, attempt)[1]

    def _check(
        self, proposed: ProposedText, uploader: Uploader, attempt: UploadAttempt
    ) -> tuple[SourceText, TextCheck]:
        with self._library.edited_copy(uploader.library.access) as copy:
            current = self._read(copy, proposed.path)
            raw = current.encode(proposed.text)
            _require_change(current, raw)
            attempt.check()
            try:
                check = _try_text(copy, current, raw, uploader, attempt)
            except SyncError as error:
                logger.warning("A proposed text cannot be checked: %s", error)
                raise UploadStoppedError(
                    "The server has no room to check the text. Nothing was changed: tell the "
                    "operator, who finds the reason in the log"
                ) from error
        lines = current.compare(proposed.text)
        return current, replace(check, base=current.digest, lines=lines)

    def send(self, proposed: ProposedText, uploader: Uploader, attempt: UploadAttempt) -> SentText:
        """Push a text to a branch for review, or write it to its folder.

        Raises:
            SkillsError: As for `check`, or the text has errors, has changed meanwhile, or
                the folder or repository does not accept it.
        """
        try:
            current, check = self._check(proposed, uploader, attempt)
            _require_sendable(check, proposed)
            attempt.check()
            sent = self._write(current, proposed, uploader, attempt)
        except (PackageRefusedError, PackageNotAddedError, UploadStoppedError) as error:
            logger.warning(
                "Refused a text of %s for %s: %s%s",
                *(escape_for_log(uploader.name), escape_for_log(proposed.path), error.code),
                escape_notes(error),
            )
            raise
        logger.info(
            "%s has changed the text of %s, SHA-256 %s; the branch: %s",
            *(escape_for_log(uploader.name), sent.path, sha256_of(current.encode(proposed.text))),
            sent.review.branch if sent.review else "none",
        )
        return sent

    def _write(
        self,
        current: SourceText,
        proposed: ProposedText,
        uploader: Uploader,
        attempt: UploadAttempt,
    ) -> SentText:
        target, raw = self._uploads.find_target(), current.encode(proposed.text)
        if target.repository is None:
            return SentText(proposed.path, None, self._write_file(target, current, raw, attempt))
        digest = sha256_of(current.raw + b"\0" + raw)[:BRANCH_DIGITS]
        branch = f"{BRANCHES}{derive_slug(current.skill.path)[:_MAX_SLUG]}-{digest}"
        message = _write_message(current, proposed, uploader)
        change = TextReplacement(
            *(current.file, current.raw, raw, branch, message), attempt.left_seconds
        )
        return SentText(proposed.path, self._uploads.send(target, change))

    def _write_file(
        self, target: SkillTarget, current: SourceText, raw: bytes, attempt: UploadAttempt
    ) -> str | None:
        location = current.skill.location
        assert location is not None, "it was read"  # noqa: S101
        is_package = current.skill.inventory is not None
        if is_package and location.parent.parent == target.folder:
            return self._put_package(target, location, current, raw, attempt)
        try:
            _require_unchanged(read_regular(location, MAX_SKILL_BYTES), current)
            with atomic_write(location, stat.S_IMODE(location.stat().st_mode)) as handle:
                handle.write(raw)
        except OSError as error:
            raise PackageNotAddedError(
                f"{current.file} cannot be written: {error.strerror}. Tell the operator, who "
                "checks the permissions of the folder and the room on its disk"
            ) from error
        return None

    def _put_package(
        self,
        target: SkillTarget,
        location: Path,
        current: SourceText,
        raw: bytes,
        attempt: UploadAttempt,
    ) -> str | None:
        main = location.name

        def keep_others(standing: FolderContent, _coming: FolderContent) -> FolderMerge:
            _require_unchanged(standing.read(main), current)
            return FolderMerge(carried=standing.files - {main})

        with locked_temporary_folder("skills-mcp-text-") as folder:
            (folder / "package").mkdir()
            (folder / "package" / main).write_bytes(raw)
            (folder / "package" / main).chmod(stat.S_IMODE(location.stat().st_mode))
            store = self._uploads.open_store(target, attempt)
            now = datetime.now(UTC)
            return store.put(folder / "package", location.parent.name, now, keep_others)


def describe_conflict(path: str) -> str:
    """Message for a text that was changed by others while it was edited."""
    return (
        f"The text of {path} has changed since you opened it. Yours is below, with what it "
        "would change in the newest one: take over what is missing, and send it again"
    )


def _require_change(current: SourceText, raw: bytes) -> None:
    if raw == current.raw:
        raise PackageNotAddedError("The text is the one that is served, so nothing would change")
    if len(raw) > MAX_SKILL_BYTES:
        raise PackageRefusedError(
            f"The text has {len(raw):,} bytes, and {MAX_SKILL_BYTES:,} are read. Move parts of "
            "it into files of the skill"
        )


def _require_sendable(check: TextCheck, proposed: ProposedText) -> None:
    if check.refusal:
        raise PackageRefusedError(check.refusal)
    if check.base != proposed.base:
        raise PackageNotAddedError(describe_conflict(proposed.path))


def _require_unchanged(raw: bytes | None, current: SourceText) -> None:
    if raw != current.raw:
        raise PackageNotAddedError(describe_conflict(current.skill.path))


def _write_message(current: SourceText, proposed: ProposedText, uploader: Uploader) -> str:
    words = escape_for_log(" ".join(proposed.reason.split()), MAX_REASON)
    reason = f"{words}\n\n" if words else ""
    return f"Change {current.skill.path}\n\n{reason}Suggested-by: {escape_for_log(uploader.name)}\n"


def _try_text(
    copy: WorkingCopy, current: SourceText, raw: bytes, uploader: Uploader, attempt: UploadAttempt
) -> TextCheck:
    location = current.skill.location
    assert location is not None, "it was read"  # noqa: S101
    before, after = copy.serve({}), copy.serve({location: raw})
    attempt.check()
    placed = copy.find_copy(location)
    assert placed is not None, "it is served"  # noqa: S101
    problems = tuple(_validate(placed, current, attempt))
    refusal = _find_refusal(after, current, uploader, problems)
    prompts = _collect_tasks(before, after, current.skill.path)

    def on_progress(_done: int, _total: int) -> None:
        attempt.check()

    old, new = (evaluate_snapshot(prompts, each, on_progress) for each in (before, after))
    changes = tuple(diff_outcomes(old, new))
    return TextCheck(problems, refusal, tasks=len(prompts), changes=changes)


def _validate(placed: Path, current: SourceText, attempt: UploadAttempt) -> Iterator[Problem]:
    try:
        found = validate_paths(placed, on_file=attempt.check).problems
    except (ConfigError, ContentError) as error:
        raise PackageNotAddedError(
            "The settings of this content are not valid, so no text can be checked. Tell the "
            "operator: skills-mcp validate says why"
        ) from error
    # As in the repository: the copy lies in a folder with a name of no meaning.
    folder = Path(current.file).parent
    for problem in found:
        file = Path(problem.file)
        if file.is_relative_to(placed.parent):
            named = folder / file.relative_to(placed.parent)
            yield replace(problem, file=named.as_posix())


def _find_refusal(
    after: Snapshot, current: SourceText, uploader: Uploader, problems: tuple[Problem, ...]
) -> str:
    errors = [each for each in problems if each.level == "error" and each.file == current.file]
    if errors:
        first = errors[0]
        return f"{first.file}:{first.line} {first.reason}. To do: {first.hint}"
    skill = after.index.get(current.skill.path)
    if skill is None or skill.path != current.skill.path:
        return (
            f"With this text nothing would be served as {current.skill.path}. Keep its "
            "frontmatter and its name"
        )
    if not uploader.library.access.sees(skill):
        return "With this text you would not see the skill any more. Keep its name and category"
    return ""


def _collect_tasks(before: Snapshot, after: Snapshot, path: str) -> tuple[Prompt, ...]:
    """Example tasks of all skills with those of the new text, of the skill itself first."""
    found = {
        prompt.query: prompt
        for snapshot in (before, after)
        for prompt in collect_examples(snapshot.index)
    }
    own_first = sorted(found.values(), key=lambda prompt: path not in prompt.expect)
    return tuple(own_first[:_MAX_TASKS])
