"""What was counted arrives, in bounds, and says no more than the operator wants."""

from pathlib import Path

import pytest

from soak.events.counting import bound_an_outage, deliver_everything
from soak.events.deadends import (
    count_beside_a_dead_endpoint,
    end_beside_a_dead_endpoint,
    pass_poison,
)
from soak.events.discretion import keep_canaries
from tests.faults.promises import find_missed


@pytest.mark.spec("10.4")
def test_no_event_is_lost_whoever_fails_and_whoever_is_killed(tmp_path: Path) -> None:
    missed = find_missed(deliver_everything, tmp_path)

    assert missed == []


def test_what_nobody_takes_is_bounded_and_counted(tmp_path: Path) -> None:
    missed = find_missed(bound_an_outage, tmp_path)

    assert missed == []


def test_what_is_bad_keeps_nothing_good_back(tmp_path: Path) -> None:
    missed = find_missed(pass_poison, tmp_path)

    assert missed == []


@pytest.mark.spec("10.1")
def test_to_count_does_not_wait_for_a_receiver(tmp_path: Path) -> None:
    missed = find_missed(count_beside_a_dead_endpoint, tmp_path)

    assert missed == []


@pytest.mark.spec("3.3")
def test_the_end_does_not_wait_for_a_receiver(tmp_path: Path) -> None:
    missed = find_missed(end_beside_a_dead_endpoint, tmp_path)

    assert missed == []


def test_what_people_write_stays_where_it_was_written(tmp_path: Path) -> None:
    missed = find_missed(keep_canaries, tmp_path)

    assert missed == []
