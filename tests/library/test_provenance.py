"""Where an answer comes from, for every shape that content has."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.content.local import LocalFolder
from skills_mcp.content.source import Checkout, Content, Mount, Part
from skills_mcp.library.provenance import Provenance, derive_place, derive_provenance
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Scope, Skill
from tests.support import make_skill


def a_part(
    top: Path, commit: str | None = None, *, at: str = "", scope: Scope = "org"
) -> Part:
    """Return a source whose files lie in a folder, as they would after a sync."""
    mount = Mount(source=LocalFolder(top), at=at, scope=scope)
    return Part(mount, Checkout(top, commit, datetime.now(UTC)))


def a_skill(path: str, folder: Path, file: str, **fields: Any) -> Skill:
    """Return a skill whose Markdown lies in a folder."""
    return make_skill(path, location=folder / file, **fields)


def content_of(parts: Sequence[Part]) -> Content:
    return Content(tuple(parts))


def test_a_file_of_a_commit_is_named_as_its_repository_names_it() -> None:
    content = content_of([a_part(Path("/cache/snap/c0ffee"), "c0ffee")])
    skill = a_skill("ui/auth", Path("/cache/snap/c0ffee/skills"), "ui/auth.md")

    found = derive_provenance(content, SkillIndex([skill]), skill)

    assert found == Provenance("c0ffee", "skills/ui/auth.md")


def test_a_folder_has_no_commit() -> None:
    content = content_of([a_part(Path("/home/ada/rules"))])
    skill = a_skill("ui/auth", Path("/home/ada/rules"), "ui/auth.md")

    found = derive_provenance(content, SkillIndex([skill]), skill)

    assert found == Provenance(None, "ui/auth.md")


def test_a_file_beside_a_skill_has_a_path_of_its_own() -> None:
    content = content_of([a_part(Path("/snap/c0ffee"), "c0ffee")])
    folder = Path("/snap/c0ffee/pdf")
    skill = a_skill("pdf", folder, "SKILL.md", directory=folder)

    assert derive_place(content, skill).path == "pdf/SKILL.md"
    assert derive_place(content, skill, "a/b.txt") == Provenance(
        "c0ffee", "pdf/a/b.txt"
    )


def test_each_skill_has_the_commit_of_its_own_source() -> None:
    parts = [a_part(Path("/snap/aaa"), "aaa"), a_part(Path("/snap/bbb"), "bbb", at="x")]
    skill = a_skill("x/auth", Path("/snap/bbb"), "auth.md", inherit=False)

    found = derive_provenance(content_of(parts), SkillIndex([skill]), skill)

    assert found == Provenance("bbb", "auth.md")


def test_the_commits_of_inherited_rules_are_told_where_they_differ() -> None:
    parts = [
        a_part(Path("/snap/aaa"), "aaa"),
        a_part(Path("/home/ada/notes"), at="x"),
        a_part(Path("/snap/bbb"), "bbb", at="x/y"),
    ]
    root = a_skill("_root", Path("/snap/aaa"), "_root.md")
    folder = a_skill("x/_index", Path("/home/ada/notes"), "_index.md")
    inner = a_skill("x/y/_index", Path("/snap/bbb"), "_index.md")
    skill = a_skill("x/y/auth", Path("/snap/bbb"), "auth.md")
    index = SkillIndex([root, folder, inner, skill])

    found = derive_provenance(content_of(parts), index, skill)

    assert found.commit == "bbb"
    assert found.inherited_commits == {"_root": "aaa", "x/_index": None}


def test_a_skill_that_does_not_inherit_names_no_other_commit() -> None:
    parts = [a_part(Path("/snap/aaa"), "aaa"), a_part(Path("/snap/bbb"), "bbb", at="x")]
    root = a_skill("_root", Path("/snap/aaa"), "_root.md")
    skill = a_skill("x/auth", Path("/snap/bbb"), "auth.md", inherit=False)

    found = derive_provenance(content_of(parts), SkillIndex([root, skill]), skill)

    assert found.inherited_commits == {}


@pytest.mark.parametrize(
    "path, scope, expected",
    [("x/auth", "org", "auth.md"), ("y/auth", "org", "inner/auth.md")],
)
def test_of_folders_inside_of_each_other_the_one_that_serves_the_skill_is_named(
    path: str, scope: Scope, expected: str
) -> None:
    parts = [
        a_part(Path("/home/ada/rules"), at="y"),
        a_part(Path("/home/ada/rules/inner"), at="x"),
    ]
    skill = a_skill(path, Path("/home/ada/rules/inner"), "auth.md", scope=scope)

    found = derive_place(content_of(parts), skill)

    assert found.path == expected


def test_a_folder_whose_name_only_begins_alike_is_another_one() -> None:
    one, other = a_part(Path("/snap/a"), "a"), a_part(Path("/snap/ab"), "ab", at="x")
    skill = a_skill("x/auth", Path("/snap/ab"), "auth.md")

    assert derive_place(content_of([one, other]), skill).commit == "ab"
    assert derive_place(content_of([one]), skill).commit is None


def test_a_skill_that_never_was_a_file_comes_from_nowhere() -> None:
    skill = make_skill("auth")

    assert derive_place(content_of([]), skill) == Provenance(None, "auth.md")
