"""What a refresh changed, from real folders that are read before and after."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Settings
from skills_mcp.content.source import Checkout, Content, ContentPart, Mount
from skills_mcp.skills.model import EXPORTED_TIMES_NS, SkillPath
from skills_mcp.snapshots.skill_snapshot import (
    OfferedSkills,
    SkillChanges,
    derive_changes,
    is_listing_changed,
    take_snapshot,
)
from tests.content.sources import FakeSource, checkout_of
from tests.packages import write_package
from tests.support import open_library, sha256_of, write, write_skill


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """Return a rule with a file, one without, and a package, in a folder `skills`."""
    folder = tmp_path / "content"
    template = [{"file": "assets/base.txt"}]
    write_skill(folder, "skills/ui/auth.md", assets=template, body="Log in.")
    write(folder / "skills/ui/auth/assets/base.txt", "One")
    write_skill(folder, "skills/ui/forms.md", body="Label every field.")
    write_package(folder / "skills", "pdf", {"scripts/fill.py": "print(1)"})
    return folder


class Commit(FakeSource):
    """A folder as a commit, in which the content of each file has an id."""

    def content_ids(self, checkout: Checkout) -> Mapping[str, str]:
        files = (each for each in checkout.directory.rglob("*") if each.is_file())
        return {
            file.relative_to(checkout.directory).as_posix(): sha256_of(file.read_bytes())
            for file in files
        }


def offered_by(folder: Path, settings: Mapping[str, Any] | None = None) -> OfferedSkills:
    """Return the skills of a folder."""
    return open_library(folder, settings=settings).view().snapshot.offered


def committed(folder: Path) -> OfferedSkills:
    """Return the skills of a folder as those of a commit."""
    for file in folder.rglob("*.*"):
        if file.is_file():  # as a commit is exported
            os.utime(file, ns=(EXPORTED_TIMES_NS[0],) * 2)
            file.chmod(0o444)
    checkout = checkout_of(folder.name, folder)
    part = ContentPart(Mount(source=Commit()), checkout)
    return take_snapshot(Content((part,)), Settings()).offered


def changes_of(
    *, added: Sequence[str] = (), changed: Sequence[str] = (), removed: Sequence[str] = ()
) -> SkillChanges:
    """Return changes that a test has written down."""
    old, same, new = (tuple(map(SkillPath, paths)) for paths in (removed, changed, added))
    return SkillChanges(added=new, changed=same, removed=old)


def copied(content: Path, change: Callable[[Path], object]) -> Path:
    """Return another folder, as every commit has one, with a change."""
    folder = content.parent / "next"
    shutil.copytree(content, folder)
    for file in folder.rglob("*.*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    change(folder)
    return folder


def test_without_a_change_there_is_none(content: Path) -> None:
    before = committed(content)

    after = committed(copied(content, lambda _: None))

    assert derive_changes(before, after) == SkillChanges()
    assert derive_changes(before, before) == SkillChanges()


def test_skills_that_came_and_went_are_named_in_order(content: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "skills/ui/forms.md").unlink()
        write_skill(folder, "skills/z.md")
        write_skill(folder, "skills/a.md")

    changes = derive_changes(committed(content), committed(copied(content, change)))

    assert changes == changes_of(added=["a", "z"], removed=["ui/forms"])


@pytest.mark.parametrize(
    "file, text, path",
    [
        ("ui/forms.md", "---\ndescription: x\nkeywords: [y]\n---\nNew.", "ui/forms"),
        ("ui/auth/assets/base.txt", "Another length", "ui/auth"),
        ("ui/auth/assets/base.txt", "Two", "ui/auth"),
        ("pdf/scripts/fill.py", "print(1000)", "pdf"),
        ("pdf/references/more.md", "A new file", "pdf"),
    ],
)
def test_a_skill_that_says_or_has_something_else_is_changed(
    content: Path, file: str, text: str, path: str
) -> None:
    before = committed(content)

    after = committed(copied(content, lambda top: write(top / "skills" / file, text)))

    assert derive_changes(before, after) == changes_of(changed=[path])


def test_a_package_at_the_top_has_the_files_of_the_whole_source(
    tmp_path: Path,
) -> None:
    write_package(tmp_path, "alone", {"a.txt": "One"})
    before = committed(tmp_path / "alone")
    other = copied(tmp_path / "alone", lambda top: write(top / "a.txt", "Two"))

    changes = derive_changes(before, committed(other))

    assert changes == changes_of(changed=["alone"])


def test_in_a_folder_a_file_that_was_edited_is_seen_by_its_time(content: Path) -> None:
    base = content / "skills/ui/auth/assets/base.txt"
    before = offered_by(content)
    write(base, "Two")
    os.utime(base, (1, 1))

    changes = derive_changes(before, offered_by(content))

    assert changes == changes_of(changed=["ui/auth"])


def test_what_is_hidden_has_come_or_gone(content: Path) -> None:
    hidden = offered_by(content, {"visibility": {"deny": ["ui/*"]}})
    offered = offered_by(content)

    assert derive_changes(hidden, offered).added == ("ui/auth", "ui/forms")
    assert derive_changes(offered, hidden).removed == ("ui/auth", "ui/forms")


def test_the_first_content_is_all_new_and_none_is_no_change(content: Path) -> None:
    offered = offered_by(content)

    assert derive_changes(None, offered).added == ("pdf", "ui/auth", "ui/forms")
    assert derive_changes(None, None) == SkillChanges()


# What a list of skills shows


@pytest.mark.parametrize(
    "fields, is_other",
    [
        ({"body": "Label every field."}, False),
        ({"body": "Other rules."}, False),
        ({"body": "Label every field.", "description": "Forms"}, True),
    ],
)
def test_a_list_looks_different_when_a_description_does(
    content: Path,
    fields: dict[str, Any],
    is_other: bool,  # noqa: FBT001 - parametrized
) -> None:
    after = copied(content, lambda folder: write_skill(folder, "skills/ui/forms.md", **fields))

    assert is_listing_changed(offered_by(content), offered_by(after)) is is_other


def test_a_list_looks_different_when_a_skill_comes_or_goes(content: Path) -> None:
    before = offered_by(content)
    after = offered_by(copied(content, lambda top: write_skill(top, "skills/a.md")))

    assert is_listing_changed(before, after)
    assert is_listing_changed(after, before)
    assert not is_listing_changed(before, before)


def test_the_first_list_is_news_unless_it_is_empty(content: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert is_listing_changed(None, offered_by(content))
    assert not is_listing_changed(None, offered_by(tmp_path / "empty"))
