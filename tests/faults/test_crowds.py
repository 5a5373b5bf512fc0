"""Crowds and slow clients over HTTP: the others are answered, and nothing is lost."""

from pathlib import Path

import pytest

from soak.http import crowds, fairness
from soak.scenario import Scenario
from tests.faults.promises import find_missed

SCENARIOS = (*crowds.SCENARIOS, *fairness.SCENARIOS)


@pytest.mark.parametrize("scenario", [s for _, s in SCENARIOS], ids=dict(SCENARIOS))
def test_no_crowd_keeps_the_server_from_answering(scenario: Scenario, tmp_path: Path) -> None:
    assert find_missed(scenario, tmp_path) == []
