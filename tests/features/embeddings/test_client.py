import json
import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Embedding
from skills_mcp.errors import ConfigError
from skills_mcp.features.embeddings.client import (
    EmbeddingClient,
    EmbeddingError,
    derive_embedding_provider,
    parse_vectors,
)
from tests.features.embeddings.embedding_server import (
    DIMENSIONS,
    KEY,
    Answer,
    EmbeddingServer,
    error_answer,
    provider_for,
    serving,
    vectors_answer,
)


def test_each_provider_has_an_address_a_model_and_a_variable_for_its_key() -> None:
    environment = {"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": "AIza"}

    openai = derive_embedding_provider(Embedding(provider="openai"), environment)
    gemini = derive_embedding_provider(Embedding(provider="gemini"), environment)

    assert openai.address == "https://api.openai.com/v1"
    assert openai.model == "text-embedding-3-small"
    assert openai.key == KEY
    assert gemini.address == "https://generativelanguage.googleapis.com/v1beta/openai"
    assert gemini.model == "gemini-embedding-001"
    assert gemini.key == "AIza"


def test_the_operator_may_name_another_address_model_and_variable() -> None:
    rules = Embedding(
        provider="openai",
        base_url="https://gateway.example/v1/",
        model="other",
        api_key_env="OUR_KEY",
    )

    provider = derive_embedding_provider(rules, {"OUR_KEY": "ours\n", "OPENAI_API_KEY": KEY})

    assert provider.address == "https://gateway.example/v1"
    assert provider.model == "other"
    assert provider.key == "ours"


def test_a_server_of_ones_own_needs_no_key() -> None:
    rules = Embedding(provider="openai-compatible", base_url="http://localhost:1/v1", model="bge")

    provider = derive_embedding_provider(rules, {"OPENAI_API_KEY": KEY})

    assert provider.key == ""
    assert provider.find_fault() == ""


@pytest.mark.parametrize(
    "given, missing",
    [({"model": "bge"}, "base_url"), ({"base_url": "http://x"}, "model")],
)
def test_a_server_of_ones_own_needs_an_address_and_a_model(
    given: dict[str, str], missing: str
) -> None:
    rules = Embedding(provider="openai-compatible", **given)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=f"^embedding.{missing}: "):
        derive_embedding_provider(rules, {})


@pytest.mark.parametrize("key", ["", " ", "sk\nEvil: 1", "sk-ä", "two words"])
def test_what_can_be_no_key_is_named_by_its_variable_and_never_shown(key: str) -> None:
    provider = derive_embedding_provider(Embedding(provider="openai"), {"OPENAI_API_KEY": key})

    assert "OPENAI_API_KEY" in provider.find_fault()
    assert not key.strip() or key not in provider.find_fault()


def test_the_key_is_not_in_what_a_debugger_or_a_log_would_print() -> None:
    provider = derive_embedding_provider(Embedding(provider="openai"), {"OPENAI_API_KEY": KEY})

    assert KEY not in repr(provider)


def test_vectors_of_another_model_address_or_length_have_other_names() -> None:
    every = [
        derive_embedding_provider(Embedding(provider="openai", **more), {})
        for more in (
            {},
            {"model": "other"},
            {"dimensions": 256},
            {"base_url": "http://x"},
        )
    ]

    assert len({provider.digest("text") for provider in every}) == len(every)
    assert len({provider.space() for provider in every}) == len(every)


def ask(client: EmbeddingClient, *texts: str) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        client.embed(texts or ["text"], timeout_seconds=10)
    return caught.value


def test_texts_are_sent_as_openai_has_it(client: EmbeddingClient, server: EmbeddingServer) -> None:
    matrix = client.embed(["a bill", "日本 \N{PILE OF POO}"], timeout_seconds=10)

    [received] = server.received
    assert received.path == "/v1/embeddings"
    assert received.key == f"Bearer {KEY}"
    assert received.body == {
        "model": "text-embedding-3-small",
        "input": ["a bill", "日本 \N{PILE OF POO}"],
    }
    assert matrix.shape == (2, DIMENSIONS)


def test_the_length_of_a_vector_is_sent_if_the_operator_wants_one(
    server: EmbeddingServer,
) -> None:
    client = EmbeddingClient(provider_for(server, dimensions=DIMENSIONS))

    client.embed(["text"], timeout_seconds=10)

    assert server.received[0].body["dimensions"] == DIMENSIONS
    client.close()


def test_a_server_of_ones_own_gets_no_key(server: EmbeddingServer) -> None:
    client = EmbeddingClient(provider_for(server, provider="openai-compatible", model="bge"))

    client.embed(["text"], timeout_seconds=10)

    assert server.received[0].key is None
    client.close()


