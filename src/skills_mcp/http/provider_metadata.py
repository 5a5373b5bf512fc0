"""Metadata of an identity provider, and its signing keys (JWKS), cached.

Only the configured issuer names its endpoints and keys. Documents come over TLS, or
from this machine, and must name the issuer exactly.

No token can raise the request rate, and an unavailable provider locks out no caller
with a known key. PyJWT's own client guarantees neither: during an outage it drops
expired keys, and retries for each token.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from skills_mcp.config.values import is_private_url

if TYPE_CHECKING:  # imported late: the first answer may not wait for it
    import httpx

logger = logging.getLogger(__name__)

# For each of at most five documents; a provider answers within a fraction of one.
TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 1_048_576  # key sets have a few thousand

_NOT_HERE = frozenset({400, 401, 403, 404, 405, 406, 410})


class ProviderUnavailableError(Exception):
    """The provider is unreachable or misconfigured; the message has the reason."""


class ProviderDocuments:
    """HTTP client for documents of a provider. Blocking; no redirects.

    Args:
        issuer: URL of the provider, exactly as in its tokens.
    """

    def __init__(self, issuer: str, client: "httpx.Client") -> None:
        self._issuer = issuer
        self._client = client

    def read_metadata(self) -> tuple[Mapping[str, Any], str]:
        """Metadata of the provider, and its URL.

        Raises:
            ProviderUnavailableError: There is none, or it belongs to another issuer.
        """
        for address in derive_discovery_urls(self._issuer):
            document = self.read(address, is_optional=True)
            if document is not None:
                return _check_metadata(document, self._issuer, address), address
        tried = ", ".join(derive_discovery_urls(self._issuer))
        raise ProviderUnavailableError(
            f"{self._issuer} says nowhere where its keys are (tried {tried}): correct "
            "http.auth.issuer"
        )

    def read(self, address: str, *, is_optional: bool = False, token: str = "") -> Any:
        """GET a JSON document; None if it is optional and absent.

        Args:
            address: URL of the provider.
            is_optional: Whether it may be absent.
            token: Bearer token; empty: none.

        Raises:
            ProviderUnavailableError: Unexpected status, too large or too slow.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        status, body = self._ask("GET", address, headers=headers)
        if is_optional and status in _NOT_HERE:
            return None
        if status != HTTPStatus.OK:
            raise ProviderUnavailableError(f"{address} answers {status}")
        return _parse(body, address)

    def post(self, address: str, headers: Mapping[str, str], form: str) -> Any:
        """POST a form; the JSON response, even of a client error.

        Raises:
            ProviderUnavailableError: Server error, too large or too slow.
        """
        status, body = self._ask("POST", address, headers=headers, content=form)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ProviderUnavailableError(f"{address} answers {status}")
        return _parse(body, address)

    def _ask(self, method: str, address: str, **request: Any) -> tuple[int, bytes]:
        ends_at = time.monotonic() + TIMEOUT_SECONDS
        body = bytearray()
        with self._client.stream(method, address, **request) as answer:
            for part in answer.iter_bytes():
                body += part
                if len(body) > _MAX_BYTES or time.monotonic() > ends_at:
                    raise ProviderUnavailableError(f"{address} answers too much or too slowly")
        return answer.status_code, bytes(body)


@contextmanager
def connect_to_provider(issuer: str) -> Iterator[ProviderDocuments]:
    """Open a connection to a provider.

    Raises:
        ProviderUnavailableError: It cannot be reached.
    """
    import httpx

    try:
        with httpx.Client(timeout=TIMEOUT_SECONDS) as client:
            yield ProviderDocuments(issuer, client)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ProviderUnavailableError(f"{issuer} cannot be reached: {reason}") from error


def derive_discovery_urls(issuer: str) -> list[str]:
    r"""Candidate metadata URLs, the most common first.

    OpenID Connect Discovery 1.0, section 4, and RFC 8414, section 3.

    >>> print(*derive_discovery_urls("https://id.example.com"), sep="\n")
    https://id.example.com/.well-known/openid-configuration
    https://id.example.com/.well-known/oauth-authorization-server
    """
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    openid, oauth = "openid-configuration", "oauth-authorization-server"
    urls = [f"{origin}{path}/.well-known/{openid}"]
    urls += [f"{origin}/.well-known/{oauth}{path}"]
    if path:
        urls += [f"{origin}/.well-known/{openid}{path}"]
        urls += [f"{origin}{path}/.well-known/{oauth}"]
    return urls


def _check_metadata(document: Any, issuer: str, address: str) -> Mapping[str, Any]:
    """Validate the issuer of a metadata document."""
    known: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    if (named := known.get("issuer")) != issuer:
        raise ProviderUnavailableError(
            f"{address} is of the issuer {named!r:.200}, not of {issuer!r}: write it "
            "exactly so into http.auth.issuer, if it is the one that you trust"
        )
    return known


def parse_url(metadata: Mapping[str, Any], name: str, issuer: str, address: str) -> str:
    """URL field of a metadata document.

    Args:
        metadata: The document.
        name: Name of the field.
        issuer: The provider.
        address: URL of the document.

    Raises:
        ProviderUnavailableError: It is missing or unsafe.
    """
    url = metadata.get(name)
    if not isinstance(url, str) or not _is_safe(url, issuer):
        raise ProviderUnavailableError(f"{address} names no https:// URL as {name}: {url!r:.200}")
    return url


