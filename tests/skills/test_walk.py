"""Which files of a folder are skills, which belong to one, and which are neither."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Limits
from skills_mcp.errors import LimitExceededError
from skills_mcp.skills.model import Problem
from skills_mcp.skills.skill_discovery import (
    MAX_DEPTH,
    Package,
    RootWalk,
    RuleFile,
    SourceWalk,
    WalkResult,
)
from skills_mcp.skills.source_layout import (
    DEFAULT_SELECTION,
    FolderListing,
    FolderTree,
    RelativeRoot,
    Selection,
)
from tests.skills.contents import load_skills, take
from tests.support import skill_text, write, write_skill

PACKAGE = "---\nname: pdf\ndescription: Fills forms.\n---\n"

posix = pytest.mark.skipif(sys.platform == "win32", reason="no such files")


def write_package(root: Path, folder: str, *files: str) -> Path:
    for file in files:
        write(root / folder / file)
    return write(root / folder / "SKILL.md", PACKAGE)


def walk(
    folder: Path,
    max_files: int = 1000,
    *,
    max_file_bytes: int = 1000,
    packages_only: bool = False,
) -> Iterator[WalkResult]:
    home = RelativeRoot("", packages_only=packages_only)
    limits = Limits(max_files=max_files, max_file_bytes=max_file_bytes)
    return RootWalk(FolderTree(folder), home, limits).run()


def packages(folder: Path, *, max_files: int = 1000) -> dict[str, list[str]]:
    """Return the files of each package; there is nothing else."""
    found = list(walk(folder, max_files))
    assert [each for each in found if not isinstance(each, Package)] == []
    return {p.folder: list(p.files) for p in found if isinstance(p, Package)}


def found_in(folder: Path, *, packages_only: bool = False) -> list[str]:
    """Return the files of all skills."""
    found = walk(folder, packages_only=packages_only)
    return sorted(e.file for e in found if isinstance(e, RuleFile | Package))


def problems_of(folder: Path) -> list[tuple[str, str, str]]:
    found = walk(folder)
    return sorted((p.file, p.level, p.rule) for p in found if isinstance(p, Problem))


# --- packages -----------------------------------------------------------------


def test_a_folder_with_a_skill_md_is_a_package_at_any_depth(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf")
    write_package(tmp_path, "plugins/office/skills/xlsx")

    assert found_in(tmp_path) == ["pdf/SKILL.md", "plugins/office/skills/xlsx/SKILL.md"]


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md", "Skill.md", "SKILL.MD"])
def test_the_main_file_may_be_written_in_any_case(tmp_path: Path, name: str) -> None:
    write(tmp_path / "pdf" / name, PACKAGE)

    assert found_in(tmp_path) == [f"pdf/{name}"]


@pytest.mark.skipif(sys.platform != "linux", reason="names that differ in case only")
def test_of_two_main_files_the_one_of_the_standard_is_read(tmp_path: Path) -> None:
    for name in ["SKILL.MD", "SKILL.md", "skill.md"]:
        write(tmp_path / "pdf" / name, PACKAGE)

    [package] = [each for each in walk(tmp_path) if isinstance(each, Package)]

    assert package.main == "SKILL.md"
    assert package.files == {}
    assert problems_of(tmp_path) == [
        ("pdf/SKILL.MD", "error", "name-collision"),
        ("pdf/skill.md", "error", "name-collision"),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="names that differ in case only")
def test_of_names_that_some_systems_take_for_one_none_is_guessed(
    tmp_path: Path,
) -> None:
    for name in ("a.md", "A.md", "UI/x.md", "ui/y.md", "other.md"):
        write_skill(tmp_path, name)
    write_package(tmp_path, "pdf", "é.txt", "É.txt", "b.txt")

    [package] = [each for each in walk(tmp_path) if isinstance(each, Package)]

    assert list(package.files) == ["b.txt"]
    assert found_in(tmp_path) == ["other.md", "pdf/SKILL.md"]
    assert problems_of(tmp_path) == [
        ("A.md", "error", "name-collision"),
        ("UI", "error", "name-collision"),
        ("a.md", "error", "name-collision"),
        ("pdf/É.txt", "warning", "name-collision"),
        ("pdf/é.txt", "warning", "name-collision"),
        ("ui", "error", "name-collision"),
    ]


def test_markdown_inside_a_package_is_its_file_and_no_skill(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf")
    write_skill(tmp_path, "pdf/forms.md")
    write_skill(tmp_path, "pdf/references/_index.md")

    assert packages(tmp_path) == {"pdf": ["forms.md", "references/_index.md"]}


def test_every_file_belongs_to_its_package_even_a_hidden_one(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", "a.txt", ".config/b", "x/y/z.bin", "with space.txt")

    assert packages(tmp_path) == {"pdf": [".config/b", "a.txt", "with space.txt", "x/y/z.bin"]}


@pytest.mark.parametrize(
    "file",
    [
        *(".git/config", ".hg/x", ".svn/x", ".jj/x", ".env", ".venv/x", ".DS_Store"),
        *("._a.md", "._x/y", "Thumbs.db", "Desktop.ini"),
        *("node_modules/x/SKILL.md", "__pycache__/x.pyc", "scripts/node_modules/x"),
    ],
)
def test_what_tools_leave_behind_belongs_to_nobody(tmp_path: Path, file: str) -> None:
    write_package(tmp_path, "pdf", file)
    write_skill(tmp_path, "ui.md")
    write(tmp_path / file, PACKAGE)

    assert found_in(tmp_path) == ["pdf/SKILL.md", "ui.md"]
    [package] = [e for e in walk(tmp_path) if isinstance(e, Package)]
    assert package.files == {}


def test_a_package_inside_a_package_is_one_of_its_own(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", "a.txt", "forms/deep/x.txt")
    write_package(tmp_path, "pdf/forms", "b.txt")
    write_package(tmp_path, "pdf/examples/made/one", "c.txt")

    assert packages(tmp_path) == {
        "pdf": ["a.txt"],
        "pdf/forms": ["b.txt", "deep/x.txt"],
        "pdf/examples/made/one": ["c.txt"],
    }


def test_a_package_at_the_top_has_everything_but_other_packages(tmp_path: Path) -> None:
    write_package(tmp_path, "", "a.txt", "skills/rule.md", ".github/x")
    write_package(tmp_path, "inner", "b.txt")

    assert packages(tmp_path) == {
        "": [".github/x", "a.txt", "skills/rule.md"],
        "inner": ["b.txt"],
    }


def test_both_formats_stand_side_by_side(tmp_path: Path) -> None:
    write_skill(tmp_path, "_root.md")
    write_skill(tmp_path, "office/_index.md")
    write_package(tmp_path, "office/pdf")

    assert found_in(tmp_path) == ["_root.md", "office/_index.md", "office/pdf/SKILL.md"]


def test_a_rule_and_a_package_of_one_name_keep_their_files_apart(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "pdf.md")
    write_package(tmp_path, "pdf", "a.txt")

    found = list(walk(tmp_path))

    assert [type(each) for each in found] == [Package, RuleFile]
    assert [each.file for each in found] == ["pdf/SKILL.md", "pdf.md"]
    assert [e.owns_folder for e in found if isinstance(e, RuleFile)] == [False]


# --- hidden folders and folders of other skills -------------------------------


@pytest.mark.parametrize("folder", [".github", ".claude/skills", "a/.hidden/b"])
def test_a_hidden_folder_holds_packages_only(tmp_path: Path, folder: str) -> None:
    write_package(tmp_path, f"{folder}/pdf")
    write_skill(tmp_path, f"{folder}/rule.md")
    write(tmp_path / folder / "ISSUE_TEMPLATE/bug.md", "no skill, and no problem")

    assert found_in(tmp_path) == [f"{folder}/pdf/SKILL.md"]
    assert problems_of(tmp_path) == []


def test_a_markdown_file_in_a_hidden_folder_owns_no_folder(tmp_path: Path) -> None:
    write(tmp_path / ".claude/pdf.md", "about it")
    write_package(tmp_path, ".claude/pdf/forms")
    write(tmp_path / ".agents.md", "about them")
    write_package(tmp_path, ".agents/xlsx")

    assert found_in(tmp_path) == [".agents/xlsx/SKILL.md", ".claude/pdf/forms/SKILL.md"]


def test_a_walk_may_look_for_packages_only(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf")
    write_skill(tmp_path, "rule.md")
    write_skill(tmp_path, "ui/rule.md")

    assert found_in(tmp_path, packages_only=True) == ["pdf/SKILL.md"]


def test_the_folder_of_a_rule_has_its_markdown_and_still_its_packages(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "ui.md")
    write(tmp_path / "ui/b.md")
    write(tmp_path / "ui/deep/er/a.md")
    write(tmp_path / "ui/x.txt")
    (tmp_path / "ui/link.md").symlink_to("b.md")
    (tmp_path / "ui/folder.md").mkdir()
    write_package(tmp_path, "ui/pdf")

    link, package, rule = walk(tmp_path)

    assert isinstance(link, Problem)
    assert (link.file, link.level, link.rule) == ("ui/link.md", "warning", "link")
    assert isinstance(package, Package)
    assert package.folder == "ui/pdf"
    markdown = ("b.md", "deep/er/a.md")
    assert rule == RuleFile("ui.md", owns_folder=True, markdown=markdown)


@posix
def test_a_pipe_among_the_files_of_a_rule_does_not_block(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui.md", assets=[{"file": "declared.md"}])
    (tmp_path / "ui").mkdir()
    os.mkfifo(tmp_path / "ui/declared.md")
    os.mkfifo(tmp_path / "ui/other.md")
    (tmp_path / "ui/link.md").symlink_to(tmp_path / "ui/other.md")

    loaded = load_skills(tmp_path)

    assert [skill.path for skill in loaded.skills] == ["ui"]
    assert [(p.file, p.rule) for p in loaded.problems] == [
        ("ui.md", "file-missing"),
        ("ui/link.md", "link"),
    ]


def test_a_folder_that_is_called_like_a_file_owns_nothing(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui.md/inner.md")
    write_skill(tmp_path, "ui/react.md")

    assert found_in(tmp_path) == ["ui.md/inner.md", "ui/react.md"]


def test_a_folder_that_is_called_skill_md_makes_no_package(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf/SKILL.md/rule.md")
    write_skill(tmp_path, "pdf/other.md")
    write_package(tmp_path, "xlsx/SKILL.md")

    assert found_in(tmp_path) == [
        "pdf/SKILL.md/rule.md",
        "pdf/other.md",
        "xlsx/SKILL.md/SKILL.md",
    ]


# --- links and other things that are no files ---------------------------------


def test_a_package_whose_main_file_is_a_link_is_not_served(tmp_path: Path) -> None:
    outside = write_package(tmp_path / "outside", "pdf")
    inside = tmp_path / "inside"
    write_skill(inside, "pdf/references/forms.md")
    write_package(inside, "pdf/inner")
    (inside / "pdf/SKILL.md").symlink_to(outside)

    assert found_in(inside) == ["pdf/inner/SKILL.md"]
    assert problems_of(inside) == [("pdf/SKILL.md", "error", "link")]


@pytest.mark.parametrize("target", ["absent", "SKILL.md", "..", "../../outside"])
def test_a_main_file_may_lead_anywhere_and_is_never_followed(tmp_path: Path, target: str) -> None:
    write_skill(tmp_path, "outside/secret.md")
    (tmp_path / "inside/pdf").mkdir(parents=True)
    (tmp_path / "inside/pdf/SKILL.md").symlink_to(target)

    assert found_in(tmp_path / "inside") == []
    assert problems_of(tmp_path / "inside") == [("pdf/SKILL.md", "error", "link")]


@pytest.mark.skipif(sys.platform != "linux", reason="names that differ in case only")
def test_a_file_is_the_main_one_rather_than_a_link(tmp_path: Path) -> None:
    write(tmp_path / "pdf/skill.md", PACKAGE)
    (tmp_path / "pdf/SKILL.md").symlink_to("skill.md")

    assert found_in(tmp_path) == ["pdf/skill.md"]
    assert problems_of(tmp_path) == [("pdf/SKILL.md", "error", "name-collision")]


def test_a_link_in_a_package_is_left_out_and_told(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside/secret.txt", "secret")
    inside = tmp_path / "inside"
    write_package(inside, "pdf", "a.txt", "scripts/b.py")
    (inside / "pdf/secret.txt").symlink_to(outside)
    (inside / "pdf/scripts/folder").symlink_to(outside.parent)
    (inside / "pdf/loop").symlink_to(inside)
    (inside / "pdf/self").symlink_to("self")

    [package] = [e for e in walk(inside) if isinstance(e, Package)]

    assert list(package.files) == ["a.txt", "scripts/b.py"]
    assert problems_of(inside) == [
        (f"pdf/{name}", "warning", "link")
        for name in ["loop", "scripts/folder", "secret.txt", "self"]
    ]


def test_a_folder_that_is_a_link_is_told_and_never_entered(tmp_path: Path) -> None:
    write_package(tmp_path / "outside", "pdf")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "office").symlink_to(tmp_path / "outside", target_is_directory=True)
    (inside / "up").symlink_to("..", target_is_directory=True)

    assert found_in(inside) == []
    assert problems_of(inside) == [("office", "error", "link"), ("up", "error", "link")]


@contextmanager
def special(path: Path, kind: str) -> Iterator[None]:
    """Put something at `path` that is neither a file nor a folder nor a link."""
    if kind == "pipe":
        os.mkfifo(path)
        yield
        return
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as end:
        os.chdir(path.parent)  # the name of a socket may not be long
        try:
            end.bind(path.name)
        finally:
            os.chdir(here)
        yield


@posix
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_file_is_never_opened(tmp_path: Path, kind: str) -> None:
    write_package(tmp_path, "pdf", "a.txt")
    write_skill(tmp_path, "xlsx/references/forms.md")
    with special(tmp_path / "pdf/b", kind), special(tmp_path / "xlsx/SKILL.md", kind):
        loaded = load_skills(tmp_path)

    assert [list(skill.files) for skill in loaded.skills] == [["SKILL.md", "a.txt"]]
    [problem] = loaded.problems
    assert (problem.file, problem.rule) == ("xlsx/SKILL.md", "unreadable")
    assert problem.is_passing


# --- names --------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="names are not always bytes")
@pytest.mark.parametrize(
    "name, shown",
    [
        (b"\xff", "\\udcff"),
        (b"a\nb", "a\\nb"),
        (b"a\x1b[2J", "a\\x1b[2J"),
        ("é\N{RIGHT-TO-LEFT OVERRIDE}b".encode(), "é\\u202eb"),
    ],
)
@pytest.mark.parametrize("place", ["{}", "office/{}", "pdf/{}", "pdf/a/{}", ".x/{}"])
def test_a_package_that_nobody_can_name_is_told_in_a_safe_way(
    tmp_path: Path, name: bytes, shown: str, place: str
) -> None:
    write_package(tmp_path, "pdf")
    write_package(tmp_path, place.format(os.fsdecode(name)), "a.txt")

    loaded = load_skills(tmp_path)

    assert [skill.path for skill in loaded.skills] == ["pdf"]
    [problem] = loaded.problems
    assert (problem.file, problem.rule) == (place.format(shown), "file-name")
    str(problem).encode()


@pytest.mark.skipif(sys.platform != "linux", reason="names are not always bytes")
@pytest.mark.parametrize(
    "name, shown",
    [(b"\xff", "\\udcff"), (b"a\x1b[2J", "a\\x1b[2J"), ("é\n".encode(), "é\\n")],
)
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_that_nobody_can_name_is_told_in_a_safe_way(
    tmp_path: Path, name: bytes, shown: str, kind: str
) -> None:
    write_package(tmp_path, "pdf", "good.txt")
    path = tmp_path / "pdf" / os.fsdecode(name)
    if kind == "link":
        path.symlink_to("good.txt")
    else:
        write(path)

    [package] = [e for e in walk(tmp_path) if isinstance(e, Package)]

    assert list(package.files) == ["good.txt"]
    assert problems_of(tmp_path) == [(f"pdf/{shown}", "warning", "file-name")]


@pytest.mark.skipif(sys.platform == "win32", reason="names that Windows refuses")
@pytest.mark.parametrize("name", ["a\\b", "a:b", "con.txt", "a ", "a.", "git~1", "a?b"])
def test_a_file_whose_name_is_not_safe_everywhere_is_left_out(tmp_path: Path, name: str) -> None:
    write_package(tmp_path, "pdf", name, "good.txt")

    [package] = [e for e in walk(tmp_path) if isinstance(e, Package)]

    assert list(package.files) == ["good.txt"]
    assert problems_of(tmp_path) == [(f"pdf/{name}", "warning", "file-name")]


# --- limits -------------------------------------------------------------------


@pytest.mark.parametrize(
    "number, said",
    [(5, "there are 5 files and folders"), (10, "there are more than 8 files")],
)
def test_a_walk_with_more_files_than_it_may_have_says_how_many(
    tmp_path: Path, number: int, said: str
) -> None:
    for each in range(number):
        write_skill(tmp_path / "content", f"{each}.md")

    with pytest.raises(LimitExceededError, match=said) as raised:
        list(walk(tmp_path / "content", 4))

    assert "limits.max_files is 4" in str(raised.value)
    assert "raise limits.max_files" in str(raised.value)


@pytest.mark.parametrize("files, said", [(6, "12 files"), (9, "more than 16 files")])
def test_a_limit_that_is_exceeded_is_told_with_the_number_of_all_homes(
    tmp_path: Path, files: int, said: str
) -> None:
    for number in range(files):
        write(tmp_path / f"{'.claude/' if number % 2 else ''}skills/{number}/SKILL.md", PACKAGE)

    survey = SourceWalk(FolderTree(tmp_path), Selection(), Limits(max_files=8))

    with pytest.raises(LimitExceededError, match=said):
        list(chain.from_iterable(map(survey.walk, survey.layout.homes)))


def test_a_limit_of_bytes_is_told_with_the_bytes_of_all_homes(tmp_path: Path) -> None:
    for folder in ("skills", ".claude/skills"):
        write(tmp_path / folder / "pdf/SKILL.md", PACKAGE)

    limits = Limits.model_construct(**{**Limits().model_dump(), "max_total_bytes": 1})
    survey = SourceWalk(FolderTree(tmp_path), Selection(), limits)

    with pytest.raises(LimitExceededError, match=f"have {2 * len(PACKAGE)} bytes"):
        list(survey.walk(survey.layout.homes[0]))


def test_a_huge_folder_is_not_looked_at_to_its_end(tmp_path: Path) -> None:
    for number in range(20):
        write_skill(tmp_path, f"a/{number}.md")
    looked_at: list[str] = []

    class CountingTree(FolderTree):
        def list(self, folder: str, most: int) -> FolderListing:
            looked_at.append(folder)
            return super().list(folder, most)

    write_skill(tmp_path, "b/c.md")
    tree = CountingTree(tmp_path)

    with pytest.raises(LimitExceededError):
        list(RootWalk(tree, RelativeRoot(""), Limits(max_files=4)).run())

    assert "b" not in looked_at


@pytest.mark.parametrize("size, level", [(100, None), (101, "error")])
@pytest.mark.parametrize("file", ["rule.md", "pdf/SKILL.md"])
def test_a_skill_over_the_limit_for_a_file_is_not_served(
    tmp_path: Path, file: str, size: int, level: str | None
) -> None:
    write(tmp_path / file, "x" * size)

    found = list(walk(tmp_path, max_file_bytes=100))

    problems = [(e.file, e.level, e.rule) for e in found if isinstance(e, Problem)]
    assert problems == ([(file, level, "file-size")] if level else [])
    skills = [e.file for e in found if not isinstance(e, Problem)]
    assert skills == ([] if level else [file])


def test_a_file_of_a_package_over_the_limit_costs_only_itself(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", "a.txt")
    write(tmp_path / "pdf/video.mp4", "x" * 101)

    package, problem = sorted(walk(tmp_path, max_file_bytes=100), key=str)

    assert isinstance(package, Package)
    assert list(package.files) == ["a.txt"]
    assert isinstance(problem, Problem)
    assert (problem.file, problem.level) == ("pdf/video.mp4", "warning")
    assert problem.reason == "has 101 bytes; limits.max_file_bytes is 100"


@pytest.mark.parametrize("limit, fits", [(100, True), (99, False)])
def test_the_bytes_of_a_source_are_limited_as_a_whole(
    tmp_path: Path,
    limit: int,
    fits: bool,  # noqa: FBT001
) -> None:
    write(tmp_path / "skills/a.md", "x" * 30)
    write(tmp_path / "skills/a/b.txt", "x" * 30)
    write(tmp_path / ".github/skills/c/SKILL.md", "x" * 40)
    limits = Limits(max_total_bytes=limit)
    survey = SourceWalk(FolderTree(tmp_path), DEFAULT_SELECTION, limits)
    said = None

    try:
        found = [e for home in survey.layout.homes for e in survey.walk(home)]
        assert len(found) == 2
    except LimitExceededError as error:
        said = str(error)

    assert (said is None) is fits
    assert fits or str(said).startswith("the files to serve have 100 bytes")


@pytest.mark.parametrize("place", ["ui", "ui/deep", "pdf", ".hidden"])
def test_the_limit_counts_files_wherever_they_lie(tmp_path: Path, place: str) -> None:
    write_skill(tmp_path, "ui.md")
    write_package(tmp_path, "pdf")
    for number in range(20):
        write(tmp_path / place / f"{number}.txt")

    with pytest.raises(LimitExceededError):
        list(walk(tmp_path, 15))


def test_exactly_as_many_files_are_no_problem(tmp_path: Path) -> None:
    write_package(tmp_path / "content", "pdf", "a.txt", "b.txt")

    assert packages(tmp_path / "content", max_files=4) == {"pdf": ["a.txt", "b.txt"]}


def deep(folder: str, levels: int) -> str:
    return "/".join([folder] * levels)


@pytest.mark.parametrize("extra, served", [(0, True), (1, False)])
def test_the_depth_of_a_package_and_of_its_files_is_bounded(
    tmp_path: Path,
    extra: int,
    served: bool,  # noqa: FBT001
) -> None:
    write_package(tmp_path, deep("a", MAX_DEPTH + extra))
    write_package(tmp_path, "b", deep("b", MAX_DEPTH - 1 + extra) + "/x.txt")
    write_package(tmp_path, "c")
    write_package(tmp_path, deep("c", MAX_DEPTH + extra))
    write_skill(tmp_path, "d.md")
    write_package(tmp_path, deep("d", MAX_DEPTH + extra))

    walked = list(walk(tmp_path))

    found = {p.folder: p.files for p in walked if isinstance(p, Package)}
    assert (deep("a", MAX_DEPTH + extra) in found) is served
    assert bool(found["b"]) is served
    assert (deep("c", MAX_DEPTH + extra) in found) is served
    assert (deep("d", MAX_DEPTH + extra) in found) is served
    problems = [(p.rule, p.level) for p in walked if isinstance(p, Problem)]
    assert problems == [("depth", "error")] * (0 if served else 4)


def nested_packages(folder: Path, levels: int) -> None:
    """Put a package into a package, deeper than any path may be long."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        for _ in range(levels):
            Path("SKILL.md").write_text(PACKAGE, encoding="utf-8")
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(here)


