"""A server answers at once, whatever its remote, its content or its Git is like."""

from pathlib import Path

import pytest

from soak.sync.startup import (
    answer_while_hanging,
    spare_the_good,
    start_offline,
    start_without_git,
)
from tests.faults.promises import find_missed


@pytest.mark.spec("3.1")
def test_the_first_answer_comes_before_a_hanging_remote_is_asked(
    tmp_path: Path,
) -> None:
    missed = find_missed(answer_while_hanging, tmp_path)

    assert missed == []


def test_a_start_without_a_network_serves_what_is_here(tmp_path: Path) -> None:
    missed = find_missed(start_offline, tmp_path)

    assert missed == []


def test_a_hundred_broken_skills_take_nothing_from_nine_hundred_good_ones(
    tmp_path: Path,
) -> None:
    missed = find_missed(spare_the_good, tmp_path)

    assert missed == []


def test_a_start_without_a_usable_git_says_so(tmp_path: Path) -> None:
    missed = find_missed(start_without_git, tmp_path)

    assert missed == []
