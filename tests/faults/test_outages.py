"""A remote that fails, or is changed by others: the last good commit stays."""

from pathlib import Path

import pytest

from soak.sync.history import (
    follow_rewrites,
    keep_last_good,
    never_mix,
    refuse_rewrites,
    stay_at_pins,
)
from soak.sync.outages import (
    end_by_deadline,
    refuse_broken_packs,
    spare_remote,
    survive_clock,
    survive_floods,
)
from tests.faults.promises import find_missed


def test_a_remote_that_hangs_is_given_up_with_no_process_left(tmp_path: Path) -> None:
    missed = find_missed(end_by_deadline, tmp_path)

    assert missed == []


def test_a_flood_of_refs_or_bytes_is_an_error_of_the_sync(tmp_path: Path) -> None:
    missed = find_missed(survive_floods, tmp_path)

    assert missed == []


def test_a_pack_that_is_cut_off_or_changed_is_never_published(tmp_path: Path) -> None:
    missed = find_missed(refuse_broken_packs, tmp_path)

    assert missed == []


def test_windows_share_their_patience_with_a_remote_that_is_away(
    tmp_path: Path,
) -> None:
    missed = find_missed(spare_remote, tmp_path)

    assert missed == []


def test_a_clock_that_was_wrong_stops_nothing(tmp_path: Path) -> None:
    missed = find_missed(survive_clock, tmp_path)

    assert missed == []


@pytest.mark.spec("9.3")
def test_rewritten_history_is_followed_in_one_sync(tmp_path: Path) -> None:
    missed = find_missed(follow_rewrites, tmp_path)

    assert missed == []


@pytest.mark.spec("9.4")
def test_a_branch_repository_or_permission_that_is_gone_is_said(tmp_path: Path) -> None:
    missed = find_missed(keep_last_good, tmp_path)

    assert missed == []


def test_another_repository_branch_or_pin_never_shows_the_old_content(
    tmp_path: Path,
) -> None:
    missed = find_missed(never_mix, tmp_path)

    assert missed == []


def test_a_pin_is_exact(tmp_path: Path) -> None:
    missed = find_missed(stay_at_pins, tmp_path)

    assert missed == []


def test_rewritten_history_is_refused_where_the_operator_says_so(
    tmp_path: Path,
) -> None:
    missed = find_missed(refuse_rewrites, tmp_path)

    assert missed == []
