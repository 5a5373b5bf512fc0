"""Skills that stand in each other's way."""

from pathlib import Path

import pytest

from skills_mcp.authoring.validation import rivals
from tests.authoring.validation.findings import problems, said
from tests.packages import write_package
from tests.support import write, write_skill


def test_a_keyword_of_several_siblings_is_named_with_each_of_them(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "ui/auth.md", keywords=["Login", "session"])
    write_skill(tmp_path, "ui/forms.md", keywords=["input", "login"])
    write_skill(tmp_path, "api/auth.md", keywords=["login", "token"])

    first, second = problems(tmp_path)

    assert [Path(p.file).name for p in (first, second)] == ["auth.md", "forms.md"]
    assert {p.rule for p in (first, second)} == {"keyword-shared"}
    assert "'Login' (ui/forms)" in first.reason
    assert "'login' (ui/auth)" in second.reason
    assert first.line == 3


def test_a_keyword_that_the_folder_is_about_may_be_shared(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/_index.md", keywords=["react", "components"])
    write_skill(tmp_path, "ui/auth.md", keywords=["react", "login"])
    write_skill(tmp_path, "ui/forms.md", keywords=["react", "input"])

    assert said(tmp_path) == []


def test_tags_of_packages_collide_too(tmp_path: Path) -> None:
    for name in ("pdf", "word"):
        write_package(tmp_path, f"skills/{name}", metadata={"tags": f"print, {name}"})

    found = problems(tmp_path)

    assert [p.rule for p in found] == ["keyword-shared", "keyword-shared"]
    assert "'print' (word)" in found[0].reason
    assert found[0].line == 4


def test_a_long_list_of_siblings_is_cut(tmp_path: Path) -> None:
    for number in range(6):
        write_skill(tmp_path, f"s{number}.md", keywords=["print", f"own{number}"])

    first = problems(tmp_path)[0]

    assert "'print' (s1, s2, s3 and 2 more)" in first.reason


def test_a_skill_that_never_wins_names_the_winners(tmp_path: Path) -> None:
    write_skill(tmp_path, "short.md", keywords=["pdf"])
    write_skill(
        tmp_path,
        "long.md",
        keywords=["pdf", "forms"],
        description="About pdf files",
        priority=-200,
    )

    [problem] = [p for p in problems(tmp_path) if p.rule == "never-found"]

    assert Path(problem.file).name == "long.md"
    assert "which find short" in problem.reason
    assert "keywords" in problem.hint
    assert problem.line == 3


def test_a_skill_that_is_one_of_the_candidates_is_found(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_skill(tmp_path, f"{name}.md", keywords=["pdf"], description="PDF")

    assert "never-found" not in [rule for _, _, rule in said(tmp_path)]


def test_a_skill_that_its_description_finds_is_found(tmp_path: Path) -> None:
    write_skill(tmp_path, "short.md", keywords=["pdf"])
    write_skill(
        tmp_path, "long.md", keywords=["pdf", "forms"], description="Fill in forms"
    )

    assert "never-found" not in [rule for _, _, rule in said(tmp_path)]


def test_the_ranked_algorithm_judges_where_some_skill_has_no_keywords(
    tmp_path: Path,
) -> None:
    for name in ("a", "b", "c", "d"):
        text = "---\nname: pdf\ndescription: Fill in PDF forms.\n---\nDo it.\n"
        write(tmp_path / "skills" / name / "pdf" / "SKILL.md", text)

    [problem] = problems(tmp_path)

    assert problem.rule == "never-found"
    assert Path(problem.file).parent.parent.name == "d", "three are candidates"
    assert problem.hint == "describe it in words that the others do not have"


def test_rules_for_a_folder_need_not_win(tmp_path: Path) -> None:
    write_skill(tmp_path, "_root.md", keywords=["pdf", "x1"], priority=-900)
    write_skill(tmp_path, "ui/_index.md", keywords=["pdf", "x2"], priority=-900)
    write_skill(tmp_path, "ui/auth.md", keywords=["pdf"])

    assert said(tmp_path) == []


def test_large_trees_are_spared_what_grows_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path, "short.md", keywords=["pdf"])
    write_skill(tmp_path, "long.md", keywords=["forms"], priority=-900)
    assert "never-found" in [rule for _, _, rule in said(tmp_path)]

    monkeypatch.setattr("skills_mcp.authoring.validation.entries.MAX_SKILLS", 1)

    assert said(tmp_path) == []
    assert rivals.MAX_SKILLS >= 1000


def test_a_keyword_that_no_task_can_match_is_said_by_the_reader(tmp_path: Path) -> None:
    write_skill(tmp_path, "one.md", keywords=["the", "login"])

    assert [rule for _, _, rule in said(tmp_path)] == ["keyword-unmatchable"]
