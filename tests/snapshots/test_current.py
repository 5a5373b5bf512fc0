"""How long older commits stay on the disk, and which sources have a timer."""

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skills_mcp.config import Layer, Settings
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import ContentSource, LocalFolder, Mount, Progress
from skills_mcp.routing.decision import NoMatch
from skills_mcp.skills.source_layout import FolderListing, FolderTree
from skills_mcp.snapshots.current import CurrentSnapshot
from tests.packages import package_text, write_package
from tests.support import Upstream, open_library, served_by, write_skill


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
        library.sync()

    folders = [path for path in tmp_path.glob("cache/*/snap/*") if path.is_dir()]
    assert len(folders) == kept


class Diary(Progress):
    """Remembers each step, and how many items it has."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        super().__init__()

    def begin(self, step: str, total: int = 0) -> None:
        """Remember the step."""
        self.steps.append((step, total))
        super().begin(step, total)


READING = [("Finding skills", 0), ("Reading skills", 2)]
INDEXING = [("Indexing skills", 2), ("Keeping the index", 0), ("", 0)]


def diary_of(source: ContentSource, cache: Path) -> Diary:
    """Return what a sync says of its progress."""
    mounts = Mounts([Mount(source=source)])
    mounts.progress = diary = Diary()
    CurrentSnapshot(mounts, Settings(), cache).sync()
    return diary


def test_a_folder_is_read_step_by_step(tmp_path: Path) -> None:
    for name in ("pdf", "word"):
        write_package(tmp_path / "content" / "skills", name)
    source = LocalFolder(tmp_path / "content")

    diary = diary_of(source, tmp_path / "index")

    assert diary.steps == READING + INDEXING


def test_a_repository_is_read_step_by_step(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({f"skills/{n}/SKILL.md": package_text(name=n) for n in ("pdf", "word")})
    source = RemoteBranch(Remote.parse(upstream.url, "main"), tmp_path / "cache")

    diary = diary_of(source, tmp_path / "index")

    assert diary.steps == [*READING, ("", 0), *INDEXING]


@pytest.mark.spec("9.3")
@pytest.mark.parametrize(
    "settings, minutes",
    [
        ({}, 15),
        ({"refresh": {"interval_minutes": 5}}, 5),
        ({"refresh": {"enabled": False}}, None),
    ],
)
def test_a_repository_is_synced_by_a_timer_and_a_folder_is_not(
    settings: dict[str, Any], minutes: int | None, tmp_path: Path
) -> None:
    folders = tuple(Mount(source=LocalFolder(tmp_path), at=name) for name in "ab")
    branch = RemoteBranch(Remote.parse("/c", "main"), tmp_path / "cache")
    rules = Settings((Layer("test", settings),)).resolve().refresh

    assert Mounts(folders).interval_minutes(rules) is None
    assert Mounts((*folders, Mount(source=branch))).interval_minutes(rules) == minutes


def test_the_files_of_a_new_commit_are_walked_once(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.commit({"pdf/SKILL.md": package_text(body="One.")})
    branch = RemoteBranch(Remote.parse(upstream.url, "main"), tmp_path / "cache")
    library = open_library(branch)
    upstream.commit({"pdf/SKILL.md": package_text(body="Two.")})
    listed: list[str] = []
    list_folder = FolderTree.list

    def noting(tree: FolderTree, folder: str, most: int) -> FolderListing:
        listed.append(folder)
        return list_folder(tree, folder, most)

    monkeypatch.setattr(FolderTree, "list", noting)

    library.sync()

    assert listed.count("pdf") == 1
    assert library.view().snapshot.index.require("pdf").body.strip() == "Two."


def test_a_served_file_that_was_edited_in_place_is_served_as_it_is_until_mended(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"pdf/SKILL.md": package_text(body="One.")})
    branch = RemoteBranch(Remote.parse(upstream.url, "main"), tmp_path / "cache")
    mounts = Mounts((Mount(source=branch),))
    current = CurrentSnapshot(mounts, Settings(()), tmp_path / "index")
    content = current.sync()
    [file] = tmp_path.glob("cache/*/snap/*/pdf/SKILL.md")
    text = file.read_text()
    found = file.stat()
    file.chmod(0o644)
    file.write_text(text.replace("One.", "Two."))

    current.load(content)
    edited = served_by(current).index.require("pdf").body.strip()
    file.write_text(text)
    os.utime(file, ns=(found.st_mtime_ns, found.st_mtime_ns))
    file.chmod(0o444)
    current.load(content)

    assert edited == "Two."
    assert served_by(current).index.require("pdf").body.strip() == "One."


def test_a_file_that_was_edited_in_place_is_served_though_the_index_is_damaged(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"pdf/SKILL.md": package_text(body="One.")})
    branch = RemoteBranch(Remote.parse(upstream.url, "main"), tmp_path / "cache")
    mounts = Mounts((Mount(source=branch),))
    current = CurrentSnapshot(mounts, Settings(()), tmp_path / "index")
    content = current.sync()
    [file] = tmp_path.glob("cache/*/snap/*/pdf/SKILL.md")
    file.chmod(0o644)
    file.write_text(file.read_text().replace("One.", "Two."))
    [kept] = tmp_path.glob("index/*/*/sequences.bin")
    kept.write_bytes(b"x" * kept.stat().st_size)

    current.load(content)

    assert served_by(current).index.require("pdf").body.strip() == "Two."


def test_settings_of_a_folder_that_were_edited_without_a_skill_count(tmp_path: Path) -> None:
    write_package(tmp_path / "content" / "skills", "pdf")
    config = tmp_path / "content" / "config.yaml"
    library = open_library(tmp_path / "content")

    config.write_text("responses: {max_characters: 20_000}\nnonsense: 1\n")
    library.sync()

    assert library.config.responses.max_characters == 20_000
    assert [problem.rule for problem in library.view().list_problems()] == ["config"]


def test_synonyms_of_a_folder_that_were_edited_without_a_skill_count(tmp_path: Path) -> None:
    write_package(tmp_path / "content" / "skills", "pdf", description="Fill in forms.")
    library = open_library(tmp_path / "content")
    assert isinstance(library.view().decide("complete a questionnaire"), NoMatch)

    config = tmp_path / "content" / "config.yaml"
    config.write_text("routing: {synonyms: ['questionnaire = form']}\n")
    library.sync()

    assert not isinstance(library.view().decide("complete a questionnaire"), NoMatch)


def test_what_reading_took_is_given_back_once_the_skills_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[int] = []
    library = SimpleNamespace(malloc_trim=trimmed.append)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    write_skill(tmp_path, "one.md")

    open_library(tmp_path)

    assert trimmed == [0]
