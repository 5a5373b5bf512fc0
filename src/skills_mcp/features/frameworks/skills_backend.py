"""The skills as a read-only file system for deep agents.

Rule: every skill is a folder with a `SKILL.md` including inherited rules. Replies equal
deepagents' `FilesystemBackend` for the same files.
"""

import base64
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import PurePosixPath
from typing import Annotated, Any, NotRequired

from deepagents.backends import utils
from deepagents.backends.protocol import (
    DEFAULT_GREP_TIMEOUT,
    FILE_NOT_FOUND,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    BackendProtocol,
    EditResult,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.middleware.skills import SkillsState
from langchain.agents.middleware.types import AgentMiddleware, PrivateStateAttr

from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.errors import SkillDisabledError, SkillNotFoundError, SkillsError
from skills_mcp.features.frameworks.skill_names import SkillNameCache
from skills_mcp.library.skill_folder import SkillFolder, render_skill_file
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_parser import SKILL_MD

_READ_ONLY = "Error: skills are read-only here. Write into another folder."


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    folder: SkillFolder
    inside: str

    def read(self) -> bytes:
        if self.inside == SKILL_MD:
            return self.render(self.folder.compose())
        return self.folder.read(self.inside).data

    def render(self, text: str) -> bytes:
        name, fields = self.path.split("/")[1], self.folder.read_fields()
        document = render_skill_file(self.folder.skill, name, text, fields)
        return document.encode(errors="replace")

    def show(self) -> Any:
        is_main = self.inside == SKILL_MD
        size = len(self.read()) if is_main else self.folder.files[self.inside]
        return FileInfo(path=self.path, is_dir=False, size=size)


class SkillsBackend(BackendProtocol):
    """Read-only files: `/NAME/SKILL.md` and the skill's files.

    Reading the beginning of a `SKILL.md` counts as a load of the skill. Listing and
    searching do not.
    """

    def __init__(self, skills: Skills | SyncSkills) -> None:
        self._skills = skills.to_sync()
        self._names = SkillNameCache(self._skills)
        self._listed: list[str] = []

    def ls(self, path: str) -> LsResult:
        top = _normalize(path)
        if not top:
            found = sorted(f"/{name}/" for name in self._names.read().by_name)
            self._listed = [f"{folder}{SKILL_MD}" for folder in found]
            return LsResult(entries=[_folder_info(path_or_name) for path_or_name in found])
        files = dict(self._below(path))
        if not files or "" in files:
            reason = "not_a_directory" if files else "path_not_found"
            return LsResult(error=f"Path '{path}': {reason}")
        folders = {below.partition("/")[0] for below in files if "/" in below}
        entries = [_folder_info(f"{top}/{path_or_name}/") for path_or_name in folders]
        entries += [file.show() for below, file in files.items() if "/" not in below]
        return LsResult(entries=_sort_by_path(entries))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        file = self._find(file_path)
        if file is None:
            return ReadResult(error=f"File '{file_path}' not found")
        is_text = utils._get_backend_read_file_type(file_path) == "text"  # noqa: SLF001 - as `read_file` decides
        try:
            data = self._load(file, is_served=not is_text or offset <= 0)
            text = _decode(data) if is_text else base64.b64encode(data).decode()
        except (SkillsError, UnicodeDecodeError) as error:
            return ReadResult(error=f"Error reading file '{file_path}': {error}")
        empty = is_text and utils.check_empty_content(text)
        kind = "utf-8" if is_text else "base64"
        file_data = FileData(content=empty or text, encoding=kind)
        if empty or not is_text:
            return ReadResult(file_data=file_data)
        return utils.slice_read_response(file_data, offset, limit)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Whole files; the list read by `SkillsMiddleware` is not a load."""
        is_list = paths == self._listed
        return [self._download(path, is_served=not is_list) for path in paths]

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        try:
            fits = utils.compile_grep_include_glob(pattern)
        except utils.InvalidGlobPatternError as error:
            return GlobResult(error=str(error))
        found = [f.show() for at, f in self._below(path or "/") if at and fits(at)]
        return GlobResult(matches=_sort_by_path(found))

    def grep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        try:
            fits = utils.compile_grep_include_glob(glob) if glob else None
        except utils.InvalidGlobPatternError as error:
            return GrepResult(error=str(error), matches=[])
        end = time.monotonic() + DEFAULT_GREP_TIMEOUT
        matches: list[Any] = []
        for below, file in self._below(path or "/"):
            if fits and below and not fits(below):
                continue
            matches += _find_lines(file, pattern)
            is_full = max_count is not None and len(matches) > max_count
            if is_full or time.monotonic() > end:
                return GrepResult(matches=matches[:max_count], truncated=True)
        return GrepResult(matches=matches)

    def write(self, file_path: str, content: str) -> WriteResult:  # noqa: ARG002 - the framework's signature
        return WriteResult(error=_READ_ONLY)

    def edit(
        self,
        file_path: str,  # noqa: ARG002
        old_string: str,  # noqa: ARG002
        new_string: str,  # noqa: ARG002
        replace_all: bool = False,  # noqa: ARG002, FBT001, FBT002 - the framework's signature
    ) -> EditResult:
        return EditResult(error=_READ_ONLY)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path, PERMISSION_DENIED) for path, _ in files]

    def _below(self, path: str) -> Iterator[tuple[str, _File]]:
        """Files below a folder by relative path; '' for a file itself."""
        top = _normalize(path)
        named = self._names.read().by_name
        for name in [top.split("/")[1]] if top else sorted(named):
            if (folder := self._open(named.get(name))) is None:
                continue
            for inside in sorted({*folder.files, SKILL_MD}):
                file = _File(f"/{name}/{inside}", folder, inside)
                if file.path == top or file.path.startswith(f"{top}/"):
                    yield file.path[len(top) + 1 :], file

    def _open(self, skill: Skill | None) -> SkillFolder | None:
        try:
            return self._skills.open_folder(skill.path) if skill else None
        except (SkillDisabledError, SkillNotFoundError):  # a refresh was faster
            return None

    def _find(self, path: str) -> _File | None:
        files = self._below(path) if _normalize(path) else ()
        return next((file for below, file in files if not below), None)

    def _load(self, file: _File, *, is_served: bool) -> bytes:
        """Whole file; tracked if an agent receives it."""
        path = file.folder.skill.path
        if is_served and file.inside == SKILL_MD:
            return file.render(self._skills.load(path).instructions)
        data = file.read()
        if is_served:
            self._skills.read(path, file.inside)
        return data

    def _download(self, path: str, *, is_served: bool) -> FileDownloadResponse:
        file = self._find(path)
        try:
            data = file and self._load(file, is_served=is_served)
        except SkillsError as error:
            return FileDownloadResponse(path, error=str(error))
        if data is not None:
            return FileDownloadResponse(path, content=data)
        is_folder = not _normalize(path) or any(self._below(path))
        missing = IS_DIRECTORY if is_folder else FILE_NOT_FOUND
        return FileDownloadResponse(path, error=missing)


def _normalize(path: str) -> str:
    return "".join(f"/{part}" for part in PurePosixPath(f"/{path}").parts[1:])


def _decode(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def _find_lines(file: _File, pattern: str) -> Iterator[Any]:
    try:
        lines = StringIO(_decode(file.read()))
    except (SkillsError, UnicodeDecodeError):
        return  # no text, or none that is handed out
    for number, line in enumerate(lines, 1):
        if pattern in line:
            yield GrepMatch(path=file.path, line=number, text=line.rstrip("\n"))


def _folder_info(path: str) -> Any:
    return FileInfo(path=path, is_dir=True, size=0)


def _sort_by_path(entries: list[Any]) -> list[Any]:
    return sorted(entries, key=lambda entry: str(entry["path"]))


class _Revision(SkillsState):
    skills_revision: NotRequired[Annotated[str, PrivateStateAttr]]


class SkillsReload(AgentMiddleware):
    """Relist the skills in a thread after a change.

    `SkillsMiddleware` lists them once per thread; put this middleware in front.
    """

    state_schema = _Revision

    def __init__(self, skills: Skills | SyncSkills) -> None:
        super().__init__()
        self._skills = skills.to_sync()

    def before_agent(self, state: _Revision, runtime: object) -> dict[str, Any] | None:  # noqa: ARG002
        """Reset the list if the revision differs from the thread's."""
        revision = self._skills.revision
        if state.get("skills_revision") == revision:
            return None
        return {"skills_revision": revision, "skills_metadata": None}
