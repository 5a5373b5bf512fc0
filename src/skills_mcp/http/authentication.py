"""Sign-in of callers: OAuth scopes, tokens, metadata and challenges (RFC 9728, RFC 6750)."""

import json
import logging
import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Config, Http
from skills_mcp.config.rollouts import find_groups, is_for_groups
from skills_mcp.config.values import is_loopback
from skills_mcp.errors import ConfigError, InvalidArgumentsError
from skills_mcp.events.tracker import ACTING_AGENT
from skills_mcp.http.access_tokens import (
    ALGORITHMS,
    Claims,
    InvalidProofError,
    InvalidTokenError,
    ProofValidator,
    TokenValidator,
    WrongSignatureError,
    parse_scopes,
)
from skills_mcp.http.allowed_hosts import is_loopback_host
from skills_mcp.http.error_responses import error_response
from skills_mcp.http.provider_metadata import PAUSE_SECONDS, KeysUnavailableError, SigningKeys
from skills_mcp.http.routes import BODY_KEY, MCP_PATH, ROUTES, WELL_KNOWN, refuse_method
from skills_mcp.server.tools import CORE_TOOLS
from skills_mcp.skills.access import (
    EVENTS,
    FEEDBACK,
    PRINCIPAL_KEY,
    READ,
    REFRESH,
    SCOPES,
    UPLOAD,
    AccessGrant,
    EarlyGrant,
    Principal,
    derive_access,
    find_acting_agent,
    find_client,
    is_early,
    parse_scope,
)
from skills_mcp.skills.model import escape_unprintable

_TOOL_SCOPES = {tool.name: tool.scope for tool in CORE_TOOLS if tool.scope != READ}

_MCP_SCOPES = {READ, *_TOOL_SCOPES.values()}


ScopeRule: TypeAlias = Callable[[Scope], tuple[str, ...]]
"""Scopes that a request needs, by its path."""


def find_required_scopes(scope: Scope) -> tuple[str, ...]:
    return (ROUTES.get(scope["path"], READ),)


def find_missing_scope(scope: Scope, principal: Principal, needed: tuple[str, ...]) -> str:
    """First scope that the caller of a request lacks; empty if authorised.

    Behind `BodyBufferMiddleware`: the called tool comes from the body, as the header is
    unverified until the SDK compares both.
    """
    is_call = needed == (READ,) and scope["method"] == "POST"
    if is_call and not principal.scopes.issuperset(_MCP_SCOPES):
        needed = (READ, _TOOL_SCOPES.get(_parse_tool(scope[BODY_KEY]), READ))
    return next((required for required in needed if not principal.may(required)), "")


