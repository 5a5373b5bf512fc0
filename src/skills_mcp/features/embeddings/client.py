"""The provider of vectors, what it is asked, and what its replies must be.

The only HTTP of embeddings. The API is that of OpenAI, which all supported providers
have. NumPy and httpx are imported by the first request, and not with this module.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from skills_mcp.config import Embedding
from skills_mcp.errors import ConfigError
from skills_mcp.processes.retry import parse_retry_after

if TYPE_CHECKING:  # imported late: the first answer may not wait for them
    import httpx
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""The direction of a meaning; its length is 1."""
Matrix: TypeAlias = "NDArray[np.float32]"
"""A vector in each row."""

_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
}
_MODELS = {"openai": "text-embedding-3-small", "gemini": "gemini-embedding-001"}

# What a header can hold; the message of a library would show any other key.
_KEY = re.compile(r"[!-~]+")

MAX_DIMENSIONS = 8_192  # twice the longest that is known, 4,096

# A number takes up to 25 characters with its comma; the rest is for the JSON around it.
_BYTES_PER_NUMBER = 32
_BYTES_AROUND = 65_536

_NOT_AS_AGREED = (
    *(ValueError, TypeError, KeyError, AttributeError),
    *(OverflowError, RecursionError),
)
"""What parsing raises if a reply has another form."""

_OK = 200
_REDIRECTS = range(300, 400)
_FORBIDDEN = frozenset({401, 403})
_SERVER_ERRORS = range(500, 600)
_TOO_EARLY = frozenset({408, 425, 429})

_MAX_SHOWN = 200
"""How many characters of the message of a refusal are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where texts are sent, and what vectors need in common to be compared."""

    address: str
    """Without `/embeddings` and without a slash at the end."""
    model: str
    dimensions: int
    """How long a vector has to be; 0 leaves it to the model."""
    key: str = field(default="", repr=False)
    """Empty if none is needed.  It is in no file, log, error or URL."""
    key_name: str = ""
    """The environment variable that the key came from."""

    def space(self) -> str:
        """Return the name of the space in which vectors can be compared."""
        parts = (self.address, self.model, str(self.dimensions))
        return sha256("\0".join(parts).encode()).hexdigest()[:16]

    def digest(self, text: str) -> bytes:
        """Return the name of the vector of a text: 32 bytes, the same everywhere."""
        return sha256(f"{self.space()}\0{text}".encode()).digest()

    def find_fault(self) -> str:
        """Return what is wrong with the key; empty if nothing is."""
        if not self.key_name:
            return ""
        if not self.key:
            return f"The variable {self.key_name} is not set."
        is_fit = _KEY.fullmatch(self.key) is not None
        return "" if is_fit else f"The value of {self.key_name} cannot be a key."