@posix
@pytest.mark.parametrize("beside", ["_root.md", "tree.md", "SKILL.md"])
def test_folders_without_end_are_no_trap(tmp_path: Path, beside: str) -> None:
    text = PACKAGE if beside == "SKILL.md" else skill_text()
    write(tmp_path / "content" / beside, text)
    (tmp_path / "content/tree").mkdir()
    nested_packages(tmp_path / "content/tree", 1200)

    loaded = load_skills(tmp_path / "content")

    assert len(loaded.skills) <= MAX_DEPTH + 1
    remove_nested(tmp_path / "content/tree")


def remove_nested(folder: Path) -> None:
    """Delete what is too deep for `shutil.rmtree`, from the top."""
    while folder.is_dir():
        (folder / "SKILL.md").unlink(missing_ok=True)
        if (folder / "d").is_dir():
            (folder / "d").rename(folder.with_name("next"))
        folder.rmdir()
        if folder.with_name("next").is_dir():
            folder.with_name("next").rename(folder)


# --- any tree at all ----------------------------------------------------------

NAMES = st.sampled_from(
    [
        *("SKILL.md", "skill.md", "_root.md", "_index.md", "ui.md", "ui", "pdf", "a"),
        *("README.md", ".github", ".git", "skills", "scripts", "con", "a b", "é.md"),
        *("a\\b", "a:b", "\udcff", "x\ny.md", "\u202e", "-", "~", "a.", ".md", "*"),
    ]
)
KINDS: dict[str, Callable[[Path], object]] = {
    "package": lambda path: write(path, PACKAGE),
    "rules": lambda path: write(path, skill_text()),
    "assets": lambda path: write(path, skill_text(assets=[{"file": "a/SKILL.md"}])),
    "text": lambda path: write(path, "text"),
    "binary": lambda path: write(path, b"\xff\0\x01"),
    "folder": lambda path: path.mkdir(parents=True),
    "link": lambda path: path.symlink_to("ui"),
    "loop": lambda path: path.symlink_to(".."),
    "self": lambda path: path.symlink_to(path.name),
    "dangling": lambda path: path.symlink_to("absent"),
    "pipe": os.mkfifo if sys.platform != "win32" else lambda path: path,
}
TREES = st.lists(
    st.tuples(st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.sampled_from([*KINDS])),
    max_size=12,
)


