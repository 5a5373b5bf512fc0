"""Page with one message and one link, such as after a sign-out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

NOTICE_PATH = "/sign-in/notice"
"""Internal path for notices from middleware."""

_NOTICE_KEY = "skills_mcp.notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Content of a notice."""

    title: str
    message: str
    link: str
    link_text: str
    status: int = 200
    goes_on: bool = False
    """Whether the browser follows the link automatically."""


NoticeRenderer: TypeAlias = Callable[[Request, Notice], Response]
"""Renders a notice."""


def rewrite_to_notice(scope: Scope, notice: Notice) -> Scope:
    """Rewrite a request to one for a notice."""
    path = {"path": NOTICE_PATH, "raw_path": NOTICE_PATH.encode(), "method": "GET"}
    return {**scope, **path, _NOTICE_KEY: notice}


def notice_route(show: NoticeRenderer) -> Route:
    """Route for rewritten requests only."""

    def answer(request: Request) -> Response:
        notice: Notice | None = request.scope.get(_NOTICE_KEY)
        if notice is None:
            raise HTTPException(404)
        return show(request, notice)

    return Route(NOTICE_PATH, answer)
