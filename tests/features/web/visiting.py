"""Pages that say who has come in, behind the sign-in of browsers."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from skills_mcp.config import Auth, Config, Grant, Http, Web
from skills_mcp.features.web.browser import (
    VISITOR_KEY,
    BrowserMiddleware,
    BrowserSignIn,
    Notice,
    SessionSigner,
    Visitor,
    notice_route,
)
from skills_mcp.features.web.browser_sign_in import OpenIdClient, OpenIdSignIn
from skills_mcp.http.admission import BodyBufferMiddleware
from skills_mcp.http.authentication import require_sign_in
from skills_mcp.skills.access import PRINCIPAL_KEY, Principal
from tests.http.listening import listening
from tests.issuer import Clock, Issuer

KEY = bytes(range(32))


def show(_: Request, notice: Notice) -> Response:
    """Show a notice as the plainest page."""
    refresh = f'<meta http-equiv="refresh" content="0; url={notice.link}">'
    return HTMLResponse(
        f"<title>{notice.title}</title>{refresh if notice.goes_on else ''}"
        f'<p>{notice.message}<p><a href="{notice.link}">{notice.link_text}</a>'
        f"<p>{notice.texts}",
        notice.status,
    )


async def say_who(request: Request) -> Response:
    """Answer with the caller that the server knows."""
    caller: Principal = request.scope[PRINCIPAL_KEY]
    visitor: Visitor | None = request.scope.get(VISITOR_KEY)
    async with request.form() as form:
        sent = form.get("word")
    return JSONResponse(
        {
            "subject": caller.subject,
            "issuer": caller.issuer,
            "scopes": sorted(caller.scopes),
            "grants": caller.access.grants,
            "name": visitor and visitor.name,
            "form_token": visitor and visitor.form_token,
            "sent": sent,
        }
    )


def put_behind(sign_in: BrowserSignIn, http: Http, grants: Sequence[Grant] | None) -> ASGIApp:
    """Return the pages behind a sign-in, as the server puts its own there."""
    own = sign_in.routes if isinstance(sign_in, OpenIdSignIn) else []
    every = Route("/{path:path}", say_who, methods=["GET", "POST"])
    pages = Starlette(routes=[*own, notice_route(show), every])
    guarded = require_sign_in(pages, Config(http=http, access=tuple(grants or ())))
    visited = BrowserMiddleware(pages, guarded, sign_in, takes_tokens=True)
    return Router(default=BodyBufferMiddleware(visited, http=http))


@contextmanager
def visited(
    issuer: Issuer,
    clock: Clock | None = None,
    *,
    grants: Sequence[Grant] | None = None,
    base_url: str = "",
    **web: object,
) -> Iterator[httpx.Client]:
    """Return a browser that knows no page yet."""
    http = Http(base_url=base_url, auth=Auth(issuer=issuer.url, audience="skills"))
    rules = Web.model_validate({"client_id": "pages", **web}, strict=False)
    seal = SessionSigner(KEY, hours=6, grants=grants, clock=clock or Clock())
    client = OpenIdClient(http.auth, rules)
    sign_in = OpenIdSignIn(client, seal, http, grants, show)
    with (
        listening(put_behind(sign_in, http, grants)) as url,
        httpx.Client(base_url=url) as browser,
    ):
        yield browser


def begin(browser: httpx.Client, path: str = "/") -> str:
    """Open a page and return where the browser is sent: to the provider."""
    turned_away = browser.get(path)
    assert turned_away.status_code == 303
    sent = browser.get(turned_away.headers["Location"])
    assert sent.status_code == 303, sent.text
    return sent.headers["Location"]


def come_back(
    browser: httpx.Client, issuer: Issuer, provider_url: str, **claims: object
) -> httpx.Response:
    """Return from the provider, which has signed ada in."""
    asked = {name: each for name, [each] in parse_qs(urlsplit(provider_url).query).items()}
    said = {"aud": "pages", "nonce": asked["nonce"], "name": "Ada", **claims}
    id_token = issuer.token(without=("scope", "client_id"), **said)  # type: ignore[arg-type]
    issuer.tokens = {"id_token": id_token, "access_token": "opaque"}
    issuer.people["opaque"] = {"sub": said.get("sub", "ada")}
    callback = urlsplit(asked["redirect_uri"]).path
    return browser.get(callback, params={"code": "a-code", "state": asked["state"]})


def sign_in(browser: httpx.Client, issuer: Issuer, **claims: object) -> httpx.Response:
    """Sign ada in, and return the page that the browser sees then."""
    back = come_back(browser, issuer, begin(browser), **claims)
    assert back.status_code == 303, back.text
    return browser.get(back.headers["Location"])


def find_form_token(browser: httpx.Client) -> str:
    """Return what the forms of the signed-in person send."""
    token: str = browser.get("/").json()["form_token"]
    assert re.fullmatch("[0-9a-f]{64}", token)
    return token
