"""Validation of access tokens (JWT).

Tokens are only validated: never issued, stored, logged or forwarded, and no URL in a
token is opened.
"""

import base64
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from skills_mcp.http.provider_metadata import SigningKey, SigningKeys
from skills_mcp.skills.access import MAX_NAME_CHARACTERS, is_display_name

if TYPE_CHECKING:  # imported late: the first answer may not wait for it
    import jwt

Claims: TypeAlias = Mapping[str, Any]

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Asymmetric signatures only: never `none` or a shared secret."""

MAX_CHARACTERS = 16_384
"""Maximum length of a token; hundreds of groups take about 10,000."""

# RFC 9068 for the first two; most providers write JWT or nothing.
_TYPES = frozenset({"at+jwt", "application/at+jwt", "jwt", ""})

# OpenID Connect Core 1.0, section 2: claims that ID tokens have.
_ID_TOKEN_CLAIMS = ("at_hash", "c_hash", "s_hash", "nonce")


_MAX_CACHED_TOKENS = 1_024
"""A hit takes 0.003 ms; validation 0.2 ms, a tenth of a request."""


class InvalidTokenError(Exception):
    """Rejected token; the message has the reason, without any part of the token."""


class InvalidProofError(InvalidTokenError):
    """Rejected proof of a key."""


class WrongSignatureError(InvalidTokenError):
    """Rejected signature; the issuer may have replaced its key."""


@dataclass(frozen=True, slots=True)
class _CachedToken:
    """Cached validation result, without the token itself."""

    claims: Claims
    key_name: str
    key: SigningKey
    expires_at: int


class TokenValidator:
    """Validates access tokens of one issuer.

    Only key loading may run concurrently with other methods, on a thread of its own.

    Args:
        issuer: Required `iss`, exactly.
        audience: Required in `aud`.
        clock_skew_seconds: Tolerance for the issuer's clock.
        accept_id_tokens: Accept ID tokens, too, for providers with indistinguishable
            access tokens.
    """

    def __init__(
        self,
        keys: SigningKeys,
        *,
        issuer: str,
        audience: str,
        clock_skew_seconds: float = 60,
        accept_id_tokens: bool = False,
    ) -> None:
        self.keys = keys
        self._issuer = issuer
        self._audience = audience
        self._skew_seconds = clock_skew_seconds
        self._accept_id_tokens = accept_id_tokens
        self._cache: OrderedDict[bytes, _CachedToken] = OrderedDict()

    name: ClassVar[str] = "access token"
    kinds: ClassVar[frozenset[str]] = frozenset({"bearer", "at+jwt", "jwt"})
    """Accepted values of Keycloak's `typ` claim; others are ID, Refresh and Logout."""

    bindings: ClassVar[frozenset[str]] = frozenset({"jkt"})
    """Accepted members of `cnf`; who validates a token checks them."""

    def needs_keys(self, token: str, *, is_refuted: bool = False) -> bool:
        """Whether `load_keys` must precede `validate`.

        Args:
            token: The token.
            is_refuted: Whether `validate` has raised `WrongSignatureError`.

        Raises:
            InvalidTokenError: No key could make the token valid.
        """
        return self.keys.is_due(self._find_key_name(token), is_refuted=is_refuted)

    def load_first_keys(self) -> None:
        """Load keys before the first token; a failure is only logged. Blocking."""
        self.keys.load("")

    def load_keys(self, token: str, *, is_refuted: bool = False) -> None:
        """Load the issuer's keys. Blocking.

        Raises:
            InvalidTokenError: No key could make the token valid.
        """
        self.keys.load(self._find_key_name(token), is_refuted=is_refuted)

    def validate(self, token: str) -> Claims:
        """Claims of a valid token. Makes no request.

        Raises:
            InvalidTokenError: The token is not valid.
            WrongSignatureError: Its key does not fit.
            KeysUnavailableError: The keys are unavailable at the moment.
        """
        key = self.keys.find(name := self._find_key_name(token))
        if key is None:
            raise InvalidTokenError("The issuer has no key of the token's name (kid)")
        digest = _digest(token)
        known = self._cache.get(digest)
        # Keys that were loaded again are other objects: a withdrawn one counts at once.
        if known and known.key is key and time.time() < known.expires_at:
            return known.claims
        claims = self._decode(token, key)
        self._check_kind(claims)
        _check_subject(claims)
        self._remember(digest, _CachedToken(claims, name, key, int(claims["exp"])))
        return claims

    def load_and_validate(self, token: str) -> Claims:
        """Load the keys if they are due, and validate. Blocking.

        Raises:
            InvalidTokenError: The token is not valid.
            KeysUnavailableError: The keys are unavailable at the moment.
        """
        self.load_keys(token)
        try:
            return self.validate(token)
        except WrongSignatureError:
            self.load_keys(token, is_refuted=True)
        return self.validate(token)

    def _find_key_name(self, token: str) -> str:
        known = self._cache.get(_digest(token))
        return known.key_name if known else parse_key_name(token)

    def _remember(self, digest: bytes, known: _CachedToken) -> None:
        self._cache[digest] = known
        while len(self._cache) > _MAX_CACHED_TOKENS:
            self._cache.popitem(last=False)

    def _decode(self, token: str, key: SigningKey) -> dict[str, Any]:
        import jwt

        try:
            return jwt.decode(
                token,
                key.public,
                algorithms=key.algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._skew_seconds,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.InvalidSignatureError as error:
            raise WrongSignatureError(self._explain(error)) from None
        except jwt.PyJWTError as error:
            raise InvalidTokenError(self._explain(error)) from None

    def _explain(self, error: "jwt.PyJWTError") -> str:
        """Reason of a rejection, without any text of the token."""
        import jwt

        if isinstance(error, jwt.MissingRequiredClaimError):
            return f"The token has no {error.claim}; it must have exp, iss, aud and sub"
        reasons: dict[type[jwt.PyJWTError], str] = {
            jwt.ExpiredSignatureError: "The token has expired",
            jwt.ImmatureSignatureError: "The token is not valid yet (nbf or iat)",
            jwt.InvalidAudienceError: "The token is not for this server: its aud must "
            f"have {self._audience}",
            jwt.InvalidIssuerError: f"The token is not of the issuer {self._issuer}",
            jwt.InvalidSignatureError: "The signature of the token is wrong",
            jwt.InvalidAlgorithmError: "The token is signed with another algorithm "
            "than its key is for",
            jwt.InvalidKeyError: "The key of the token is too short",
        }
        return reasons.get(type(error), "The token cannot be read")

    def _check_kind(self, claims: Claims) -> None:
        """Reject tokens for other uses."""
        bound = claims.get("cnf")
        if "cnf" in claims and not (isinstance(bound, dict) and bound.keys() == self.bindings):
            raise InvalidTokenError(
                "The token is bound to its client (cnf) in a way that this server cannot "
                "check: use DPoP (jkt), or a bearer token"
            )
        if "typ" in claims and str(claims["typ"]).lower() not in self.kinds:
            raise InvalidTokenError(f"The token is no {self.name} (typ)")
        found = [name for name in _ID_TOKEN_CLAIMS if name in claims]
        if found and not self._accept_id_tokens:
            raise InvalidTokenError(
                f"The token looks like an ID token ({', '.join(found)}): use the "
                "access token. Operators: http.auth.accept_id_tokens allows it"
            )


def _check_subject(claims: Claims) -> None:
    if not is_display_name(claims["sub"]):
        raise InvalidTokenError(
            "The sub of the token is no name: it must be one line of 1 to "
            f"{MAX_NAME_CHARACTERS} characters"
        )


def parse_key_name(token: str) -> str:
    """Key id (`kid`) of a token.

    Headers with other keys (`jku`, `x5u`, `jwk`) are ignored.

    Raises:
        InvalidTokenError: No key could make the token valid.
    """
    if len(token) > MAX_CHARACTERS:
        raise InvalidTokenError(f"The token is longer than {MAX_CHARACTERS} characters")
    header = _parse_header(token)
    if header.get("alg") not in ALGORITHMS:
        raise InvalidTokenError("The token is not signed with a permitted algorithm")
    if "crit" in header or header.get("b64", True) is not True:
        raise InvalidTokenError("The token has critical headers (crit)")
    if str(header.get("typ") or "").lower() not in _TYPES:
        raise InvalidTokenError("The token is no access token (typ)")
    if not isinstance(name := header.get("kid"), str):
        raise InvalidTokenError("The token does not name its key (kid)")
    return name


def _parse_header(token: str) -> Mapping[str, Any]:
    """JOSE header alone; PyJWT, stricter, would parse the rest first."""
    encoded = token.partition(".")[0].encode("ascii", "replace")
    try:
        header = json.loads(base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise InvalidTokenError("The token is no JWT that can be read")
    return header


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()


MAX_PROOF_SECONDS = 60
"""Age of a proof, besides the difference of the clocks."""

_MAX_PROOF_CHARACTERS = 8_192  # a key of 16,384 bits takes 2,800
_MAX_PROOFS = 65_536  # some 10 MB; in a flood, the oldest is forgotten first
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_THUMBPRINT = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}


class ProofValidator:
    """Validates proofs that a client holds the key of its token (DPoP, RFC 9449)."""

    def __init__(self, clock_skew_seconds: float) -> None:
        self._skew_seconds = clock_skew_seconds
        self._used: OrderedDict[bytes, float] = OrderedDict()
        """When each proof may be forgotten."""

    def validate(self, proof: str, token: str, thumbprint: object, method: str, url: str) -> None:
        """Validate the proof of one request with a token and its `jkt` (RFC 7638).

        Raises:
            InvalidProofError: The proof is not valid, or was used before.
        """
        header = _parse_header(proof) if len(proof) <= _MAX_PROOF_CHARACTERS else {}
        key = header.get("jwk")
        if header.get("typ") != "dpop+jwt" or not isinstance(key, dict) or _PRIVATE & key.keys():
            raise InvalidProofError("The proof is no dpop+jwt with a public key (jwk)")
        if not thumbprint or derive_thumbprint(key) != thumbprint:
            raise InvalidProofError("The proof is of another key than the token is for (jkt)")
        claims = self._decode(proof, header)
        if claims["htm"] != method or _normalize_url(claims["htu"]) != _normalize_url(url):
            raise InvalidProofError(f"The proof is not for {method} {url} (htm, htu)")
        if claims["ath"] != _encode_base64(_digest(token)):
            raise InvalidProofError("The proof is not for this token (ath)")
        self._remember(_digest(f"{thumbprint} {claims['jti']}"))

    def _decode(self, proof: str, header: Mapping[str, Any]) -> Claims:
        import jwt

        try:
            if header.get("alg") not in ALGORITHMS:
                raise jwt.InvalidAlgorithmError
            claims: Claims = jwt.decode(
                proof,
                jwt.PyJWK(header["jwk"], header["alg"]).key,
                algorithms=[header["alg"]],
                leeway=self._skew_seconds,
                options={
                    "require": ["htm", "htu", "iat", "jti", "ath"],
                    "enforce_minimum_key_length": True,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            raise InvalidProofError("The proof cannot be verified (DPoP)") from None
        if time.time() - claims["iat"] > MAX_PROOF_SECONDS + self._skew_seconds:
            raise InvalidProofError("The proof is too old (iat): make one for each request")
        return claims

    def _remember(self, digest: bytes) -> None:
        now = time.time()
        while self._used and next(iter(self._used.values())) < now:
            self._used.popitem(last=False)
        if digest in self._used:
            raise InvalidProofError("The proof was used before (jti): make one for each request")
        self._used[digest] = now + MAX_PROOF_SECONDS + 2 * self._skew_seconds
        while len(self._used) > _MAX_PROOFS:
            self._used.popitem(last=False)


def derive_thumbprint(key: Mapping[str, Any]) -> str:
    """Thumbprint of a public key (RFC 7638); empty for one that has none.

    >>> x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    >>> derive_thumbprint({"kty": "OKP", "crv": "Ed25519", "x": x})
    'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'
    """
    names = _THUMBPRINT.get(str(key.get("kty")), ())
    if not names or not all(isinstance(key.get(name), str) for name in names):
        return ""
    text = json.dumps({name: key[name] for name in names}, sort_keys=True, separators=(",", ":"))
    return _encode_base64(_digest(text))


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _normalize_url(url: object) -> tuple[str, str, int | None, str] | None:
    """Scheme, host, port and path; a query is not compared."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname or "", port, parts.path.rstrip("/")


def parse_scopes(
    claims: Claims, names: Iterable[str], *, prefix: str = ""
) -> frozenset[str] | None:
    """Scopes in the named claims, without the provider's prefix.

    None without such a claim.

    A claim is a space-separated text or a list.
    """
    found = [claims[name] for name in names if name in claims]
    if not found:
        return None
    words = [word for value in found for word in _words(value)]
    return frozenset(word.removeprefix(prefix) for word in words)


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    words = value if isinstance(value, list) else []
    return [word for word in words if isinstance(word, str)]
