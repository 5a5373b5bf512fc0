"""Which files of a folder are skills, and that nothing outside is read."""

import os
import sys
from pathlib import Path

import pytest

from skills_mcp.skills.discovery import (
    MAX_SKILL_BYTES,
    load_skills,
    skills_root,
)
from tests.support import SKILLS_CONTENT, skill_text, write, write_skill


def paths(folder: Path) -> list[str]:
    return [skill.path for skill in load_skills(folder).index]


def reasons(folder: Path) -> list[tuple[str, str]]:
    return [(found.file, found.reason) for found in load_skills(folder).problems]


@pytest.mark.spec("4.1")
def test_every_markdown_file_at_any_depth_is_a_skill(tmp_path: Path) -> None:
    for file in ["_root.md", "ui/_index.md", "ui/react/_index.md", "ui/react/auth.md"]:
        write_skill(tmp_path, file)

    loaded = load_skills(tmp_path)

    found = ["_root", "ui/_index", "ui/react/_index", "ui/react/auth"]
    assert [skill.path for skill in loaded.index] == found
    assert loaded.problems == ()


@pytest.mark.spec("4.1")
def test_other_files_and_hidden_ones_are_no_skills(tmp_path: Path) -> None:
    write_skill(tmp_path, "good.md")
    for file in ["notes.txt", "README", "x.MD", "x.markdown", ".hidden.md", ".md"]:
        write(tmp_path / file, skill_text())
    write_skill(tmp_path, ".git/good.md")
    write_skill(tmp_path, ".github/ISSUE_TEMPLATE/bug.md")

    assert paths(tmp_path) == ["good"]
    assert reasons(tmp_path) == []


@pytest.mark.spec("4.1")
@pytest.mark.spec("4.5")
@pytest.mark.parametrize(
    "file, folder",
    [
        ("ui/react/auth.md", "ui/react/auth"),
        ("ui/_index.md", "ui/_index"),
        ("_root.md", "_root"),
    ],
)
def test_the_folder_of_the_same_name_belongs_to_the_skill(
    tmp_path: Path, file: str, folder: str
) -> None:
    write_skill(tmp_path, file)
    write_skill(tmp_path, f"{folder}/assets/example.md")
    write_skill(tmp_path, f"{folder}/deep.md")

    [skill] = load_skills(tmp_path).index

    assert skill.directory == tmp_path / folder
    assert skill.file == file


@pytest.mark.spec("4.5")
def test_a_skill_without_a_folder_is_still_a_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "auth.md")
    write(tmp_path / "auth", "a file, not a folder")

    [skill] = load_skills(tmp_path).index

    assert skill.directory is None


