"""A package at the top of a repository is not the whole repository."""

from pathlib import Path

from tests.skills.contents import take
from tests.support import write

TEXT = """---
name: browser
description: Drives a browser.
---
Run `helpers.py`, and read [the guide](docs/guide.md). Fonts are in `fonts`, examples in
prompts/*.txt.
"""

NAMED = ("helpers.py", "docs/guide.md", "docs/img/a.png", "fonts/b.ttf", "prompts/c.txt")
OWN = ("LICENSE.md", "scripts/run.sh", "references/more.md", "assets/logo.png")
OTHERS = (*(f"docs/page-{n}.md" for n in range(60)), "src/fonts/x.py", ".github/x.yml", "dist/y")


def browser(top: Path, *more: str) -> Path:
    write(top / "SKILL.md", TEXT)
    for file in (*NAMED, *OWN, *more):
        write(top / file, "![](img/a.png)" if file == "docs/guide.md" else "x")
    return top


def test_a_repository_gives_its_package_only_what_a_text_names(tmp_path: Path) -> None:
    found = take(browser(tmp_path, *OTHERS))

    [skill] = found.index
    assert set(skill.files) == {"SKILL.md", *NAMED, *OWN}
    [problem] = found.problems
    assert (problem.file, problem.rule, problem.level) == ("SKILL.md", "unnamed-files", "warning")
    assert "62 files" in problem.reason


def test_a_small_folder_with_a_package_keeps_all_of_its_files(tmp_path: Path) -> None:
    found = take(browser(tmp_path, "other.txt", ".github/x.yml"))

    [skill] = found.index
    assert set(skill.files) == {"SKILL.md", *NAMED, *OWN, "other.txt", ".github/x.yml"}
    assert found.problems == ()


def test_a_package_below_the_top_keeps_all_of_its_files(tmp_path: Path) -> None:
    browser(tmp_path / "browser", *OTHERS)

    [skill] = take(tmp_path).index

    assert set(OTHERS) < set(skill.files)
