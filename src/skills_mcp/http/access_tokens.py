"""Tokens of the organisation's identity provider: what they say, or why not.

Rule: a token is only ever validated. None is issued, stored, logged or passed on, and
no URL that a token names is opened.
"""

import base64
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from skills_mcp.http.signing_keys import SigningKeys
from skills_mcp.skills.principal import MAX_NAME_CHARACTERS, is_name

if TYPE_CHECKING:  # imported late: the first answer may not wait for it
    import jwt

Claims: TypeAlias = Mapping[str, Any]
"""What a valid token says about its bearer."""

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures by a private key. Never `none`, and none by a secret that is shared."""

MAX_CHARACTERS = 16_384
"""How long a token may be: those with hundreds of groups have about 10,000."""

# RFC 9068 for the first two; most providers write JWT or nothing.
_TYPES = frozenset({"at+jwt", "application/at+jwt", "jwt", ""})

# OpenID Connect Core 1.0, section 2: claims that ID tokens have.
_ID_TOKEN_CLAIMS = ("at_hash", "c_hash", "s_hash", "nonce")


_MAX_REMEMBERED = 1_024
"""How many valid tokens are known again.

That takes 0.003 ms; validating one of 1,500 characters takes 0.2, a tenth of a request.
"""


class InvalidTokenError(Exception):
    """A token is refused; the message says why, without any part of it."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What was found out about a token. The token itself is not kept."""

    claims: Claims
    key_name: str
    key: "jwt.PyJWK"
    expires_at: int


class TokenValidator:
    """Says whose access token it is.

    Only its loading may run beside its other methods, in a thread of its own.

    Args:
        keys: Those of the issuer.
        issuer: Must be the claim `iss`, exactly.
        audience: Must be the claim `aud`, or one of it.
        clock_skew_seconds: By how many seconds the clock of the issuer may differ.
        accept_id_tokens: Whether ID tokens pass, too, for providers whose access
            tokens look like them.
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
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._skew_seconds = clock_skew_seconds
        self._accept_id_tokens = accept_id_tokens
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    name: ClassVar[str] = "access token"
    kinds: ClassVar[frozenset[str]] = frozenset({"bearer", "at+jwt", "jwt"})
    """What the claim `typ` of Keycloak may be; others are ID, Refresh and Logout."""

    @property
    def has_keys(self) -> bool:
        """Whether there are tokens that can be validated without a request."""
        return self._keys.are_known

    def needs_keys(self, token: str) -> bool:
        """Whether `load_keys` has to be called before `validate`.

        Raises:
            InvalidTokenError: No key could make the token valid.
        """
        return self._keys.is_due(self._find_key_name(token))

    def load_first_keys(self) -> None:
        """Ask the issuer for its keys before any token comes.  Blocking.

        If it does not answer, that is logged, and the next token asks again.
        """
        self._keys.load("")

    def load_keys(self, token: str) -> None:
        """Ask the issuer for its keys.  Blocking.

        Raises:
            InvalidTokenError: No key could make the token valid.
        """
        self._keys.load(self._find_key_name(token))

    def validate(self, token: str) -> Claims:
        """Return what a valid token says.  Makes no request.

        Raises:
            InvalidTokenError: The token is not valid.
            KeysUnavailableError: That cannot be told at the moment.
        """
        key = self._keys.find(name := self._find_key_name(token))
        if key is None:
            raise InvalidTokenError("The issuer has no key of the token's name (kid)")
        digest = _digest(token)
        known = self._remembered.get(digest)
        # Keys that were loaded again are other objects: a withdrawn one counts at once.
        if known and known.key is key and time.time() < known.expires_at:
            return known.claims
        claims = self._decode(token, key)
        self._check_kind(claims)
        _check_subject(claims)
        self._remember(digest, _Remembered(claims, name, key, int(claims["exp"])))
        return claims

    def _find_key_name(self, token: str) -> str:
        known = self._remembered.get(_digest(token))
        return known.key_name if known else parse_key_name(token)

    def _remember(self, digest: bytes, known: _Remembered) -> None:
        self._remembered[digest] = known
        while len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)

    def _decode(self, token: str, key: "jwt.PyJWK") -> dict[str, Any]:
        import jwt

        try:
            return jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._skew_seconds,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.PyJWTError as error:
            raise InvalidTokenError(self._explain(error)) from None

    def _explain(self, error: "jwt.PyJWTError") -> str:
        """Return why a token is not valid; never a text that came with the token."""
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
        """Refuse tokens of the issuer that are for other uses.

        Raises:
            InvalidTokenError: It is one.
        """
        if "cnf" in claims:
            raise InvalidTokenError(
                "The token is bound to a key of its client (cnf), which this server "
                "cannot check: use a bearer token"
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
    """Refuse a token whose bearer has no name that can be compared and shown.

    Raises:
        InvalidTokenError: It is one.
    """
    if not is_name(claims["sub"]):
        raise InvalidTokenError(
            "The sub of the token is no name: it must be one line of 1 to "
            f"{MAX_NAME_CHARACTERS} characters"
        )


def parse_key_name(token: str) -> str:
    """Return the name of the key that has signed a token (`kid`).

    Headers that name another key (`jku`, `x5u`, `jwk`) are not looked at.

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
    """Return the header alone; PyJWT, which is stricter, reads the rest first.

    Raises:
        InvalidTokenError: There is none.
    """
    encoded = token.partition(".")[0].encode("ascii", "replace")
    try:
        header = json.loads(
            base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
        )
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise InvalidTokenError("The token is no JWT that can be read")
    return header


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()


def parse_scopes(
    claims: Claims, names: Iterable[str], *, prefix: str = ""
) -> frozenset[str] | None:
    """Return the scopes of a token; None if it has none of the claims.

    Args:
        claims: What the token says.
        names: The claims that may hold scopes: a text with spaces, or a list.
        prefix: What the provider may put in front of each.
    """
    given = [claims[name] for name in names if name in claims]
    if not given:
        return None
    words = [word for each in given for word in _words(each)]
    return frozenset(word.removeprefix(prefix) for word in words)


def _words(given: object) -> list[str]:
    if isinstance(given, str):
        return given.split()
    words = given if isinstance(given, list) else []
    return [word for word in words if isinstance(word, str)]
