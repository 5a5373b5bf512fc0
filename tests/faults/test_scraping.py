"""Prometheus reads the metrics of a server over HTTP."""

from pathlib import Path

from soak.http.scraping import scrape
from tests.faults.promises import find_missed


def test_prometheus_reads_the_metrics_of_a_server(tmp_path: Path) -> None:
    missed = find_missed(scrape, tmp_path)

    assert missed == []