def _parse_tool(body: bytes) -> str:
    """Called tool of a message; empty if none.

    The server checks again on dispatch, so a message parsed differently there runs
    nothing.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(message, Mapping) or message.get("method") != "tools/call":
        return ""
    parameters: Any = message.get("params")
    name = parameters.get("name") if isinstance(parameters, Mapping) else ""
    return name if isinstance(name, str) else ""


DEPRECATED_SCOPES = (READ, REFRESH, FEEDBACK)
"""Scopes of `http.allow_anonymous`: the MCP tools."""


def derive_anonymous_scopes(config: Config) -> frozenset[str]:
    """Scopes of every caller without sign-in.

    Callers are trusted by default only if nothing but this machine can reach the
    server. Otherwise the operator names the scopes, or the server does not start.

    Raises:
        ConfigError: The settings contradict each other, or other machines reach the
            server and no scopes are configured.
    """
    http = config.http
    if http.anonymous is not None and http.allow_anonymous:
        raise ConfigError(
            "http.anonymous replaces http.allow_anonymous: leave http.allow_anonymous out."
        )
    named = DEPRECATED_SCOPES if http.allow_anonymous else http.anonymous
    if http.auth.issuer:
        return _check_absent(http, named)
    if named is not None:
        return frozenset(named)
    if reach := next(_find_remote_reach(config), ""):
        raise ConfigError(
            f"{reach}, so other machines may reach the server, and there is no "
            "sign-in. Set http.auth.issuer and http.base_url, or say what callers "
            f"without sign-in may do: `http.anonymous: [{READ}]` if everyone who "
            "reaches the server may read the skills, `http.anonymous: []` for "
            "nothing. A server for its own machine needs neither: it listens on "
            "127.0.0.1, has no other name, and is behind no proxy."
        )
    return frozenset(SCOPES)


def _check_absent(http: Http, named: tuple[str, ...] | None) -> frozenset[str]:
    if named:
        setting = "allow_anonymous" if http.allow_anonymous else "anonymous"
        raise ConfigError(
            f"http.auth.issuer asks for sign-in, and http.{setting} for none: leave "
            "one of them out."
        )
    return frozenset()


def _find_remote_reach(config: Config) -> Iterator[str]:
    http, header = config.http, config.web.trusted_header.user
    if not is_loopback(http.host):
        yield f"http.host is {http.host}"
    if http.base_url and not is_loopback(urlsplit(http.base_url).hostname or ""):
        yield f"http.base_url is {http.base_url}"
    for host in http.allowed_hosts:
        if not is_loopback_host(host):
            yield f"http.allowed_hosts has {host}"
    if http.trust_proxy_headers:
        yield "http.trust_proxy_headers is true"
    if header:
        yield f"web.trusted_header.user is {header}"


logger = logging.getLogger(__name__)

SCOPE_HEADER = "x-skills-scope"
"""Comma-separated patterns: restricts a request to some skills."""

SCOPE_QUERY = "scope"

# Made-up tokens may not keep out callers whose keys are known, by filling the server
# with requests that wait for a provider that hangs: a quarter of those that it answers
# at once by default.
_MAX_WAITING = 16

Grants: TypeAlias = Sequence[AccessGrant]


_RESOURCE_NAME = "Skills of this organisation"
_REALM = "skills-mcp"

# What a quoted text of a header cannot hold (RFC 9110, section 5.6.4).
_UNQUOTABLE = re.compile(r"[^ !#-\[\]-~]")

_CACHEABLE = {"Cache-Control": "public, max-age=3600"}


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """This server as an OAuth protected resource."""

    http: Http

    def url(self, scope: Scope) -> str:
        """URL of the MCP endpoint, the resource identifier.

        Args:
            scope: ASGI scope, used only without `http.base_url`; proxy headers only if
                trusted. Its host is already checked.
        """
        return f"{self._base(scope)}{MCP_PATH}"

    def request_url(self, scope: Scope) -> str:
        """URL of a request as its client has it, without a query."""
        return f"{self._base(scope)}{scope['path']}"

    def _base(self, scope: Scope) -> str:
        if self.http.base_url:
            return self.http.base_url.rstrip("/")
        headers = Headers(scope=scope)
        scheme, host = scope.get("scheme", "http"), headers.get("host", "")
        if self.http.trust_proxy_headers:
            scheme = _first_value(headers.get("x-forwarded-proto")) or scheme
            host = _first_value(headers.get("x-forwarded-host")) or host
        return f"{scheme if scheme == 'https' else 'http'}://{host}"

    def metadata_url(self, scope: Scope) -> str:
        parts = urlsplit(self.url(scope))
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}"

    def paths(self) -> frozenset[str]:
        """Paths where clients look for the metadata."""
        prefix = urlsplit(self.http.base_url).path.rstrip("/")
        return frozenset({WELL_KNOWN, WELL_KNOWN + MCP_PATH, WELL_KNOWN + prefix + MCP_PATH})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the metadata document."""
        answer = refuse_method(scope) or JSONResponse(self.describe(scope), 200, _CACHEABLE)
        await answer(scope, receive, send)

    def describe(self, scope: Scope) -> Mapping[str, Any]:
        return {
            "resource": self.url(scope),
            "authorization_servers": [self.http.auth.issuer],
            "scopes_supported": self._named(self.http.auth.requested_scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": _RESOURCE_NAME,
            "dpop_signing_alg_values_supported": list(ALGORITHMS),
            "dpop_bound_access_tokens_required": self.http.auth.require_dpop,
        }

    def challenge(
        self,
        scope: Scope,
        error: str = "",
        description: str = "",
        scopes: Collection[str] | None = None,
    ) -> Mapping[str, str]:
        """`WWW-Authenticate` header.

        `error` is a code of RFC 6750, empty for a request without token. `scopes`
        default to the configured ones.
        """
        requested = self.http.auth.requested_scopes if scopes is None else scopes
        fields = {
            "realm": _REALM,
            "scope": " ".join(self._named(requested)),
            "resource_metadata": self.metadata_url(scope),
            "error": error,
            "error_description": description,
        }
        parameters = ", ".join(
            f'{name}="{_UNQUOTABLE.sub("?", value)}"' for name, value in fields.items() if value
        )
        scheme, more = "Bearer", ""
        sent = Headers(scope=scope).get("authorization", "")
        if self.http.auth.require_dpop or sent.lower().startswith("dpop "):
            scheme, more = "DPoP", f', algs="{" ".join(ALGORITHMS)}"'
        return {"WWW-Authenticate": f"{scheme} {parameters}{more}"}

    def _named(self, scopes: Iterable[str]) -> list[str]:
        """Scopes in the notation of the identity provider."""
        prefix = self.http.auth.scope_prefix
        return [f"{prefix}{name}" if name in SCOPES else name for name in scopes]


def _first_value(values: str | None) -> str:
    return (values or "").partition(",")[0].strip()


def check_sign_in(config: Config) -> None:
    """Check that the settings admit no remote caller by mistake.

    Raises:
        ConfigError: The settings would admit one, or contradict each other.
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
            f"URL with {MCP_PATH}, unless http.auth.audience names another audience."
        )


def require_sign_in(app: ASGIApp, config: Config, rule: ScopeRule = find_required_scopes) -> Router:
    """Wrap an application in authentication, or in anonymous access.

    `check_sign_in` must have checked the settings, and `BodyBufferMiddleware` must have
    read the body. The lifespan loads the keys of the identity provider.
    """
    http, grants = config.http, derive_grants(config)
    if not http.auth.issuer:
        scopes = derive_anonymous_scopes(config)
        return Router(default=AnonymousAuthMiddleware(app, grants, scopes, rule))
    resource = ProtectedResource(http)
    guard = BearerAuthMiddleware(app, http, grants, resource, rule)
    return Router(
        [Route(path, resource) for path in resource.paths()],
        redirect_slashes=False,
        default=guard,
        lifespan=guard.load_keys_early,
    )


def derive_grants(config: Config) -> Grants | None:
    """What decides about a caller: `access`, and the groups of rollouts; None for neither."""
    groups = find_groups(config)
    rollouts = (source.rollout for source in config.sources if groups and is_for_groups(source))
    early = (EarlyGrant({"groups": groups}, rollout.until) for rollout in rollouts if rollout)
    return (*config.access, *early) or None


@dataclass(frozen=True, slots=True)
class AnonymousAuthMiddleware:
    """Middleware for anonymous access with fixed scopes."""

    _app: ASGIApp
    _grants: Grants | None
    """Only unconditional ones apply."""
    _scopes: frozenset[str]
    _rule: ScopeRule

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        try:
            access = derive_access(self._grants, {}, parse_request_scope(scope))
            principal = Principal("", "", self._scopes, access)
            if missing := find_missing_scope(scope, principal, self._rule(scope)):
                app = _anonymous_response(missing)
            scope[PRINCIPAL_KEY] = principal
        except InvalidArgumentsError as error:
            app = _invalid_scope_response(error)
        await app(scope, receive, send)


class BearerAuthMiddleware:
    """Middleware that requires a valid bearer token with sufficient scopes."""

    def __init__(
        self,
        app: ASGIApp,
        http: Http,
        grants: Grants | None,
        resource: ProtectedResource,
        rule: ScopeRule,
    ) -> None:
        self._app = AuthContextMiddleware(app)
        self._rules = http.auth
        self._grants = grants
        self._resource = resource
        self._rule = rule
        self._validator = TokenValidator(
            SigningKeys(http.auth.issuer),
            issuer=http.auth.issuer,
            audience=http.auth.audience or f"{http.base_url.rstrip('/')}{MCP_PATH}",
            clock_skew_seconds=http.auth.clock_skew_seconds,
            accept_id_tokens=http.auth.accept_id_tokens,
        )
        self._proofs = ProofValidator(http.auth.clock_skew_seconds)
        # One thread asks the identity provider; the others wait without one.
        self._loading = anyio.CapacityLimiter(1)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self._app
        try:
            claims = await self._authenticate(scope)
            principal = self._derive_principal(claims, parse_request_scope(scope))
            if missing := find_missing_scope(scope, principal, self._rule(scope)):
                raise self._forbidden(scope, principal, missing)
            scope[PRINCIPAL_KEY] = principal
            ACTING_AGENT.set(find_acting_agent(claims))
            # With this the SDK keeps a session for the caller that has opened it.
            scope["user"] = AuthenticatedUser(_derive_access_token(claims, principal))
        except _RefusedError as refused:
            app = refused.answer
        except InvalidArgumentsError as error:
            app = _invalid_scope_response(error)
        await app(scope, receive, send)

    @asynccontextmanager
    async def load_keys_early(self, _: object) -> AsyncIterator[None]:
        """Load keys at startup, so the log shows misconfiguration early."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._load_first_keys)
            yield
            tasks.cancel_scope.cancel()

    async def _load_first_keys(self) -> None:
        logger.info("Callers sign in with tokens of %s", self._rules.issuer)
        await anyio.to_thread.run_sync(
            self._validator.load_first_keys,
            limiter=self._loading,
            abandon_on_cancel=True,
        )

    async def _authenticate(self, scope: Scope) -> Claims:
        """Claims of the request's token."""
        scheme, token = self._parse_token(scope)
        try:
            claims = await self._validate(token)
            return self._require_possession(scope, scheme, token, claims)
        except InvalidTokenError as error:
            logger.info("Refused a token: %s", error)
            is_proof = isinstance(error, InvalidProofError)
            code = "invalid_dpop_proof" if is_proof else "invalid_token"
            raise self._unauthorised(scope, code, str(error)) from None
        except KeysUnavailableError:
            raise _RefusedError(
                error_response(
                    503,
                    "SIGN_IN_UNAVAILABLE",
                    "The identity provider does not answer, so it cannot be told "
                    "whether the token is valid. Try again in a moment; signing in "
                    "again does not help.",
                    {"Retry-After": f"{PAUSE_SECONDS:.0f}"},
                )
            ) from None

    async def _validate(self, token: str) -> Claims:
        if self._validator.needs_keys(token):
            await self._load_keys(token)
        try:
            return self._validator.validate(token)
        except WrongSignatureError:
            if not self._validator.needs_keys(token, is_refuted=True):
                raise
        await self._load_keys(token, is_refuted=True)
        return self._validator.validate(token)

    def _require_possession(self, scope: Scope, scheme: str, token: str, claims: Claims) -> Claims:
        """Require that a bound token comes from the holder of its key (RFC 9449, section 7)."""
        if "cnf" not in claims:
            if scheme == "dpop" or self._rules.require_dpop:
                raise InvalidTokenError("The token is not bound to a key (cnf): DPoP needs one")
            return claims
        proofs = Headers(scope=scope).getlist("dpop")
        if scheme != "dpop" or len(proofs) != 1:
            raise InvalidProofError(
                "The token is bound to a key (cnf): send it as Authorization: DPoP, with one "
                "proof in the header DPoP"
            )
        url = self._resource.request_url(scope)
        self._proofs.validate(proofs[0], token, claims["cnf"]["jkt"], scope["method"], url)
        return claims

    async def _load_keys(self, token: str, *, is_refuted: bool = False) -> None:
        """Load the keys for a token, one request at a time."""
        if self._validator.keys.are_known and self._waiting >= _MAX_WAITING:
            raise KeysUnavailableError("Others wait for the identity provider already")
        self._waiting += 1
        try:
            load = partial(self._validator.load_keys, token, is_refuted=is_refuted)
            await anyio.to_thread.run_sync(load, limiter=self._loading)
        finally:
            self._waiting -= 1

    def _parse_token(self, scope: Scope) -> tuple[str, str]:
        credentials = Headers(scope=scope).getlist("authorization")
        if len(credentials) > 1 or "access_token" in _parse_query(scope):
            raise self._malformed(scope, "Send one token, in the header Authorization only")
        scheme, _, token = (credentials or [""])[0].partition(" ")
        if scheme.lower() not in {"bearer", "dpop"} or not token.strip():
            raise self._unauthorised(scope)
        return scheme.lower(), token.strip()

    def _derive_principal(self, claims: Claims, narrowed: tuple[str, ...]) -> Principal:
        rules = self._rules
        scopes = parse_scopes(claims, rules.scope_claims, prefix=rules.scope_prefix)
        return Principal(
            claims["sub"],
            claims["iss"],
            frozenset(rules.default_scopes) if scopes is None else scopes,
            derive_access(self._grants, claims, narrowed),
            is_early(self._grants, claims),
        )

    def _malformed(self, scope: Scope, description: str) -> "_RefusedError":
        headers = self._resource.challenge(scope, "invalid_request", description)
        return _RefusedError(error_response(400, "INVALID_REQUEST", f"{description}.", headers))

    def _unauthorised(
        self, scope: Scope, error: str = "", description: str = ""
    ) -> "_RefusedError":
        needed = self._rule(scope)
        requested = None if needed == (READ,) else needed
        headers = self._resource.challenge(scope, error, description, requested)
        code = error.upper() or "SIGN_IN_NEEDED"
        reason = description or "This server needs a token of your identity provider"
        where = self._resource.metadata_url(scope)
        message = f"{reason}. Where to get one: {where}"
        return _RefusedError(error_response(401, code, message, headers))

    def _forbidden(self, scope: Scope, principal: Principal, needed: str) -> "_RefusedError":
        """Request the missing scope along with the scopes already granted."""
        description = _MISSING_SCOPE.format(needed)
        if needed == UPLOAD:
            logger.warning(
                "Refused an upload of %s, who lacks the scope %s",
                *(escape_unprintable(principal.subject), UPLOAD),
            )
        requested = self._next_scopes(principal, needed)
        headers = self._resource.challenge(scope, "insufficient_scope", description, requested)
        return _RefusedError(error_response(403, "INSUFFICIENT_SCOPE", f"{description}.", headers))

    def _next_scopes(self, principal: Principal, needed: str) -> Collection[str]:
        requested = {needed, *principal.scopes}
        foreign = [s for s in self._rules.requested_scopes if s not in SCOPES]
        return [*(scope for scope in SCOPES if scope in requested), *foreign]


class _RefusedError(Exception):
    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


def parse_request_scope(scope: Scope) -> tuple[str, ...]:
    """Patterns of a request's scope; empty for all skills.

    Raises:
        InvalidArgumentsError: Too many, too long, or in two places.
    """
    named = SCOPE_HEADER.encode()
    header_values = [value for name, value in scope["headers"] if name == named]
    query_values = _parse_query(scope).get(SCOPE_QUERY, [])
    texts = [*(_decode(value) for value in header_values), *query_values]
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


_MISSING_SCOPE = "The request needs the scope {}"


def _anonymous_response(missing: str) -> Response:
    """Name the settings, because the caller cannot sign in."""
    if missing == EVENTS:
        return error_response(
            401,
            "TOKEN_NEEDED",
            "This server takes no events without a token, because nothing tells who "
            "sends them. Its operator sets events.ingest_token_file or "
            "http.auth.issuer.",
            {"WWW-Authenticate": 'Bearer realm="skills-mcp"'},
        )
    return error_response(
        403,
        "INSUFFICIENT_SCOPE",
        f"{_MISSING_SCOPE.format(missing)}, which callers without sign-in do not have "
        "here. The operator of this server sets http.auth.issuer, so that callers sign "
        "in, or names the scope in http.anonymous.",
    )


def _invalid_scope_response(error: InvalidArgumentsError) -> Response:
    return error_response(400, error.code, str(error))


def _derive_access_token(claims: Claims, principal: Principal) -> AccessToken:
    """Token for the SDK's session check, without the secret itself."""
    return AccessToken(
        token="",
        client_id=find_client(claims),
        scopes=sorted(principal.scopes),
        subject=principal.subject,
        claims={"iss": principal.issuer},
    )
