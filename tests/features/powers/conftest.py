"""Packages with powers, written by us: every host and path of theirs is invented."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skills_mcp.features.powers.authored_powers import read_paths
from skills_mcp.features.powers.power import Power
from tests.cli.conftest import invoke as invoke  # noqa: PLC0414 - a fixture
from tests.packages import package_text
from tests.support import write

Read = Callable[[Mapping[str, str | bytes] | str], tuple[Power, ...]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """The powers of a package with this text, or with these files."""

    def run(files: Mapping[str, str | bytes] | str) -> tuple[Power, ...]:
        if isinstance(files, str):
            files = {"SKILL.md": package_text(body=files)}
        folder = tmp_path / "pdf"
        for name, content in {"SKILL.md": package_text(), **files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_paths([folder])

    return run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Rule files: two below an index."""
    for name in ("deploy/_index", "deploy/rollback", "deploy/canary"):
        text = f"---\ndescription: Rules of {name}.\nkeywords: [deploy]\n---\nRules.\n"
        write(tmp_path / "content" / "skills" / f"{name}.md", text)
    return tmp_path / "content"
