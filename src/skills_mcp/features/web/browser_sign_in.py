"""OpenID Connect sign-in and sign-out of people: authorization code with PKCE.

Rule: statements about a person are trusted only if they come from the provider itself,
answer a request of this server, and carry a valid signature.
"""

import hmac
import ipaddress
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeAlias
from urllib.parse import urlencode, urlsplit

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from skills_mcp.config import Auth, Config, Http, TrustedHeader, Web
from skills_mcp.config.values import is_private_url
from skills_mcp.errors import ConfigError
from skills_mcp.features.web.browser import (
    ATTEMPT_SECONDS,
    SIGN_IN,
    SIGN_OUT,
    VISITOR_KEY,
    BrowserSession,
    BrowserSignIn,
    Notice,
    NoticeRenderer,
    SessionSigner,
    Visitor,
    begin_session,
    derive_sign_in_url,
    parse_local_path,
)
from skills_mcp.files.durable import load_secret_key, read_regular, read_secret_key
from skills_mcp.http import access_tokens, provider_metadata
from skills_mcp.http.authentication import derive_anonymous_scopes, derive_grants
from skills_mcp.http.provider_metadata import ProviderUnavailableError
from skills_mcp.http.secret_file import find_secret_file
from skills_mcp.skills.access import (
    MAX_NAME_CHARACTERS,
    READ,
    SCOPES,
    AccessGrant,
    Principal,
    derive_access,
    is_early,
)
from skills_mcp.text.redaction import register_secret

_FORM = {
    "Accept": "application/json",
    "Content-Type": "application/x-www-form-urlencoded;charset=UTF-8",
}


class SignInRefusedError(Exception):
    """Rejected sign-in; the message has the reason, and no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInAttempt:
    """State, nonce and PKCE verifier of an authorization request."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def draw(cls) -> "SignInAttempt":
        return cls(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
        )


