"""Client of an embedding provider: requests and validated replies.

The only HTTP of embeddings. All supported providers have the API of OpenAI. NumPy and
httpx are imported by the first request, and not with this module.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from skills_mcp.config import Embedding
from skills_mcp.errors import ConfigError
from skills_mcp.processes.retry import parse_retry_after
from skills_mcp.text.redaction import redact_registered, register_secret

if TYPE_CHECKING:  # imported late: the first answer may not wait for them
    import httpx
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""A unit vector."""
Matrix: TypeAlias = "NDArray[np.float32]"
"""A unit vector per row."""

_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
}
_MODELS = {"openai": "text-embedding-3-small", "gemini": "gemini-embedding-001"}
_KEY_NAMES = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}

# What a header can hold; the message of a library would show any other key.
_KEY = re.compile(r"[!-~]+")

MAX_DIMENSIONS = 8_192  # twice the longest that is known, 4,096

# A number takes up to 25 characters with its comma; the rest is for the JSON around it.
_BYTES_PER_NUMBER = 32
_BYTES_OF_JSON = 65_536

_MALFORMED_REPLY = (
    *(ValueError, TypeError, KeyError, AttributeError),
    *(OverflowError, RecursionError),
)

_OK = 200
_REDIRECTS = range(300, 400)
_FORBIDDEN = frozenset({401, 403})
_SERVER_ERRORS = range(500, 600)
_RETRYABLE = frozenset({408, 425, 429})

_MAX_MESSAGE_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingProvider:
    """The address and the vector space of a provider."""

    address: str
    """Without `/embeddings` and without a slash at the end."""
    model: str
    dimensions: int
    """Requested length of a vector; 0 leaves it to the model."""
    key: str = field(default="", repr=False)
    """Empty if none is needed.  It is in no file, log, error or URL."""
    key_name: str = ""

    def space(self) -> str:
        """Name the vector space; only vectors of one space are comparable."""
        parts = (self.address, self.model, str(self.dimensions))
        return sha256("\0".join(parts).encode()).hexdigest()[:16]

    def digest(self, text: str) -> bytes:
        """Hash a text to the key of its vector: 32 bytes, the same everywhere."""
        return sha256(f"{self.space()}\0{text}".encode()).digest()

    def find_fault(self) -> str:
        """Check the key; the message is empty if it is usable."""
        if not self.key_name:
            return ""
        if not self.key:
            return f"The variable {self.key_name} is not set."
        is_fit = _KEY.fullmatch(self.key) is not None
        return "" if is_fit else f"The value of {self.key_name} cannot be a key."


def derive_embedding_provider(
    rules: Embedding, environment: Mapping[str, str]
) -> EmbeddingProvider:
    """Derive the provider from a configuration other than `none`.

    Raises:
        ConfigError: An address or a model is missing.
    """
    address = rules.base_url or _ADDRESSES.get(rules.provider, "")
    model = rules.model or _MODELS.get(rules.provider, "")
    if not address:
        raise ConfigError(
            "embedding.base_url: the provider openai-compatible needs the address of "
            "its API, such as http://localhost:11434/v1"
        )
    if not model:
        raise ConfigError(
            "embedding.model: the provider openai-compatible needs the name of a model that it has"
        )
    name = rules.api_key_env or _KEY_NAMES.get(rules.provider, "")
    return EmbeddingProvider(
        address=address.rstrip("/"),
        model=model,
        dimensions=rules.dimensions,
        key=environment.get(name, "").strip(),
        key_name=name,
    )


