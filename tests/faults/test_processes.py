"""Windows that share a cache: they start, refresh and wait for each other."""

from pathlib import Path

import pytest

from soak.sync.orphans import (
    stop_at_every_lock,
    stop_in_mid_fetch,
)
from soak.sync.refreshing import refresh_by_timer, refresh_together, start_together
from tests.faults.promises import find_missed


@pytest.mark.spec("9.1")
def test_servers_that_start_together_clone_once(tmp_path: Path) -> None:
    missed = find_missed(start_together, tmp_path)

    assert missed == []


@pytest.mark.spec("9.5")
def test_six_processes_refresh_together_without_an_error(tmp_path: Path) -> None:
    missed = find_missed(refresh_together, tmp_path)

    assert missed == []


@pytest.mark.spec("9.3")
def test_six_timers_ask_the_remote_as_often_as_one(tmp_path: Path) -> None:
    missed = find_missed(refresh_by_timer, tmp_path)

    assert missed == []


def test_a_writer_that_is_stopped_keeps_nobody_from_serving(tmp_path: Path) -> None:
    missed = find_missed(stop_in_mid_fetch, tmp_path)

    assert missed == []


def test_a_process_that_is_stopped_at_a_lock_stops_no_new_window(
    tmp_path: Path,
) -> None:
    missed = find_missed(stop_at_every_lock, tmp_path)

    assert missed == []
