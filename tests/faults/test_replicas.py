"""Replicas behind a proxy: a restart loses no request, a merge reaches all of them."""

from pathlib import Path

from soak.http.merging import merge_with_one_cache
from soak.http.rolling_restart import restart_behind_nginx, restart_with_one_cache
from tests.faults.promises import find_missed


def test_a_rolling_restart_behind_haproxy_loses_no_request(tmp_path: Path) -> None:
    missed = find_missed(restart_with_one_cache, tmp_path)

    assert missed == []


def test_a_rolling_restart_behind_nginx_loses_no_request(tmp_path: Path) -> None:
    missed = find_missed(restart_behind_nginx, tmp_path)

    assert missed == []


def test_a_merge_that_one_replica_is_told_reaches_the_others(tmp_path: Path) -> None:
    missed = find_missed(merge_with_one_cache, tmp_path)

    assert missed == []
