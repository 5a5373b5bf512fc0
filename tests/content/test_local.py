import math
from pathlib import Path

import pytest

from skills_mcp.content.local import DiscoveredFolder, LocalFolder
from skills_mcp.content.source import ANYTHING, Attempt, accept_all
from skills_mcp.errors import SyncError
from tests.support import write


@pytest.mark.spec("3.1")
def test_a_folder_is_served_where_it_is(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path)

    checkout = source.sync(ANYTHING, accept_all)

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
        source.sync(ANYTHING, accept_all)


def test_a_folder_that_appears_later_is_served(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path / "late")
    (tmp_path / "late").mkdir()

    assert source.sync(ANYTHING, accept_all).directory == tmp_path / "late"


def test_a_folder_does_not_count_changes_and_has_nothing_to_close(
    tmp_path: Path,
) -> None:
    source = LocalFolder(tmp_path)

    source.close()

    assert (
        source.count_changes(
            source.sync(ANYTHING, accept_all), source.sync(ANYTHING, accept_all)
        )
        == 0
    )


def test_each_sync_says_when_it_looked(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path)

    first, second = source.sync(ANYTHING, accept_all), source.sync(ANYTHING, accept_all)

    assert first.synced_at <= second.synced_at
    assert first.synced_at.tzinfo is not None


def test_the_message_names_the_setting_that_named_the_folder(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path / "missing", "sources[1].folder")

    with pytest.raises(SyncError, match=r"set sources\[1\].folder to the folder"):
        source.sync(ANYTHING, accept_all)


@pytest.mark.parametrize("parent", ["missing", "file"])
def test_a_discovered_folder_that_is_not_there_is_no_failure(
    tmp_path: Path, parent: str
) -> None:
    write(tmp_path / "file")
    source = DiscoveredFolder(tmp_path / parent / "skills")

    assert source.sync(ANYTHING, accept_all) is None
    assert source.published() is None


def test_a_discovered_folder_that_is_there_is_served(tmp_path: Path) -> None:
    source = DiscoveredFolder(tmp_path)

    checkout = source.sync(ANYTHING, accept_all)

    assert checkout is not None
    assert (checkout.directory, checkout.revision) == (tmp_path, None)
    assert (source.mode, source.name) == ("local", str(tmp_path))


def test_a_discovered_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(SyncError, match="or set discover to false"):
        DiscoveredFolder(tmp_path / "loop").sync(ANYTHING, accept_all)


@pytest.mark.parametrize("kind", [LocalFolder, DiscoveredFolder])
def test_a_folder_has_no_past_and_nothing_that_runs(
    tmp_path: Path, kind: type[LocalFolder] | type[DiscoveredFolder]
) -> None:
    source = kind(tmp_path)
    checkout = source.sync(ANYTHING, accept_all)
    assert checkout is not None

    assert source.attempt() == Attempt()
    assert not source.has_news()
    assert (source.doing, source.is_final) == ("", False)
    assert source.find_changes("before", checkout) is None
    with pytest.raises(SyncError, match="a folder, which has no earlier commit"):
        source.go_back()
    with pytest.raises(SyncError, match="nothing is held"):
        source.follow()


@pytest.mark.spec("9.3")
@pytest.mark.parametrize("interval_seconds", [None, 900.0])
def test_a_folder_is_never_due(tmp_path: Path, interval_seconds: float | None) -> None:
    assert LocalFolder(tmp_path).next_sync_at(interval_seconds) == math.inf
