"""Content cannot deceive: not about itself, its age, or what it may set."""

from pathlib import Path

import pytest

from soak.input.findings import find_nothing_else, find_what_is_hidden
from soak.input.privileges import (
    refuse_each_setting,
    refuse_settings,
    refuse_what_is_no_file,
)
from soak.sync.provenance import verify_everything
from soak.sync.staleness import tell_the_age
from tests.faults.promises import find_missed


@pytest.mark.spec("11.3")
def test_no_config_of_content_has_more_effect_than_it_may_have(tmp_path: Path) -> None:
    missed = find_missed(refuse_settings, tmp_path)

    assert missed == []


@pytest.mark.spec("11.3")
def test_what_is_no_file_is_no_config(tmp_path: Path) -> None:
    missed = find_missed(refuse_what_is_no_file, tmp_path)

    assert missed == []


@pytest.mark.spec("11.3")
def test_every_setting_of_the_operator_stays_theirs(tmp_path: Path) -> None:
    missed = find_missed(refuse_each_setting, tmp_path)

    assert missed == []


@pytest.mark.spec("12.4")
def test_every_reply_is_what_its_commit_holds_and_its_digest_says(
    tmp_path: Path,
) -> None:
    missed = find_missed(verify_everything, tmp_path)

    assert missed == []


def test_a_server_says_how_old_its_content_is_and_why(tmp_path: Path) -> None:
    missed = find_missed(tell_the_age, tmp_path)

    assert missed == []


def test_what_skills_hide_is_found_wherever_it_is(tmp_path: Path) -> None:
    missed = find_missed(find_what_is_hidden, tmp_path)

    assert missed == []


def test_skills_that_hide_nothing_are_left_in_peace(tmp_path: Path) -> None:
    missed = find_missed(find_nothing_else, tmp_path)

    assert missed == []
