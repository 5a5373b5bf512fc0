"""Signing keys of an identity provider (JWKS), cached.

No token can raise the request rate, and an unavailable provider locks out no caller
with a known key. PyJWT's own client guarantees neither: during an outage it drops
expired keys, and retries for each token.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from skills_mcp.http.provider_metadata import (
    ProviderUnavailableError,
    connect_to_provider,
    parse_url,
)

if TYPE_CHECKING:  # imported late: the first answer may not wait for it
    from jwt import PyJWK

logger = logging.getLogger(__name__)

FRESH_SECONDS = 300.0
"""Refresh interval of keys: the longest lifetime of a withdrawn key."""

MAX_STALE_SECONDS = 24 * 60 * 60.0
"""Lifetime of cached keys during an outage: longer than tokens live."""

PAUSE_SECONDS = 10.0
"""Minimum interval between two requests.

Invented key ids cause at most six requests a minute. Tokens with a newly published key
wait no longer than this.
"""


class KeysUnavailableError(Exception):
    """Tokens cannot be validated at the moment; the message has the reason."""


class SigningKeys:
    """Key cache of one provider; thread-safe.

    Args:
        issuer: URL of the provider, exactly as in its tokens.
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
        return bool(self._keys)

    def is_due(self, name: str) -> bool:
        """Whether `load` must precede `find` for this key."""
        now = self._now()
        if now - self._tried_at < PAUSE_SECONDS:
            return False
        return name not in self._keys or now - self._loaded_at >= FRESH_SECONDS

    def find(self, name: str) -> "PyJWK | None":
        """Key by id; None if the provider has no such key.

        Raises:
            KeysUnavailableError: The last request to the provider failed.
        """
        if self._now() - self._loaded_at < MAX_STALE_SECONDS and name in self._keys:
            return self._keys[name]
        if self._failure:
            raise KeysUnavailableError(self._failure)
        return None

    def load(self, name: str) -> None:
        """Load keys, unless another thread has just done so. Blocking.

        A failure is logged and stored; `find` raises it.
        """
        with self._guard:
            if not self.is_due(name):
                return
            try:
                self._keys = _load_keys(self._issuer)
            except ProviderUnavailableError as error:
                self._failure = str(error)
                logger.warning("No keys to check tokens with: %s", error)
            else:
                self._loaded_at, self._failure = self._now(), ""
            self._tried_at = self._now()


def _load_keys(issuer: str) -> "Mapping[str, PyJWK]":
    with connect_to_provider(issuer) as documents:
        metadata, found_at = documents.read_metadata()
        address = parse_url(metadata, "jwks_uri", issuer, found_at)
        return parse_keys(documents.read(address), address)


def parse_keys(document: Any, address: str) -> "Mapping[str, PyJWK]":
    """Signing keys of a JWKS document, by id.

    Keys without id, for encryption, or symmetric (`oct`) are skipped.

    Raises:
        ProviderUnavailableError: None is left.
    """
    import jwt

    try:
        found = jwt.PyJWKSet(document["keys"]).keys
    except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
        raise ProviderUnavailableError(f"{address} has no keys: {error}") from error
    keys = {name: key for key in found for name in _names(key)}
    if not keys:
        raise ProviderUnavailableError(f"{address} has no named keys for signatures")
    return keys


def _names(key: "PyJWK") -> Iterator[str]:
    is_fit = key.public_key_use in {None, "sig"} and key.key_type != "oct"
    if is_fit and isinstance(key.key_id, str):
        yield key.key_id
