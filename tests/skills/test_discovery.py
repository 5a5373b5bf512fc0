"""Which files of a folder are skills, and that nothing outside is read."""

import os
import sys
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.errors import MissingFileError, UndeclaredFileError
from skills_mcp.skills.skill_discovery import (
    MAX_SKILL_BYTES,
)
from skills_mcp.skills.skill_files import read_skill_file
from skills_mcp.skills.source_layout import SkillRoot
from tests.skills.contents import homes_of, load_skills
from tests.support import SKILLS_CONTENT, open_library, skill_text, write, write_skill

PACKAGE = "---\nname: pdf\ndescription: Fills forms.\n---\nBody.\n"


def paths(folder: Path) -> list[str]:
    return [skill.path for skill in load_skills(folder).skills]


def reasons(folder: Path) -> list[tuple[str, str]]:
    return [(found.file, found.reason) for found in load_skills(folder).problems]


@pytest.mark.spec("4.1")
def test_every_markdown_file_at_any_depth_is_a_skill(tmp_path: Path) -> None:
    for file in ["_root.md", "ui/_index.md", "ui/react/_index.md", "ui/react/auth.md"]:
        write_skill(tmp_path, file)

    loaded = load_skills(tmp_path)

    found = ["_root", "ui/_index", "ui/react/_index", "ui/react/auth"]
    assert [skill.path for skill in loaded.skills] == found
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

    [skill] = load_skills(tmp_path).skills

    assert skill.directory == tmp_path / folder
    assert skill.file == file


@pytest.mark.spec("4.5")
def test_a_skill_without_a_folder_is_still_a_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "auth.md")
    write(tmp_path / "auth", "a file, not a folder")

    [skill] = load_skills(tmp_path).skills

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


def test_a_page_in_the_folder_of_another_page_is_no_hidden_skill(tmp_path: Path) -> None:
    write(tmp_path / "docs.md", "---\ntitle: Docs\n---\nText.\n")
    write(tmp_path / "docs/setup.md", "---\ntitle: Setup\n---\nText.\n")
    write_skill(tmp_path, "ui.md")
    write(tmp_path / "ui/notes.md", "---\ntitle: Notes\n---\nText.\n")
    write(tmp_path / "ui/react.md", "---\nkeywords: [react\n---\nText.\n")

    hidden = [file for file, reason in reasons(tmp_path) if "is not served" in reason]

    assert hidden == ["ui/react.md"]


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
    assert reasons(tmp_path) == [("ui.md", "declares missing.md, which is not in its folder")]


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

    assert [(s.path, s.directory) for s in loaded.skills] == [
        ("auth", None),
        ("good", None),
    ]
    assert [(p.file, p.rule, p.reason) for p in loaded.problems] == [
        (name, "link", "is a link, so it is not served")
        for name in ["auth", "broken.md", "folder", "link.md"]  # the others are no skills
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

    assert reason == "has 8,589,934,592 bytes; limits.max_file_bytes is 8,388,608"


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
def test_a_name_that_nobody_can_type_is_a_problem(tmp_path: Path, name: bytes, shown: str) -> None:
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

    assert homes_of(tmp_path) == (SkillRoot(tmp_path / root),)


@pytest.mark.spec("12.1")
def test_skills_do_not_begin_where_a_link_leads(tmp_path: Path) -> None:
    write_skill(tmp_path, "outside/secret.md")
    content = tmp_path / "content"
    content.mkdir()
    (content / "skills").symlink_to(tmp_path / "outside", target_is_directory=True)

    assert homes_of(content) == (SkillRoot(content),)
    assert paths(content) == []


@pytest.mark.parametrize(
    "files, homes",
    [
        (
            ["skills/a.md", ".github/skills/x/SKILL.md", ".claude/skills/y/SKILL.md"],
            ["skills", ".claude/skills", ".github/skills"],
        ),
        (["skills/a.md", ".github/workflows/x.md"], ["skills"]),
        (
            ["skills/a.md", "_root.md", ".github/skills/x/SKILL.md"],
            [".", ".github/skills"],
        ),
        (
            ["skills/a.md", "SKILL.md", ".github/skills/x/SKILL.md"],
            [".", ".github/skills"],
        ),
        (["skills/a.md", "skill.md"], ["."]),
        (["a/skills/x/SKILL.md", ".github/skills/x/SKILL.md"], [".", ".github/skills"]),
        (["skills/a.md", ".git/skills/x/SKILL.md"], ["skills"]),
        (["skills/a.md", "docs/skills/x/SKILL.md"], ["skills"]),
        (["skills/a.md", ".github/skills"], ["skills"]),
        ([], ["."]),
    ],
)
def test_a_repository_may_have_skills_for_its_own_agents_too(
    tmp_path: Path, files: list[str], homes: list[str]
) -> None:
    content = tmp_path / "content"
    content.mkdir()
    for file in files:
        write(content / file, PACKAGE)

    found = homes_of(content)

    assert [home.directory for home in found] == [content / home for home in homes]
    assert [home.prefix for home in found] == [
        "",
        *(home.removesuffix("skills") for home in homes[1:]),
    ]
    assert [home.file_prefix for home in found] == [
        "",
        *(f"{home}/" for home in homes[1:]),
    ]
    assert [home.packages_only for home in found] == [False] + [True] * (len(homes) - 1)


def test_a_part_of_a_repository_is_its_only_home(tmp_path: Path) -> None:
    write(tmp_path / "skills/a.md")
    write(tmp_path / "team/skills/b.md")

    assert homes_of(tmp_path, "team") == (SkillRoot(tmp_path / "team"),)
    assert homes_of(tmp_path, ".") == (SkillRoot(tmp_path),)


@pytest.mark.skipif(sys.platform != "linux", reason="names are not always bytes")
def test_a_hidden_home_is_not_behind_a_link_and_has_a_name(tmp_path: Path) -> None:
    write(tmp_path / "outside/skills/secret/SKILL.md", PACKAGE)
    content = tmp_path / "content"
    write(content / "skills/a.md")
    (content / ".linked").symlink_to(tmp_path / "outside")
    (content / ".half").mkdir()
    (content / ".half/skills").symlink_to(tmp_path / "outside/skills")
    write(content / os.fsdecode(b".\xff") / "skills/x/SKILL.md", PACKAGE)

    assert homes_of(content) == (SkillRoot(content / "skills"),)


def test_the_sample_content_has_no_problem() -> None:
    [home] = homes_of(SKILLS_CONTENT)
    loaded = load_skills(home.directory)

    assert loaded.problems == ()
    assert len(loaded.skills) >= 20


def test_a_link_to_itself_costs_no_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "good.md")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.md").symlink_to("loop.md")

    assert paths(tmp_path) == ["good"]
    assert reasons(tmp_path) == [
        (name, "is a link, so it is not served") for name in ("loop", "loop.md")
    ]


