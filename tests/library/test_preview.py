"""What a person looks at of one skill."""

from pathlib import Path

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.errors import FileTooLargeError, MissingFileError
from tests.support import Upstream, open_library, skill_text, write


def test_a_file_of_a_repository_leads_to_its_page_at_the_forge(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = upstream.commit({"skills/ui/_index.md": skill_text()})
    branch = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    library = open_library(branch)
    monkeypatch.setattr(RemoteBranch, "url", property(lambda _: "git@github.com:acme/skills.git"))

    [section] = library.view().preview("ui/_index").sections

    assert section.page_url == (f"https://github.com/acme/skills/blob/{commit}/skills/ui/_index.md")


def test_a_file_of_a_folder_has_no_page(tmp_path: Path) -> None:
    write(tmp_path / "one.md", skill_text())

    assert open_library(tmp_path).view().preview("one").sections[-1].page_url == ""


def test_the_raw_file_is_read_below_its_folder_and_not_beyond_a_limit(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "one.md", skill_text())
    library = open_library(tmp_path)
    narrow = open_library(tmp_path, settings={"assets": {"max_size_bytes": 10}})

    assert library.view().read_raw("one") == file.read_text()
    with pytest.raises(FileTooLargeError, match="more than 10 bytes"):
        narrow.view().read_raw("one")
    file.unlink()
    file.symlink_to("/etc/passwd")
    with pytest.raises(MissingFileError):
        library.view().read_raw("one")
