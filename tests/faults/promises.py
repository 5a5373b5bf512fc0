"""The scenarios of `make soak` as tests: the same, only less often."""

from pathlib import Path

import pytest

from soak.scenario import Figure, Scale, Scenario, Unavailable


def find_missed(scenario: Scenario, folder: Path) -> list[Figure]:
    """Try a scenario quickly and return what is not as promised."""
    try:
        figures = list(scenario(folder, Scale.quick()))
    except Unavailable as reason:
        pytest.skip(f"not permitted here: {reason}")
    assert figures
    return [figure for figure in figures if not figure.is_met]
