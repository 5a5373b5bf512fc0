"""Well-known index of Agent Skills, for installers.

Source: the discovery of Agent Skills, version 0.2.0, see `skills_mcp.export`.

Rule: a skill is packaged once for all callers with equal grants. The scope of a request
only filters these skills; their addresses stay.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from anyio.from_thread import check_cancelled
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.export.layout import (
    WELL_KNOWN_FOLDER,
    WELL_KNOWN_INDEX,
    LockedSettings,
    WellKnownSkill,
    build_well_known_skill,
    package_skill,
    render_well_known,
)
from skills_mcp.features.web.caches import ByteCache
from skills_mcp.features.web.page import get_visible_library
from skills_mcp.library import LibraryView
from skills_mcp.library.skill_folder import PublishedSkills
from skills_mcp.skills.model import SkillPath

_SETTINGS = LockedSettings(format="well-known", raw=False, select=())

WELL_KNOWN_PATHS = (f"/{WELL_KNOWN_INDEX}", f"/{WELL_KNOWN_FOLDER}/{{name}}/{{file}}")
"""Route of the index, and of the skills' files."""

_MAX_ENTRY_BYTES = 64 * 1024 * 1024  # about 100,000 skills, or ten sets of 10,000

_MAX_FILE_BYTES = 32 * 1024 * 1024  # a tool that installs skills asks for each of them


def well_known_routes() -> list[Route]:
    skills = _WellKnownSkills()
    return [
        Route(WELL_KNOWN_PATHS[0], skills.send_index),
        Route(WELL_KNOWN_PATHS[1], skills.send_file),
    ]


class _Key(NamedTuple):
    """A skill as seen with equal grants."""

    revision: bytes
    path: SkillPath


class _WellKnownSkills:
    """Cache of packaged skills, shared by all callers."""

    def __init__(self) -> None:
        self._entries: ByteCache[_Key, str] = ByteCache(_MAX_ENTRY_BYTES, len, check_cancelled)
        self._files: ByteCache[_Key, WellKnownSkill] = ByteCache(
            _MAX_FILE_BYTES, lambda skill: len(skill.data), check_cancelled
        )

    def send_index(self, request: Request) -> Response:
        library = get_visible_library(request)
        published = replace(library, access=library.access.unscoped).publish()
        entries = [
            self._find_entry(published, path) for path in _find_requested(library, published)
        ]
        return _send_tagged(request, render_well_known(entries), "application/json")

    def send_file(self, request: Request) -> Response:
        library = get_visible_library(request)
        published = replace(library, access=library.access.unscoped).publish()
        path = published.names.find(request.path_params["name"])
        if path is None or not _is_requested(library, published, path):
            raise SkillNotFoundError("There is no such skill.")
        skill = self._find_skill(published, path)
        if skill.file != request.path_params["file"]:
            raise SkillNotFoundError("There is no such file.")
        is_text = skill.file.endswith(".md")
        kind = "text/markdown; charset=utf-8" if is_text else "application/gzip"
        return _send_tagged(request, skill.data, kind)

    def _find_entry(self, published: PublishedSkills, path: SkillPath) -> str:
        check_cancelled()
        key = _Key(published.snapshot.indexes.content_key, path)
        return self._entries.get(key, lambda: _lay_out(published, path).entry)

    def _find_skill(self, published: PublishedSkills, path: SkillPath) -> WellKnownSkill:
        key = _Key(published.snapshot.indexes.content_key, path)
        return self._files.get(key, partial(_lay_out, published, path))


def _lay_out(published: PublishedSkills, path: SkillPath) -> WellKnownSkill:
    return build_well_known_skill(package_skill(published, path, _SETTINGS))


def _find_requested(library: LibraryView, published: PublishedSkills) -> Iterator[SkillPath]:
    for path in published.names.published:
        if _is_requested(library, published, path):
            yield path


def _is_requested(library: LibraryView, published: PublishedSkills, path: SkillPath) -> bool:
    """Whether the requested scope includes a skill, or one of its copies."""
    visible = library.snapshot.index
    paths = (path, *published.snapshot.index.other_places(path))
    return any(visible.find(location) is not None for location in paths)


def _send_tagged(request: Request, data: bytes, kind: str) -> Response:
    """Response with ETag; 304 if unchanged (RFC 9110)."""
    tag = f'"{sha256(data).hexdigest()}"'
    known = request.headers.get("if-none-match", "")
    if tag in (known_tag.strip().removeprefix("W/") for known_tag in known.split(",")):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(data, media_type=kind, headers={"ETag": tag})
