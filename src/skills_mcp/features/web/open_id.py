"""OpenID Connect sign-in for browsers: authorization code with PKCE.

Statements about a person are trusted only if they come from the provider itself, answer
a request of this server, and carry a valid signature.
"""

import hmac
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar
from urllib.parse import urlencode

from skills_mcp.config import Auth, Web
from skills_mcp.http import access_tokens, provider_metadata

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
        claims
        compared by grants: missing ones come from the UserInfo endpoint.

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
