from pathlib import Path

import pytest

from repositories.census import Census, Told, ToldProblem, settle, take_census
from repositories.layouts import package, prose, rules
from tests.support import write


def told(
    *problems: ToldProblem,
    skills: dict[str, list[str]] | None = None,
    copies: tuple[str, ...] = (),
) -> Told:
    return Told(skills or {}, copies, problems)


def problem(file: str, *, count: int = 0, rule: str = "outside-homes") -> ToldProblem:
    return ToldProblem(file, rule, "warning", "is not served", "move it", count)


def test_a_main_file_counts_wherever_it_lies_and_however_it_is_spelled(
    tmp_path: Path,
) -> None:
    for file in ("SKILL.md", "a/.b/skill.md", "node_modules/c/Skill.MD"):
        write(tmp_path / file, package("x"))
    write(tmp_path / ".git/SKILL.md", package("x"))
    write(tmp_path / "a/MY-SKILL.md", package("x"))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/SKILL.md").symlink_to("nowhere")

    census = take_census(tmp_path)

    assert census.mains == {
        *("SKILL.md", "a/.b/skill.md", "node_modules/c/Skill.MD", "linked/SKILL.md")
    }
    assert census.files == 5


def test_a_rule_file_declares_keywords(tmp_path: Path) -> None:
    write(tmp_path / "a.md", rules("a"))
    write(tmp_path / "windows.md", b"\xef\xbb\xbf" + rules("a").replace(b"\n", b"\r\n"))
    write(tmp_path / "b/_index.md", rules("b"))
    write(tmp_path / "c/_index.md", prose("c"))
    write(tmp_path / "plain.md", prose("plain"))
    write(tmp_path / "README.md", rules("readme"))
    write(tmp_path / "later.md", prose("later") + rules("later"))
    write(tmp_path / "untold.md", "---\ntitle: x\n---\nkeywords: none\n")
    write(tmp_path / "p/SKILL.md", package("p"))
    write(tmp_path / "p/references/rules.md", rules("inner"))

    assert take_census(tmp_path).rules == {"a.md", "windows.md", "b/_index.md"}


CENSUS = Census(9, frozenset({"skills/a/SKILL.md", "b/c/SKILL.md"}), frozenset({"r.md"}))


def test_what_is_told_of_no_file_is_lost() -> None:
    account = settle(CENSUS, told())

    assert account.lost == ("b/c/SKILL.md", "r.md", "skills/a/SKILL.md")
    assert not account.is_complete


def test_a_file_is_served_a_copy_or_named() -> None:
    account = settle(
        CENSUS,
        told(
            problem("r.md"),
            skills={"skills/a/SKILL.md": ["skills/a/more.md"]},
            copies=("b/c/SKILL.md",),
        ),
    )

    assert (account.served, account.copies, account.named) == (1, 1, 1)
    assert account.is_complete


def test_what_a_skill_hands_out_is_served() -> None:
    account = settle(CENSUS, told(skills={"skills/a/SKILL.md": ["r.md"]}))

    assert account.served == 2
    assert account.lost == ("b/c/SKILL.md",)


def test_a_problem_may_name_a_file_by_its_place_in_skills() -> None:
    account = settle(CENSUS, told(problem("a/SKILL.md")))

    assert account.named == 1


@pytest.mark.parametrize("folder", ["b", "b/c", "b/c/SKILL.md"])
def test_a_folder_stands_for_as_many_as_its_problem_says(folder: str) -> None:
    account = settle(CENSUS, told(problem(folder, count=1)))

    assert account.counted == 1
    assert account.miscounted == ()
    assert account.lost == ("r.md", "skills/a/SKILL.md")


@pytest.mark.parametrize("count", [2, 7])
def test_a_wrong_number_is_told(count: int) -> None:
    account = settle(CENSUS, told(problem("b", count=count)))

    assert account.miscounted == (f"b holds 1 packages instead of {count}",)
    assert not account.is_complete


def test_main_files_of_one_folder_are_one_package() -> None:
    census = Census(2, frozenset({"b/c/SKILL.md", "b/c/skill.md"}), frozenset())

    account = settle(census, told(problem("b", count=1)))

    assert account.counted == 2
    assert account.is_complete


@pytest.mark.parametrize("count", [1, 2])
def test_one_line_stands_for_the_rule_files_outside_and_for_no_more(count: int) -> None:
    census = Census(3, frozenset({"b/SKILL.md"}), frozenset({"c/r.md", "c/s.md"}))

    account = settle(census, told(problem(".", count=count, rule="outside-markdown")))

    assert account.counted == count
    assert account.lost == ("b/SKILL.md", "c/s.md")[: 3 - count]


def test_what_lies_in_a_folder_that_is_named_is_counted_if_it_is_a_rule_file() -> None:
    account = settle(CENSUS, told(problem("b"), problem("r.md")))

    assert account.named == 1
    assert account.lost == ("b/c/SKILL.md", "skills/a/SKILL.md")


def test_a_line_about_folders_of_programs_stands_for_what_is_in_them() -> None:
    files = frozenset({"a/node_modules/SKILL.md", "b/modules/SKILL.md"})

    account = settle(
        Census(2, files, frozenset()),
        told(problem(".", count=1, rule="installed-folder")),
    )

    assert account.lost == ("b/modules/SKILL.md",)


@pytest.mark.parametrize("file", [".", "b/c/SKILL.md"])
def test_a_line_about_ordinary_markdown_stands_for_no_skill(file: str) -> None:
    account = settle(CENSUS, told(problem(file, count=1, rule="plain-markdown")))

    assert "b/c/SKILL.md" in account.lost
