"""A token is nowhere to be seen, goes to one host, and may change at any time."""

from pathlib import Path

import pytest

from soak.sync.secrets import follow_no_redirect, hide_token, rotate_token
from tests.faults.promises import find_missed


@pytest.mark.spec("9.2")
def test_no_way_to_fail_shows_the_token(tmp_path: Path) -> None:
    missed = find_missed(hide_token, tmp_path)

    assert missed == []


@pytest.mark.spec("9.2")
def test_no_redirect_takes_the_token_along(tmp_path: Path) -> None:
    missed = find_missed(follow_no_redirect, tmp_path)

    assert missed == []


def test_a_token_that_is_rotated_needs_no_restart(tmp_path: Path) -> None:
    missed = find_missed(rotate_token, tmp_path)

    assert missed == []
