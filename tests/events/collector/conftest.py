"""The store that tests of it use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_mcp.events.collector.event_store import EventStore, open_event_store


@pytest.fixture
def store(address: str, tmp_path: Path) -> Iterator[EventStore]:
    """An empty store."""
    opened = open_event_store(address, tmp_path)
    yield opened
    opened.close()
