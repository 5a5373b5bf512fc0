"""Browsers in front of the pages: their sessions, their guard, and notices to people."""

import hmac
import logging
import secrets
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from hmac import compare_digest
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.http.routes import BODY_KEY, ROUTES
from skills_mcp.skills.access import (
    PRINCIPAL_KEY,
    READ,
    SCOPES,
    Access,
    AccessGrant,
    Principal,
    derive_access,
    derive_grants_key,
    find_claims,
    is_display_name,
    is_early,
)

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
    texts: tuple[str, ...] = ()
    """What a person has written into the form that was refused."""


NoticeRenderer: TypeAlias = Callable[[Request, Notice], Response]
"""Renders a notice."""


def notice_route(show: NoticeRenderer) -> Route:
    """Route for rewritten requests only."""

    def answer(request: Request) -> Response:
        notice: Notice | None = request.scope.get(_NOTICE_KEY)
        if notice is None:
            raise HTTPException(404)
        return show(request, notice)

    return Route(NOTICE_PATH, answer)


logger = logging.getLogger(__name__)

VISITOR_KEY = "skills_mcp.visitor"
"""Key of the visitor in the ASGI scope."""

FORM_FIELD = "form_token"
"""Hidden CSRF field of forms."""

_WRITTEN_FIELDS = ("name", "description", "text", "reason")
"""Fields into which people write."""

FORM_HEADER = "x-form-token"
"""The same as a header, for requests without a form."""

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# Programs ask there, and bring what signs them in.
_PROGRAM_PATHS = ("/.well-known/", "/hooks/")

# They show no skill; without them users could not sign in.
_PUBLIC_PATHS = ("/static/", f"{SIGN_IN}/")


