"""What several tests of snapshots share."""

from pathlib import Path
from typing import Any

import pytest

from skills_mcp.skills import skill_discovery as discovery


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the Markdown files that are read from now on."""
    opened: list[str] = []
    read = discovery._read

    def noting(root: Path, file: str) -> Any:
        opened.append(file)
        return read(root, file)

    monkeypatch.setattr(discovery, "_read", noting)
    return opened