# --- packages -----------------------------------------------------------------


def test_a_package_is_served_with_every_file_of_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "office/pdf/SKILL.md", PACKAGE)
    write(tmp_path / "office/pdf/forms.md", "Forms.")
    write(tmp_path / "office/pdf/scripts/fill.py", "print()")

    loaded = load_skills(tmp_path)

    assert loaded.problems == ()
    [skill] = loaded.skills
    assert (skill.path, skill.name, skill.body) == ("office/pdf", "pdf", "Body.")
    assert skill.file == "office/pdf/SKILL.md"
    assert skill.location == tmp_path / "office/pdf/SKILL.md"
    assert skill.directory == tmp_path / "office/pdf"
    assert list(skill.files) == ["SKILL.md", "forms.md", "scripts/fill.py"]
    assert {file: stamp.size_bytes for file, stamp in skill.files.items()} == {
        "SKILL.md": len(PACKAGE),
        "forms.md": 6,
        "scripts/fill.py": 7,
    }
    assert skill.inventory is not None
    assert skill.inventory.total_files == 3
    for file in skill.files:
        assert read_skill_file(skill, file, max_bytes=100).data


def test_a_rule_has_no_files_but_those_that_it_declares(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui.md", assets=[{"file": "a.txt"}])
    write(tmp_path / "ui/a.txt", "a")
    write(tmp_path / "ui/b.txt", "b")

    [skill] = load_skills(tmp_path).skills

    assert list(skill.files) == ["a.txt"]
    assert skill.inventory is None
    assert skill.location == tmp_path / "ui.md"


def test_a_declared_file_behind_a_link_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "outside/secret.txt", "secret")
    write_skill(tmp_path / "in", "ui.md", assets=[{"file": "x/secret.txt"}])
    (tmp_path / "in/ui").mkdir()
    (tmp_path / "in/ui/x").symlink_to(tmp_path / "outside")

    [skill] = load_skills(tmp_path / "in").skills

    assert reasons(tmp_path / "in") == [
        ("ui.md", "declares x/secret.txt, which is not in its folder"),
        ("ui/x", "is a link, so it is not served"),
    ]
    with pytest.raises(MissingFileError):
        read_skill_file(skill, "x/secret.txt", max_bytes=100)


