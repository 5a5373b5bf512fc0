"""Paths, links and files that would lead out, hang or exhaust."""

from pathlib import Path

import pytest

from soak.input.links import follow_no_swapped_link
from soak.input.paths import refuse_paths
from soak.input.special_files import survive_special_files
from tests.faults.promises import find_missed


@pytest.mark.spec("12.1")
def test_no_tool_takes_a_hostile_path(tmp_path: Path) -> None:
    missed = find_missed(refuse_paths, tmp_path)

    assert missed == []


@pytest.mark.spec("12.1")
def test_a_link_that_is_swapped_in_leads_nowhere(tmp_path: Path) -> None:
    missed = find_missed(follow_no_swapped_link, tmp_path)

    assert missed == []


@pytest.mark.spec("12.3")
def test_special_files_neither_hang_nor_exhaust(tmp_path: Path) -> None:
    missed = find_missed(survive_special_files, tmp_path)

    assert missed == []
