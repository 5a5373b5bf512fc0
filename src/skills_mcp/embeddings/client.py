"""Asks an API for vectors, in the form of OpenAI.  The only HTTP of embeddings."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from skills_mcp.embeddings.provider import Provider
from skills_mcp.embeddings.reply import (
    EmbeddingError,
    Matrix,
    derive_max_bytes,
    parse_vectors,
)
from skills_mcp.processes.retry import parse_retry_after

if TYPE_CHECKING:  # imported late: nothing is sent before the first answer
    import httpx

_OK = 200
_REDIRECTS = range(300, 400)
_FORBIDDEN = frozenset({401, 403})
_SERVER_ERRORS = range(500, 600)
_TOO_EARLY = frozenset({408, 425, 429})

_MAX_SHOWN = 200
"""Characters of what a provider says about a request that it refuses."""


class Client:
    """Speaks to one provider; safe to use from several threads."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._opened: httpx.Client | None = None
        self._guard = Lock()

    def embed(self, texts: Sequence[str], *, timeout_seconds: float) -> Matrix:
        """Send texts, and return the vector of each.  Blocking.

        One request, never repeated, and no redirect is followed: the key and the
        texts go to the configured address only.

        Args:
            texts: At least one; none of them empty.
            timeout_seconds: For connecting, and again for the reply.  Looking up the
                address of a host is not limited by it.

        Raises:
            EmbeddingError: There are no vectors, or none that can be used.
        """
        request: dict[str, Any] = {"model": self._provider.model, "input": list(texts)}
        if self._provider.dimensions:
            request["dimensions"] = self._provider.dimensions
        body = self._post(request, derive_max_bytes(len(texts)), timeout_seconds)
        return parse_vectors(
            body, count=len(texts), dimensions=self._provider.dimensions
        )

    def close(self) -> None:
        """Close the connections.  Another request opens new ones."""
        with self._guard:
            if self._opened:
                self._opened.close()
            self._opened = None

    def _post(self, request: Any, max_bytes: int, timeout_seconds: float) -> bytes:
        import httpx

        try:
            with self._open().stream(
                "POST",
                f"{self._provider.address}/embeddings",
                content=json.dumps(request),  # ASCII, which carries any text there is
                timeout=timeout_seconds,
            ) as answer:
                body = _read(answer, max_bytes, timeout_seconds)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise EmbeddingError(
                f"{self._host()} cannot be reached: {self._without_key(reason)}",
                is_passing=True,
            ) from None
        if answer.status_code != _OK:
            raise self._refused(answer, body)
        return body

    def _open(self) -> "httpx.Client":
        import httpx

        with self._guard:
            if self._opened is None:
                try:
                    self._opened = httpx.Client(headers=self._headers())
                except (OSError, ValueError, httpx.HTTPError) as error:
                    # Its message may have the password of a proxy in it.
                    kind = type(error).__name__
                    message = f"no client for HTTP can be made ({kind})"
                    raise EmbeddingError(message) from None
            return self._opened

    def _headers(self) -> dict[str, str]:
        key = self._provider.key
        signed = {"Authorization": f"Bearer {key}"} if key else {}
        return {"Content-Type": "application/json", **signed}

    def _refused(self, answer: "httpx.Response", body: bytes) -> EmbeddingError:
        status = answer.status_code
        if status in _FORBIDDEN:
            named = self._provider.key_name or "embedding.api_key_env"
            # What it says may show parts of the key.
            return EmbeddingError(
                f"{self._host()} answers {status}: check the key in {named}"
            )
        if status in _REDIRECTS:
            return EmbeddingError(
                f"{self._host()} answers {status} and points elsewhere, which is not "
                "followed: correct embedding.base_url"
            )
        said = self._without_key(_what_is_said(body))
        return EmbeddingError(
            f"{self._host()} answers {status}{said and f': {said}'}",
            is_passing=status in _TOO_EARLY or status in _SERVER_ERRORS,
            retry_after_seconds=parse_retry_after(
                answer.headers.get("Retry-After"), datetime.now(UTC)
            ),
        )

    def _host(self) -> str:
        return self._provider.address.partition("://")[2].partition("/")[0]

    def _without_key(self, text: str) -> str:
        key = self._provider.key
        return text.replace(key, "***") if key else text


def _read(answer: "httpx.Response", max_bytes: int, timeout_seconds: float) -> bytes:
    """Read a reply that is neither too long nor comes drop by drop."""
    ends_at = time.monotonic() + timeout_seconds
    body = bytearray()
    for part in answer.iter_bytes():
        body += part
        if len(body) > max_bytes:
            raise EmbeddingError(f"the reply is longer than {max_bytes:,} bytes")
        if time.monotonic() > ends_at:
            raise EmbeddingError("the reply comes too slowly", is_passing=True)
    return bytes(body)


def _what_is_said(body: bytes) -> str:
    """Return the message of an error; an empty text where there is none."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return ""
    return " ".join(message.split())[:_MAX_SHOWN] if isinstance(message, str) else ""
