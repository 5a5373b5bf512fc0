"""Hostile requests over HTTP find no fault of the server."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.http.attacked_server import SETUPS, AttackedServer, attacked
from soak.http.hostile_inputs import ATTACKS
from soak.http.raw_http import RawAnswer, RawRequest, find_fault

_AT_ONCE = 5
"""Requests of one example, so that a few examples are a few hundred requests."""


@pytest.mark.parametrize("setup", SETUPS)
def test_no_hostile_request_finds_a_fault(setup: str, tmp_path: Path) -> None:
    with attacked(tmp_path, SETUPS[setup]) as target:
        for name in ATTACKS:
            hold_against(target, name)

        assert target.answers_well()
        assert target.end() < float("inf")
        assert target.find_leftovers() == []


SECRET = {"a secret": b"hunter2"}


@pytest.mark.parametrize(
    "received,fault",
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhello", ""),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", ""),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", "status 500"),
        (b"HTTP/1.1 501 Not Implemented\r\n\r\n", "status 501"),
        (b"HTTP/1.1 503 \r\n\r\n", "status 503 without Retry-After"),
        (b"HTTP/1.1 503 \r\nretry-after: 3\r\n\r\n", ""),
        (b"HTTP/1.1 507 \r\nRetry-After: 3\r\n\r\n", ""),
        (b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 500 \r\n\r\n", "status 500"),
        (b"HTTP/1.1 200 OK\r\n\r\nit is hunter2", "the answer has a secret"),
        (b"HTTP/1.1 200 OK\r\nX: hunter2\r\n\r\n", "the answer has a secret"),
    ],
)
def test_an_answer_shows_a_fault(received: bytes, fault: str) -> None:
    answer = RawAnswer(received, 0.1, is_silent=False)

    found = find_fault(answer, b"GET / HTTP/1.1\r\n\r\n", SECRET)

    assert found.startswith(fault)
    assert bool(found) is bool(fault)


def test_a_request_without_an_answer_is_a_fault_unless_it_opens_a_stream() -> None:
    silence = RawAnswer(b"", 45.0, is_silent=True)

    assert find_fault(silence, b"GET / HTTP/1.1\r\n\r\n", {}) == "no answer"
    assert find_fault(silence, b"GET /mcp HTTP/1.1\r\n\r\n", {}) == ""


def test_what_is_written_beside_the_folders_of_a_server_is_a_fault(
    tmp_path: Path,
) -> None:
    with attacked(tmp_path, SETUPS["local"]) as target:
        here = target.surroundings
        for owned in (here.home, here.added, here.temporary):
            (owned / "made").mkdir()
        assert target.find_outside() == ""

        (here.top / "outside/made").mkdir()
        assert target.find_outside() == "changed outside: stage/outside/made"
        (here.content / "_root.md").unlink()
        assert target.find_outside() == "changed outside: stage/content/_root.md"


def hold_against(target: AttackedServer, attack: str) -> None:
    several = st.lists(ATTACKS[attack](target.doors), min_size=1, max_size=_AT_ONCE)

    @given(several)
    def holds(requests: list[RawRequest]) -> None:
        for each in requests:
            assert target.try_request(each) == "", target.render(each)

    holds()
