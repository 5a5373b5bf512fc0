"""What an API for embeddings answers, and what of it is to be believed."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""The direction of a meaning; its length is 1."""
Matrix = NDArray[np.float32]
"""A vector in each row."""

MAX_DIMENSIONS = 8_192  # twice the longest that is known, 4,096

# A number takes up to 25 characters with its comma; the rest is for what is around.
_BYTES_PER_NUMBER = 32
_BYTES_AROUND = 65_536


_NOT_AS_AGREED = (
    *(ValueError, TypeError, KeyError, AttributeError),
    *(OverflowError, RecursionError),
)
"""What taking a reply apart raises if it is something else."""


class EmbeddingError(Exception):
    """There are no vectors.  Never leaves this package: the words decide instead.

    Args:
        message: Whose turn it is, without any secret.
        is_passing: Whether the same request may succeed later.
        retry_after_seconds: When the provider asks to come back, if it says so.
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


def derive_max_bytes(count: int) -> int:
    """Return how long the reply to a request for `count` vectors may be."""
    return _BYTES_AROUND + count * MAX_DIMENSIONS * _BYTES_PER_NUMBER


def parse_vectors(body: bytes, *, count: int, dimensions: int) -> Matrix:
    """Return the vectors of a reply, in the order of the request, each of length 1.

    Args:
        body: JSON as OpenAI's API answers.
        count: How many texts were sent.
        dimensions: How many numbers each vector must have; 0 for any.

    Raises:
        EmbeddingError: It is anything else.
    """
    try:
        rows = _rows(json.loads(body, parse_constant=_refuse), count)
        return _normalise(np.array(rows, np.float64), dimensions)
    except _NOT_AS_AGREED as error:
        reason = str(error) if isinstance(error, _NoVectorsError) else "no vectors"
        raise EmbeddingError(f"the reply cannot be used: {reason}") from None


class _NoVectorsError(ValueError):
    """Says what is wrong in words of ours, never in those of the reply."""


def _refuse(constant: str) -> None:
    raise _NoVectorsError(f"it holds {constant}")


def _rows(reply: Any, count: int) -> list[list[float]]:
    items = reply["data"]
    if not isinstance(items, list) or len(items) != count:
        raise _NoVectorsError(f"it does not hold {count} vectors")
    ordered: dict[int, list[float]] = {}
    for place, item in enumerate(items):
        # Not every server numbers them; the order is the request's then.
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


def _normalise(matrix: NDArray[np.float64], dimensions: int) -> Matrix:
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
