"""Packages in place: one version or the other, and a way back."""

import errno
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skills_mcp.errors import PackageNotAddedError
from skills_mcp.features.authoring import version_store as intake_shelf
from skills_mcp.features.authoring.validation import load_tree, validate_paths
from skills_mcp.features.authoring.version_store import VersionStore
from tests.packages import contents, write_package
from tests.support import PATIENCE_SECONDS

NOON = datetime(2026, 2, 12, 14, 30, tzinfo=UTC)


def version(tmp_path: Path, text: str) -> Path:
    """Write a version of a package, and return its folder."""
    return write_package(tmp_path / text, "pdf", {"a.txt": text, "b.txt": text})


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A folder of skills."""
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


def test_the_version_before_is_kept_and_can_be_restored(tmp_path: Path, target: Path) -> None:
    shelf = VersionStore(target)

    assert shelf.put(version(tmp_path, "one"), "pdf", NOON) is None
    replaced = shelf.put(version(tmp_path, "two"), "pdf", NOON + timedelta(hours=1))
    assert replaced == "20260212-143000"
    assert (target / "pdf/a.txt").read_text() == "two"

    restored = shelf.restore("pdf", None, NOON + timedelta(hours=2))
    assert restored == "20260212-143000"
    assert (target / "pdf/a.txt").read_text() == "one"
    assert shelf.versions("pdf") == ("20260212-153000", "20260212-143000")


def test_earlier_versions_are_not_served(tmp_path: Path, target: Path) -> None:
    shelf = VersionStore(target)
    for n in range(3):
        shelf.put(version(tmp_path, f"v{n}"), "pdf", NOON + timedelta(hours=n))

    tree = load_tree(target.parent)

    assert [skill.path for skill in tree.skills] == [target / "pdf"]
    assert validate_paths(target).problems == ()


def test_only_so_many_versions_are_kept(tmp_path: Path, target: Path) -> None:
    shelf = VersionStore(target, retained=2)
    for n in range(5):
        shelf.put(version(tmp_path, f"v{n}"), "pdf", NOON + timedelta(hours=n))

    assert shelf.versions("pdf") == ("20260212-173000", "20260212-163000")


def test_versions_of_one_second_do_not_meet(tmp_path: Path, target: Path) -> None:
    shelf = VersionStore(target)
    for n in range(3):
        shelf.put(version(tmp_path, f"v{n}"), "pdf", NOON)

    assert len(shelf.versions("pdf")) == 2


@pytest.mark.parametrize("name", ["pdf", "../pdf", "/", "..", "a/b", ""])
def test_a_name_that_is_not_listed_makes_nothing(target: Path, name: str) -> None:
    with pytest.raises(PackageNotAddedError, match="No earlier version"):
        VersionStore(target).restore(name, None, NOON)

    assert list(target.iterdir()) == []


@pytest.mark.parametrize("wanted", ["../../..", "", "20260212-143000/.", "/"])
def test_a_version_that_is_not_listed_is_refused(tmp_path: Path, target: Path, wanted: str) -> None:
    shelf = VersionStore(target)
    shelf.put(version(tmp_path, "one"), "pdf", NOON)
    shelf.put(version(tmp_path, "two"), "pdf", NOON + timedelta(hours=1))
    before = sorted(target.rglob("*"))

    with pytest.raises(PackageNotAddedError, match="has no earlier version"):
        shelf.restore("pdf", wanted, NOON)

    assert sorted(target.rglob("*")) == before


@pytest.mark.parametrize("name", ["../pdf", "/", "..", "a/b", "", ".skills-mcp"])
def test_a_package_is_put_under_one_name_alone(tmp_path: Path, target: Path, name: str) -> None:
    with pytest.raises(PackageNotAddedError, match="can be no name"):
        VersionStore(target).put(version(tmp_path, "one"), name, NOON)

    assert list(target.iterdir()) == []


def test_versions_behind_a_link_are_neither_listed_nor_restored(
    tmp_path: Path, target: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    write_package(elsewhere / "20260212-143000", "key")
    versions = target / ".skills-mcp/versions"
    versions.mkdir(parents=True)
    (versions / "pdf").symlink_to(elsewhere)
    (versions / "old").mkdir()
    (versions / "old/20260212-143000").symlink_to(elsewhere)
    shelf = VersionStore(target)

    assert shelf.names() == ()
    for name in ("pdf", "old"):
        with pytest.raises(PackageNotAddedError, match="No earlier version"):
            shelf.restore(name, "20260212-143000", NOON)
    with pytest.raises(PackageNotAddedError, match="behind a link"):
        shelf.put(version(tmp_path, "one"), "pdf", NOON)


def test_a_refused_place_keeps_no_copy(tmp_path: Path, target: Path) -> None:
    (target / "pdf").symlink_to(tmp_path)

    with pytest.raises(PackageNotAddedError):
        VersionStore(target).put(version(tmp_path, "one"), "pdf", NOON)

    assert not (target / ".skills-mcp").exists()


def test_a_failed_exchange_keeps_no_copy(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = VersionStore(target)
    shelf.put(version(tmp_path, "one"), "pdf", NOON)
    monkeypatch.setattr(intake_shelf, "_swap_atomically", lambda *_: errno.EIO)

    with pytest.raises(PackageNotAddedError, match="Input/output error"):
        shelf.put(version(tmp_path, "two"), "pdf", NOON)

    assert (target / "pdf/a.txt").read_text() == "one"
    assert list((target / ".skills-mcp/versions/pdf").iterdir()) == []


def test_a_link_in_the_place_is_not_replaced(tmp_path: Path, target: Path) -> None:
    (target / "pdf").symlink_to(tmp_path)

    with pytest.raises(PackageNotAddedError, match="is a link"):
        VersionStore(target).put(version(tmp_path, "one"), "pdf", NOON)


def test_a_folder_of_nearly_this_name_is_not_joined(tmp_path: Path, target: Path) -> None:
    (target / "PDF").mkdir()

    with pytest.raises(PackageNotAddedError, match="same name but for case"):
        VersionStore(target).put(version(tmp_path, "one"), "pdf", NOON)


PUT_FOR_EVER = """
import sys
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from skills_mcp.features.authoring.version_store import VersionStore

