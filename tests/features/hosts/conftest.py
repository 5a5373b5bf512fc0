"""What tests of hosts share."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def near_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a path that is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="sm-"))
    monkeypatch.setenv("SKILLS_MCP_HOME", str(folder))
    yield folder
    shutil.rmtree(folder)
