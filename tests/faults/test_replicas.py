"""Replicas: a merge reaches all of them.

That a rolling restart loses no request is tried by `make soak`, on a machine that does
nothing else: a proxy that gets no processor takes every replica for dead.
"""

from pathlib import Path

from soak.http.merging import merge_with_one_cache
from tests.faults.promises import find_missed


def test_a_merge_that_one_replica_is_told_reaches_the_others(tmp_path: Path) -> None:
    missed = find_missed(merge_with_one_cache, tmp_path)

    assert missed == []