shelf = VersionStore(Path(sys.argv[1]), retained=3)
print("begun", flush=True)
for each in cycle(sys.argv[2:]):
    shelf.put(Path(each), "pdf", datetime.now(UTC))
    print("put", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows cannot exchange two folders")
def test_a_reader_never_sees_a_mix_and_a_kill_leaves_one_of_both(
    tmp_path: Path, target: Path
) -> None:
    both = [version(tmp_path, "one"), version(tmp_path, "two")]
    whole = [contents(each) for each in both]
    VersionStore(target).put(both[0], "pdf", NOON)

    for round_ in range(6):
        command = [sys.executable, "-c", PUT_FOR_EVER, str(target), *map(str, both)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            for _ in range(2 + round_):
                writer.stdout.readline()
            for _ in range(50 + 37 * round_):
                descriptor = os.open(target / "pdf", os.O_RDONLY)  # one version
                os.close(descriptor)
            writer.send_signal(signal.SIGKILL)
            writer.wait(PATIENCE_SECONDS)
        assert contents(target / "pdf") in whole

    VersionStore(target).put(both[1], "pdf", NOON)
    versions = target / ".skills-mcp" / "versions" / "pdf"
    assert all(contents(each) in whole for each in versions.iterdir())
    assert all(each.name[0].isdigit() for each in versions.iterdir())


def test_of_a_version_that_is_deleted_no_part_is_listed(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [version(tmp_path, "one"), version(tmp_path, "two")]
    whole = [contents(each) for each in both]
    shelf = VersionStore(target, retained=1)
    for each in both:
        shelf.put(each, "pdf", NOON)

    def end_after_one_file(folder: Path) -> None:
        next(filter(Path.is_file, folder.rglob("*"))).unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(intake_shelf, "delete_tree", end_after_one_file)
    with pytest.raises(KeyboardInterrupt):
        shelf.put(both[0], "pdf", NOON + timedelta(days=1))

    listed = [target / ".skills-mcp/versions/pdf" / each for each in shelf.versions("pdf")]
    assert [contents(each) for each in listed] == [whole[1]]


PUT_AND_DIE = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from skills_mcp.features.authoring.version_store import VersionStore

left = int(sys.argv[3])

def die(event, arguments):
    global left
    if event == "os.rename":
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die)
VersionStore(Path(sys.argv[1])).put(Path(sys.argv[2]), "pdf", datetime.now(UTC))
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows cannot exchange two folders")
@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_kill_before_any_rename_leaves_a_whole_version(
    tmp_path: Path, target: Path, renames: int
) -> None:
    both = [version(tmp_path, "one"), version(tmp_path, "two")]
    VersionStore(target).put(both[0], "pdf", NOON)

    command = [sys.executable, "-c", PUT_AND_DIE]
    command += [str(target), str(both[1]), str(renames)]
    done = subprocess.run(command, check=False, timeout=PATIENCE_SECONDS)

    assert done.returncode == (-signal.SIGKILL if renames < 2 else 0)
    expected = both[0] if renames == 0 else both[1]
    assert contents(target / "pdf") == contents(expected)
    VersionStore(target).put(both[1], "pdf", NOON)  # repairs what the kill has left
    kept = target / ".skills-mcp" / "versions" / "pdf"
    assert contents(both[0]) in [contents(each) for each in kept.iterdir()]
    assert all(each.name[0].isdigit() for each in kept.iterdir())
