"""Both protocol eras for what the wire decides, the sample content, and a lifeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.library.skill_library import SkillLibrary
from tests.clients import ERAS, Lifeline
from tests.support import SKILLS_CONTENT, Upstream, open_library


@pytest.fixture(params=ERAS, ids=list(ERAS.values()))
def era(request: pytest.FixtureRequest) -> str:
    """How the client opens the connection; a test of a tool needs the newest alone."""
    return str(request.param)


@pytest.fixture
def library(sample_index: Path) -> SkillLibrary:
    """The sample content, loaded."""
    return open_library(SKILLS_CONTENT, cache=sample_index)


def branch_of(upstream: Upstream, folder: Path) -> RemoteBranch:
    """Return the branch main, with a cache in a folder."""
    return RemoteBranch(Remote(upstream.url, "main"), folder / "cache")


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    line = Lifeline(tmp_path / "lifeline")
    yield line
    line.close()