def test_a_name_may_repeat_because_paths_do_not(tmp_path: Path) -> None:
    for folder in ["a/pdf", "b/pdf", "pdf"]:
        write(tmp_path / folder / "SKILL.md", PACKAGE)

    assert paths(tmp_path) == ["a/pdf", "b/pdf", "pdf"]
    assert reasons(tmp_path) == []


def test_a_package_at_the_top_is_called_by_its_name(tmp_path: Path) -> None:
    write(tmp_path / "SKILL.md", PACKAGE)
    write(tmp_path / "rules/other.md", skill_text())

    [skill] = load_skills(tmp_path).skills

    assert (skill.path, skill.file) == ("pdf", "SKILL.md")
    assert skill.directory == tmp_path


@pytest.mark.parametrize(
    "prefix, expected",
    [
        ("", ["_root", "_index", "a", "office/pdf", "ui/_index"]),
        ("team/", ["team/_index", "team/_index", *("team/a", "team/office/pdf")]),
    ],
)
def test_a_prefix_stands_in_front_of_everything(
    tmp_path: Path, prefix: str, expected: list[str]
) -> None:
    for file in ["_root.md", "_index.md", "a.md", "ui/_index.md"]:
        write_skill(tmp_path, file)
    write(tmp_path / "office/pdf/SKILL.md", PACKAGE)
    write(tmp_path / "office/broken/SKILL.md", "---\nnever: closed")

    loaded = load_skills(tmp_path, prefix=prefix, scope="repo")

    found = {skill.path for skill in loaded.skills}
    assert found >= set(expected)
    assert all(skill.file.startswith(prefix) for skill in loaded.skills)
    assert {skill.scope for skill in loaded.skills} == {"repo"}
    assert [problem.file for problem in loaded.problems] == [f"{prefix}office/broken/SKILL.md"]


@pytest.mark.parametrize(
    "name", ["README.md", "LICENSE.md", "AGENTS.md", "README_2.md", "contributing.md"]
)
def test_a_notice_to_people_is_no_skill_and_no_problem(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "# Read me")
    write(tmp_path / "ui" / name, "\ufeff# Read me")

    assert paths(tmp_path) == []
    assert reasons(tmp_path) == []


@pytest.mark.parametrize("name", ["notes.md", "Notes.md"])
def test_any_other_text_among_the_skills_is_a_problem(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "# Read me")

    assert reasons(tmp_path) == [(name, "has no frontmatter")]


def test_what_has_a_frontmatter_is_read_however_it_is_called(tmp_path: Path) -> None:
    write_skill(tmp_path, "SQL.md")
    write(tmp_path / "API.md", "---\ndescription: D\n---\n")

    assert paths(tmp_path) == ["SQL"]
    assert reasons(tmp_path) == [("API.md", "has no keywords")]


def test_a_package_without_frontmatter_is_no_notice(tmp_path: Path) -> None:
    write(tmp_path / "pdf/SKILL.md", "# PDF")

    assert paths(tmp_path) == ["pdf"]
    assert reasons(tmp_path)[0] == ("pdf/SKILL.md", "has no frontmatter")


@pytest.mark.parametrize("size", [MAX_SKILL_BYTES, MAX_SKILL_BYTES + 1])
def test_the_main_file_of_a_package_may_be_as_large_as_the_limit(tmp_path: Path, size: int) -> None:
    write(tmp_path / "pdf/SKILL.md", PACKAGE.encode().ljust(size, b"x"))

    assert paths(tmp_path) == (["pdf"] if size == MAX_SKILL_BYTES else [])
    found = load_skills(tmp_path).problems
    assert [problem.rule for problem in found] == ([] if size == MAX_SKILL_BYTES else ["file-size"])


def test_a_folder_that_cannot_be_listed_may_be_there_next_time(tmp_path: Path) -> None:
    [problem] = load_skills(tmp_path / "absent").problems

    assert problem.rule == "unreadable"
    assert problem.is_passing


# --- any bytes at all ---------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        *(b"---\n", b"---", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff"),
        *(b"description: ", b"name: ", b"keywords: [a]\n", b"metadata:\n  ", b"tags: "),
        *(b"assets:\n- file: ", b"scripts: [{file: x}]\n", b"inherit: ", b"priority: "),
        *(b"D\n", b": ", b"- ", b"> ", b"|\n", b"[", b"]", b"{", b"}", b"*a", b"&a "),
        *(
            b"'",
            b'"',
            b"`",
            b"@",
            b"#",
            b"\t",
            b"\0",
            b"\x80",
            b"\x1b",
            b"!!int ",
            b"<<: ",
        ),
    ]
)
GOOD = b"description: D\nkeywords: [a]\n"
FRONTMATTERS = st.tuples(
    st.sampled_from([b"", GOOD]), st.lists(FRAGMENTS, max_size=30).map(b"".join)
).map(lambda parts: b"---\n" + b"".join(parts) + b"\n---\nbody")


