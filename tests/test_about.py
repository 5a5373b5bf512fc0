"""How a copy of the program was installed, and the line that adds an extra to it."""

import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from skills_mcp.about import compose_install_command, compose_requirement

GIT = """{"url": "https://example.com/a.git",
    "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "0"}}"""


@pytest.mark.parametrize(
    "origin, requirement",
    [
        (None, "skills-mcp-server[http]"),
        ('{"url": "file:///a%20b", "dir_info": {"editable": true}}', "/a b[http]"),
        (GIT, "skills-mcp-server[http] @ git+https://example.com/a.git@v1"),
        (
            '{"url": "https://example.com/a.whl", "archive_info": {}}',
            "skills-mcp-server[http] @ https://example.com/a.whl",
        ),
    ],
)
def test_the_requirement_is_what_the_copy_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, requirement: str
) -> None:
    monkeypatch.setattr(Distribution, "from_name", lambda _name: Installed(origin))

    assert compose_requirement("http") == requirement


class Installed:
    """A distribution with the origin that its installer has written."""

    def __init__(self, origin: str | None) -> None:
        self._origin = origin

    def read_text(self, _name: str) -> str | None:
        return self._origin


@pytest.mark.parametrize(
    "mark, begin",
    [
        ("tools/x/uv-receipt.toml", "uv tool install --force "),
        ("venvs/x/pipx_metadata.json", "pipx install --force "),
        ("archive-v0/x/pyvenv.cfg", "uvx --from "),
        ("venv/pyvenv.cfg", f"{sys.executable} -m pip install "),
    ],
)
def test_an_extra_is_added_by_the_installer_that_made_the_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str, begin: str
) -> None:
    file = tmp_path / mark
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr("sys.prefix", str(file.parent))

    line = compose_install_command("http")

    assert line.startswith(begin)
    assert "[http]" in line
