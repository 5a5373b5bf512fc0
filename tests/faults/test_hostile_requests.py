"""Hostile requests over HTTP find no fault of the server."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.http.attacked_server import SETUPS, AttackedServer, attacked
from soak.http.hostile_inputs import ATTACKS
from soak.http.raw_http import RawRequest

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


def hold_against(target: AttackedServer, attack: str) -> None:
    several = st.lists(ATTACKS[attack](target.doors), min_size=1, max_size=_AT_ONCE)

    @given(several)
    def holds(requests: list[RawRequest]) -> None:
        for each in requests:
            assert target.try_request(each) == "", target.render(each)

    holds()