@pytest.mark.spec("4.2")
@pytest.mark.parametrize("file", ["pdf/SKILL.md", "pdf.md", "_root.md", "SKILL.md"])
@given(raw=st.binary(max_size=300) | FRONTMATTERS)
@example(raw=b"")
@example(raw=b"---\n---\n")
@example(raw="---\ndescription: D\nkeywords: [k]\n---\n".encode("utf-16"))
@example(raw=b"\xef\xbb\xbf---\r\ndescription: a: b\r\nname: \0\r\n---\r\n")
def test_any_bytes_are_a_skill_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, file: str, raw: bytes
) -> None:
    folder = tmp_path_factory.mktemp("content")
    write(folder / file, raw)
    write(folder / "pdf/x", "x")

    loaded = load_skills(folder)

    errors = [problem for problem in loaded.problems if problem.level == "error"]
    assert len(loaded.skills) == (0 if errors else 1)
    for problem in loaded.problems:
        assert problem.file == file
        assert problem.rule
        assert problem.reason.isprintable()
        assert 1 <= problem.line <= raw.count(b"\n") + raw.count(b"\r") + 1
    for skill in loaded.skills:
        is_sound(skill)


def is_sound(skill: Any) -> None:
    """Check what every user of a skill relies on."""
    assert skill.path
    assert skill.name == " ".join(skill.name.split()) != ""
    assert skill.description == " ".join(skill.description.split()) != ""
    assert -1000 <= skill.priority <= 1000
    assert all(map(str.strip, skill.keywords))
    for text in (skill.name, skill.description, *skill.keywords, skill.category):
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)
    for file in skill.files:
        assert (skill.directory / file).is_file()


# --- names with accents: declared in one encoding, on the disk in the other ---

COMPOSED, DECOMPOSED = (normalize(form, "Résumé/modèle.md") for form in ("NFC", "NFD"))


def write_rules(root: Path, declared: str, on_disk: str) -> None:
    entry = [{"file": declared, "description": "D"}]
    write(root / "cv.md", skill_text(assets=entry))
    write(root / "cv" / on_disk, "the file")


@pytest.mark.parametrize("asked", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("declared", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("on_disk", [COMPOSED, DECOMPOSED])
def test_a_file_is_found_in_every_encoding_of_its_name(
    tmp_path: Path, declared: str, on_disk: str, asked: str
) -> None:
    write_rules(tmp_path / "content", declared, on_disk)
    library = open_library(tmp_path / "content")

    served = library.view().read_asset("cv", asked)
    read = library.view().read_file("cv", asked)

    assert served.content.data == read.part.content.data == b"the file"
    assert served.file == read.file
    assert normalize("NFC", served.file) == COMPOSED
    library.close()


@pytest.mark.parametrize("asked", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("on_disk", [COMPOSED, DECOMPOSED])
def test_a_file_of_a_package_is_found_in_every_encoding(
    tmp_path: Path, on_disk: str, asked: str
) -> None:
    write(tmp_path / "content/cv/SKILL.md", "---\nname: cv\ndescription: D\n---\nText")
    write(tmp_path / "content/cv" / on_disk, "the file")
    library = open_library(tmp_path / "content")

    read = library.view().read_file("cv", asked)

    assert read.part.content.data == b"the file"
    assert normalize("NFC", read.file) == COMPOSED
    library.close()


def test_two_files_of_a_package_that_look_the_same_are_both_left_out(
    tmp_path: Path,
) -> None:
    root = tmp_path / "content"
    write(root / "cv/SKILL.md", "---\nname: cv\ndescription: D\n---\nText")
    for name in ("é.md", "x.md"):
        for form in ("NFC", "NFD"):
            write(root / "cv" / normalize(form, name))
    if len(list((root / "cv").iterdir())) < 4:
        pytest.skip("this disk keeps only one of them")

    loaded = load_skills(root)

    [skill] = loaded.skills
    assert list(skill.files) == ["SKILL.md", "x.md"]
    assert [(p.rule, p.level) for p in loaded.problems] == [("name-collision", "warning")] * 2
    with pytest.raises(UndeclaredFileError):
        open_library(root).view().read_file("cv", "é.md")
