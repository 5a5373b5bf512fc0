"""A provider for each test."""

from collections.abc import Iterator

import pytest

from tests.identity.issuer import Issuer, running_issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer
