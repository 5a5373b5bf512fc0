"""`skills-mcp add`: shown first, taken then."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.features.authoring.intake.archives import GOOD, write_zip
from tests.packages import package_text


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A folder of skills."""
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


def test_a_package_is_shown_and_added(invoke: Run, tmp_path: Path, target: Path) -> None:
    archive = write_zip(tmp_path / "pdf.zip")

    done = invoke("add", str(archive), "--to", str(target), "--yes")

    assert done.returncode == 0
    assert "Name         pdf\nDescription  Fill in PDF forms.\n" in done.stdout
    assert "scripts/fill.py" in done.stdout
    assert done.stdout.endswith(f"pdf is in {target / 'pdf'}.\n")
    assert (target / "pdf" / "SKILL.md").read_text() == GOOD["SKILL.md"]


def test_without_a_terminal_nothing_is_added(invoke: Run, tmp_path: Path, target: Path) -> None:
    done = invoke("add", str(write_zip(tmp_path / "a.zip")), "--to", str(target))

    assert done.returncode == 1
    assert "call it again with --yes" in done.stderr
    assert list(target.iterdir()) == []


def test_a_refused_archive_leaves_the_folder_alone(
    invoke: Run, tmp_path: Path, target: Path
) -> None:
    archive = write_zip(tmp_path / "a.zip", {**GOOD, "../x": "x"})

    done = invoke("add", str(archive), "--to", str(target), "--yes")

    assert done.returncode == 1
    assert "leads out of the folder" in done.stderr
    assert list(target.iterdir()) == []


def test_the_home_of_a_person_takes_no_skill(invoke: Run, tmp_path: Path, home: Path) -> None:
    archive = write_zip(tmp_path / "pdf.zip")

    done = invoke("add", str(archive), "--to", str(home), "--yes")

    assert done.returncode == 1
    assert "~/skills" in done.stderr
    assert list(home.rglob("SKILL.md")) == []


def test_an_earlier_version_is_listed_and_restored(
    invoke: Run, tmp_path: Path, target: Path
) -> None:
    to = ("--to", str(target))
    invoke("add", str(write_zip(tmp_path / "1.zip")), *to, "--yes")
    newer = {"SKILL.md": package_text(body="Newer.")}
    done = invoke("add", str(write_zip(tmp_path / "2.zip", newer)), *to, "--yes")
    version = invoke("add", "--list", "pdf", *to).stdout.strip()

    assert f"The version before is kept as {version}" in done.stdout
    restored = invoke("add", "--restore", "pdf", *to)
    assert restored.stdout == f"pdf is {version} again, in {target}.\n"
    assert (target / "pdf" / "SKILL.md").read_text() == GOOD["SKILL.md"]


@pytest.mark.parametrize(
    "arguments", [[], ["--list", "a", "--restore", "a"], ["--list", "a", "--version=b"]]
)
def test_exactly_one_thing_is_asked_for(invoke: Run, target: Path, arguments: list[str]) -> None:
    assert invoke("add", "--to", str(target), *arguments).returncode == 2


def test_a_name_without_an_earlier_version_is_said(invoke: Run, target: Path) -> None:
    done = invoke("add", "--list", "fdp", "--to", str(target))

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"No earlier version of fdp is kept in {target}\n"


def test_programs_get_what_was_added_listed_and_restored(
    invoke: Run, tmp_path: Path, target: Path
) -> None:
    into = ("--to", str(target), "--json")
    archive = str(write_zip(tmp_path / "pdf.zip"))

    refused = invoke("add", archive, *into)
    first = json.loads(invoke("add", archive, "--yes", *into).stdout)
    second = json.loads(invoke("add", archive, "--yes", *into).stdout)
    listed = json.loads(invoke("add", "--list", "pdf", *into).stdout)
    restored = json.loads(invoke("add", "--restore", "pdf", *into).stdout)

    assert json.loads(refused.stdout)["error"]["code"] == "PACKAGE_NOT_ADDED"
    assert first["name"] == "pdf"
    assert first["path"] == str(target / "pdf")
    assert {each["file"] for each in first["files"]} == set(GOOD)
    assert first["kept_version"] is None
    assert listed == {"name": "pdf", "versions": [second["kept_version"]]}
    assert restored["version"] == second["kept_version"]
