"""Trees that somebody made to hide skills, to steal a place, or by mistake."""

import os
from pathlib import Path

import pytest

from skills_mcp.errors import LimitExceededError
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.snapshots import loaded_skills
from tests.skills.contents import homes_of, load_skills, part_of, take
from tests.support import make_skill, skill_text, write, write_skill

PACKAGE = "---\nname: x\ndescription: What it does\n---\n\nText.\n"


def rules_of(root: Path) -> list[tuple[str, str]]:
    return [(problem.file, problem.rule) for problem in load_skills(root).problems]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_a_hidden_folder_that_cannot_be_looked_into_costs_nothing(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "skills/a.md")
    (tmp_path / ".private").mkdir(mode=0)

    homes = homes_of(tmp_path)

    assert [home.directory for home in homes] == [tmp_path / "skills"]


@pytest.mark.parametrize("owner", ["hello", b"\xff\xfe\x00", b"x" * 2_000_000])
def test_a_file_that_is_no_skill_hides_no_skill_in_silence(
    tmp_path: Path, owner: str | bytes
) -> None:
    write(tmp_path / "README.md", owner)
    write_skill(tmp_path, "README/a.md")

    assert ("README/a.md", "hidden-skill") in rules_of(tmp_path)


def test_a_link_owns_no_folder(tmp_path: Path) -> None:
    (tmp_path / "ui.md").symlink_to("nowhere")
    write_skill(tmp_path, "ui/a.md")

    assert [skill.path for skill in load_skills(tmp_path).skills] == ["ui/a"]


def test_one_wrong_byte_does_not_garble_a_text(tmp_path: Path) -> None:
    text = PACKAGE.replace("Text.", "日本語の規則です。").encode() + b"\xff"
    write(tmp_path / "x/SKILL.md", text)

    [skill] = load_skills(tmp_path).skills

    assert skill.body.startswith("日本語の規則です。")


@pytest.mark.parametrize("folder", ["_root", "_index", "ui/_index"])
def test_no_package_takes_the_place_of_rules(tmp_path: Path, folder: str) -> None:
    write(tmp_path / folder / "SKILL.md", PACKAGE)

    assert load_skills(tmp_path).skills == ()
    assert rules_of(tmp_path) == [(f"{folder}/SKILL.md", "folder-name")]


@pytest.mark.parametrize(
    "front",
    [
        "<!--\n---\ndescription: stolen\n---\n-->\n",
        "# How to\n\n---\n\nsome text\n\n---\n",
    ],
)
def test_what_stands_in_front_is_not_taken_for_the_frontmatter(tmp_path: Path, front: str) -> None:
    write(tmp_path / "x/SKILL.md", front + PACKAGE)

    assert [s.description for s in load_skills(tmp_path).skills] == ["What it does"]


def test_a_part_of_a_package_is_never_served_as_the_whole(tmp_path: Path) -> None:
    write(tmp_path / "x/SKILL.md", PACKAGE)
    for number in range(10):
        write(tmp_path / f"x/references/{number}.md")

    with pytest.raises(LimitExceededError, match=r"limits\.max_files is 5"):
        take(tmp_path, settings={"limits": {"max_files": 5}})


def test_the_text_of_a_tree_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write_skill(tmp_path, f"{name}.md", body="x" * 400)

    monkeypatch.setattr(loaded_skills, "MAX_CHARACTERS", 1200)
    fits = take(tmp_path)
    monkeypatch.setattr(loaded_skills, "MAX_CHARACTERS", 1199)

    assert len(fits.index) == 3
    with pytest.raises(LimitExceededError, match="have 1,200 characters"):
        take(tmp_path)


def test_a_source_beyond_a_limit_costs_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_skills, "MAX_CHARACTERS", 1000)
    write_skill(tmp_path, "small/a.md")
    for name in "abc":
        write_skill(tmp_path, f"large/{name}.md", body="x" * 400)
    parts = part_of(tmp_path / "small"), part_of(tmp_path / "large", at="web")

    snapshot = take(*parts)

    assert [skill.path for skill in snapshot.index] == ["a"]
    [problem] = snapshot.problems
    assert (problem.file, problem.level, problem.rule) == ("web", "error", "limit")
    assert "is not served: the skills have 1,200 characters" in problem.reason
    assert "Serve a part of them" in problem.hint


@pytest.mark.parametrize("newline", ["\r", "\r\n"])
def test_every_way_to_end_a_line_is_read(tmp_path: Path, newline: str) -> None:
    write(tmp_path / "x/SKILL.md", PACKAGE.replace("\n", newline).encode())

    [skill] = load_skills(tmp_path).skills

    assert (skill.name, skill.body) == ("x", "Text.")


def test_text_that_hides_or_turns_letters_reaches_nobody(tmp_path: Path) -> None:
    description = "Safe\u202etxe\U000e0041"
    write(tmp_path / "x/SKILL.md", PACKAGE.replace("What it does", description))
    write(tmp_path / "y.md", skill_text(description=description))

    found = {skill.description for skill in load_skills(tmp_path).skills}

    assert found == {"Safetxe"}


def test_the_exact_path_wins_over_the_way_people_mention_skills() -> None:
    index = SkillIndex([make_skill("$b"), make_skill("b")])

    assert (index.resolve("$b").path, index.resolve("b").path) == ("$b", "b")


def test_at_the_top_of_a_mounted_tree_the_rules_come_before_an_index(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "_index.md")
    write_skill(tmp_path, "_root.md")

    skills = load_skills(tmp_path, prefix="web/").skills

    assert [skill.file for skill in skills] == ["web/_root.md", "web/_index.md"]
    assert {skill.path for skill in skills} == {"web/_index"}


def test_a_text_that_begins_with_code_keeps_its_indent(tmp_path: Path) -> None:
    write(tmp_path / "x/SKILL.md", PACKAGE.replace("Text.", "  \n    make test\n"))

    [skill] = load_skills(tmp_path).skills

    assert skill.body == "    make test"


def test_no_file_beside_a_folder_takes_the_packages_in_it_away(tmp_path: Path) -> None:
    write(tmp_path / "plugins.md", "Only a text.")
    write(tmp_path / "plugins/x/pdf/SKILL.md", PACKAGE)
    write_skill(tmp_path, "api.md")
    write(tmp_path / "api/deep/er/forms/SKILL.md", PACKAGE)

    paths = [skill.path for skill in load_skills(tmp_path).skills]

    assert paths == ["api", "api/deep/er/forms", "plugins/x/pdf"]
