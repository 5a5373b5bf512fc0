"""The keys that an identity provider signs with, found by discovery and kept.

Rule: no token makes this server ask more often, and a provider that is away locks out
no caller whose key is known. PyJWT's own client for keys promises neither: while the
provider is away, it drops known keys when they are due, and asks again for each token.
"""

import ipaddress
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:  # imported late: the first answer may not wait for them
    import httpx
    from jwt import PyJWK

logger = logging.getLogger(__name__)

FRESH_SECONDS = 300.0
"""How long keys are used before they are asked for again: a withdrawn key is refused
after as long at the latest."""

KEPT_SECONDS = 24 * 60 * 60.0
"""How long known keys are used while the provider is away: longer than tokens live."""

PAUSE_SECONDS = 10.0
"""The shortest time between two requests.

Made-up names of keys cause at most six requests a minute, and a token whose key was
published since the last one waits no longer than this.
"""

# For each of at most five documents; a provider answers within a fraction of one.
_TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 1_048_576  # key sets have a few thousand

_OK = 200
_NOT_HERE = frozenset({400, 401, 403, 404, 405, 406, 410})


class KeysUnavailableError(Exception):
    """Whether a token is valid cannot be told at the moment; the message says why."""


class SigningKeys:
    """The keys of one provider; safe to use from several threads.

    Args:
        issuer: The URL of the provider, exactly as its tokens have it.
        now: Seconds of a clock that never goes back.
    """

    def __init__(self, issuer: str, now: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._now = now
        self._keys: Mapping[str, PyJWK] = {}
        self._loaded_at = float("-inf")
        self._tried_at = float("-inf")
        self._failure = ""
        self._guard = Lock()

    @property
    def are_known(self) -> bool:
        """Whether the provider has answered at least once."""
        return bool(self._keys)

    def is_due(self, name: str) -> bool:
        """Whether `load` has to be called before `find` can know about this key."""
        now = self._now()
        if now - self._tried_at < PAUSE_SECONDS:
            return False
        return name not in self._keys or now - self._loaded_at >= FRESH_SECONDS

    def find(self, name: str) -> "PyJWK | None":
        """Return the key of this name; None if the provider has none.

        Raises:
            KeysUnavailableError: The provider has not told, and was asked.
        """
        if self._now() - self._loaded_at < KEPT_SECONDS and name in self._keys:
            return self._keys[name]
        if self._failure:
            raise KeysUnavailableError(self._failure)
        return None

    def load(self, name: str) -> None:
        """Ask the provider for its keys, unless another thread has just done so.

        Blocking.  A failure is logged and kept: `find` tells what follows from it.
        """
        with self._guard:
            if not self.is_due(name):
                return
            try:
                self._keys = _load_keys(self._issuer)
            except KeysUnavailableError as error:
                self._failure = str(error)
                logger.warning("No keys to check tokens with: %s", error)
            else:
                self._loaded_at, self._failure = self._now(), ""
            self._tried_at = self._now()


def _load_keys(issuer: str) -> "Mapping[str, PyJWK]":
    """Load the keys that sign, by their names.

    Raises:
        KeysUnavailableError: The provider is away, or its documents are not usable.
    """
    import httpx

    try:
        with httpx.Client(timeout=_TIMEOUT_SECONDS) as client:
            address = _discover(client, issuer)
            return parse_keys(_read(client, address), address)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise KeysUnavailableError(f"{issuer} cannot be reached: {reason}") from error


def _discover(client: "httpx.Client", issuer: str) -> str:
    """Return the URL of the keys.

    Raises:
        KeysUnavailableError: The provider does not say where they are.
    """
    for address in derive_discovery_urls(issuer):
        document = _read(client, address, is_optional=True)
        if document is not None:
            return parse_metadata(document, issuer, address)
    tried = ", ".join(derive_discovery_urls(issuer))
    raise KeysUnavailableError(
        f"{issuer} says nowhere where its keys are (tried {tried}): correct "
        "http.auth.issuer"
    )


def derive_discovery_urls(issuer: str) -> list[str]:
    """Return where a provider may describe itself, the most common place first.

    OpenID Connect Discovery 1.0, section 4, and RFC 8414, section 3.

    >>> derive_discovery_urls("https://id.example.com")
    ['https://id.example.com/.well-known/openid-configuration', \
'https://id.example.com/.well-known/oauth-authorization-server']
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


def parse_metadata(document: Any, issuer: str, address: str) -> str:
    """Return the URL of the keys that a provider's description names.

    Args:
        document: Parsed JSON.
        issuer: Whose it has to be, exactly.
        address: Where it was found.

    Raises:
        KeysUnavailableError: It is of another provider, or its keys have no safe URL.
    """
    known = document if isinstance(document, Mapping) else {}
    if (named := known.get("issuer")) != issuer:
        raise KeysUnavailableError(
            f"{address} is of the issuer {named!r:.200}, not of {issuer!r}: write it "
            "exactly so into http.auth.issuer, if it is the one that you trust"
        )
    url = known.get("jwks_uri")
    if not isinstance(url, str) or not _is_safe(url, issuer):
        raise KeysUnavailableError(
            f"{address} names no https:// URL of its keys as jwks_uri: {url!r:.200}"
        )
    return url


def _is_safe(url: str, issuer: str) -> bool:
    """Whether keys may come from there: no other machine can answer in between."""
    try:
        parts, own = urlsplit(url), urlsplit(issuer)
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(parts.hostname)
    # An issuer is only on this machine without TLS; then its keys may be, too.
    return parts.scheme == own.scheme == "http" and _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_keys(document: Any, address: str) -> "Mapping[str, PyJWK]":
    """Return the keys of a set that may have signed a token, by their names.

    Keys without a name, for encryption, or with a secret (`oct`) are left out.

    Raises:
        KeysUnavailableError: None is left.
    """
    import jwt

    try:
        found = jwt.PyJWKSet(document["keys"]).keys
    except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
        raise KeysUnavailableError(f"{address} has no keys: {error}") from error
    keys = {name: key for key in found for name in _names(key)}
    if not keys:
        raise KeysUnavailableError(f"{address} has no named keys for signatures")
    return keys


def _names(key: "PyJWK") -> Iterator[str]:
    is_fit = key.public_key_use in {None, "sig"} and key.key_type != "oct"
    if is_fit and isinstance(key.key_id, str):
        yield key.key_id


def _read(client: "httpx.Client", address: str, *, is_optional: bool = False) -> Any:
    """Read JSON; None if it is optional and there is none. Follows no redirect.

    Raises:
        KeysUnavailableError: The answer is another one, too long or too slow.
    """
    ends_at = time.monotonic() + _TIMEOUT_SECONDS
    body = bytearray()
    with client.stream("GET", address) as answer:
        if is_optional and answer.status_code in _NOT_HERE:
            return None
        if answer.status_code != _OK:
            raise KeysUnavailableError(f"{address} answers {answer.status_code}")
        for part in answer.iter_bytes():
            body += part
            if len(body) > _MAX_BYTES or time.monotonic() > ends_at:
                raise KeysUnavailableError(f"{address} answers too much or too slowly")
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise KeysUnavailableError(f"{address} answers no JSON") from error
