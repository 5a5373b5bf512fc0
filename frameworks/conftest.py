"""What the tests of all frameworks share: content, and both ways to reach it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworks.content import write_skills
from frameworks.recipes import serve


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio alone."""
    return "asyncio"


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the folder `skills`, and make the folder above it the current one."""
    monkeypatch.chdir(tmp_path)
    return write_skills(tmp_path / "skills")


@pytest.fixture(params=["stdio", "http"])
def url(request: pytest.FixtureRequest, skills: Path) -> Iterator[str]:
    """The address of a server over HTTP; empty for one that the recipe starts."""
    if request.param == "stdio":
        yield ""
        return
    with serve(skills) as address:
        yield address
