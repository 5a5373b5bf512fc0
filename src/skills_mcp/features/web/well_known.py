"""The well-known index of Agent Skills, for programs that install skills as files.

Source: the discovery of Agent Skills, version 0.2.0, see
`skills_mcp.features.export.layout`.

Rule: a skill is packaged once for all callers with the same grants. The scope of a
request only chooses among these skills, which keep their addresses.
"""

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from anyio.from_thread import check_cancelled
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.export import LockedSettings
from skills_mcp.features.export.layout import (
    INDEX,
    WELL_KNOWN,
    WellKnownSkill,
    lay_out_well_known,
    render_well_known,
)
from skills_mcp.features.export.packaged_skill import package_skill
from skills_mcp.features.web.page import library_of
from skills_mcp.library import SkillLibrary
from skills_mcp.library.published_skills import PublishedSkills
from skills_mcp.processes.byte_cache import ByteCache
from skills_mcp.skills.model import SkillPath

_SETTINGS = LockedSettings(format="well-known", raw=False, select=())

WELL_KNOWN_PATHS = (f"/{INDEX}", f"/{WELL_KNOWN}/{{name}}/{{file}}")
"""Of the index, and of the file of each skill in it."""

_MAX_ENTRY_BYTES = 64 * 1024 * 1024  # about 100,000 skills, or ten sets of 10,000

_MAX_FILE_BYTES = 32 * 1024 * 1024  # a tool that installs skills asks for each of them


def well_known_routes() -> list[Route]:
    """Return the routes: the index, and the file of each skill in it."""
    skills = _WellKnownSkills()
    return [
        Route(WELL_KNOWN_PATHS[0], skills.send_index),
        Route(WELL_KNOWN_PATHS[1], skills.send_file),
    ]


class _Key(NamedTuple):
    """A skill as callers with the same grants see it."""

    revision: bytes
    path: SkillPath


class _WellKnownSkills:
    """The skills of all callers, as far as they were asked for."""

    def __init__(self) -> None:
        self._entries: ByteCache[_Key, str] = ByteCache(
            _MAX_ENTRY_BYTES, len, check_cancelled
        )
        self._files: ByteCache[_Key, WellKnownSkill] = ByteCache(
            _MAX_FILE_BYTES, lambda skill: len(skill.data), check_cancelled
        )

    def send_index(self, request: Request) -> Response:
        library = library_of(request)
        published = library.unscoped.publish()
        entries = [
            self._find_entry(published, path)
            for path in _find_asked(library, published)
        ]
        return _answer(request, render_well_known(entries), "application/json")

    def send_file(self, request: Request) -> Response:
        library = library_of(request)
        published = library.unscoped.publish()
        path = published.names.find(request.path_params["name"])
        if path is None or not _is_asked(library, published, path):
            raise SkillNotFoundError("There is no such skill.")
        skill = self._find_skill(published, path)
        if skill.file != request.path_params["file"]:
            raise SkillNotFoundError("There is no such file.")
        is_text = skill.file.endswith(".md")
        kind = "text/markdown; charset=utf-8" if is_text else "application/gzip"
        return _answer(request, skill.data, kind)

    def _find_entry(self, published: PublishedSkills, path: SkillPath) -> str:
        check_cancelled()
        key = _Key(published.snapshot.indexes.content_key, path)
        return self._entries.get(key, lambda: _lay_out(published, path).entry)

    def _find_skill(
        self, published: PublishedSkills, path: SkillPath
    ) -> WellKnownSkill:
        key = _Key(published.snapshot.indexes.content_key, path)
        return self._files.get(key, partial(_lay_out, published, path))


def _lay_out(published: PublishedSkills, path: SkillPath) -> WellKnownSkill:
    return lay_out_well_known(package_skill(published, path, _SETTINGS))


def _find_asked(
    library: SkillLibrary, published: PublishedSkills
) -> Iterator[SkillPath]:
    for path in published.names.published:
        if _is_asked(library, published, path):
            yield path


def _is_asked(
    library: SkillLibrary, published: PublishedSkills, path: SkillPath
) -> bool:
    """Whether the request is about a skill, or about a copy that it stands for."""
    asked = library.snapshot.index
    places = (path, *published.snapshot.index.other_places(path))
    return any(asked.find(place) is not None for place in places)


def _answer(request: Request, data: bytes, kind: str) -> Response:
    """Return a response; one without a body if the client has the same (RFC 9110)."""
    tag = f'"{sha256(data).hexdigest()}"'
    known = request.headers.get("if-none-match", "")
    if tag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(data, media_type=kind, headers={"ETag": tag})
