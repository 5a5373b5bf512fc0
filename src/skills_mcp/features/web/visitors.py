"""Who looks at the pages: each request of a browser gets its caller, or is turned away.

Rule: pages and REST show a person what MCP shows the same caller, and what changes
something is only taken from a page of this server.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from typing import Protocol
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.features.web.notice_page import Notice, ask_for_notice
from skills_mcp.skills.principal import PRINCIPAL_KEY, Principal

logger = logging.getLogger(__name__)

VISITOR_KEY = "skills_mcp.visitor"
"""Where a request holds its visitor, in the scope of ASGI."""

FORM_FIELD = "form_token"
"""The hidden field of each form that changes something."""

FORM_HEADER = "x-form-token"
"""The same for requests that have no form."""

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# Programs ask there, and bring what signs them in.
_PROGRAM_PATHS = ("/.well-known/", "/hooks/")

# They show no skill; without them users could not sign in.
_OPEN_PATHS = ("/static/", f"{SIGN_IN}/")


_REFUSED_FORM = Notice(
    title="This form was not sent",
    message="It did not come from a page that this server has shown to you, so nothing "
    "was changed. Open the page anew, and send it again.",
    link="/",
    link_text="To the catalogue",
    status=403,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who uses the pages, as far as the pages show it."""

    principal: Principal | None
    """The caller; None where the server behind tells who that is."""
    name: str = ""
    """What the pages call the person; empty without sign-in."""
    form_token: str = ""
    """What each form that changes something sends along; empty if none has to."""
    can_sign_out: bool = False
    cookies: tuple[str, ...] = ()
    """What the browser has to keep from now on."""


class BrowserSignIn(Protocol):
    """A way to learn who uses a browser."""

    def find(self, scope: Scope) -> Visitor | None:
        """Return who has sent a request; None if that is not known."""
        ...

    def turn_away(self, scope: Scope) -> Response | Notice:
        """Return what a person sees who has to sign in first."""
        ...


class Visitors:
    """Lets people in who use a browser; programs go to the guard for tokens.

    Args:
        pages: Answers people.
        guarded: Answers all others, and everything that is not for browsers.
        sign_in: Tells who uses a browser.
        takes_tokens: Whether the guard knows callers by a token.
    """

    def __init__(
        self,
        pages: ASGIApp,
        guarded: ASGIApp,
        sign_in: BrowserSignIn,
        *,
        takes_tokens: bool,
    ) -> None:
        self._pages = pages
        self._guarded = guarded
        self._sign_in = sign_in
        self._takes_tokens = takes_tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or turn it away."""
        if not self._is_for_browsers(scope):
            await self._guarded(scope, receive, send)
            return
        visitor = self._sign_in.find(scope)
        if visitor is None:
            await self._answer_stranger(scope, receive, send)
            return
        if visitor.form_token and scope["method"] not in _SAFE_METHODS:
            given, receive = await _read_form_token(scope, receive)
            if not compare_digest(
                given.encode("utf-8", "replace"), visitor.form_token.encode()
            ):
                logger.info("Refused a form without the token of its page")
                asked = ask_for_notice(scope, _REFUSED_FORM)
                await self._pages(asked, receive, send)
                return
        scope[VISITOR_KEY] = visitor
        app = self._guarded
        if visitor.principal:
            scope[PRINCIPAL_KEY] = visitor.principal
            app = self._pages
        await app(scope, receive, _kept_private(scope, send, visitor.cookies))

    def _is_for_browsers(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        path: str = scope["path"]
        if path in {"/mcp", "/events"} or path.startswith(_PROGRAM_PATHS):
            return False
        return not (self._takes_tokens and _has_token(scope))

    async def _answer_stranger(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        path: str = scope["path"]
        if path in {SIGN_IN, SIGN_OUT} or path.startswith(_OPEN_PATHS):
            await self._pages(scope, receive, send)
            return
        if path.startswith("/api/"):
            await self._guarded(scope, receive, send)  # it says how programs sign in
            return
        answer = self._sign_in.turn_away(scope)
        if isinstance(answer, Notice):
            await self._pages(ask_for_notice(scope, answer), receive, send)
        else:
            await answer(scope, receive, send)


def derive_sign_in_url(scope: Scope, prefix: str = "") -> str:
    """Return where a person signs in who then comes back to the page of a request.

    Args:
        scope: The request.
        prefix: What stands in front of the paths that the browser knows.
    """
    path, query = scope["path"], scope["query_string"].decode("latin-1")
    with suppress(ValueError):  # a client can send any text
        if given := Headers(scope=scope).get("hx-current-url"):
            parts = urlsplit(given)  # the page, not the part of it that is asked for
            path, query = parts.path.removeprefix(prefix), parts.query
    wanted = f"{path}?{query}" if query else path
    return f"{SIGN_IN}?next={quote(wanted, safe='/')}"


def parse_local_path(given: str) -> str:
    """Return a path of this server; the catalogue, if it is one of another server.

    >>> parse_local_path("/skills/ui/react?tab=files"), parse_local_path("//evil.com/")
    ('/skills/ui/react?tab=files', '/')
    """
    is_plain = given.isprintable() and "\\" not in given and given.isascii()
    if not is_plain or not given.startswith("/") or given.startswith("//"):
        return "/"
    parts = urlsplit(given)
    if parts.scheme or parts.netloc or parts.path.startswith((SIGN_IN, SIGN_OUT)):
        return "/"
    return given


def _has_token(scope: Scope) -> bool:
    """Whether a request brings a bearer token; proxies send other schemes along."""
    given = Headers(scope=scope).getlist("authorization")
    return any(each.partition(" ")[0].lower() == "bearer" for each in given)


async def _read_form_token(scope: Scope, receive: Receive) -> tuple[str, Receive]:
    """Return the token of a form, and a way to receive the whole request again."""
    if given := Headers(scope=scope).get(FORM_HEADER):
        return given, receive
    messages: list[Message] = []
    while not messages or messages[-1].get("more_body"):
        messages.append(await receive())  # `BodyBuffer` bounds it
    try:
        async with Request(scope, _replay(messages, receive)).form() as form:
            token = form.get(FORM_FIELD)
    except (MultiPartException, UnicodeError):  # the charset may be any codec
        token = None
    return token if isinstance(token, str) else "", _replay(messages, receive)


def _replay(messages: list[Message], receive: Receive) -> Receive:
    left = iter(messages)

    async def again() -> Message:
        return next(left, None) or await receive()

    return again


def _kept_private(scope: Scope, send: Send, cookies: tuple[str, ...]) -> Send:
    """Return what keeps an answer out of shared caches, and cookies in the browser."""

    async def keep(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            if not scope["path"].startswith("/static/"):
                headers.setdefault("Cache-Control", "no-store")
            # Without a visitor the session has ended in between.
            for cookie in cookies if VISITOR_KEY in scope else ():
                headers.append("Set-Cookie", cookie)
        await send(message)

    return keep
