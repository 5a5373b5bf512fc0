"""Windows that share a server, which is killed at random."""

from pathlib import Path

from soak.windows.sharing import share, start_at_once
from tests.faults.promises import find_missed


def test_no_window_loses_a_call_when_its_server_is_killed(tmp_path: Path) -> None:
    missed = find_missed(share, tmp_path)

    assert missed == []


def test_windows_that_start_at_once_share_one_server(tmp_path: Path) -> None:
    missed = find_missed(start_at_once, tmp_path)

    assert missed == []