def _parse(body: bytes, address: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderUnavailableError(f"{address} answers no JSON") from error


def _is_safe(url: str, issuer: str) -> bool:
    """Protected against machines in the middle: TLS, or loopback."""
    try:
        parts, own = urlsplit(url), urlsplit(issuer)
    except ValueError:
        return False
    # An issuer is only on this machine without TLS; then its pages may be, too.
    is_allowed = parts.scheme in {"https", own.scheme}
    return is_allowed and bool(parts.hostname) and is_private_url(url)


FRESH_SECONDS = 300.0
"""Refresh interval of keys: the longest lifetime of a withdrawn key."""

MAX_STALE_SECONDS = 24 * 60 * 60.0
"""Lifetime of cached keys during an outage: longer than tokens live."""

PAUSE_SECONDS = 10.0
"""Minimum interval between two requests.

Invented key ids and wrong signatures cause at most six requests a minute. Tokens with a
newly published or replaced key wait no longer than this.
"""

_RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

# OpenID Connect Discovery 1.0, section 3: each provider supports it.
_DEFAULT_RSA = "RS256"


class KeysUnavailableError(Exception):
    """Tokens cannot be validated at the moment; the message has the reason."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Public key of a provider."""

    public: Any
    algorithms: tuple[str, ...]
    """What it may have signed with."""


class SigningKeys:
    """Key cache of one provider; thread-safe.

    Args:
        issuer: URL of the provider, exactly as in its tokens.
    """

    def __init__(self, issuer: str, now: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._now = now
        self._keys: Mapping[str, SigningKey] = {}
        self._loaded_at = float("-inf")
        self._tried_at = float("-inf")
        self._failure = ""
        self._guard = Lock()

    @property
    def are_known(self) -> bool:
        return bool(self._keys)

    def is_due(self, name: str, *, is_refuted: bool = False) -> bool:
        """Whether `load` must precede `find` for this key.

        Args:
            name: Its id.
            is_refuted: Whether a signature does not fit: it may have been replaced.
        """
        now = self._now()
        if now - self._tried_at < PAUSE_SECONDS:
            return False
        is_known = name in self._keys and not is_refuted
        return not is_known or now - self._loaded_at >= FRESH_SECONDS

    def find(self, name: str) -> SigningKey | None:
        """Key by id; None if the provider has no such key.

        Raises:
            KeysUnavailableError: The last request to the provider failed.
        """
        if self._now() - self._loaded_at < MAX_STALE_SECONDS and name in self._keys:
            return self._keys[name]
        if self._failure:
            raise KeysUnavailableError(self._failure)
        return None

    def load(self, name: str, *, is_refuted: bool = False) -> None:
        """Load keys, unless another thread has just done so. Blocking.

        A failure is logged and stored; `find` raises it.
        """
        with self._guard:
            if not self.is_due(name, is_refuted=is_refuted):
                return
            try:
                self._keys = _load_keys(self._issuer)
            except ProviderUnavailableError as error:
                self._failure = str(error)
                logger.warning("No keys to check tokens with: %s", error)
            else:
                self._loaded_at, self._failure = self._now(), ""
            self._tried_at = self._now()


def _load_keys(issuer: str) -> Mapping[str, SigningKey]:
    with connect_to_provider(issuer) as documents:
        metadata, found_at = documents.read_metadata()
        address = parse_url(metadata, "jwks_uri", issuer, found_at)
        return parse_keys(documents.read(address), address, _list_rsa_algorithms(metadata))


def _list_rsa_algorithms(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Algorithms of RSA keys without `alg`; no metadata has a list for access tokens."""
    listed = metadata.get("id_token_signing_alg_values_supported")
    if not isinstance(listed, list):
        return _RSA_ALGORITHMS
    return tuple(name for name in _RSA_ALGORITHMS if name == _DEFAULT_RSA or name in listed)


def parse_keys(
    document: Any, address: str, rsa_algorithms: tuple[str, ...] = _RSA_ALGORITHMS
) -> Mapping[str, SigningKey]:
    """Signing keys of a JWKS document, by id.

    Keys without id, for encryption, or symmetric (`oct`) are skipped.

    Raises:
        ProviderUnavailableError: None is left.
    """
    try:
        entries = [entry for entry in document["keys"] if isinstance(entry, dict)]
    except (KeyError, TypeError) as error:
        raise ProviderUnavailableError(f"{address} has no keys: {error}") from error
    found = (_parse_key(entry, rsa_algorithms) for entry in entries if _is_fit(entry))
    keys = {name: key for name, key in found if key}
    if not keys:
        raise ProviderUnavailableError(f"{address} has no named keys for signatures")
    return keys


def _is_fit(entry: Mapping[str, Any]) -> bool:
    is_for_signatures = entry.get("use") in {None, "sig"} and entry.get("kty") != "oct"
    return is_for_signatures and isinstance(entry.get("kid"), str)


def _parse_key(
    entry: dict[str, Any], rsa_algorithms: tuple[str, ...]
) -> tuple[str, SigningKey | None]:
    """Name of a key, and the key; None if it cannot be used."""
    import jwt

    try:
        parsed = jwt.PyJWK(entry)
    except (jwt.PyJWTError, TypeError, ValueError):
        return entry["kid"], None
    is_open = parsed.key_type == "RSA" and not entry.get("alg")
    algorithms = rsa_algorithms if is_open else (parsed.algorithm_name,)
    return entry["kid"], SigningKey(parsed.key, algorithms)
