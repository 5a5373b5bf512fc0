"""A server that works for a long time stays as small as it was."""

from pathlib import Path

from soak.drift import work_for_days
from tests.faults.promises import find_missed


def test_a_server_that_works_for_days_does_not_grow(tmp_path: Path) -> None:
    missed = find_missed(work_for_days, tmp_path)

    assert missed == []
