import json

import pytest

from skills_mcp.analytics.batches import (
    MAX_BATCH_BYTES,
    compose,
    derive_key,
    is_safe,
    split,
)
from skills_mcp.analytics.lines import Line, parse_line


def make(number: int, size: int = 0) -> Line:
    line = parse_line(json.dumps({"n": number, "text": "x" * size}).encode())
    assert line is not None
    return line


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1700])
def test_a_request_has_no_more_than_500_events(count: int) -> None:
    lines = [make(number) for number in range(count)]

    batches = list(split(lines))

    assert [line for batch in batches for line in batch] == lines
    assert all(0 < len(batch) <= 500 for batch in batches)


def test_a_request_is_no_larger_than_receivers_take() -> None:
    lines = [make(number, size=100_000) for number in range(9)]

    batches = list(split(lines))

    assert [line for batch in batches for line in batch] == lines
    assert max(len(compose(batch)) for batch in batches) <= MAX_BATCH_BYTES + 20


def test_an_event_larger_than_that_goes_alone() -> None:
    lines = [make(1), make(2, size=MAX_BATCH_BYTES), make(3)]

    assert [len(batch) for batch in split(lines)] == [1, 1, 1]


@pytest.mark.spec("10.3")
def test_the_body_is_that_of_the_specification() -> None:
    lines = [make(1), make(2)]

    body = json.loads(compose(lines))

    assert body == {"events": [line.event for line in lines]}


def test_the_same_events_have_the_same_key_and_others_another() -> None:
    assert derive_key([make(1), make(2)]) == derive_key([make(1), make(2)])
    assert derive_key([make(1), make(2)]) != derive_key([make(1)])


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://example.com/events",
        "https://example.com:8443/events?project=a",
        "http://localhost:8000/",
        "http://127.0.0.1/events",
        "http://127.255.1.2:80",
        "http://[::1]:8000/events",
    ],
)
def test_an_address_that_is_safe(endpoint: str) -> None:
    assert is_safe(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "http://example.com/events",
        "http://127.0.0.1.example.com/",
        "http://localhost.example.com/",
        "http://localhost@example.com/",
        "http://127.0.0.1@example.com/",
        "http://user:password@localhost/",
        "https://user:password@example.com/",
        "https://token@example.com/",
        "https://example.com/\nX: y",
        "https://example.com/\n",
        "https://",
        "HTTP://EXAMPLE.COM",
        "ftp://localhost/",
        "file:///etc/passwd",
        "//example.com/",
        "localhost:8000",
        "http://0.0.0.0/",
        "http://[::1].example.com/",
        "http://[::ffff:10.0.0.1]/",
    ],
)
def test_an_address_that_is_not(endpoint: str) -> None:
    assert not is_safe(endpoint)