def put(folder: Path, name: str, kind: str) -> None:
    """Make something in the folder, unless its place is taken."""
    path = folder / name
    above = path.relative_to(folder).parents
    if any((folder / each).is_symlink() for each in above) or os.path.lexists(path):
        return
    with suppress(OSError):  # where a folder should be, there is a file
        path.parent.mkdir(parents=True, exist_ok=True)
        KINDS[kind](path)


@pytest.mark.skipif(sys.platform != "linux", reason="names that others refuse")
@given(TREES)
def test_any_tree_of_any_names_is_read_to_its_end(
    tmp_path_factory: pytest.TempPathFactory, tree: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    for name, kind in tree:
        put(folder, name, kind)

    loaded = load_skills(folder)

    for skill in loaded.skills:
        str((skill.path, skill.file, [*skill.files])).encode()
        assert skill.path.isprintable()
        assert skill.location is not None
        assert skill.location.is_file()
        assert not skill.location.is_symlink()
    for problem in loaded.problems:
        assert problem.file
        assert problem.rule
        assert problem.reason.isprintable()
        assert str(problem).isprintable()
    assert load_skills(folder) == loaded


# --- what lies outside of the homes -------------------------------------------


def outside_of(folder: Path, **selected: Any) -> list[tuple[str, str, int]]:
    survey = SourceWalk(FolderTree(folder), Selection(**selected), Limits())
    for home in survey.layout.homes:
        list(survey.walk(home))
    return sorted((each.file, each.rule, each.count) for each in survey.outside())


@pytest.mark.parametrize("folder", ["fixtures", "packages/sdk/test-data", "Tests", "a/__tests__/b"])
def test_packages_of_test_data_are_left_out_and_counted(tmp_path: Path, folder: str) -> None:
    write_package(tmp_path, "office/pdf")
    write_package(tmp_path, f"{folder}/one")
    write_package(tmp_path, f"{folder}/more/two")
    write_skill(tmp_path, f"{folder}/rules.md")

    skills = {skill.path for skill in take(tmp_path).index}

    top = folder.removesuffix("/b")
    assert skills == {"office/pdf"}
    assert outside_of(tmp_path) == [(".", "outside-markdown", 1), (top, "outside-homes", 2)]


def test_test_data_is_served_where_it_is_asked_for(tmp_path: Path) -> None:
    write_package(tmp_path, "fixtures/one")

    for selected in (Selection(everywhere=True), Selection(subfolder="fixtures")):
        survey = SourceWalk(FolderTree(tmp_path), selected, Limits())
        found = [each for home in survey.layout.homes for each in survey.walk(home)]
        assert [each.main for each in found if isinstance(each, Package)] == ["SKILL.md"]


def test_a_skill_or_rules_that_are_called_tests_are_served(tmp_path: Path) -> None:
    write_package(tmp_path, "tests", "fixtures/a.txt")
    write_skill(tmp_path, "ui/tests/_index.md")
    write_package(tmp_path, "more/skills/tests/unit")
    (tmp_path / "more").rename(tmp_path / ".claude")

    skills = {skill.path for skill in take(tmp_path).index}

    assert skills == {"tests", "ui/tests/_index", ".claude/tests/unit"}


def test_each_folder_outside_of_the_homes_says_how_many_packages_it_holds(
    tmp_path: Path,
) -> None:
    for folder in ("skills/a", "evals/one", "evals/deep/er/two", "evals/one/in"):
        write_package(tmp_path, folder)
    write_package(tmp_path, ".x/preview/three")
    write_package(tmp_path, "plugins/office/skills/b")
    write_package(tmp_path, "plugins/office/evals/four")
    write(tmp_path / "docs/guide.md")
    write(tmp_path / "docs/README.md")

    assert outside_of(tmp_path) == [
        (".", "outside-markdown", 1),
        (".x", "outside-homes", 1),
        ("evals", "outside-homes", 3),
        ("plugins/office/evals", "outside-homes", 1),
    ]
    assert outside_of(tmp_path, everywhere=True) == []


@pytest.mark.parametrize("folder", ["skills/a", "a"])
def test_rules_of_one_host_are_one_line_with_their_number(tmp_path: Path, folder: str) -> None:
    write_package(tmp_path, folder, "own.mdc")
    for number in range(40):
        write(tmp_path / f".cursor/rules/{number}.mdc", "---\nglobs: *.ts\n---\n")
        write(tmp_path / f"rules/{number}.mdc", "---\nalwaysApply: true\n---\n")
        write(
            tmp_path / f".github/instructions/{number}.instructions.md", "---\napplyTo: '**'\n---\n"
        )

    assert outside_of(tmp_path) == [
        (".", "copilot-instructions", 40),
        (".", "cursor-rules", 80),
    ]


def test_folders_that_programs_fill_are_one_problem_and_are_not_counted(
    tmp_path: Path,
) -> None:
    write_package(tmp_path, "skills/a")
    write_package(tmp_path, "skills/a/node_modules/x")
    write_package(tmp_path, "skills/.venv/x")
    write_package(tmp_path, "web/node_modules/x")
    write(tmp_path / "skills/a/scripts/__pycache__/x.pyc")

    assert outside_of(tmp_path) == [(".", "installed-folder", 4)]


def test_plugins_that_are_not_picked_are_counted(tmp_path: Path) -> None:
    for name in ("office", "cloud"):
        write_package(tmp_path, f"plugins/{name}/skills/x")

    assert outside_of(tmp_path, plugins=("office",)) == [("plugins/cloud", "plugin-not-picked", 1)]
