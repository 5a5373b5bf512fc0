"""Whoever reads sees one whole commit, whatever others do meanwhile."""

from pathlib import Path

import pytest

from soak.sync.reading import (
    answer_during_swaps,
    hold_leases,
    read_beside_killers,
    read_beside_writers,
)
from tests.faults.promises import find_missed


@pytest.mark.spec("9.1")
def test_nobody_reads_a_mix_of_two_commits_beside_four_writers(tmp_path: Path) -> None:
    missed = find_missed(read_beside_writers, tmp_path)

    assert missed == []


def test_nobody_reads_a_mix_while_writers_are_killed(tmp_path: Path) -> None:
    missed = find_missed(read_beside_killers, tmp_path)

    assert missed == []


def test_old_commits_are_deleted_but_never_one_that_is_read(tmp_path: Path) -> None:
    missed = find_missed(hold_leases, tmp_path)

    assert missed == []


@pytest.mark.spec("4.6")
def test_every_reply_is_of_the_commit_that_it_names(tmp_path: Path) -> None:
    missed = find_missed(answer_during_swaps, tmp_path)

    assert missed == []
