"""Scripts that try to outlive, to flood or to drown the server, and its own endings."""

from pathlib import Path

import pytest

from soak.scripts.endings import end
from soak.scripts.floods import call_together, make_noise, print_without_end
from soak.scripts.process_trees import outlive
from tests.faults.promises import find_missed


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
def test_no_process_of_a_script_outlives_it(tmp_path: Path) -> None:
    missed = find_missed(outlive, tmp_path)

    assert missed == []


@pytest.mark.spec("3.3")
def test_every_ending_leaves_no_process_and_keeps_the_events(tmp_path: Path) -> None:
    missed = find_missed(end, tmp_path)

    assert missed == []


@pytest.mark.spec("12.2")
def test_a_flood_of_output_costs_no_memory(tmp_path: Path) -> None:
    missed = find_missed(print_without_end, tmp_path)

    assert missed == []


@pytest.mark.spec("8.4")
def test_fifty_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    missed = find_missed(call_together, tmp_path)

    assert missed == []


@pytest.mark.usefixtures("started_anew")
def test_noise_never_reaches_the_protocol(tmp_path: Path) -> None:
    missed = find_missed(make_noise, tmp_path)

    assert missed == []
