"""Gaps in a tree of rules, files that nobody declares, and texts that grow."""

from pathlib import Path

import pytest

from skills_mcp.authoring.validation import validate
from tests.authoring.validation.findings import problems, said
from tests.packages import write_package
from tests.support import write, write_skill

ASSETS = [{"file": "assets/a.txt"}]


def write_tree(root: Path, *files: str) -> None:
    for number, file in enumerate(files):
        write_skill(root, file, keywords=[f"word{number}"])


def gaps(root: Path) -> list[str]:
    return [
        Path(p.file).relative_to(root).as_posix()
        for p in problems(root)
        if p.rule == "missing-index"
    ]


@pytest.mark.parametrize(
    "files, expected",
    [
        (["a/one.md", "b/two.md"], []),
        (["_root.md", "a/one.md"], []),
        (["one.md", "a/_index.md", "a/two.md"], []),
        (["a/one.md", "b/_index.md", "b/two.md"], ["a"]),
        (["a/_index.md", "a/b/one.md"], ["a/b"]),
        (["a/_index.md", "a/b/c/one.md"], ["a/b/c"]),
        (["_index.md", "a/one.md"], []),
        (["a/_index.md", "b/c/one.md"], []),
    ],
)
def test_a_folder_without_rules_is_a_gap_where_its_neighbours_have_some(
    tmp_path: Path, files: list[str], expected: list[str]
) -> None:
    write_tree(tmp_path, *files)

    assert gaps(tmp_path) == expected


def test_a_folder_of_packages_is_no_gap(tmp_path: Path) -> None:
    write_tree(tmp_path, "a/_index.md", "a/one.md")
    write_package(tmp_path, "b/pdf")

    assert gaps(tmp_path) == []


def test_an_index_that_cannot_be_read_is_not_missed(tmp_path: Path) -> None:
    write_tree(tmp_path, "a/_index.md", "b/one.md")
    write(tmp_path / "b/_index.md", "no frontmatter")

    assert gaps(tmp_path) == []


def test_a_gap_is_said_with_every_file_of_the_folder(tmp_path: Path) -> None:
    write_tree(tmp_path, "_root.md", "a/_index.md", "b/one.md", "c/two.md")

    assert said(tmp_path / "b/one.md") == [("b", 1, "missing-index")]


def test_files_that_nobody_declares_are_named(tmp_path: Path) -> None:
    write_skill(tmp_path, "auth.md", assets=ASSETS)
    for name in ("a.txt", "b.txt", "c.txt", "d.txt", "e.txt"):
        write(tmp_path / "auth" / "assets" / name)

    [problem] = problems(tmp_path)

    assert (problem.rule, problem.line) == ("undeclared-file", 2)
    assert "'assets/b.txt', 'assets/c.txt', 'assets/d.txt' and 1 more" in problem.reason


@pytest.mark.parametrize("name", ["README.md", ".gitkeep", "__pycache__/x.pyc"])
def test_what_people_and_tools_leave_there_needs_no_declaration(
    tmp_path: Path, name: str
) -> None:
    write_skill(tmp_path, "auth.md", assets=ASSETS)
    write(tmp_path / "auth/assets/a.txt")
    write(tmp_path / "auth" / name)

    assert said(tmp_path) == []


def test_a_skill_among_the_files_of_another_is_said_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui.md")
    write_skill(tmp_path, "ui/auth.md")

    assert said(tmp_path) == [("auth.md", 1, "hidden-skill")]


def test_the_files_of_a_package_need_no_declaration(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", {"notes.txt": "x"})

    assert said(tmp_path / "pdf") == []


def test_a_text_that_grew_with_what_it_inherits_is_too_long(tmp_path: Path) -> None:
    write_skill(tmp_path, "_root.md", keywords=["global"], body="x" * 60_000)
    write_skill(tmp_path, "ui/_index.md", keywords=["ui"], body="y" * 30_000)
    write_skill(tmp_path, "ui/auth.md", keywords=["auth"], body="z" * 20_000)
    write_skill(tmp_path, "ui/alone.md", keywords=["solo"], inherit=False)

    [problem] = validate(tmp_path).problems

    assert problem.rule == "composed-length"
    assert Path(problem.file).name == "auth.md"
    assert "110," in problem.reason
    assert problem.hint == "move parts of _root into files of its folder"
