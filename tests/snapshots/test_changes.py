"""What a refresh changed, from real folders that are read before and after."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.skills.model import SkillPath
from skills_mcp.snapshots.changes import (
    Offer,
    SkillChanges,
    derive_changes,
    is_listing_changed,
)
from tests.packages import write_package
from tests.support import open_library, write, write_skill


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


def offer_of(folder: Path, settings: Mapping[str, Any] | None = None) -> Offer:
    snapshot = open_library(folder, settings=settings).snapshot
    table = snapshot.indexes.basis().collection.table
    return Offer(table, snapshot.index.offered.numbers)


def changes_of(**lists: Sequence[str]) -> SkillChanges:
    """Return changes that a test has written down."""
    return SkillChanges(**{k: tuple(map(SkillPath, v)) for k, v in lists.items()})


def copied(content: Path, change: Callable[[Path], object]) -> Path:
    """Return another folder, as every commit has one, with a change."""
    folder = content.parent / "next"
    shutil.copytree(content, folder)
    change(folder)
    return folder


def test_without_a_change_there_is_none(content: Path) -> None:
    again = copied(content, lambda _: None)

    changes = derive_changes(offer_of(content), offer_of(again), {})

    assert changes == SkillChanges()


def test_skills_that_came_and_went_are_named_in_order(content: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "skills/ui/forms.md").unlink()
        write_skill(folder, "skills/z.md")
        write_skill(folder, "skills/a.md")

    changes = derive_changes(offer_of(content), offer_of(copied(content, change)), {})

    assert changes == changes_of(added=["a", "z"], removed=["ui/forms"])


@pytest.mark.parametrize(
    "file, text, path",
    [
        ("ui/forms.md", "---\ndescription: x\nkeywords: [y]\n---\nNew.", "ui/forms"),
        ("ui/auth/assets/base.txt", "Another length", "ui/auth"),
        ("pdf/scripts/fill.py", "print(1000)", "pdf"),
        ("pdf/references/more.md", "A new file", "pdf"),
    ],
)
def test_a_skill_that_says_or_has_something_else_is_changed(
    content: Path, file: str, text: str, path: str
) -> None:
    after = copied(content, lambda folder: write(folder / "skills" / file, text))

    changes = derive_changes(offer_of(content), offer_of(after), {})

    assert changes == changes_of(changed=[path])


def test_a_file_that_keeps_its_size_is_seen_where_the_source_names_it(
    content: Path,
) -> None:
    base = "skills/ui/auth/assets/base.txt"
    after = copied(content, lambda folder: write(folder / base, "Two"))
    before, now = offer_of(content), offer_of(after)

    unnamed = derive_changes(before, now, {})
    named = derive_changes(before, now, {after: frozenset({base, "README.md"})})
    elsewhere = derive_changes(before, now, {content: frozenset({base})})

    assert unnamed == elsewhere == SkillChanges()
    assert named == changes_of(changed=["ui/auth"])


@pytest.mark.parametrize(
    "file, path",
    [
        ("skills/ui/auth.md", "ui/auth"),
        ("skills/ui/forms.md", "ui/forms"),
        ("skills/pdf/SKILL.md", "pdf"),
        ("skills/pdf/scripts/fill.py", "pdf"),
    ],
)
def test_a_file_that_the_source_names_belongs_to_one_skill(
    content: Path, file: str, path: str
) -> None:
    offer = offer_of(content)
    again = offer_of(copied(content, lambda _: None))

    named = {content.parent / "next": frozenset({file})}

    assert derive_changes(offer, again, named) == changes_of(changed=[path])


def test_a_package_at_the_top_has_the_files_of_the_whole_source(
    tmp_path: Path,
) -> None:
    write_package(tmp_path, "alone", {"a.txt": "One"})
    offer = offer_of(tmp_path / "alone")
    again = offer_of(copied(tmp_path / "alone", lambda _: None))

    changes = derive_changes(offer, again, {tmp_path / "next": {"a.txt"}})

    assert changes == changes_of(changed=["alone"])


def test_in_a_folder_a_file_that_was_edited_is_seen_by_its_time(content: Path) -> None:
    base = content / "skills/ui/auth/assets/base.txt"
    before = offer_of(content)
    write(base, "Two")
    os.utime(base, (1, 1))

    changes = derive_changes(before, offer_of(content), {})

    assert changes == changes_of(changed=["ui/auth"])


def test_what_is_hidden_has_come_or_gone(content: Path) -> None:
    hidden = offer_of(content, {"visibility": {"deny": ["ui/*"]}})
    offered = offer_of(content)

    assert derive_changes(hidden, offered, {}).added == ("ui/auth", "ui/forms")
    assert derive_changes(offered, hidden, {}).removed == ("ui/auth", "ui/forms")


def test_the_first_content_is_all_new_and_none_is_no_change(content: Path) -> None:
    offer = offer_of(content)

    assert derive_changes(None, offer, {}).added == ("pdf", "ui/auth", "ui/forms")
    assert derive_changes(None, None, {}) == SkillChanges()


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
    after = copied(
        content, lambda folder: write_skill(folder, "skills/ui/forms.md", **fields)
    )

    assert is_listing_changed(offer_of(content), offer_of(after)) is is_other


def test_a_list_looks_different_when_a_skill_comes_or_goes(content: Path) -> None:
    before = offer_of(content)
    after = offer_of(copied(content, lambda top: write_skill(top, "skills/a.md")))

    assert is_listing_changed(before, after)
    assert is_listing_changed(after, before)
    assert not is_listing_changed(before, before)


def test_the_first_list_is_news_unless_it_is_empty(
    content: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()

    assert is_listing_changed(None, offer_of(content))
    assert not is_listing_changed(None, offer_of(tmp_path / "empty"))
