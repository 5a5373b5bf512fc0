import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.embeddings.reply import EmbeddingError, parse_vectors


def reply(*vectors: Any) -> bytes:
    return json.dumps({"data": [{"embedding": v} for v in vectors]}).encode()


def test_vectors_are_returned_with_a_length_of_one() -> None:
    matrix = parse_vectors(reply([3, 4.0], [0, -2]), count=2, dimensions=0)

    assert matrix.dtype == np.float32
    assert np.allclose(matrix, np.array([[0.6, 0.8], [0, -1]]))


def test_the_numbers_of_the_vectors_decide_their_order() -> None:
    data = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]

    matrix = parse_vectors(json.dumps({"data": data}).encode(), count=2, dimensions=2)

    assert matrix.tolist() == [[1, 0], [0, 1]]


def test_numbers_of_any_size_have_a_direction() -> None:
    matrix = parse_vectors(reply([1e300, 0], [0, 1e-300]), count=2, dimensions=0)

    assert matrix.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "body, reason",
    [
        (b"", "no vectors"),
        (b"[]", "no vectors"),
        (b"{}", "no vectors"),
        (b"\xff", "no vectors"),
        (b"[" * 100_000, "no vectors"),
        (b'{"data": [1, 2]}', "no vectors"),
        (reply([1, 2]), "it does not hold 2 vectors"),
        (reply([1], [1], [1]), "it does not hold 2 vectors"),
        (b'{"data": [{"index": 5, "embedding": [1]}, {"embedding": [1]}]}', "wrong"),
        (reply([1, 2], [1]), "of one length"),
        (reply([1, 2], ["1", "2"]), "of one length"),
        (reply([1, 2], [True, False]), "of one length"),
        (reply([1, 2], [None, 2]), "of one length"),
        (reply([1, 2], "ab"), "of one length"),
        (reply([1, 2], [[1], [2]]), "of one length"),
        (reply([1, 2], [float("nan"), 2]), "it holds NaN"),
        (reply([1, 2], [float("inf"), 2]), "it holds Infinity"),
        (b'{"data": [{"embedding": [1]}, {"embedding": [1e999]}]}', "no direction"),
        (reply([1], [10**400]), "no vectors"),
        (reply([1, 2], [0, 0]), "no direction"),
        (reply([], []), "0 dimensions"),
        (reply([1] * 9_000, [1] * 9_000), "9000 dimensions"),
    ],
)
def test_a_reply_that_is_anything_else_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(EmbeddingError, match="cannot be used") as caught:
        parse_vectors(body, count=2, dimensions=0)

    assert reason in str(caught.value)


def test_vectors_of_another_length_than_the_operator_asked_for_are_refused() -> None:
    with pytest.raises(EmbeddingError, match="have 2 dimensions, not 3"):
        parse_vectors(reply([1, 2]), count=1, dimensions=3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "embedding", "index"]), inner)
    ),
    max_leaves=12,
)


@given(data=JSON)
def test_whatever_json_there_is_it_is_vectors_or_an_error(data: object) -> None:
    try:
        matrix = parse_vectors(
            json.dumps({"data": data}).encode(), count=1, dimensions=0
        )
    except EmbeddingError:
        return
    assert abs(float(np.linalg.norm(matrix)) - 1) < 1e-6
