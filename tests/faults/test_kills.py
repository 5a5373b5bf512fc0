"""A sync that is killed leaves nothing that the next one cannot heal."""

from pathlib import Path

from soak.sync.crashing import kill_at_each_call
from soak.sync.killing import kill_at_random
from soak.sync.orphans import kill_in_mid_fetch
from tests.faults.promises import find_missed


def test_a_sync_that_is_killed_at_any_instant_heals(tmp_path: Path) -> None:
    missed = find_missed(kill_at_random, tmp_path)

    assert missed == []


def test_a_sync_that_is_killed_before_a_call_heals(tmp_path: Path) -> None:
    missed = find_missed(kill_at_each_call, tmp_path)

    assert missed == []


def test_nobody_writes_beside_a_git_whose_server_was_killed(tmp_path: Path) -> None:
    missed = find_missed(kill_in_mid_fetch, tmp_path)

    assert missed == []
