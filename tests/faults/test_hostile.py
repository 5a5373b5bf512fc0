"""Nothing that comes from elsewhere runs, is written, or passes for trusted."""

from pathlib import Path

import pytest

from soak.sync.hostile import (
    ignore_surroundings,
    refuse_addresses,
    write_no_hostile_entry,
)
from soak.sync.signing import refuse_unsigned
from tests.faults.promises import find_missed


def test_addresses_and_names_that_would_run_something_are_refused(
    tmp_path: Path,
) -> None:
    missed = find_missed(refuse_addresses, tmp_path)

    assert missed == []


def test_nothing_of_the_project_the_home_or_the_environment_runs(
    tmp_path: Path,
) -> None:
    missed = find_missed(ignore_surroundings, tmp_path)

    assert missed == []


@pytest.mark.spec("12.1")
def test_entries_that_no_file_system_should_see_are_left_out_and_reported(
    tmp_path: Path,
) -> None:
    missed = find_missed(write_no_hostile_entry, tmp_path)

    assert missed == []


def test_only_what_is_signed_by_somebody_trusted_is_published(tmp_path: Path) -> None:
    missed = find_missed(refuse_unsigned, tmp_path)

    assert missed == []
