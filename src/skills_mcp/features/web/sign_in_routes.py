"""OpenID Connect sign-in and sign-out of people."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from skills_mcp.config import Grant, Http
from skills_mcp.features.web.browser_session import (
    ATTEMPT_SECONDS,
    BrowserSession,
    SessionSigner,
    begin_session,
)
from skills_mcp.features.web.notice_page import Notice, NoticeRenderer
from skills_mcp.features.web.open_id import (
    OpenIdClient,
    SignInAttempt,
    SignInRefusedError,
)
from skills_mcp.features.web.visitors import (
    SIGN_IN,
    SIGN_OUT,
    VISITOR_KEY,
    Visitor,
    derive_sign_in_url,
    parse_local_path,
)
from skills_mcp.http.provider_metadata import ProviderUnavailableError

logger = logging.getLogger(__name__)

CALLBACK_PATH = f"{SIGN_IN}/callback"
"""Redirect URI path."""

# Browsers drop a cookie beyond 4,096 characters, its name and attributes included.
_MAX_COOKIE_CHARACTERS = 3_800

# Of people who sign in at once, each waits for the provider in a thread.
_MAX_WAITING = 16

_STATE_DIGITS = 12  # tells the tabs apart in which one person signs in at once


class OpenIdSignIn:
    """OpenID Connect sign-in with sessions in signed cookies.

    Args:
        client: OpenID Connect client.
        seal: Signs cookies.
        http: The settings.
        grants: Visibility grants; None for all skills.
        show: Renders a notice.
    """

    def __init__(
        self,
        client: OpenIdClient,
        seal: SessionSigner,
        http: Http,
        grants: Sequence[Grant] | None,
        show: NoticeRenderer,
    ) -> None:
        self._client = client
        self._seal = seal
        self._base_url = http.base_url.rstrip("/")
        self._grants = grants
        self._needed = sorted({name for grant in grants or () for name in grant.when})
        self._show = show
        self._prefix = urlsplit(http.base_url).path.rstrip("/")
        self._is_secure = urlsplit(http.base_url).scheme == "https"
        # With this prefix no other host of the domain can set it (RFC 6265bis).
        self._cookie = f"{'__Host-' if self._is_secure else ''}skills_session"
        self._waiting = anyio.CapacityLimiter(_MAX_WAITING)

    @property
    def routes(self) -> list[Route]:
        return [
            Route(SIGN_IN, self.begin, methods=["GET"]),
            Route(CALLBACK_PATH, self.finish, methods=["GET"]),
            Route(SIGN_OUT, self.show_sign_out, methods=["GET"]),
            Route(SIGN_OUT, self.sign_out, methods=["POST"]),
        ]

    def find(self, scope: Scope) -> Visitor | None:
        """Visitor of a valid session, else None."""
        session = self._find_session(Request(scope))
        if session is None:
            return None
        renewed = self._seal.renew(session)
        return Visitor(
            principal=session.principal(self._grants),
            name=session.name,
            form_token=self._seal.form_token(session.session_id),
            can_sign_out=True,
            cookies=(self._write(renewed),) if renewed else (),
        )

    def _find_session(self, request: Request) -> BrowserSession | None:
        sealed = request.cookies.get(self._cookie, "")
        return self._seal.verify_session(sealed) if sealed else None

    def challenge(self, scope: Scope) -> Response | Notice:
        """Redirect to the provider; a late form gets a notice."""
        url = self._prefix + derive_sign_in_url(scope, self._prefix)
        if "hx-request" in Headers(scope=scope):
            return Response(status_code=401, headers={"HX-Redirect": url})
        if scope["method"] in {"GET", "HEAD"}:
            return RedirectResponse(url, 303, headers={"Cache-Control": "no-store"})
        return Notice(
            title="Your session has ended",
            message="Nothing was changed. Sign in, then send the form again.",
            link=SIGN_IN,
            link_text="Sign in",
            status=401,
        )

    async def begin(self, request: Request) -> Response:
        """Redirect to the provider's authorization endpoint."""
        next_path = parse_local_path(request.query_params.get("next", "/"))
        attempt = SignInAttempt.draw()
        try:
            url = await anyio.to_thread.run_sync(
                self._client.begin,
                attempt,
                self._callback(request),
                limiter=self._waiting,
            )
        except ProviderUnavailableError as error:
            return self._show_unavailable(request, error)
        answer = RedirectResponse(url, 303, headers={"Cache-Control": "no-store"})
        sealed = self._seal.sign_attempt({**asdict(attempt), "next": next_path})
        answer.set_cookie(
            _name_attempt(attempt.state),
            sealed,
            max_age=ATTEMPT_SECONDS,
            path=self._prefix + SIGN_IN,
            secure=self._is_secure,
            httponly=True,
            samesite="lax",  # the provider sends the browser back
        )
        return answer

    async def finish(self, request: Request) -> Response:
        """Handle the callback: start a session."""
        name = _name_attempt(request.query_params.get("state", ""))
        attempt_values = self._seal.verify_attempt(request.cookies.get(name, "")) or {}
        try:
            cookie = self._write(await self._exchange_code(request, attempt_values))
        except SignInRefusedError as error:
            logger.info("A sign-in was refused: %s", error)
            answer = self._show_refusal(request, str(error))
        except ProviderUnavailableError as error:
            answer = self._show_unavailable(request, error)
        else:
            next_path = parse_local_path(attempt_values["next"])
            answer = RedirectResponse(self._prefix + next_path, 303)
            answer.headers.append("Set-Cookie", cookie)
        answer.headers["Cache-Control"] = "no-store"
        answer.delete_cookie(name, path=self._prefix + SIGN_IN)
        return answer

    async def show_sign_out(self, request: Request) -> Response:
        visitor: Visitor | None = request.scope.get(VISITOR_KEY)
        if visitor:
            return RedirectResponse(f"{self._prefix}/", 303)
        return self._show(
            request,
            Notice(
                title="You are signed out",
                message="This browser has no session here any more.",
                link=SIGN_IN,
                link_text="Sign in again",
            ),
        )

    async def sign_out(self, request: Request) -> Response:
        """End the session, and the provider's session if supported."""
        if VISITOR_KEY not in request.scope:
            return RedirectResponse(self._prefix + SIGN_OUT, 303)
        del request.scope[VISITOR_KEY]  # the page shows no user any more
        if session := self._find_session(request):
            self._seal.end(session)
        back = f"{self._base(request)}{SIGN_OUT}"
        url = await anyio.to_thread.run_sync(self._client.sign_out_url, back, limiter=self._waiting)
        # The browser would not follow a form to another host (form-action).
        answer = self._show(
            request,
            Notice(
                title="You are signed out here",
                message="Your session at the identity provider ends next."
                if url
                else "Your session at the identity provider ends only there.",
                link=url or SIGN_IN,
                link_text="End that session, too" if url else "Sign in again",
                goes_on=bool(url),
            ),
        )
        answer.delete_cookie(self._cookie, secure=self._is_secure, httponly=True, samesite="lax")
        return answer

    async def _exchange_code(
        self, request: Request, attempt_values: Mapping[str, str]
    ) -> BrowserSession:
        """Exchange the code for a session."""
        if not attempt_values:
            raise SignInRefusedError("This sign-in was not begun in this browser, or too long ago.")
        attempt = SignInAttempt(
            state=attempt_values["state"],
            nonce=attempt_values["nonce"],
            verifier=attempt_values["verifier"],
        )
        person = await anyio.to_thread.run_sync(
            self._client.finish,
            attempt,
            self._callback(request),
            dict(request.query_params),
            self._needed,
            limiter=self._waiting,
        )
        return begin_session(person.claims, person.scopes, self._grants, self._seal.clock())

    def _write(self, session: BrowserSession) -> str:
        """Serialise a session as a cookie.

        Raises:
            SignInRefusedError: It exceeds the size limit of browsers.
        """
        sealed = self._seal.sign_session(session)
        if len(sealed) > _MAX_COOKIE_CHARACTERS:
            raise SignInRefusedError(
                "You are in more groups than a cookie can hold. Operators: name fewer "
                "values in access, or let the provider leave groups out."
            )
        carrier = Response()
        carrier.set_cookie(
            self._cookie,
            sealed,
            secure=self._is_secure,
            httponly=True,
            samesite="lax",
        )
        return carrier.headers["Set-Cookie"]

    def _base(self, request: Request) -> str:
        """Base URL; only a server on loopback may lack the setting."""
        return self._base_url or f"http://{request.headers['host']}"

    def _callback(self, request: Request) -> str:
        return f"{self._base(request)}{CALLBACK_PATH}"

    def _show_refusal(self, request: Request, reason: str) -> Response:
        return self._show(
            request,
            Notice(
                title="You are not signed in",
                message=reason,
                link=SIGN_IN,
                link_text="Try again",
                status=403,
            ),
        )

    def _show_unavailable(self, request: Request, error: ProviderUnavailableError) -> Response:
        logger.warning("Users cannot sign in: %s", error)
        return self._show(
            request,
            Notice(
                title="The identity provider does not answer",
                message="Users cannot sign in just now. The server's log says why.",
                link=SIGN_IN,
                link_text="Try again",
                status=503,
            ),
        )


def _name_attempt(state: str) -> str:
    known = "".join(re.findall("[0-9A-Za-z]", state[:_STATE_DIGITS]))
    return f"skills_sign_in_{known}"
