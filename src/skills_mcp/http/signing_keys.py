"""The keys that an identity provider signs with, found by discovery and kept.

Rule: no token makes this server ask more often, and a provider that is away locks out
no caller whose key is known. PyJWT's own client for keys promises neither: while the
provider is away, it drops known keys when they are due, and asks again for each token.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from skills_mcp.http.provider_metadata import (
    ProviderUnavailableError,
    asking,
    parse_url,
)

if TYPE_CHECKING:  # imported late: the first answer may not wait for it
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
            except ProviderUnavailableError as error:
                self._failure = str(error)
                logger.warning("No keys to check tokens with: %s", error)
            else:
                self._loaded_at, self._failure = self._now(), ""
            self._tried_at = self._now()


def _load_keys(issuer: str) -> "Mapping[str, PyJWK]":
    """Load the keys that sign, by their names.

    Raises:
        ProviderUnavailableError: The provider is away, or its documents are not usable.
    """
    with asking(issuer) as documents:
        metadata, found_at = documents.read_metadata()
        address = parse_url(metadata, "jwks_uri", issuer, found_at)
        return parse_keys(documents.read(address), address)


def parse_keys(document: Any, address: str) -> "Mapping[str, PyJWK]":
    """Return the keys of a set that may have signed a token, by their names.

    Keys without a name, for encryption, or with a secret (`oct`) are left out.

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