def test_a_client_that_was_closed_opens_again(
    client: EmbeddingClient, server: EmbeddingServer
) -> None:
    client.embed(["text"], timeout_seconds=10)
    client.close()

    client.embed(["text"], timeout_seconds=10)

    assert len(server.received) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_named_by_its_variable(
    status: int, client: EmbeddingClient, server: EmbeddingServer
) -> None:
    server.told.append(error_answer(status, f"Incorrect API key provided: {KEY}"))

    error = ask(client)

    assert str(error).endswith(f"answers {status}: check the key in OPENAI_API_KEY")
    assert not error.is_passing


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_what_the_provider_says_about_a_wrong_request_is_shown_in_one_short_line(
    status: int, client: EmbeddingClient, server: EmbeddingServer
) -> None:
    said = f"no model\nof that name for {KEY} " + "x" * 500
    server.told.append(error_answer(status, said))

    error = ask(client)

    assert f"answers {status}: no model of that name for ***" in str(error)
    assert len(str(error)) < 300
    assert not error.is_passing


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_be_over_later_is_known_for_it(
    status: int, client: EmbeddingClient, server: EmbeddingServer
) -> None:
    server.told.append(Answer(status, b"<html>"))

    error = ask(client)

    assert error.is_passing
    assert error.retry_after_seconds is None
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "header, seconds",
    [("7", 7), ("0", 0), ("99999999", 3600), ("soon", None), ("-1", None)],
)
def test_a_provider_may_say_when_to_come_back(
    header: str, seconds: float | None, client: EmbeddingClient, server: EmbeddingServer
) -> None:
    server.told.append(error_answer(429, Retry_After=header))

    assert ask(client).retry_after_seconds == seconds


@pytest.mark.parametrize("days, seconds", [(1, 3600), (-1, 0)])
def test_it_may_say_so_with_a_date(
    days: int, seconds: float, client: EmbeddingClient, server: EmbeddingServer
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(days=days), usegmt=True)
    server.told.append(error_answer(429, Retry_After=date))

    assert ask(client).retry_after_seconds == seconds


def test_a_redirect_is_not_followed_with_the_key(
    client: EmbeddingClient, server: EmbeddingServer
) -> None:
    with serving() as elsewhere:
        location = {"Location": f"{elsewhere.url}/embeddings"}
        server.told.append(Answer(307, headers=location))

        error = ask(client)

        assert elsewhere.received == []
    assert "answers 307, a redirect" in str(error)
    assert not error.is_passing


def test_a_server_that_says_nothing_is_given_up(
    client: EmbeddingClient, server: EmbeddingServer
) -> None:
    server.told.append("hang")

    with pytest.raises(EmbeddingError, match="cannot be reached: timed out") as caught:
        client.embed(["text"], timeout_seconds=0.1)

    assert caught.value.is_passing


def test_a_server_that_is_not_there_is_no_fault_of_ours() -> None:
    with serving() as gone:
        provider = provider_for(gone)

    error = ask(EmbeddingClient(provider))

    assert "cannot be reached" in str(error)
    assert error.is_passing


def test_a_reply_that_has_no_end_is_not_read_to_it(
    client: EmbeddingClient, server: EmbeddingServer
) -> None:
    server.told.append(Answer(body=b" " * 400_000))

    assert "longer than" in str(ask(client))


def test_a_reply_of_the_wrong_count_or_without_numbers_is_refused(
    client: EmbeddingClient, server: EmbeddingServer
) -> None:
    server.told.append(vectors_answer([[1.0, 2.0]]))
    server.told.append(vectors_answer([[float("nan"), 2.0]]))

    assert "does not hold 2 vectors" in str(ask(client, "a", "b"))
    assert "it holds NaN" in str(ask(client, "a"))


def test_a_reply_that_comes_drop_by_drop_is_given_up(
    client: EmbeddingClient, server: EmbeddingServer
) -> None:
    server.told.append("drip")

    with pytest.raises(EmbeddingError, match="too slowly") as caught:
        client.embed(["text"], timeout_seconds=0.2)

    assert caught.value.is_passing


def test_the_key_is_in_no_log_not_even_of_the_library(
    client: EmbeddingClient, server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="")
    server.told.extend([error_answer(401, KEY), error_answer(500, KEY)])

    errors = [ask(client), ask(client)]
    matrix = client.embed(["text"], timeout_seconds=10)

    assert KEY not in caplog.text
    assert all(KEY not in str(error) + repr(error) for error in errors)
    assert KEY not in repr(client)
    assert np.isfinite(matrix).all()


def test_a_proxy_that_cannot_be_used_is_told_without_its_password(
    client: EmbeddingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "nonsense://ada:password@proxy")

    assert "password" not in str(ask(client))


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
        matrix = parse_vectors(json.dumps({"data": data}).encode(), count=1, dimensions=0)
    except EmbeddingError:
        return
    assert abs(float(np.linalg.norm(matrix)) - 1) < 1e-6
