"""The bar: of 1,000 skills with 100 broken ones, exactly the 900 others are served."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from skills_mcp.skills.skill_files import read_head
from skills_mcp.text.safe_yaml import MAX_YAML_CHARACTERS
from tests.skills.contents import take
from tests.support import write, write_skill

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")

GOOD = "---\nname: good\ndescription: Fills forms.\n---\nBody.\n"
LAUGHS = "\n".join(
    ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
)


def as_text(text: str | bytes) -> Callable[[Path], object]:
    return lambda main: write(main, text)


def as_link(target: str) -> Callable[[Path], object]:
    def make(main: Path) -> None:
        main.parent.mkdir(parents=True)
        main.symlink_to(target)

    return make


def as_folder(main: Path) -> None:
    write(main / "notes.txt", "no skill")


def as_pipe(main: Path) -> None:
    main.parent.mkdir(parents=True)
    os.mkfifo(main)


def as_huge_file(main: Path) -> None:
    with write(main, GOOD).open("r+b") as handle:
        handle.truncate(1 << 33)  # eight gigabytes that nobody may read


DEFECTS: dict[str, Callable[[Path], object]] = {
    "no text": as_text("---\nname: x\n---\n![](x.png)\n"),
    "nothing at all": as_text(""),
    "never closed": as_text("---\nname: x\ndescription: D\n"),
    "no description": as_text("---\nname: x\n---\n"),
    "an empty description": as_text("---\nname: x\ndescription: ''\n---\n"),
    "a list": as_text("---\n- a\n---\n"),
    "binary": as_text(b"\x7fELF\x02\x01\x01\0\xff\xfe" * 50),
    "UTF-16 that does not say so": as_text(GOOD.encode("utf-16-le")),
    "too large": as_text(GOOD.ljust(MAX_SKILL_BYTES + 1)),
    "far too large": as_huge_file,
    "a frontmatter that is too long": as_text(
        f"---\ndescription: D\n{'a: b: c' * MAX_YAML_CHARACTERS}\n---\n"
    ),
    "a bomb and nothing else": as_text(f"---\n{LAUGHS}\n---\n"),
    "brackets without end": as_text(f"---\n{'[' * 60_000}\n---\n"),
    "a link to a good one": as_link("../good-1/SKILL.md"),
    "a link to nothing": as_link("absent"),
    "a link to itself": as_link("SKILL.md"),
    "a link to the folder": as_link("."),
    "a link out of the tree": as_link("../../../outside/SKILL.md"),
    "a link to a device": as_link("/dev/zero"),
    "a folder of that name": as_folder,
    "a named pipe": as_pipe,
}


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """900 good skills of both formats, and each defect about five times."""
    folder = tmp_path / "content"
    write(tmp_path / "outside/SKILL.md", GOOD)
    for number in range(600):
        name = f"{'/'.join(str(number))}/good-{number}"
        write(folder / name / "SKILL.md", GOOD)
        write(folder / name / "references/notes.md", "Notes.")
    write(folder / "good-1/SKILL.md", GOOD)
    for number in range(299):
        write_skill(folder, f"rules/{number % 10}/rule-{number}.md")
    kinds = list(DEFECTS)
    for number in range(100):
        make = DEFECTS[kinds[number % len(kinds)]]
        make(folder / f"broken-{number:03}/SKILL.md")
    return folder


def test_of_a_thousand_skills_only_the_broken_ones_are_missing(content: Path) -> None:
    snapshot = take(content)

    assert len(snapshot.index) == 900
    assert not [skill.path for skill in snapshot.index if "broken" in skill.path]
    assert {skill.description for skill in snapshot.index} == {
        "Fills forms.",
        "An example",
    }


def test_every_broken_skill_has_its_own_problem_and_no_other_has_one(
    content: Path,
) -> None:
    problems = take(content).problems

    kinds = list(DEFECTS)
    named = [f"broken-{number:03}/SKILL.md" for number in range(100)]
    # A folder of that name is not even an attempt at a skill.
    expected = [
        name
        for number, name in enumerate(named)
        if kinds[number % len(kinds)] != "a folder of that name"
    ]
    errors = [problem for problem in problems if problem.level == "error"]
    assert sorted(problem.file for problem in errors) == expected
    assert {problem.file for problem in problems} == set(expected)
    assert all(problem.rule and problem.hint for problem in problems)


def test_what_is_served_of_such_a_tree_can_be_read(content: Path) -> None:
    for skill in take(content).index:
        for file in skill.files:
            assert read_head(skill, file, max_bytes=9).content.data


def test_broken_rules_cost_no_other_rules(tmp_path: Path) -> None:
    for number in range(90):
        write_skill(tmp_path / "content", f"{number % 9}/rule-{number}.md")
    for number, make in enumerate(DEFECTS.values()):
        make(tmp_path / "content" / f"broken-{number}" / "rule.md")

    snapshot = take(tmp_path / "content")

    assert len(snapshot.index) == 90
    broken = {each.file for each in snapshot.problems if each.level == "error"}
    assert len(broken) == len(DEFECTS) - 1  # a folder may be called rule.md