class EmbeddingError(Exception):
    """No vectors; no secret in the message. Stays in this package: words decide."""

    def __init__(
        self, message: str, *, is_passing: bool = False, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        self.retry_after_seconds = retry_after_seconds


class EmbeddingClient:
    """Connection pool to one provider; thread-safe."""

    def __init__(self, provider: EmbeddingProvider) -> None:
        register_secret(provider.key)
        self._provider = provider
        self._opened: httpx.Client | None = None
        self._guard = Lock()

    def embed(self, texts: Sequence[str], *, timeout_seconds: float) -> Matrix:
        """Embed non-empty texts. Blocking.

        One request, never repeated, and no redirect is followed: the key and the texts
        go to the configured address only. The timeout is for connecting, and again for
        the reply; DNS look-ups are not limited by it.

        Raises:
            EmbeddingError: No vectors, or unusable ones.
        """
        request: dict[str, Any] = {"model": self._provider.model, "input": list(texts)}
        if self._provider.dimensions:
            request["dimensions"] = self._provider.dimensions
        body = self._post(request, limit_reply_bytes(len(texts)), timeout_seconds)
        return parse_vectors(body, count=len(texts), dimensions=self._provider.dimensions)

    def close(self) -> None:
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
                f"{self._host()} cannot be reached: {redact_registered(reason)}", is_passing=True
            ) from None
        if answer.status_code != _OK:
            raise self._to_error(answer, body)
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
                    raise EmbeddingError(f"no HTTP client can be made ({kind})") from None
            return self._opened

    def _headers(self) -> dict[str, str]:
        key = self._provider.key
        signed = {"Authorization": f"Bearer {key}"} if key else {}
        return {"Content-Type": "application/json", **signed}

    def _to_error(self, answer: "httpx.Response", body: bytes) -> EmbeddingError:
        status = answer.status_code
        if status in _FORBIDDEN:
            variable = self._provider.key_name or "embedding.api_key_env"
            # The message of the provider may show parts of the key.
            return EmbeddingError(f"{self._host()} answers {status}: check the key in {variable}")
        if status in _REDIRECTS:
            return EmbeddingError(
                f"{self._host()} answers {status}, a redirect, which is not followed: "
                "correct embedding.base_url"
            )
        message = redact_registered(_parse_error_message(body))
        return EmbeddingError(
            f"{self._host()} answers {status}{message and f': {message}'}",
            is_passing=status in _RETRYABLE or status in _SERVER_ERRORS,
            retry_after_seconds=parse_retry_after(
                answer.headers.get("Retry-After"), datetime.now(UTC)
            ),
        )

    def _host(self) -> str:
        return self._provider.address.partition("://")[2].partition("/")[0]


def remove_surrogates(text: str) -> str:
    """Replace lone surrogates, refused by some JSON parsers."""
    return text.encode("utf-8", "replace").decode().strip()


def limit_reply_bytes(count: int) -> int:
    return _BYTES_OF_JSON + count * MAX_DIMENSIONS * _BYTES_PER_NUMBER


def parse_vectors(body: bytes, *, count: int, dimensions: int) -> Matrix:
    """Parse a reply to unit vectors, in the order of the request; 0 is any dimension.

    Raises:
        EmbeddingError: The reply is anything else.
    """
    import numpy as np

    try:
        rows = _rows(json.loads(body, parse_constant=_refuse_constant), count)
        return _normalise(np.array(rows, np.float64), dimensions)
    except _MALFORMED_REPLY as error:
        reason = str(error) if isinstance(error, _NoVectorsError) else "no vectors"
        raise EmbeddingError(f"the reply cannot be used: {reason}") from None


def _read(answer: "httpx.Response", max_bytes: int, timeout_seconds: float) -> bytes:
    ends_at = time.monotonic() + timeout_seconds
    body = bytearray()
    for part in answer.iter_bytes():
        body += part
        if len(body) > max_bytes:
            raise EmbeddingError(f"the reply is longer than {max_bytes:,} bytes")
        if time.monotonic() > ends_at:
            raise EmbeddingError("the reply comes too slowly", is_passing=True)
    return bytes(body)


def _parse_error_message(body: bytes) -> str:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return ""
    return " ".join(message.split())[:_MAX_MESSAGE_CHARACTERS] if isinstance(message, str) else ""


class _NoVectorsError(ValueError):
    """Describes the fault without a word of the reply."""


def _refuse_constant(constant: str) -> None:
    raise _NoVectorsError(f"it holds {constant}")


def _rows(reply: Any, count: int) -> list[list[float]]:
    items = reply["data"]
    if not isinstance(items, list) or len(items) != count:
        raise _NoVectorsError(f"it does not hold {count} vectors")
    ordered: dict[int, list[float]] = {}
    for position, item in enumerate(items):
        # Not every server numbers them; then the order is that of the request.
        ordered[item.get("index", position)] = item["embedding"]
    if ordered.keys() != set(range(count)):
        raise _NoVectorsError("the numbers of its vectors are wrong")
    rows = [ordered[number] for number in range(count)]
    if not all(map(_is_vector, rows)) or len(set(map(len, rows))) > 1:
        raise _NoVectorsError("its vectors are no lists of numbers of one length")
    return rows


def _is_vector(row: object) -> bool:
    # A bool is an int, and no number here.
    return isinstance(row, list) and {*map(type, row)} <= {int, float}


def _normalise(matrix: "NDArray[np.float64]", dimensions: int) -> Matrix:
    import numpy as np

    length = matrix.shape[1]
    if not 0 < length <= MAX_DIMENSIONS or (dimensions and length != dimensions):
        expected = dimensions or f"1 to {MAX_DIMENSIONS}"
        raise _NoVectorsError(f"its vectors have {length} dimensions, not {expected}")
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all() or not largest.all():
        raise _NoVectorsError("one of its vectors has no direction")
    matrix = matrix / largest  # so that no square is too large or too small
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix.astype(np.float32)
