"""A disk that is full, read-only or damaged: old content stays, and all of it heals."""

from pathlib import Path

from soak.sync.damage import heal_damage, heal_stale_locks
from soak.sync.disk import fill_disk, grow, lose_cache
from soak.sync.random_damage import survive_random_damage
from tests.faults.promises import find_missed


def test_a_full_or_read_only_disk_keeps_the_old_content_and_heals(
    tmp_path: Path,
) -> None:
    missed = find_missed(fill_disk, tmp_path)

    assert missed == []


def test_fetches_that_fail_do_not_fill_the_disk(tmp_path: Path) -> None:
    missed = find_missed(grow, tmp_path)

    assert missed == []


def test_a_cache_that_is_deleted_below_a_server_comes_back(tmp_path: Path) -> None:
    missed = find_missed(lose_cache, tmp_path)

    assert missed == []


def test_every_kind_of_stale_lock_is_taken_away(tmp_path: Path) -> None:
    missed = find_missed(heal_stale_locks, tmp_path)

    assert missed == []


def test_every_kind_of_damage_heals_at_the_next_sync(tmp_path: Path) -> None:
    missed = find_missed(heal_damage, tmp_path)

    assert missed == []


def test_random_damage_to_any_file_of_the_cache_heals(tmp_path: Path) -> None:
    missed = find_missed(survive_random_damage, tmp_path)

    assert missed == []
