from pathlib import Path

import pytest

from skills_mcp.content.local import LocalFolder
from skills_mcp.errors import SyncError


@pytest.mark.spec("3.1")
def test_a_folder_is_served_where_it_is(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path)

    checkout = source.sync()

    assert checkout.directory == tmp_path
    assert checkout.revision is None
    assert source.mode == "local"
    assert source.name == str(tmp_path)


def test_a_folder_is_looked_at_only_by_a_sync(tmp_path: Path) -> None:
    assert LocalFolder(tmp_path).published() is None


@pytest.mark.spec("3.1")
def test_a_folder_that_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path / "missing")

    with pytest.raises(SyncError, match="Create it, or set SKILLS_DIR"):
        source.sync()


def test_a_folder_that_appears_later_is_served(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path / "late")
    (tmp_path / "late").mkdir()

    assert source.sync().directory == tmp_path / "late"


def test_a_folder_does_not_count_changes_and_has_nothing_to_close(
    tmp_path: Path,
) -> None:
    source = LocalFolder(tmp_path)

    source.close()

    assert source.count_changes(source.sync(), source.sync()) == 0


def test_each_sync_says_when_it_looked(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path)

    first, second = source.sync(), source.sync()

    assert first.synced_at <= second.synced_at
    assert first.synced_at.tzinfo is not None
