"""REST for programs: the list of the skills, one skill, its files.

Rule: what a caller sees here, and how a refusal is worded, is what the tools of MCP
say. It is for catalogues and scripts; an agent asks over MCP, and only that is counted
as use.
"""

from collections.abc import Mapping
from functools import cache
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skills_mcp.errors import InvalidArgumentsError, SkillNotFoundError
from skills_mcp.features.web.open_api import derive_document
from skills_mcp.features.web.page import find_used, library_of
from skills_mcp.features.web.rest_replies import (
    derive_list,
    derive_preview,
    render_reply,
)
from skills_mcp.features.web.usage_page import send_report
from skills_mcp.library import SkillLibrary
from skills_mcp.library.browsing import FACETS, MAX_BROWSED, BrowseRequest
from skills_mcp.skills.assets import FileContent

_DEFAULT_LIMIT = 50
_PARAMETERS = frozenset({"q", "limit", "cursor", "scope", *FACETS})

_MARK = "/files/"

# Browsers show them, and they hold nothing that runs.
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

# Text that a browser would run if it were told its type.
_RUNNING = (".html", ".htm", ".xhtml", ".svg", ".xml", ".xsl", ".xslt")

_FILE_POLICY = "default-src 'none'; sandbox"


def rest_routes() -> list[Route]:
    """Return the routes of REST."""
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
    return derive_document()


def _list_skills(request: Request) -> Response:
    asked = request.query_params
    if unknown := sorted(asked.keys() - _PARAMETERS):
        raise InvalidArgumentsError(
            f"{unknown[0][:50]!r} is no parameter. There are: "
            f"{', '.join(sorted(_PARAMETERS))}."
        )
    page = library_of(request).browse(
        BrowseRequest(
            query=asked.get("q", ""),
            chosen={name: asked[name] for name in FACETS if asked.get(name)},
            cursor=asked.get("cursor"),
            limit=_parse_limit(asked.get("limit", "")),
            used_paths=find_used(request),
        )
    )
    return _reply(derive_list(page))


def _preview_skill(request: Request) -> Response:
    preview = library_of(request).preview(request.path_params["path"])
    return _reply(derive_preview(preview))


def _send_file(request: Request) -> Response:
    path, file = request.path_params["path"], request.path_params["file"]
    content, name = _read_file(library_of(request), f"{path}{_MARK}{file}")
    kind, is_shown = derive_type(name, content)
    shown = "inline" if is_shown else "attachment"
    told = quote(name.rpartition("/")[2])
    return Response(
        content.data,
        media_type=kind,
        headers={
            "Content-Disposition": f"{shown}; filename*=UTF-8''{told}",
            "Content-Security-Policy": _FILE_POLICY,
        },
    )


def derive_type(file: str, content: FileContent) -> tuple[str, bool]:
    """Return the type that a browser is told, and whether it may show the file.

    >>> text = FileContent(b"<p>", False, "text/html")
    >>> derive_type("page.html", text)
    ('text/plain; charset=utf-8', False)
    """
    if content.mime_type in _IMAGES:
        return content.mime_type, True
    if content.is_binary:
        return "application/octet-stream", False
    return "text/plain; charset=utf-8", not file.casefold().endswith(_RUNNING)


def _read_file(library: SkillLibrary, whole: str) -> tuple[FileContent, str]:
    """Read a file by the path of its skill and its own, which may both have `files`.

    Raises:
        SkillsError: There is no such skill or file, or it cannot be handed out.
    """
    parts = whole.split(_MARK)
    for end in range(len(parts) - 1, 0, -1):
        path, file = _MARK.join(parts[:end]), _MARK.join(parts[end:])
        try:
            return library.preview_file(path, file), file
        except SkillNotFoundError:
            if end == 1:
                raise
    raise SkillNotFoundError("There is no such file.")


def _parse_limit(given: str) -> int:
    """Return how many skills a page has.

    Raises:
        InvalidArgumentsError: It is no number, or too large.
    """
    if not given:
        return _DEFAULT_LIMIT
    if given.isascii() and given.isdecimal() and 0 < int(given[:9]) <= MAX_BROWSED:
        return int(given[:9])
    raise InvalidArgumentsError(f"limit: must be a number from 1 to {MAX_BROWSED}.")


def _reply(reply: object) -> Response:
    return Response(render_reply(reply), media_type="application/json")
