"""The databases on which each test of the store runs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_mcp.analytics.collector.event_store import EventStore, open_event_store
from tests.postgresql import Cluster, find_programs, opened_cluster

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL of this run; without its programs a test is skipped, never in CI."""
    programs = find_programs()
    if programs is None:
        assert "CI" not in os.environ, "CI installs PostgreSQL, see .ci/run"
        pytest.skip("PostgreSQL is not installed")
    with opened_cluster(programs) as running:
        yield running


@pytest.fixture(params=DATABASES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'events.db'}"
        return
    running: Cluster = request.getfixturevalue("cluster")
    url = running.new_database()
    yield url
    running.drop(url)


@pytest.fixture
def store(address: str, tmp_path: Path) -> Iterator[EventStore]:
    """An empty store."""
    opened = open_event_store(address, tmp_path)
    yield opened
    opened.close()
