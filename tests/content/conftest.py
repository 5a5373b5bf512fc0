"""Fixtures: stores that follow a remote."""

from pathlib import Path

import pytest

from tests.content.git.git_store import GitStore
from tests.support import Upstream


@pytest.fixture
def store(upstream: Upstream, tmp_path: Path) -> GitStore:
    """A store that follows the branch main of `upstream`, and is empty yet."""
    return GitStore.create(tmp_path / "store", upstream.url)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder with a remote that has two commits and a store that has the first."""
    folder = tmp_path_factory.mktemp("prepared")
    upstream = Upstream.create(folder)
    first = upstream.commit({"a.md": "A", "b.md": "B"})
    store = GitStore.create(folder / "store", upstream.url)
    store.fetch()
    store.keep(first)
    second = upstream.commit({"a.md": "C"})
    return folder, first, second
