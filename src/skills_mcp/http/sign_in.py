"""Who a request is from, and whether that caller may make it.

Rule: a request without a valid token reaches nothing behind this module, if sign-in is
configured. A token is taken from the header Authorization only: an address, and with it
a token in it, gets into logs and histories.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Config, Grant, Http
from skills_mcp.config.loopback import is_loopback
from skills_mcp.errors import ConfigError, InvalidArgumentsError
from skills_mcp.http.access_tokens import (
    Claims,
    InvalidTokenError,
    TokenValidator,
    parse_scopes,
)
from skills_mcp.http.anonymous import DEPRECATED_SCOPES, derive_anonymous_scopes
from skills_mcp.http.protected_resource import (
    PATH,
    ProtectedResource,
    ResourceMetadata,
)
from skills_mcp.http.refusals import refuse
from skills_mcp.http.scope_check import (
    MissingScopeError,
    check_scopes,
    needed_scopes,
)
from skills_mcp.http.signing_keys import (
    PAUSE_SECONDS,
    KeysUnavailableError,
    SigningKeys,
)
from skills_mcp.skills.access import derive_access, parse_scope
from skills_mcp.skills.model import printable
from skills_mcp.skills.principal import (
    EVENTS,
    PRINCIPAL_KEY,
    READ,
    SCOPES,
    UPLOAD,
    Principal,
    is_name,
)

logger = logging.getLogger(__name__)

NARROWING_HEADER = "x-skills-scope"
"""Patterns of the skills that a request is about, separated by commas."""

NARROWING_QUERY = "scope"
"""The same in the address, for clients that cannot set a header."""

# The claims that name the program that asked for the token: RFC 9068 and Okta's and
# Entra's older words for it.
_CLIENT_CLAIMS = ("client_id", "azp", "cid", "appid")

# Made-up tokens may not keep out callers whose keys are known, by filling the server
# with requests that wait for a provider that hangs: a quarter of those that it answers
# at once by default.
_MAX_WAITING = 16

Grants: TypeAlias = Sequence[Grant]


def check_sign_in(config: Config) -> None:
    """Check that no caller from elsewhere comes in without sign-in by mistake.

    Raises:
        ConfigError: The settings would let one in, or contradict each other.
    """
    http, auth = config.http, config.http.auth
    if auth.audience and not auth.issuer:
        raise ConfigError(
            "http.auth.audience is set without http.auth.issuer: write the URL of "
            "your identity provider there, or leave both out."
        )
    derive_anonymous_scopes(config)
    if http.allow_anonymous:
        logger.warning(
            "http.allow_anonymous is deprecated: write `http.anonymous: [%s]` instead",
            ", ".join(DEPRECATED_SCOPES),
        )
    has_name = http.base_url or (is_loopback(http.host) and auth.audience)
    if auth.issuer and not has_name:
        raise ConfigError(
            "http.auth.issuer is set without http.base_url: set it to the URL that "
            "clients use, such as https://skills.example.com. Tokens must be for that "
            f"URL with {PATH}, unless http.auth.audience names another audience."
        )


def signed_in(app: ASGIApp, config: Config) -> ASGIApp:
    """Return the application behind the sign-in, or open to anonymous callers.

    Args:
        app: What answers callers.
        config: The settings, which `check_sign_in` has checked.
    """
    http, grants = config.http, config.access or None
    if not http.auth.issuer:
        scopes = derive_anonymous_scopes(config)
        return AnonymousCallers(app, grants, scopes, http.max_body_bytes)
    resource = ProtectedResource(http)
    return ResourceMetadata(SignIn(app, http, grants, resource), resource)


class AnonymousCallers:
    """Lets each request in as that of a caller without a name, as far as that may go.

    Args:
        app: The application behind it.
        grants: Those without a condition apply.
        scopes: What these callers may do.
        max_body_bytes: The maximum size of the body of a request.
    """

    def __init__(
        self,
        app: ASGIApp,
        grants: Grants | None,
        scopes: frozenset[str],
        max_body_bytes: int,
    ) -> None:
        self._app = app
        self._grants = grants
        self._scopes = scopes
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            access = derive_access(self._grants, {}, parse_narrowing(scope))
            principal = Principal("", "", self._scopes, access)
            receive = await check_scopes(
                scope, receive, principal, self._max_body_bytes
            )
        except InvalidArgumentsError as error:
            await _refuse_narrowing(error)(scope, receive, send)
            return
        except MissingScopeError as error:
            await _refuse_anonymous(error)(scope, receive, send)
            return
        scope[PRINCIPAL_KEY] = principal
        await self._app(scope, receive, send)


class SignIn:
    """Lets requests in that have a valid token with the scopes that they need.

    Args:
        app: The application behind it.
        http: The settings.
        grants: Which callers see which skills; None for all.
        resource: What clients are told that have no such token.
    """

    def __init__(
        self,
        app: ASGIApp,
        http: Http,
        grants: Grants | None,
        resource: ProtectedResource,
    ) -> None:
        self._app = AuthContextMiddleware(app)
        self._rules = http.auth
        self._max_body_bytes = http.max_body_bytes
        self._grants = grants
        self._resource = resource
        self._validator = TokenValidator(
            SigningKeys(http.auth.issuer),
            issuer=http.auth.issuer,
            audience=http.auth.audience or f"{http.base_url.rstrip('/')}{PATH}",
            clock_skew_seconds=http.auth.clock_skew_seconds,
            accept_id_tokens=http.auth.accept_id_tokens,
        )
        # One thread asks the identity provider; the others wait without one.
        self._loading = anyio.CapacityLimiter(1)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self._live(scope, receive, send)
            return
        try:
            claims = await self._authenticate(scope)
            principal = self._derive_principal(claims, parse_narrowing(scope))
            receive = await self._authorise(scope, receive, principal)
        except _RefusedError as refused:
            await refused.answer(scope, receive, send)
            return
        except InvalidArgumentsError as error:
            await _refuse_narrowing(error)(scope, receive, send)
            return
        scope[PRINCIPAL_KEY] = principal
        # With this the SDK keeps a session for the caller that has opened it.
        scope["user"] = AuthenticatedUser(_derive_access_token(claims, principal))
        await self._app(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Load keys beside the start, so that the log tells early what is wrong."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._load_first_keys)
            await self._app(scope, receive, send)
            tasks.cancel_scope.cancel()

    async def _load_first_keys(self) -> None:
        logger.info("Callers sign in with tokens of %s", self._rules.issuer)
        await anyio.to_thread.run_sync(
            self._validator.load_first_keys,
            limiter=self._loading,
            abandon_on_cancel=True,
        )

    async def _authenticate(self, scope: Scope) -> Claims:
        """Return what the token of a request says.

        Raises:
            _RefusedError: There is no valid token.
        """
        token = self._parse_token(scope)
        try:
            if self._validator.needs_keys(token):
                await self._load_keys(token)
            return self._validator.validate(token)
        except InvalidTokenError as error:
            logger.info("Refused a token: %s", error)
            raise self._unauthorised(scope, "invalid_token", str(error)) from None
        except KeysUnavailableError:
            raise _RefusedError(
                refuse(
                    503,
                    "SIGN_IN_UNAVAILABLE",
                    "The identity provider does not answer, so it cannot be told "
                    "whether the token is valid. Try again in a moment; signing in "
                    "again does not help.",
                    {"Retry-After": f"{PAUSE_SECONDS:.0f}"},
                )
            ) from None

    async def _load_keys(self, token: str) -> None:
        """Load the keys of a token, one request at a time.

        Raises:
            KeysUnavailableError: Too many requests wait for that.
        """
        if self._validator.has_keys and self._waiting >= _MAX_WAITING:
            raise KeysUnavailableError("Others wait for the identity provider already")
        self._waiting += 1
        try:
            await anyio.to_thread.run_sync(
                self._validator.load_keys, token, limiter=self._loading
            )
        finally:
            self._waiting -= 1

    def _parse_token(self, scope: Scope) -> str:
        """Return the bearer token of a request.

        Raises:
            _RefusedError: There is none, or not one.
        """
        given = Headers(scope=scope).getlist("authorization")
        if len(given) > 1 or "access_token" in _parse_query(scope):
            description = "Send one token, in the header Authorization only"
            raise self._malformed(scope, description)
        scheme, _, token = (given or [""])[0].partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise self._unauthorised(scope)
        return token.strip()

    def _derive_principal(self, claims: Claims, narrowed: tuple[str, ...]) -> Principal:
        rules = self._rules
        scopes = parse_scopes(claims, rules.scope_claims, prefix=rules.scope_prefix)
        return Principal(
            claims["sub"],
            claims["iss"],
            frozenset(rules.default_scopes) if scopes is None else scopes,
            derive_access(self._grants, claims, narrowed),
        )

    async def _authorise(
        self, scope: Scope, receive: Receive, principal: Principal
    ) -> Receive:
        """Return how the rest of a request is received, if the caller may make it.

        Raises:
            _RefusedError: The token lacks a scope.
        """
        try:
            return await check_scopes(scope, receive, principal, self._max_body_bytes)
        except MissingScopeError as error:
            raise self._forbidden(scope, principal, error) from None

    def _malformed(self, scope: Scope, description: str) -> "_RefusedError":
        headers = self._resource.challenge(scope, "invalid_request", description)
        return _RefusedError(refuse(400, "INVALID_REQUEST", f"{description}.", headers))

    def _unauthorised(
        self, scope: Scope, error: str = "", description: str = ""
    ) -> "_RefusedError":
        needed = needed_scopes(scope)
        asked = None if needed == (READ,) else needed
        headers = self._resource.challenge(scope, error, description, asked)
        code = error.upper() or "SIGN_IN_NEEDED"
        said = description or "This server needs a token of your identity provider"
        where = self._resource.metadata_url(scope)
        message = f"{said}. Where to get one: {where}"
        return _RefusedError(refuse(401, code, message, headers))

    def _forbidden(
        self, scope: Scope, principal: Principal, missing: MissingScopeError
    ) -> "_RefusedError":
        """Ask for the missing scope beside those that the next token must not lose."""
        description, needed = str(missing), missing.scope
        if needed == UPLOAD:
            logger.warning(
                "Refused an upload of %s, who lacks the scope %s",
                *(printable(principal.subject), UPLOAD),
            )
        headers = self._resource.challenge(
            scope,
            "insufficient_scope",
            description,
            self._next_scopes(principal, needed),
        )
        return _RefusedError(
            refuse(403, "INSUFFICIENT_SCOPE", f"{description}.", headers)
        )

    def _next_scopes(self, principal: Principal, needed: str) -> Collection[str]:
        wanted = {needed, *principal.scopes}
        if needed != EVENTS:
            wanted.add(READ)
        foreign = [s for s in self._rules.requested_scopes if s not in SCOPES]
        return [*(scope for scope in SCOPES if scope in wanted), *foreign]


class _RefusedError(Exception):
    """A request is refused."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


def parse_narrowing(scope: Scope) -> tuple[str, ...]:
    """Return the patterns that a request narrows its skills to; none for all.

    Raises:
        InvalidArgumentsError: They are too many or too long, or stand in two places.
    """
    named = NARROWING_HEADER.encode()
    given = [value for name, value in scope["headers"] if name == named]
    asked = _parse_query(scope).get(NARROWING_QUERY, [])
    texts = [*(_decode(value) for value in given), *asked]
    if len(texts) > 1:
        raise InvalidArgumentsError(
            "scope: stands in the request more than once. Write it into the header "
            "X-Skills-Scope or into the address, with commas between its patterns."
        )
    return parse_scope(texts[0]) if texts else ()


def _parse_query(scope: Scope) -> Mapping[str, list[str]]:
    # Of the fields that are empty, only the name of a token would matter.
    return parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _refuse_anonymous(missing: MissingScopeError) -> Response:
    """Name the settings: the caller has no way to sign in."""
    if missing.scope == EVENTS:
        return refuse(
            401,
            "TOKEN_NEEDED",
            "This server takes no events without a token, because nothing tells who "
            "sends them. Its operator sets events.ingest_token_file or "
            "http.auth.issuer.",
            {"WWW-Authenticate": 'Bearer realm="skills-mcp"'},
        )
    return refuse(
        403,
        "INSUFFICIENT_SCOPE",
        f"{missing}, which callers without sign-in do not have here. The operator of "
        "this server sets http.auth.issuer, so that callers sign in, or names the "
        "scope in http.anonymous.",
    )


def _refuse_narrowing(error: InvalidArgumentsError) -> Response:
    return refuse(400, error.code, str(error))


def _derive_access_token(claims: Claims, principal: Principal) -> AccessToken:
    """Return what the SDK compares; the token itself is not passed on."""
    named = (claims.get(name) for name in _CLIENT_CLAIMS)
    return AccessToken(
        token="",
        client_id=next(filter(is_name, named), ""),
        scopes=sorted(principal.scopes),
        subject=principal.subject,
        claims={"iss": principal.issuer},
    )
