"""What of older commits stays on the disk, for agents that work with its paths."""

from pathlib import Path

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from tests.packages import package_text
from tests.support import Upstream, open_library


@pytest.mark.parametrize(
    "toolsets, commits, kept",
    [
        (["core", "packages"], 4, 4),
        (["core", "packages"], 14, 10 + 2),
        (["core"], 5, 2),
    ],
)
def test_so_many_folders_stay_where_agents_know_their_paths(
    upstream: Upstream, tmp_path: Path, toolsets: list[str], commits: int, kept: int
) -> None:
    branch = RemoteBranch(Remote.parse(upstream.url, "main"), tmp_path / "cache")
    library = open_library(branch, settings={"toolsets": toolsets}, load=False)

    for number in range(commits):
        upstream.commit({"pdf/SKILL.md": package_text(body=f"Version {number}.")})
        library.shelf.sync()

    folders = [path for path in tmp_path.glob("cache/*/snap/*") if path.is_dir()]
    assert len(folders) == kept
