"""What bubblewrap is told: each place once, the outer before the inner."""

import sys
from pathlib import Path

import pytest

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.sandbox import (
    derive_bubblewrap_prefix,
    prepare_bubblewrap_prefix,
)

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="bubblewrap is a program of Linux"
)

HOME = Path("/run/user/x/home")


def told(**grants: object) -> str:
    given = Grants(home=HOME, **grants)  # type: ignore[arg-type]
    return " ".join(derive_bubblewrap_prefix(Path("/usr/bin/bwrap"), given))


def test_the_network_is_there_only_if_it_is_granted() -> None:
    assert "--unshare-net" in told()
    assert "--unshare-net" not in told(network=True)


def test_the_home_is_memory_of_a_limited_size() -> None:
    assert f"--size 1000 --tmpfs {HOME}" in told(home_bytes=1000)


def test_a_folder_is_placed_before_what_lies_in_it() -> None:
    words = told(readable=(Path("/srv/a/b"), Path("/srv")), writable=(Path("/srv/a"),))

    places = [words.index(f"bind {path} ") for path in ("/srv", "/srv/a", "/srv/a/b")]
    assert places == sorted(places)


def test_what_is_granted_twice_is_read_only() -> None:
    folder = Path("/srv/a")

    words = told(readable=(folder,), writable=(folder,))

    assert f"--ro-bind {folder} {folder}" in words
    assert f"--bind {folder} {folder}" not in words


def test_what_it_makes_up_itself_is_sealed_at_the_end() -> None:
    words = told(writable=(Path("/srv"),))

    assert words.endswith("--remount-ro / --remount-ro /dev --remount-ro /proc --")


def test_the_filter_of_system_calls_lies_beside_the_home(tmp_path: Path) -> None:
    (tmp_path / "run/home").mkdir(parents=True)

    words = prepare_bubblewrap_prefix(Path("/usr/bin/bwrap"), Grants(home=tmp_path / "run/home"))

    file = tmp_path / "run/calls.filter"
    assert str(file) in words
    assert len(file.read_bytes()) % 8 == 0
    assert list((tmp_path / "run/home").iterdir()) == []
