"""Served skills: shared keywords, unfindable skills, entries, files and length."""

from pathlib import Path

import pytest

from skills_mcp.features.authoring import validation
from skills_mcp.features.authoring.validation import validate_paths
from tests.features.authoring.validation.findings import problems, said
from tests.packages import write_package, write_pdf
from tests.support import write, write_skill

PROGRAM_FILES = {"scripts/run.py": "print(1)\n", "run.sh": "true\n"}

ASSETS = [{"file": "assets/a.txt"}]


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


def test_a_skill_for_users_alone_need_not_be_found(tmp_path: Path) -> None:
    write_pdf(tmp_path, "skills/pdf", **{"disable-model-invocation": True})

    assert "never-found" not in [rule for _, _, rule in said(tmp_path)]


def test_a_skill_that_is_one_of_the_candidates_is_found(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_skill(tmp_path, f"{name}.md", keywords=["pdf"], description="PDF")

    assert "never-found" not in [rule for _, _, rule in said(tmp_path)]


def test_a_skill_that_its_description_finds_is_found(tmp_path: Path) -> None:
    write_skill(tmp_path, "short.md", keywords=["pdf"])
    write_skill(tmp_path, "long.md", keywords=["pdf", "forms"], description="Fill in forms")

    assert "never-found" not in [rule for _, _, rule in said(tmp_path)]


def test_the_ranked_algorithm_judges_where_some_skill_has_no_keywords(
    tmp_path: Path,
) -> None:
    for name in "abcdefghijklmnopq":
        body = " ".join(f"{name}{number}" for number in range(50))  # so no near-copies
        text = f"---\nname: pdf\ndescription: Fill in PDF forms.\n---\n{body}\n"
        write(tmp_path / "skills" / name / "pdf" / "SKILL.md", text)

    *same, problem = problems(tmp_path)

    assert {each.rule for each in same} == {"duplicate-package"}
    assert "a/pdf, b/pdf" in same[-1].reason
    assert problem.rule == "never-found"
    assert Path(problem.file).parent.parent.name == "q", "sixteen are candidates"
    assert "in words that the other skills do not have" in problem.hint


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

    assert validation.MAX_SKILLS >= 1000

    monkeypatch.setattr(validation, "MAX_SKILLS", 1)

    assert said(tmp_path) == []


def test_a_keyword_that_no_task_can_match_is_said_by_the_reader(tmp_path: Path) -> None:
    write_skill(tmp_path, "one.md", keywords=["the", "login"])

    assert [rule for _, _, rule in said(tmp_path)] == ["keyword-unmatchable"]


def entry_findings(root: Path, entry: str) -> list[tuple[str, str, int]]:
    folder = write_package(root, "pdf", PROGRAM_FILES, metadata={"entry": entry})

    return [(p.rule, p.level, p.line) for p in problems(folder) if p.rule.startswith("entry")]


@pytest.mark.parametrize(
    "entry",
    [
        "python3 scripts/run.py",
        "python3 ./scripts/run.py --out=result.py data.csv",
        "bash run.sh out/report.txt",
        "python3 -m http",
        "uv run scripts/run.py",
        "cat",
    ],
)
def test_an_entry_that_can_run_is_fine(tmp_path: Path, entry: str) -> None:
    assert entry_findings(tmp_path, entry) == []


@pytest.mark.parametrize("entry", ["./run.sh", "/bin/cat x", "'' run", "a\\\\b"])
def test_an_entry_begins_with_the_bare_name_of_a_program(tmp_path: Path, entry: str) -> None:
    assert entry_findings(tmp_path, entry) == [("entry-program", "warning", 4)]


@pytest.mark.parametrize(
    "entry",
    ["python3 run.py", "bash ../run.sh", "bash /run.sh", "python3 -u Scripts/run.py"],
)
def test_a_program_file_that_is_not_there_is_missed(tmp_path: Path, entry: str) -> None:
    assert entry_findings(tmp_path, entry) == [("entry-file", "warning", 4)]


def test_a_broken_entry_is_found(tmp_path: Path) -> None:
    assert entry_findings(tmp_path, "bash 'run.sh") == [("entry-type", "warning", 4)]


def test_undeclared_files_are_named(tmp_path: Path) -> None:
    write_skill(tmp_path, "auth.md", assets=ASSETS)
    for name in ("a.txt", "b.txt", "c.txt", "d.txt", "e.txt"):
        write(tmp_path / "auth" / "assets" / name)

    [problem] = problems(tmp_path)

    assert (problem.rule, problem.line) == ("undeclared-file", 2)
    assert "'assets/b.txt', 'assets/c.txt', 'assets/d.txt' and 1 more" in problem.reason


@pytest.mark.parametrize("name", ["README.md", ".gitkeep"])
def test_what_people_and_tools_leave_there_needs_no_declaration(tmp_path: Path, name: str) -> None:
    write_skill(tmp_path, "auth.md", assets=ASSETS)
    write(tmp_path / "auth/assets/a.txt")
    write(tmp_path / "auth" / name)

    assert said(tmp_path) == []


def test_what_a_program_has_left_is_said_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "auth.md", assets=ASSETS)
    write(tmp_path / "auth/assets/a.txt")
    write(tmp_path / "auth/__pycache__/x.pyc")

    assert [rule for _, _, rule in said(tmp_path)] == ["installed-folder"]


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

    [problem] = validate_paths(tmp_path).problems

    assert problem.rule == "composed-length"
    assert Path(problem.file).name == "auth.md"
    assert "27,5" in problem.reason
    assert problem.hint == "move parts of _root into files of its folder"


def test_the_budget_of_a_skill_can_be_set(tmp_path: Path) -> None:
    write(tmp_path / "config.yaml", "validation: {max_tokens: 100}")
    write_skill(tmp_path, "skills/ui.md", keywords=["ui"], body="x" * 500)

    [problem] = validate_paths(tmp_path).problems

    assert problem.rule == "composed-length"
    assert "of 100 that validation.max_tokens allows" in problem.reason


DESCRIPTIONS = {
    "Standards for the architecture of services": False,
    "Write the notes of a release": True,
    "Standards for the release. Use when a version is published": True,
    "Richtlinien zur Architektur von Diensten": True,
}


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_description_says_for_which_tasks_a_skill_is(tmp_path: Path, description: str) -> None:
    write_package(tmp_path, "alone", description=description)

    assert ("no-use-when" not in {p.rule for p in problems(tmp_path)}) is DESCRIPTIONS[description]


def test_keywords_examples_and_when_to_use_say_it_as_well(tmp_path: Path) -> None:
    vague = "Standards for the architecture of services"
    write_package(tmp_path, "a", description=vague, when_to_use="A service is added")
    write_package(tmp_path, "b", description=f"{vague} in Go", examples=["add a service"])
    write_skill(tmp_path, "c.md", description=f"{vague} in Rust", keywords=["rust"])

    assert "no-use-when" not in {problem.rule for problem in problems(tmp_path)}


def test_what_hosts_cut_of_a_description_is_said(tmp_path: Path) -> None:
    write_skill(tmp_path, "long.md", description=f"Review {'word ' * 210}", keywords=["long"])
    write_package(tmp_path, "pack", description=f"Write {'b ' * 400}", when_to_use="c " * 400)

    found = [p for p in problems(tmp_path) if p.rule == "description-shown"]

    assert sorted(Path(p.file).name for p in found) == ["SKILL.md", "long.md"]
