"""Heads and texts that somebody made to hang, exhaust or crash whoever reads them."""

from pathlib import Path

from soak.input.bombs import survive_bombs
from soak.input.fuzzing import fuzz
from tests.faults.promises import find_missed


def test_a_bomb_costs_little_and_hides_no_other_skill(tmp_path: Path) -> None:
    missed = find_missed(survive_bombs, tmp_path)

    assert missed == []


def test_a_fuzzer_finds_no_input_that_raises(tmp_path: Path) -> None:
    missed = find_missed(fuzz, tmp_path)

    assert missed == []
