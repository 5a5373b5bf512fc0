"""A provider for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_mcp.library.skill_library import SkillLibrary
from tests.clients import ERAS
from tests.issuer import Issuer, running_issuer
from tests.support import SKILLS_CONTENT, open_library


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture(params=ERAS, ids=list(ERAS.values()))
def era(request: pytest.FixtureRequest) -> str:
    """How the client opens the connection."""
    return str(request.param)


@pytest.fixture
def library(sample_index: Path) -> SkillLibrary:
    """The sample content, loaded."""
    return open_library(SKILLS_CONTENT, cache=sample_index)
