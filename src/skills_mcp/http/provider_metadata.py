"""Discovery of an identity provider's metadata.

Only the configured issuer names its endpoints and keys. Documents come over TLS, or
from this machine, and must name the issuer exactly.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from skills_mcp.config.values import is_private_url

if TYPE_CHECKING:  # imported late: the first answer may not wait for it
    import httpx

# For each of at most five documents; a provider answers within a fraction of one.
TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 1_048_576  # key sets have a few thousand

_OK = 200
_SERVER_ERROR = 500
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
        if status != _OK:
            raise ProviderUnavailableError(f"{address} answers {status}")
        return _parse(body, address)

    def post(self, address: str, headers: Mapping[str, str], form: str) -> Any:
        """POST a form; the JSON response, even of a client error.

        Raises:
            ProviderUnavailableError: Server error, too large or too slow.
        """
        status, body = self._ask("POST", address, headers=headers, content=form)
        if status >= _SERVER_ERROR:
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
