"""REST API: list of skills, one skill, its files.

Rule: visibility and error messages equal those of the MCP tools. It is for catalogues
and scripts; only agents' requests over MCP count as use.
"""

from collections.abc import Mapping
from functools import cache
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skills_mcp.errors import InvalidArgumentsError, SkillNotFoundError
from skills_mcp.features.web.open_api import build_openapi_document
from skills_mcp.features.web.page import find_used, get_visible_library
from skills_mcp.features.web.rest_replies import (
    build_list_reply,
    build_preview_reply,
    render_reply,
)
from skills_mcp.features.web.usage_page import send_report
from skills_mcp.library import SkillLibrary
from skills_mcp.library.browsing import FACETS, MAX_PAGE_SIZE, BrowseRequest
from skills_mcp.skills.assets import FileContent

_DEFAULT_LIMIT = 50
_PARAMETERS = frozenset({"q", "limit", "cursor", "scope", *FACETS})

_FILES_SEGMENT = "/files/"

# Browsers show them, and they hold nothing that runs.
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

# Text that a browser would run if it were told its type.
_ACTIVE_SUFFIXES = (".html", ".htm", ".xhtml", ".svg", ".xml", ".xsl", ".xslt")

_FILE_POLICY = "default-src 'none'; sandbox"


def rest_routes() -> list[Route]:
    return [
        Route("/api/openapi.json", _show_document),
        Route("/api/skills", _list_skills),
        Route("/api/skills/{path:path}/preview", _preview_skill),
        Route("/api/skills/{path:path}/files/{file:path}", _send_file),
        Route("/api/report", send_report),
    ]


def _show_document(_: Request) -> Response:
    return JSONResponse(_open_document())


@cache
def _open_document() -> Mapping[str, object]:
    return build_openapi_document()


def _list_skills(request: Request) -> Response:
    parameters = request.query_params
    if unknown := sorted(parameters.keys() - _PARAMETERS):
        raise InvalidArgumentsError(
            f"{unknown[0][:50]!r} is no parameter. There are: {', '.join(sorted(_PARAMETERS))}."
        )
    page = get_visible_library(request).browse(
        BrowseRequest(
            query=parameters.get("q", ""),
            chosen={name: parameters[name] for name in FACETS if parameters.get(name)},
            cursor=parameters.get("cursor"),
            limit=_parse_limit(parameters.get("limit", "")),
            used_paths=find_used(request),
        )
    )
    return _reply(build_list_reply(page))


def _preview_skill(request: Request) -> Response:
    preview = get_visible_library(request).preview(request.path_params["path"])
    return _reply(build_preview_reply(preview))


def _send_file(request: Request) -> Response:
    path, file = request.path_params["path"], request.path_params["file"]
    content, name = _read_file(get_visible_library(request), f"{path}{_FILES_SEGMENT}{file}")
    kind, is_inline = derive_media_type(name, content)
    disposition = "inline" if is_inline else "attachment"
    file_name = quote(name.rpartition("/")[2])
    return Response(
        content.data,
        media_type=kind,
        headers={
            "Content-Disposition": f"{disposition}; filename*=UTF-8''{file_name}",
            "Content-Security-Policy": _FILE_POLICY,
        },
    )


def derive_media_type(file: str, content: FileContent) -> tuple[str, bool]:
    """Media type for a browser, and whether to display the file inline.

    >>> text = FileContent(b"<p>", False, "text/html")
    >>> derive_media_type("page.html", text)
    ('text/plain; charset=utf-8', False)
    """
    if content.mime_type in _IMAGES:
        return content.mime_type, True
    if content.is_binary:
        return "application/octet-stream", False
    return "text/plain; charset=utf-8", not file.casefold().endswith(_ACTIVE_SUFFIXES)


def _read_file(library: SkillLibrary, joined: str) -> tuple[FileContent, str]:
    """Read a file by a joined path; skill and file may both contain `files`.

    Raises:
        SkillsError: There is no such skill or file, or it cannot be served.
    """
    parts = joined.split(_FILES_SEGMENT)
    for end in range(len(parts) - 1, 0, -1):
        path, file = _FILES_SEGMENT.join(parts[:end]), _FILES_SEGMENT.join(parts[end:])
        try:
            return library.preview_file(path, file), file
        except SkillNotFoundError:
            if end == 1:
                raise
    raise SkillNotFoundError("There is no such file.")


def _parse_limit(text: str) -> int:
    """Parse the page size.

    Raises:
        InvalidArgumentsError: It is no number, or too large.
    """
    if not text:
        return _DEFAULT_LIMIT
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= MAX_PAGE_SIZE:
        return int(text[:9])
    raise InvalidArgumentsError(f"limit: must be a number from 1 to {MAX_PAGE_SIZE}.")


def _reply(reply: object) -> Response:
    return Response(render_reply(reply), media_type="application/json")
