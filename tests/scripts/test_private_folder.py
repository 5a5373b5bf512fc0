"""What killed servers leave behind is removed, and nothing that is in use."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import portalocker
import pytest

from skills_mcp.scripts import private_folder as module
from skills_mcp.scripts.private_folder import private_folder
from tests.support import write


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a temporary folder of the system in which this server is new."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    module._remove_left_behind.cache_clear()
    yield folder
    module._remove_left_behind.cache_clear()


def left(temporary: Path, name: str, *, is_old: bool = True) -> Path:
    """Return a folder as a run has it."""
    folder = temporary / name
    write(folder / "lock")
    write(folder / "home/deep/file")
    if is_old:
        os.utime(folder, (0, 0))
    return folder


def test_what_a_killed_server_has_left_is_removed(temporary: Path) -> None:
    folder = left(temporary, "skills-mcp-run-abc")

    with private_folder():
        pass

    assert not folder.exists()


def test_what_another_server_uses_stays(temporary: Path) -> None:
    folder = left(temporary, "skills-mcp-run-abc")

    with portalocker.Lock(folder / "lock", "w", timeout=0), private_folder():
        pass

    assert folder.exists()


def test_what_is_new_or_not_ours_stays(temporary: Path) -> None:
    new = left(temporary, "skills-mcp-run-new", is_old=False)
    other = left(temporary, "somebody-elses")
    (other / "lock").unlink()
    os.utime(other, (0, 0))
    link = temporary / "skills-mcp-run-link"
    link.symlink_to(other)

    with private_folder():
        pass

    assert new.exists()
    assert other.exists()


def test_a_run_holds_its_folder_until_it_is_over(temporary: Path) -> None:
    with private_folder() as folder:
        assert folder.path.parent == temporary
        os.utime(folder.path, (0, 0))
        module._remove_left_behind.cache_clear()
        with private_folder() as other:
            assert folder.home.is_dir()
            assert other.path != folder.path

    assert list(temporary.iterdir()) == []
