"""A change is written as it was shown, or not at all."""

from pathlib import Path

import pytest

from skills_mcp.errors import HostFileError
from skills_mcp.features.hosts.host import find_host
from skills_mcp.features.hosts.installation import (
    HostFile,
    RemoteServer,
    plan_installation,
    plan_removal,
)
from tests.support import write

SERVER = RemoteServer("https://skills.acme.com/mcp")


@pytest.fixture
def file(tmp_path: Path) -> HostFile:
    return HostFile(find_host("cursor"), tmp_path / ".cursor/mcp.json", "user")


def test_a_file_that_has_changed_since_is_not_written(file: HostFile) -> None:
    write(file.path, "{}")
    change = plan_installation(file, "skills", SERVER)
    write(file.path, '{"mine": 1}')

    with pytest.raises(HostFileError, match="changed by another program"):
        change.apply()

    assert file.path.read_text() == '{"mine": 1}'


def test_a_file_that_has_come_since_is_not_replaced(file: HostFile) -> None:
    change = plan_installation(file, "skills", SERVER)
    write(file.path, '{"mine": 1}')

    with pytest.raises(HostFileError, match="changed by another program"):
        change.apply()


def test_the_change_that_is_shown_is_the_one_that_is_made(file: HostFile) -> None:
    write(file.path, '{"mine": 1}')

    change = plan_installation(file, "skills", SERVER)
    change.apply()

    lines = change.compare().splitlines()
    assert lines[:2] == [f"--- {file.path}", f"+++ {file.path}"]
    assert [line[1:] for line in lines if line.startswith("+")][1:] == (
        file.path.read_text().splitlines()
    )
    assert not plan_installation(file, "skills", SERVER).is_needed
    assert plan_removal(file, "skills").after == '{"mine": 1}'


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write(tmp_path / ".cursor", "in the way")
    file = HostFile(find_host("cursor"), tmp_path / ".cursor/mcp.json", "user")

    with pytest.raises(HostFileError, match="cannot be"):
        plan_installation(file, "skills", SERVER).apply()
