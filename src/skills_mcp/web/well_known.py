"""The well-known index of Agent Skills, for programs that install skills as files.

Source: the discovery of Agent Skills, version 0.2.0, see `skills_mcp.export.layout`.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.export import LockedSettings
from skills_mcp.export.layout import INDEX, WELL_KNOWN, WellKnownLayout
from skills_mcp.export.packaged_skill import package_skill, package_skills
from skills_mcp.library import SkillLibrary
from skills_mcp.web.page import library_of

_SETTINGS = LockedSettings(format="well-known", raw=False, select=())
WELL_KNOWN_PATHS = (f"/{INDEX}", f"/{WELL_KNOWN}/{{name}}/{{file}}")
"""Of the index, and of the file of each skill in it."""

_KEPT = 16  # callers with the same rights share an index


def well_known_routes() -> list[Route]:
    """Return the routes: the index, and the file of each skill in it."""
    return [
        Route(WELL_KNOWN_PATHS[0], _WellKnownIndex().send),
        Route(WELL_KNOWN_PATHS[1], _send_skill),
    ]


class _WellKnownIndex:
    """The index for each set of skills that is served; to make one reads every file."""

    def __init__(self) -> None:
        self._made: dict[str, bytes] = {}

    def send(self, request: Request) -> Response:
        library = library_of(request)
        revision = library.revision
        data = self._made.get(revision)
        if data is None:
            data = _compose_index(library)
            kept = list(self._made.items())[1 - _KEPT :]
            self._made = {**dict(kept), revision: data}
        return Response(data, media_type="application/json")


def _compose_index(library: SkillLibrary) -> bytes:
    layout = WellKnownLayout()
    for package in package_skills(library, _SETTINGS):
        layout.place(package)
    return layout.finish()[INDEX]


def _send_skill(request: Request) -> Response:
    library = library_of(request)
    published = library.publish()
    path = published.names.find(request.path_params["name"])
    if path is None:
        raise SkillNotFoundError("There is no such skill.")
    package = package_skill(library, published, path, _SETTINGS)
    _, files = WellKnownLayout().place(package)
    data = files.get(request.path_params["file"])
    if data is None:
        raise SkillNotFoundError("There is no such file.")
    is_text = request.path_params["file"].endswith(".md")
    kind = "text/markdown; charset=utf-8" if is_text else "application/gzip"
    return Response(data, media_type=kind)
