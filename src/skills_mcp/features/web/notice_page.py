"""A page with one message and one link, such as that a person is signed out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

NOTICE_PATH = "/sign-in/notice"
"""Where the pages show what is decided in front of them."""

_NOTICE_KEY = "skills_mcp.notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the page says."""

    title: str
    message: str
    link: str
    link_text: str
    status: int = 200
    goes_on: bool = False
    """Whether the browser follows the link by itself."""


ShowNotice: TypeAlias = Callable[[Request, Notice], Response]
"""What shows it."""


def ask_for_notice(scope: Scope, notice: Notice) -> Scope:
    """Return a request that the pages answer with a notice, instead of another one."""
    path = {"path": NOTICE_PATH, "raw_path": NOTICE_PATH.encode(), "method": "GET"}
    return {**scope, **path, _NOTICE_KEY: notice}


def notice_route(show: ShowNotice) -> Route:
    """Return the route that answers these requests, and no other."""

    def answer(request: Request) -> Response:
        notice: Notice | None = request.scope.get(_NOTICE_KEY)
        if notice is None:
            raise HTTPException(404)
        return show(request, notice)

    return Route(NOTICE_PATH, answer)