def test_a_category_that_a_file_of_its_name_hides_is_reported(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui.md")
    write_skill(tmp_path, "ui/_index.md")
    write_skill(tmp_path, "ui/react/auth.md")
    write(tmp_path / "ui/README.md", "no skill, and no problem")

    assert paths(tmp_path) == ["ui"]
    reason = "is not served: its folder holds the files of ui.md"
    assert reasons(tmp_path) == [
        ("ui/_index.md", reason),
        ("ui/react/auth.md", reason),
    ]


@pytest.mark.spec("4.5")
def test_a_markdown_file_that_is_declared_is_no_problem(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui.md", assets=[{"file": "example.md"}])
    write_skill(tmp_path, "ui/example.md")

    assert reasons(tmp_path) == []


@pytest.mark.spec("13")
def test_a_declared_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui.md", assets=[{"file": "missing.md"}])
    write(tmp_path / "ui/other.txt")

    assert paths(tmp_path) == ["ui"]
    assert reasons(tmp_path) == [
        ("ui.md", "declares missing.md, which is not in its folder")
    ]


@pytest.mark.spec("13")
@pytest.mark.spec("4.2")
def test_a_broken_file_costs_no_other_one(tmp_path: Path) -> None:
    write_skill(tmp_path, "a.md")
    write(tmp_path / "b.md", "no frontmatter")
    write_skill(tmp_path, "c.md")

    assert paths(tmp_path) == ["a", "c"]
    assert reasons(tmp_path) == [("b.md", "has no frontmatter")]


def test_problems_are_told_in_the_order_of_the_files(tmp_path: Path) -> None:
    for file in ["z.md", "a.md", "m/b.md", "m-z.md", "m.txt"]:
        write(tmp_path / file, "no frontmatter")

    found = [file for file, _ in reasons(tmp_path)]

    assert found == ["a.md", "m-z.md", "m/b.md", "z.md"]


@pytest.mark.spec("13")
@pytest.mark.spec("4.1")
def test_an_empty_folder_has_no_skills_and_no_problems(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()

    assert paths(folder) == []
    assert reasons(folder) == []


def test_a_folder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "absent"

    assert paths(folder) == []
    [(file, reason)] = reasons(folder)
    assert file == "."
    assert reason == "cannot be listed: No such file or directory"


@pytest.mark.spec("12.1")
def test_links_are_reported_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write_skill(outside, "secret.md", description="secret")
    inside = tmp_path / "inside"
    write_skill(inside, "good.md")
    write_skill(inside, "auth.md")
    (inside / "link.md").symlink_to(outside / "secret.md")
    (inside / "broken.md").symlink_to(tmp_path / "absent")
    (inside / "folder").symlink_to(outside, target_is_directory=True)
    (inside / "auth").symlink_to(outside, target_is_directory=True)
    (inside / "loop").symlink_to(inside, target_is_directory=True)
    (inside / "notes.txt").symlink_to(outside / "secret.md")

    loaded = load_skills(inside)

    assert [skill.path for skill in loaded.index] == ["auth", "good"]
    assert loaded.index.require("auth").directory is None
    assert [(p.file, p.reason) for p in loaded.problems] == [
        (name, "is a link")
        for name in ["auth", "broken.md", "folder", "link.md", "loop"]
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_a_named_pipe_is_a_problem_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")

    [(file, reason)] = reasons(tmp_path)

    assert file == "pipe.md"
    assert reason == "cannot be read: 'pipe.md' is not a regular file"


def test_a_file_that_is_not_utf_8_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "latin.md", skill_text().encode() + b"caf\xe9")

    [(file, reason)] = reasons(tmp_path)

    assert file == "latin.md"
    assert reason.startswith("is not UTF-8 text (byte ")


@pytest.mark.parametrize("extra, served", [(0, True), (1, False)])
def test_a_file_may_be_as_large_as_the_limit(
    tmp_path: Path,
    extra: int,
    served: bool,  # noqa: FBT001
) -> None:
    text = skill_text().encode()
    padding = b"x" * (MAX_SKILL_BYTES - len(text) + extra)
    write(tmp_path / "big.md", text + padding)

    found = reasons(tmp_path)

    assert paths(tmp_path) == (["big"] if served else [])
    assert found == ([] if served else [("big.md", "is larger than 1,048,576 bytes")])


def test_a_huge_file_is_refused_without_reading_all_of_it(tmp_path: Path) -> None:
    with (tmp_path / "huge.md").open("wb") as handle:
        handle.truncate(1 << 33)

    [(_, reason)] = reasons(tmp_path)

    assert reason == "is larger than 1,048,576 bytes"


@pytest.mark.skipif(sys.platform != "linux", reason="names are not always bytes")
@pytest.mark.parametrize(
    "name, shown",
    [
        (b"\xff.md", "\\udcff.md"),
        (b"a\nb.md", "a\\nb.md"),
        (b"a\x1b[2J.md", "a\\x1b[2J.md"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b.md".encode(), "a\\u202eb.md"),
        (b"\xff-folder/good.md", "\\udcff-folder"),
    ],
)
def test_a_name_that_nobody_can_type_is_a_problem(
    tmp_path: Path, name: bytes, shown: str
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    write(path, skill_text())

    assert paths(tmp_path) == []
    [(file, reason)] = reasons(tmp_path)
    assert file == shown
    assert reason.startswith("has a name with invisible characters")


def test_names_of_every_script_are_served(tmp_path: Path) -> None:
    for name in ["créer un formulaire", "認証", "v1.2 (old)"]:
        write_skill(tmp_path, f"{name}.md")

    assert paths(tmp_path) == ["créer un formulaire", "v1.2 (old)", "認証"]


def test_the_depth_of_folders_is_bounded(tmp_path: Path) -> None:
    write_skill(tmp_path, "/".join("d" * 32) + "/deep.md")
    write_skill(tmp_path, "/".join("e" * 33) + "/deeper.md")

    [path] = paths(tmp_path)

    assert path.endswith("/deep")


@pytest.mark.spec("3.1")
@pytest.mark.parametrize(
    "files, root",
    [
        (["skills/_root.md"], "skills"),
        (["_root.md", "skills/a.md"], "."),
        (["ui/_index.md"], "."),
        (["skills.md"], "."),
    ],
)
def test_the_skills_begin_in_skills_or_at_the_top(
    tmp_path: Path, files: list[str], root: str
) -> None:
    for file in files:
        write_skill(tmp_path, file)

    assert skills_root(tmp_path) == tmp_path / root


@pytest.mark.spec("12.1")
def test_skills_do_not_begin_where_a_link_leads(tmp_path: Path) -> None:
    write_skill(tmp_path, "outside/secret.md")
    content = tmp_path / "content"
    content.mkdir()
    (content / "skills").symlink_to(tmp_path / "outside", target_is_directory=True)

    assert skills_root(content) == content
    assert paths(content) == []


def test_the_sample_content_has_no_problem() -> None:
    loaded = load_skills(skills_root(SKILLS_CONTENT))

    assert loaded.problems == ()
    assert len(loaded.index) >= 20


def test_a_link_to_itself_costs_no_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "good.md")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.md").symlink_to("loop.md")

    assert paths(tmp_path) == ["good"]
    assert reasons(tmp_path) == [("loop.md", "is a link")]
