"""Hostile scripts get nothing that they were not granted."""

import sys
from pathlib import Path

import pytest

from soak.scripts.escapes import break_out, compose_table, refuse_without, see_no_secret
from soak.scripts.fidelity import pass_arguments, run_while_swapping
from tests.faults.promises import find_missed
from tests.support import PROJECT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are those of POSIX")


@pytest.mark.spec("12.2")
def test_nothing_gets_out_of_a_sandbox_but_what_is_documented(tmp_path: Path) -> None:
    missed = find_missed(break_out, tmp_path)

    assert missed == []


def test_what_gets_out_is_in_the_table_of_the_page() -> None:
    page = PROJECT / "docs" / "explanation" / "security-of-scripts.md"

    assert compose_table() in page.read_text(encoding="utf-8")


@pytest.mark.spec("12.2")
def test_no_secret_of_the_server_reaches_a_script_in_any_tier(tmp_path: Path) -> None:
    missed = find_missed(see_no_secret, tmp_path)

    assert missed == []


@pytest.mark.spec("12.2")
def test_where_a_sandbox_is_required_nothing_runs_without(tmp_path: Path) -> None:
    missed = find_missed(refuse_without, tmp_path)

    assert missed == []


@pytest.mark.spec("8.4")
def test_a_script_that_is_exchanged_runs_as_it_was_read_or_not_at_all(
    tmp_path: Path,
) -> None:
    missed = find_missed(run_while_swapping, tmp_path)

    assert missed == []


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
def test_arguments_arrive_as_they_are_and_never_run(tmp_path: Path) -> None:
    missed = find_missed(pass_arguments, tmp_path)

    assert missed == []
