from typing import Any

import pytest

from skills_mcp.usage import Report
from tests.usage.happenings import NEW, OLD, ran, reckon

FAILED: dict[str, Any] = {"success": False, "exit_code": 2}
LATE: dict[str, Any] = {"success": False, "exit_code": 137, "timed_out": True}
CANCELLED: dict[str, Any] = {"success": False, "exit_code": None}


def test_a_run_goes_well_fails_runs_out_of_time_or_is_cancelled() -> None:
    report = reckon(
        [
            ran("a.sh", duration_ms=10),
            ran("a.sh", duration_ms=30, **FAILED),
            ran("a.sh", duration_ms=3000, **LATE),
            ran("a.sh", duration_ms=None, **CANCELLED),
        ]
    )

    [use] = report.scripts
    assert (use.skill, use.file, use.runs) == ("tools", "a.sh", 4)
    assert (use.failures, use.timeouts, use.cancelled) == (1, 1, 1)
    assert use.median_ms == 30


def test_a_script_whose_duration_is_not_told_has_none() -> None:
    [use] = reckon([ran("a.sh", duration_ms="long")]).scripts

    assert use.median_ms is None


def breaks(report: Report) -> list[str]:
    return [use.commit for use in report.scripts if use.is_broken_since]


def test_a_script_is_broken_since_the_commit_that_broke_it() -> None:
    report = reckon(
        [
            ran("a.sh", 1, commit="first"),
            ran("a.sh", 3, commit="second", **FAILED),
            ran("a.sh", 3, commit="second"),
            ran("a.sh", 5, commit="third", **LATE),
            ran("a.sh", 5, commit="third", **CANCELLED),
            ran("b.sh", 5, commit="third"),
        ]
    )

    assert breaks(report) == ["second"]
    assert [(use.file, use.commit) for use in report.scripts] == [
        *(("a.sh", "first"), ("a.sh", "second"), ("a.sh", "third")),
        ("b.sh", "third"),
    ]


@pytest.mark.parametrize(
    "newest", [{}, CANCELLED], ids=["went well again", "was only cancelled"]
)
def test_a_script_that_was_repaired_is_not_broken(newest: dict[str, Any]) -> None:
    report = reckon([ran("a.sh", 1, **FAILED), ran("a.sh", 3, commit=NEW, **newest)])

    assert breaks(report) == []


def test_a_script_that_has_always_failed_is_broken_from_the_start() -> None:
    assert breaks(reckon([ran("a.sh", 1, **FAILED)])) == [OLD]