_REFUSED_FORM = Notice(
    title="This form was not sent",
    message="It did not come from a page that this server has shown to you, so nothing "
    "was changed. Open the page anew, and send it again.",
    link="/catalogue",
    link_text="To the catalogue",
    status=403,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The user of a browser."""

    principal: Principal | None
    """None if the inner guard authenticates the caller."""
    name: str = ""
    """Display name; empty without sign-in."""
    form_token: str = ""
    """CSRF token; empty if not required."""
    can_sign_out: bool = False
    cookies: tuple[str, ...] = ()
    """`Set-Cookie` headers for the response."""


class BrowserSignIn(Protocol):
    """Authentication method for browsers."""

    def find(self, scope: Scope) -> Visitor | None:
        """Authenticate a request; None for a stranger."""
        ...

    def challenge(self, scope: Scope) -> Response | Notice:
        """Response for an unauthenticated person."""
        ...


@dataclass(frozen=True, slots=True)
class BrowserMiddleware:
    """ASGI middleware for browsers; programs are passed on to the token guard."""

    pages: ASGIApp
    """Application for people."""
    guarded: ASGIApp
    """Application behind the token guard, for all other requests."""
    sign_in: BrowserSignIn
    takes_tokens: bool
    """Whether the guard accepts bearer tokens."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_for_browsers(scope):
            await self.guarded(scope, receive, send)
            return
        visitor = self.sign_in.find(scope)
        if visitor is None:
            await self._answer_unauthenticated(scope, receive, send)
            return
        if visitor.form_token and scope["method"] not in _SAFE_METHODS:
            token = Headers(scope=scope).get(FORM_HEADER) or (await _read_form(scope))[FORM_FIELD]
            if not compare_digest(token.encode("utf-8", "replace"), visitor.form_token.encode()):
                logger.info("Refused a form without the token of its page")
                await self._show_notice(_REFUSED_FORM, scope, receive, send)
                return
        scope[VISITOR_KEY] = visitor
        app = self.guarded
        if visitor.principal:
            scope[PRINCIPAL_KEY] = visitor.principal
            app = self.pages
        await app(scope, receive, _send_private(scope, send, visitor.cookies))

    def _is_for_browsers(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path in ROUTES or path.startswith(_PROGRAM_PATHS):
            return False
        return not (self.takes_tokens and _has_token(scope))

    async def _answer_unauthenticated(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path in {SIGN_IN, SIGN_OUT} or path.startswith(_PUBLIC_PATHS):
            await self.pages(scope, receive, send)
            return
        if path.startswith("/api/"):
            await self.guarded(scope, receive, send)  # it says how programs sign in
            return
        answer = self.sign_in.challenge(scope)
        if isinstance(answer, Notice):
            await self._show_notice(answer, scope, receive, send)
        else:
            await answer(scope, receive, send)

    async def _show_notice(
        self, notice: Notice, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer with a notice instead of the page, and give back what was written."""
        # Texts come in parts. Another form of a stranger would take 60 ms a MiB to be read.
        is_in_parts = Headers(scope=scope).get("content-type", "").startswith("multipart/")
        form = await _read_form(scope) if is_in_parts else {}
        texts = tuple(filter(None, map(form.get, _WRITTEN_FIELDS)))
        path = {"path": NOTICE_PATH, "raw_path": NOTICE_PATH.encode(), "method": "GET"}
        rewritten = {**scope, **path, _NOTICE_KEY: replace(notice, texts=texts)}
        await self.pages(rewritten, receive, send)


def derive_sign_in_url(scope: Scope) -> str:
    """Sign-in URL with a redirect back to the requested page.

    The URL of the request, not `HX-Current-URL`: that lacks the words of a search.
    """
    path, query = scope["path"], scope["query_string"].decode("latin-1")
    target = f"{path}?{query}" if query else path
    return f"{SIGN_IN}?next={quote(target, safe='/')}"


def parse_local_path(path: str) -> str:
    """Validate a redirect target; `/` for other origins.

    >>> parse_local_path("/skills/ui/react?tab=files"), parse_local_path("//evil.com/")
    ('/skills/ui/react?tab=files', '/')
    """
    is_plain = path.isprintable() and "\\" not in path and path.isascii()
    if not is_plain or not path.startswith("/") or path.startswith("//"):
        return "/"
    parts = urlsplit(path)
    if parts.scheme or parts.netloc or parts.path.startswith((SIGN_IN, SIGN_OUT)):
        return "/"
    return path


def _has_token(scope: Scope) -> bool:
    """Whether a request has an access token; proxies forward other schemes."""
    values = Headers(scope=scope).getlist("authorization")
    return any(value.partition(" ")[0].lower() in {"bearer", "dpop"} for value in values)


async def _read_form(scope: Scope) -> Mapping[str, str]:
    """Read the texts of a form behind `BodyBufferMiddleware`; a missing one is empty."""
    body: bytes = scope[BODY_KEY]

    async def replay() -> Message:
        return {"type": "http.request", "body": body}

    texts: defaultdict[str, str] = defaultdict(str)
    with suppress(MultiPartException, UnicodeError):  # the charset may be any codec
        async with Request(scope, replay).form(max_part_size=len(body)) as form:
            texts |= {name: value for name, value in form.items() if isinstance(value, str)}
    return texts


def _send_private(scope: Scope, send: Send, cookies: tuple[str, ...]) -> Send:
    """Disable shared caches, and set cookies."""

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


_ALGORITHM = "HS256"

_SESSION, _ATTEMPT = "session", "sign-in"
"""JWT audiences: a session is never accepted as a sign-in attempt."""

ATTEMPT_SECONDS = 600

_MAX_NAME = 100
"""Of a displayed name; browsers drop cookies beyond 4,096 characters."""


MAX_ENDED = 20_000
"""Size of the list of revoked sessions: 4 MB, at 200 bytes each.

Revocation takes a sign-in at the provider, so flushing the list takes as many sign-ins.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A session; its fields are the claims of the cookie."""

    sub: str
    iss: str
    name: str
    scopes: tuple[str, ...]
    claims: Mapping[str, Sequence[str]]
    """Claims compared by grants."""
    began: int
    """Seconds since the epoch."""
    seen: int
    sid: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def principal(self, grants: Sequence[AccessGrant] | None) -> Principal:
        access: Access = derive_access(grants, self.claims)
        early = is_early(grants, self.claims)
        return Principal(self.sub, self.iss, frozenset(self.scopes), access, early)


def begin_session(
    claims: Mapping[str, Any],
    scopes: frozenset[str],
    grants: Sequence[AccessGrant] | None,
    now: float,
) -> BrowserSession:
    candidates = (claims.get(name) for name in ("name", "preferred_username", "email"))
    named = (value[:_MAX_NAME] for value in candidates if isinstance(value, str))
    name = next(filter(is_display_name, named), claims["sub"])
    return BrowserSession(
        sub=claims["sub"],
        iss=claims["iss"],
        name=name[:_MAX_NAME],
        scopes=tuple(value for value in SCOPES if value in {READ, *scopes}),
        claims=find_claims(grants, claims),
        began=int(now),
        seen=int(now),
    )


# Two hours of a working day of twelve: a lunch and a meeting.
_IDLE_SHARE = 6
"""Of the hours of a session, the share without a request that ends it."""


class SessionSigner:
    """Signs and verifies cookies.

    Args:
        key: Shared by all replicas.
        grants: Determine the stored claims.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        key: bytes,
        *,
        hours: int,
        grants: Sequence[AccessGrant] | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._longest_seconds = hours * 3_600
        self._idle_seconds = self._longest_seconds // _IDLE_SHARE
        self._grants_key = derive_grants_key(grants)
        self._ended: OrderedDict[str, None] = OrderedDict()
        self.clock = clock

    def sign_session(self, session: BrowserSession) -> str:
        values = {**asdict(session), "grants": self._grants_key}
        return self._seal(_SESSION, values, self._ends_at(session))

    def verify_session(self, sealed: str) -> BrowserSession | None:
        """Session from a cookie; None if invalid or expired."""
        values = self._open(_SESSION, sealed)
        if not values or values["grants"] != self._grants_key:
            return None
        known = {claim.name: values[claim.name] for claim in fields(BrowserSession)}
        session = BrowserSession(**known | {"scopes": tuple(values["scopes"])})
        if session.sid in self._ended:
            return None
        return session if self.clock() < self._ends_at(session) else None

    def end(self, session: BrowserSession) -> None:
        """Revoke a session, including copies and renewals of its cookie.

        Other replicas are not notified: there, copies stay valid until they expire.
        """
        self._ended[session.sid] = None
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def renew(self, session: BrowserSession) -> BrowserSession | None:
        """Session marked as used; None if a new cookie is not worthwhile."""
        now = self.clock()
        if now - session.seen < self._idle_seconds / 10:
            return None
        return replace(session, seen=int(now))

    def sign_attempt(self, values: Mapping[str, str]) -> str:
        return self._seal(_ATTEMPT, values, self.clock() + ATTEMPT_SECONDS)

    def verify_attempt(self, sealed: str) -> Mapping[str, str] | None:
        return self._open(_ATTEMPT, sealed)

    def form_token(self, session_id: str) -> str:
        """CSRF token for forms of a session."""
        return hmac.digest(self._key, f"form\0{session_id}".encode(), "sha256").hex()

    def _ends_at(self, session: BrowserSession) -> float:
        return min(
            session.began + self._longest_seconds,
            session.seen + self._idle_seconds,
        )

    def _seal(self, purpose: str, values: Mapping[str, Any], ends_at: float) -> str:
        import jwt

        payload = {**values, "aud": purpose, "exp": int(ends_at)}
        return jwt.encode(payload, self._key, _ALGORITHM)

    def _open(self, purpose: str, sealed: str) -> dict[str, Any] | None:
        import jwt

        try:
            values: dict[str, Any] = jwt.decode(
                sealed,
                self._key,
                algorithms=[_ALGORITHM],
                audience=purpose,
                # The clock of this seal decides.
                options={"require": ["exp", "aud"], "verify_exp": False},
            )
        except jwt.PyJWTError:
            return None
        return values if self.clock() < values["exp"] else None
