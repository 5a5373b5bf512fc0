import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repositories.census import Told, ToldProblem
from repositories.run import COLUMNS, is_same, measure_disk, parse
from tests.support import PROJECT, SKILLS_CONTENT, write


def test_a_folder_of_the_disk_is_served_in_both_ways_and_accounted_for(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.json"

    done = subprocess.run(
        [sys.executable, "-m", "repositories.run", SKILLS_CONTENT, "--json", file],
        cwd=PROJECT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert all(column in done.stdout for column in COLUMNS)
    folder, repository = json.loads(file.read_text())
    assert [folder["kind"], repository["kind"]] == ["folder", "repository"]
    for row in (folder, repository):
        assert row["skills"] == row["account"]["served"] == row["census"]["rules"] == 27
        assert row["account"]["lost"] == row["problems"] == []
        assert row["cpu_seconds"] > 0
        assert row["reply_characters"] > 1000
    assert repository["is_same"] is True
    assert repository["servable_bytes"] == folder["servable_bytes"] > 10_000
    assert repository["disk_bytes"] > repository["servable_bytes"]


def test_the_big_layout_is_not_made_unless_it_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parse([]).only is None
    assert parse(["--only", "big"]).only == ["big"]

    with pytest.raises(SystemExit):
        parse(["--only", "no such layout"])
    assert "no such layout" in capsys.readouterr().err


def test_only_a_repository_can_tell_of_submodules() -> None:
    link = ToldProblem("a", "link", "error", "is a link", "repair it", 0)
    module = ToldProblem("b", "submodule", "error", "is a submodule", "add it", 0)
    folder = Told({}, (), [link])

    assert is_same(Told({}, (), [link, module]), folder)
    assert not is_same(Told({}, (), [module]), folder)
    assert not is_same(folder, None)


def test_a_file_of_two_names_takes_its_room_once(tmp_path: Path) -> None:
    write(tmp_path / "a/one", "12345")
    (tmp_path / "two").hardlink_to(tmp_path / "a/one")

    assert measure_disk(tmp_path) == 5