def derive_provider(rules: Embedding, environment: Mapping[str, str]) -> Provider:
    """Return the provider of a configuration that is not `none`.

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
            "embedding.model: the provider openai-compatible needs the name of a model "
            "that it has"
        )
    name, key = _find_key(rules, environment)
    return Provider(
        address=address.rstrip("/"),
        model=model,
        dimensions=rules.dimensions,
        key=key.strip(),
        key_name=name,
    )


def _find_key(rules: Embedding, environment: Mapping[str, str]) -> tuple[str, str]:
    if name := rules.api_key_env:
        return name, environment.get(name, "")
    if rules.provider == "openai":
        return "OPENAI_API_KEY", environment.get("OPENAI_API_KEY", "")
    if rules.provider == "gemini":
        return "GEMINI_API_KEY", environment.get("GEMINI_API_KEY", "")
    return "", ""


class EmbeddingError(Exception):
    """There are no vectors.  Never leaves this package: words decide instead.

    Args:
        message: What to do, without any secret.
        is_passing: Whether the same request may succeed later.
        retry_after_seconds: When the provider wants to be asked again; None if it does
            not say.
    """

    def __init__(
        self,
        message: str,
        *,
        is_passing: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        self.retry_after_seconds = retry_after_seconds


class Client:
    """A connection to one provider; safe to use from several threads."""

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
            EmbeddingError: There are no vectors, or they cannot be used.
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
                    message = f"no HTTP client can be made ({kind})"
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
            # The message of the provider may show parts of the key.
            return EmbeddingError(
                f"{self._host()} answers {status}: check the key in {named}"
            )
        if status in _REDIRECTS:
            return EmbeddingError(
                f"{self._host()} answers {status}, a redirect, which is not followed: "
                "correct embedding.base_url"
            )
        said = self._without_key(_parse_error_message(body))
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


def make_sendable(text: str) -> str:
    """Return a text without lone surrogates, which JSON parsers may refuse."""
    return text.encode("utf-8", "replace").decode().strip()


def derive_max_bytes(count: int) -> int:
    """Return how many bytes the reply to a request for `count` vectors may have."""
    return _BYTES_AROUND + count * MAX_DIMENSIONS * _BYTES_PER_NUMBER


def parse_vectors(body: bytes, *, count: int, dimensions: int) -> Matrix:
    """Return the vectors of a reply, in the order of the request, each of length 1.

    Args:
        body: JSON as OpenAI's API answers.
        count: How many texts were sent.
        dimensions: How many numbers each vector must have; 0 for any.

    Raises:
        EmbeddingError: The reply is anything else.
    """
    import numpy as np

    try:
        rows = _rows(json.loads(body, parse_constant=_refuse), count)
        return _normalise(np.array(rows, np.float64), dimensions)
    except _NOT_AS_AGREED as error:
        reason = str(error) if isinstance(error, _NoVectorsError) else "no vectors"
        raise EmbeddingError(f"the reply cannot be used: {reason}") from None


def _read(answer: "httpx.Response", max_bytes: int, timeout_seconds: float) -> bytes:
    """Read a reply, if it is neither too long nor too slow."""
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
    """Return the message of an error reply; empty if there is none."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return ""
    return " ".join(message.split())[:_MAX_SHOWN] if isinstance(message, str) else ""


class _NoVectorsError(ValueError):
    """Says what is wrong without a word of the reply."""


def _refuse(constant: str) -> None:
    raise _NoVectorsError(f"it holds {constant}")


def _rows(reply: Any, count: int) -> list[list[float]]:
    items = reply["data"]
    if not isinstance(items, list) or len(items) != count:
        raise _NoVectorsError(f"it does not hold {count} vectors")
    ordered: dict[int, list[float]] = {}
    for place, item in enumerate(items):
        # Not every server numbers them; then the order is that of the request.
        ordered[item.get("index", place)] = item["embedding"]
    if ordered.keys() != set(range(count)):
        raise _NoVectorsError("the numbers of its vectors are wrong")
    rows = [ordered[number] for number in range(count)]
    if not all(map(_is_vector, rows)) or len(set(map(len, rows))) > 1:
        raise _NoVectorsError("its vectors are no lists of numbers of one length")
    return rows


def _is_vector(row: object) -> bool:
    return isinstance(row, list) and _are_numbers(row)


def _are_numbers(row: Iterable[object]) -> bool:
    return {type(number) for number in row} <= {int, float}  # a bool is an int


def _normalise(matrix: "NDArray[np.float64]", dimensions: int) -> Matrix:
    import numpy as np

    length = matrix.shape[1]
    if not 0 < length <= MAX_DIMENSIONS or (dimensions and length != dimensions):
        wanted = dimensions or f"1 to {MAX_DIMENSIONS}"
        raise _NoVectorsError(f"its vectors have {length} dimensions, not {wanted}")
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all() or not largest.all():
        raise _NoVectorsError("one of its vectors has no direction")
    matrix = matrix / largest  # so that no square is too large or too small
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix.astype(np.float32)