class _IdTokenValidator(access_tokens.TokenValidator):
    name: ClassVar[str] = "ID token"
    kinds: ClassVar[frozenset[str]] = frozenset({"id", "jwt"})
    bindings: ClassVar[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    claims: access_tokens.Claims
    scopes: frozenset[str]


class OpenIdClient:
    """Relying party of an OpenID provider. Blocking.

    Args:
        web: Client registration and requested scopes.
        client_secret: Empty for a public client.
    """

    def __init__(self, auth: Auth, web: Web, client_secret: str = "") -> None:
        self._issuer = auth.issuer
        self._scope_prefix = auth.scope_prefix
        self._client_id = web.client_id
        self._client_secret = client_secret
        self._scopes = web.scopes
        self._metadata = _MetadataCache(auth.issuer)
        self._validating = Lock()
        self._validator = _IdTokenValidator(
            provider_metadata.SigningKeys(auth.issuer),
            issuer=auth.issuer,
            audience=web.client_id,
            clock_skew_seconds=auth.clock_skew_seconds,
            accept_id_tokens=True,
        )

    def begin(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Authorization URL.

        Raises:
            ProviderUnavailableError: The provider does not name the endpoint.
        """
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        url: str = prepare_grant_uri(
            self._metadata.load().url("authorization_endpoint"),
            client_id=self._client_id,
            response_type="code",
            redirect_uri=redirect_uri,
            scope=self._scopes,
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=create_s256_code_challenge(attempt.verifier),
            code_challenge_method="S256",
        )
        return url

    def finish(
        self,
        attempt: SignInAttempt,
        redirect_uri: str,
        returned: Mapping[str, str],
        needed: Collection[str] = (),
    ) -> SignedInPerson:
        """Complete the sign-in after the redirect.

        `returned` has the query parameters of the redirect, `needed` the names of the
        claims compared by grants: missing ones come from the UserInfo endpoint.

        Raises:
            SignInRefusedError: The sign-in is rejected.
            ProviderUnavailableError: The provider is unavailable at the moment.
        """
        code = self._check_redirect(attempt, returned)
        tokens = self._exchange(code, attempt.verifier, redirect_uri)
        claims = self._validate(tokens.get("id_token"), attempt.nonce)
        missing = [name for name in needed if name.partition(".")[0] not in claims]
        if missing:
            claims = {**self._fetch_userinfo(claims["sub"], tokens), **claims}
        granted = access_tokens.parse_scopes(tokens, ("scope",), prefix=self._scope_prefix)
        requested = {"scope": " ".join(self._scopes)}  # RFC 6749, section 5.1
        if granted is None:
            granted = access_tokens.parse_scopes(requested, ("scope",), prefix=self._scope_prefix)
        return SignedInPerson(claims, granted or frozenset())

    def sign_out_url(self, return_to: str) -> str:
        """End-session URL (RP-Initiated Logout 1.0); empty if unsupported."""
        try:
            ends_at = self._metadata.load().url("end_session_endpoint")
        except provider_metadata.ProviderUnavailableError:
            return ""
        parameters = {
            "client_id": self._client_id,
            "post_logout_redirect_uri": return_to,
        }
        return f"{ends_at}{'&' if '?' in ends_at else '?'}{urlencode(parameters)}"

    def _check_redirect(self, attempt: SignInAttempt, returned: Mapping[str, str]) -> str:
        """Validate the redirect; the authorization code."""
        if not hmac.compare_digest(returned.get("state", "").encode(), attempt.state.encode()):
            raise SignInRefusedError("This sign-in was not begun in this browser, or too long ago.")
        if returned.get("iss", self._issuer) != self._issuer:  # RFC 9207
            raise SignInRefusedError("The answer is of another identity provider.")
        if error := returned.get("error"):
            raise SignInRefusedError(
                f"The identity provider says {error[:200]}: "
                f"{returned.get('error_description') or 'no reason is given'}"[:500]
            )
        if not returned.get("code"):
            raise SignInRefusedError("The identity provider has sent no code.")
        return returned["code"]

    def _exchange(self, code: str, verifier: str, redirect_uri: str) -> Mapping[str, Any]:
        from authlib.oauth2.auth import ClientAuth
        from authlib.oauth2.rfc6749.parameters import prepare_token_request

        metadata = self._metadata.load()
        form = prepare_token_request(
            "authorization_code",
            redirect_uri=redirect_uri,
            code=code,
            code_verifier=verifier,
        )
        method = self._choose_method(metadata.values)
        auth = ClientAuth(self._client_id, self._client_secret, method)
        address, headers, form = auth.prepare(
            "POST", metadata.url("token_endpoint"), dict(_FORM), form
        )
        with provider_metadata.connect_to_provider(self._issuer) as documents:
            answer = documents.post(address, headers, form)
        if not isinstance(answer, Mapping) or "id_token" not in answer:
            error = answer.get("error") if isinstance(answer, Mapping) else None
            raise SignInRefusedError(
                f"The identity provider gives no ID token ({error or 'no reason'}). "
                "Operators: compare web.client_id, web.client_secret_file and the "
                "redirect URI with the registration there."
            )
        return answer

    def _choose_method(self, metadata: Mapping[str, Any]) -> str:
        if not self._client_secret:
            return "none"
        known = metadata.get("token_endpoint_auth_methods_supported")
        basic, post = "client_secret_basic", "client_secret_post"
        is_post = isinstance(known, list) and basic not in known and post in known
        return post if is_post else basic

    def _validate(self, token: object, nonce: str) -> access_tokens.Claims:
        """Validate an ID token (OpenID Connect Core 1.0, section 3.1.3.7)."""
        if not isinstance(token, str):
            raise SignInRefusedError("The ID token cannot be read.")
        try:
            with self._validating:
                claims = self._validator.load_and_validate(token)
        except access_tokens.InvalidTokenError as error:
            raise SignInRefusedError(f"{error}.") from None
        except provider_metadata.KeysUnavailableError as error:
            raise provider_metadata.ProviderUnavailableError(str(error)) from None
        if not hmac.compare_digest(
            str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode()
        ):
            raise SignInRefusedError("The ID token answers another sign-in (nonce).")
        if claims.get("azp", self._client_id) != self._client_id:
            raise SignInRefusedError("The ID token is for another client (azp).")
        return claims

    def _fetch_userinfo(self, subject: str, tokens: Mapping[str, Any]) -> access_tokens.Claims:
        """Claims from the UserInfo endpoint."""
        metadata, token = self._metadata.load(), tokens.get("access_token")
        if "userinfo_endpoint" not in metadata.values or not isinstance(token, str):
            return {}
        with provider_metadata.connect_to_provider(self._issuer) as documents:
            userinfo = documents.read(metadata.url("userinfo_endpoint"), token=token)
        if not isinstance(userinfo, Mapping) or userinfo.get("sub") != subject:
            raise SignInRefusedError("The identity provider tells of another person.")
        return userinfo


@dataclass(frozen=True, slots=True)
class _Metadata:
    values: Mapping[str, Any]
    issuer: str
    address: str

    def url(self, name: str) -> str:
        return provider_metadata.parse_url(self.values, name, self.issuer, self.address)


class _MetadataCache:
    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._known: _Metadata | None = None
        self._due_at = float("-inf")
        self._failure = ""
        self._guard = Lock()

    def load(self) -> _Metadata:
        """Cached or refreshed metadata; stale during an outage.

        Raises:
            ProviderUnavailableError: Nothing was loaded yet.
        """
        with self._guard:
            if time.monotonic() >= self._due_at:
                self._ask()
            if self._known is None:
                raise provider_metadata.ProviderUnavailableError(self._failure)
            return self._known

    def _ask(self) -> None:
        try:
            with provider_metadata.connect_to_provider(self._issuer) as documents:
                values, address = documents.read_metadata()
        except provider_metadata.ProviderUnavailableError as error:
            self._failure = str(error)
            self._due_at = time.monotonic() + provider_metadata.PAUSE_SECONDS
        else:
            self._known = _Metadata(values, self._issuer, address)
            self._due_at = time.monotonic() + provider_metadata.FRESH_SECONDS


logger = logging.getLogger(__name__)

CALLBACK_PATH = f"{SIGN_IN}/callback"
"""Redirect URI path."""

# Browsers drop a cookie beyond 4,096 characters, its name and attributes included.
_MAX_COOKIE_CHARACTERS = 3_800

# Of people who sign in at once, each waits for the provider in a thread.
_MAX_WAITING = 16

_STATE_DIGITS = 12  # tells the tabs apart in which one person signs in at once


_UNAVAILABLE = Notice(
    title="The identity provider does not answer",
    message="Users cannot sign in just now. The server's log says why.",
    link=SIGN_IN,
    link_text="Try again",
    status=503,
)


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
        grants: Sequence[AccessGrant] | None,
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
            form_token=self._seal.form_token(session.sid),
            can_sign_out=True,
            cookies=(self._write(renewed),) if renewed else (),
        )

    def _find_session(self, request: Request) -> BrowserSession | None:
        sealed = request.cookies.get(self._cookie, "")
        return self._seal.verify_session(sealed) if sealed else None

    def challenge(self, scope: Scope) -> Response | Notice:
        """Redirect to the provider; a late form gets a notice."""
        url = self._prefix + derive_sign_in_url(scope)
        if "hx-request" in Headers(scope=scope):
            return Response(status_code=401, headers={"HX-Redirect": url})
        if scope["method"] in {"GET", "HEAD"}:
            return RedirectResponse(url, 303, headers={"Cache-Control": "no-store"})
        return Notice(
            title="Your session has ended",
            message="Nothing was changed. Sign in, then send the form again.",
            link=derive_sign_in_url(scope),
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
        notice = Notice(
            title="You are not signed in",
            message=reason,
            link=SIGN_IN,
            link_text="Try again",
            status=403,
        )
        return self._show(request, notice)

    def _show_unavailable(self, request: Request, error: ProviderUnavailableError) -> Response:
        logger.warning("Users cannot sign in: %s", error)
        return self._show(request, _UNAVAILABLE)


def _name_attempt(state: str) -> str:
    known = "".join(re.findall("[0-9A-Za-z]", state[:_STATE_DIGITS]))
    return f"skills_sign_in_{known}"


Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

PROXY_ISSUER = "trusted-header"
"""Pseudo-issuer of these principals."""


class ProxySignIn:
    """Trusts the user headers of a proxy.

    Args:
        rules: Proxies and header names.
        seal: Signs form tokens.
        grants: Visibility grants; None for all skills.
    """

    def __init__(
        self,
        rules: TrustedHeader,
        seal: SessionSigner,
        grants: Sequence[AccessGrant] | None,
    ) -> None:
        self._rules = rules
        self._seal = seal
        self._grants = grants
        self._proxies = parse_proxies(rules.proxies)

    def find(self, scope: Scope) -> Visitor | None:
        """User named by the proxy; None without one, or from another peer."""
        headers = Headers(scope=scope)
        named = headers.getlist(self._rules.user)
        if len(named) != 1 or not 0 < len(named[0].strip()) <= MAX_NAME_CHARACTERS:
            return None
        if not self._is_proxy(scope):
            logger.warning(
                "Refused %s of an address that is not in web.trusted_header.proxies",
                self._rules.user,
            )
            return None
        person = named[0].strip()
        listed = headers.getlist(self._rules.groups) if self._rules.groups else []
        groups = [group.strip() for line in listed for group in line.split(",")]
        claims = {"sub": person, self._rules.groups_claim: list(filter(None, groups))}
        access = derive_access(self._grants, claims)
        return Visitor(
            principal=Principal(
                person,
                PROXY_ISSUER,
                self._find_scopes(headers),
                access,
                is_early(self._grants, claims),
            ),
            name=person,
            form_token=self._seal.form_token(f"{PROXY_ISSUER}\0{person}"),
        )

    def _find_scopes(self, headers: Headers) -> frozenset[str]:
        name = self._rules.scopes
        listed = headers.getlist(name) if name else []
        named = {scope for line in listed for scope in line.replace(",", " ").split()}
        return frozenset({READ, *named.intersection(SCOPES)})

    def challenge(self, scope: Scope) -> Notice:  # noqa: ARG002 - of other sign-ins
        """Explain the missing user header."""
        return Notice(
            title="You are not signed in",
            message="The proxy in front of this server names no user. Open this "
            "page by the address that your organisation gave you.",
            link="/",
            link_text="Try again",
            status=401,
        )

    def _is_proxy(self, scope: Scope) -> bool:
        client = scope.get("client")
        if not client:
            return False
        try:
            address = ipaddress.ip_address(client[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self._proxies)


def parse_proxies(addresses: Sequence[str]) -> tuple[Network, ...]:
    """Parse the trusted networks.

    Raises:
        ConfigError: One is invalid, or covers all addresses.
    """
    networks = []
    for address in addresses:
        try:
            network = ipaddress.ip_network(address)
        except ValueError as error:
            raise ConfigError(
                f"web.trusted_header.proxies has {address!r}, which is no address and no "
                "network. Write one such as 10.0.0.5 or 10.0.0.0/28."
            ) from error
        if network.prefixlen == 0:
            raise ConfigError(
                f"web.trusted_header.proxies has {address}, which is every address: then "
                "each caller could claim to be anyone. Write the address of your proxy."
            )
        networks.append(network)
    return tuple(networks)


_MAX_SECRET_BYTES = 4_096


class AnonymousSignIn:
    """Anonymous access to the pages, with the permissions of anonymous programs.

    Args:
        seal: Signs form tokens.
        may_read: Whether anonymous callers may read.
    """

    def __init__(self, seal: SessionSigner, *, may_read: bool) -> None:
        self._may_read = may_read
        self._visitor = Visitor(principal=None, form_token=seal.form_token(""))
        # Without a cookie there is nothing that another page could use.
        self._program = Visitor(principal=None)

    def find(self, scope: Scope) -> Visitor | None:
        """Anonymous visitor; None if anonymous callers may not read."""
        if not self._may_read:
            return None
        return self._program if scope["path"].startswith("/api/") else self._visitor

    def challenge(self, scope: Scope) -> Notice:  # noqa: ARG002 - of other sign-ins
        """Name the settings for a sign-in."""
        return Notice(
            title="These pages are closed",
            message="This server has no sign-in, and callers without one may not "
            "read. The operator of this server sets http.auth.issuer and "
            "web.client_id, web.trusted_header, or http.anonymous.",
            link="/",
            link_text="Try again",
            status=403,
        )


def choose_sign_in(config: Config, key_file: Path, show: NoticeRenderer) -> BrowserSignIn | None:
    """Sign-in as configured; None without pages for people.

    Args:
        config: The settings, with those of programs already checked by `check_sign_in`.
        key_file: Default file of the cookie key.
        show: Renders a notice.

    Raises:
        ConfigError: The settings contradict each other, or a file cannot be used.
    """
    check_web_settings(config.http, config.web)
    http, web, grants = config.http, config.web, derive_grants(config)
    if not web.enabled:
        return None
    is_proxied = bool(web.trusted_header.user)
    if http.auth.issuer and not web.client_id and not is_proxied:
        logger.info("There are no pages for people: set web.client_id to let them sign in")
        return None
    seal = _open_seal(web, grants, key_file)
    if is_proxied:
        return ProxySignIn(web.trusted_header, seal, grants)
    if not web.client_id:
        return AnonymousSignIn(seal, may_read=READ in derive_anonymous_scopes(config))
    client = OpenIdClient(http.auth, web, _load_secret(web.client_secret_file))
    return OpenIdSignIn(client, seal, http, grants, show)


def check_web_settings(http: Http, web: Web) -> None:
    """Check the settings of the pages.

    Raises:
        ConfigError: They contradict each other, or would expose sessions.
    """
    header = web.trusted_header
    parse_proxies(header.proxies)
    for is_wrong, message in (
        (web.client_id and not http.auth.issuer, _NO_ISSUER),
        (web.client_id and header.user, _TWO_WAYS),
        (web.client_secret_file and not web.client_id, _NO_CLIENT),
        (web.client_id and "openid" not in web.scopes, _NO_OPENID),
        (header.user and not header.proxies, _NO_PROXY),
        ((header.proxies or header.groups) and not header.user, _NO_USER),
        # Without a URL the server listens on this machine only.
        (web.client_id and http.base_url and not is_private_url(http.base_url), _PLAIN),
        (
            (web.client_id or header.user) and http.stateless and not web.cookie_key_file,
            _NO_KEY,
        ),
    ):
        if web.enabled and is_wrong:
            raise ConfigError(message)


def _open_seal(web: Web, grants: Sequence[AccessGrant] | None, key_file: Path) -> SessionSigner:
    return SessionSigner(
        _load_cookie_key(web.cookie_key_file, key_file),
        hours=web.session_hours,
        grants=grants,
    )


def _load_cookie_key(setting: str, key_file: Path) -> bytes:
    """Load the key for cookie signatures.

    Raises:
        ConfigError: The configured file has none.
    """
    if not setting:
        return load_secret_key(key_file)
    file = find_secret_file("web.cookie_key_file", setting)
    key = _read_or_none(file, read_secret_key)
    if key is None:
        raise ConfigError(
            f"web.cookie_key_file: {file} holds no key. Write what "
            "`openssl rand -hex 32` prints into it, the same for all replicas, and let "
            "the server's user read it."
        )
    register_secret(key.hex())
    return key


def _load_secret(setting: str) -> str:
    """Load the client secret; empty for a public client.

    Raises:
        ConfigError: The file cannot be used.
    """
    if not setting:
        return ""
    file = find_secret_file("web.client_secret_file", setting)
    raw = _read_or_none(file, lambda path: read_regular(path, _MAX_SECRET_BYTES))
    secret = (raw or b"").decode("utf-8", "replace").strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ConfigError(
            f"web.client_secret_file: {file} holds no secret of one line. Write the "
            "client secret of your identity provider into it, and let the server's "
            "user read it."
        )
    register_secret(secret)
    return secret


def _read_or_none(file: Path, read: Callable[[Path], bytes | None]) -> bytes | None:
    # In a container it is a link to a folder that is replaced as a whole.
    try:
        return read(Path(os.path.realpath(file)))
    except OSError:
        return None


_NO_ISSUER = (
    "web.client_id is set without http.auth.issuer: write the URL of your identity "
    "provider there, or leave both out."
)
_TWO_WAYS = (
    "web.client_id and web.trusted_header.user are both set: people sign in at the "
    "identity provider or at the proxy. Leave one of them out."
)
_NO_CLIENT = (
    "web.client_secret_file is set without web.client_id: write the client ID of the "
    "pages there, or leave both out."
)
_NO_OPENID = "web.scopes must contain openid: without it there is no ID token."
_NO_PROXY = (
    "web.trusted_header.user is set without web.trusted_header.proxies: then each "
    "caller could claim to be anyone. Write the address of your proxy there."
)
_NO_USER = (
    "web.trusted_header has settings, but no user: write the header in which your "
    "proxy names the person, such as X-Forwarded-User, or leave the section out."
)
_PLAIN = (
    "web.client_id needs an https:// URL as http.base_url: over plain HTTP others on "
    "the way can take the session of a person. The redirect URI of the client is that "
    f"URL with {CALLBACK_PATH}."
)
_NO_KEY = (
    "http.stateless is for several replicas, and each would sign cookies with a key of "
    "its own. Set web.cookie_key_file to a file with the same key for all of them."
)
