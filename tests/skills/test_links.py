"""A link is never followed: where a skill is lost by it, or may be, it is named."""

from collections import deque
from collections.abc import Mapping
from pathlib import Path

import pytest

from skills_mcp.config import Limits
from skills_mcp.skills.model import Problem
from skills_mcp.skills.skill_discovery import SourceWalk
from skills_mcp.skills.source_layout import DEFAULT_SELECTION, FolderListing, FolderTree
from tests.skills.contents import take
from tests.support import write

PACKAGE = "---\nname: deploy\ndescription: Ships a release.\n---\nShip it.\n"
RULE = "---\nkeywords: [salary]\ndescription: Pay.\n---\nPay.\n"


def named(top: Path) -> dict[str, tuple[str, int]]:
    return {p.file: (p.level, p.count) for p in links_of(top)}


def links_of(top: Path) -> list[Problem]:
    return [p for p in take(top).problems if p.rule in {"link", "submodule"}]


def link(top: Path, links: Mapping[str, str]) -> None:
    for file, target in links.items():
        (top / file).parent.mkdir(parents=True, exist_ok=True)
        (top / file).symlink_to(target)


@pytest.mark.parametrize("above", ["skills", "."])
@pytest.mark.parametrize(
    "file",
    [".claude/skills/deploy", ".agents/skills", "plugins/web/skills", "plugins/web"],
)
@pytest.mark.parametrize("target", ["elsewhere", "absent"])
def test_a_link_in_place_of_skills_is_named_everywhere_alike(
    tmp_path: Path, file: str, target: str, above: str
) -> None:
    write(tmp_path / "outside/deploy/SKILL.md", PACKAGE)
    top = tmp_path / "top"
    write(top / above / "pdf/SKILL.md", PACKAGE)
    link(top, {file: str(tmp_path / "outside") if target == "elsewhere" else target})

    assert named(top).keys() == {file}


def test_a_link_to_skills_of_the_source_that_no_home_has_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "skills/pdf/SKILL.md", PACKAGE)
    write(tmp_path / "tools/deploy/SKILL.md", PACKAGE)
    link(tmp_path, {".claude/skills/deploy": "../../tools/deploy", "skills/deploy": "../tools"})

    assert named(tmp_path) == {"deploy": ("error", 0), ".claude/skills/deploy": ("error", 0)}


def test_links_to_served_skills_are_one_line_with_their_number(tmp_path: Path) -> None:
    write(tmp_path / ".agents/skills/deploy/SKILL.md", PACKAGE)
    write(tmp_path / "skills/pdf/SKILL.md", PACKAGE)
    links = {f".claude/skills/a{n}": "../../.agents/skills/deploy" for n in range(20)}
    link(tmp_path, {**links, ".codex/skills": "../skills", ".cursor": ".agents"})

    assert named(tmp_path) == {".": ("warning", 22)}


@pytest.mark.parametrize("folder", ["", "skills/", ".claude/skills/"])
def test_a_link_that_was_checked_out_as_text_is_named_and_not_served(
    tmp_path: Path, folder: str
) -> None:
    write(tmp_path / "skills/pdf/SKILL.md", PACKAGE)
    write(tmp_path / "tools/deploy/SKILL.md", PACKAGE)
    write(tmp_path / f"{folder}ship/SKILL.md", "../../../tools/deploy/SKILL.md")
    write(tmp_path / ".claude/skills/deploy", "../../tools/deploy\n")

    found = take(tmp_path)

    assert all("tools" not in skill.description for skill in found.index)
    files = {file.removeprefix(".claude/skills/") for file in named(tmp_path)}
    assert files == ({"deploy", "ship/SKILL.md"} if folder else {"deploy"})


def test_links_among_files_that_are_no_skills_are_no_problem(tmp_path: Path) -> None:
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    write(tmp_path / "AGENTS.md", "# Agents")
    write(tmp_path / "docs/guide.md", "# Guide")
    write(tmp_path / "build/out.txt", "x")
    link(
        tmp_path,
        {
            "CLAUDE.md": "AGENTS.md",
            "README.md": "/nowhere/README.md",
            "docs/start.md": "guide.md",
            "lib/libfoo.so": "libfoo.so.1.2",
            "logo.png": "../logo.png",
            "out": "build",
            "up": ".",
            ".claude/settings.json": "../settings.json",
            ".claude/agents": "/nowhere/agents",
        },
    )

    assert named(tmp_path) == {}


@pytest.mark.parametrize("above", [".", "skills"])
def test_a_rule_file_that_is_a_link_is_named(tmp_path: Path, above: str) -> None:
    write(tmp_path / above / "ui/pay.md", RULE)
    link(tmp_path / above, {"ui/salary.md": "pay.md", "ui/gone.md": "nowhere.md"})

    assert named(tmp_path) == {"ui/salary.md": ("error", 0), "ui/gone.md": ("error", 0)}


def test_hundreds_of_links_in_place_of_main_files_are_one_line_more(tmp_path: Path) -> None:
    write(tmp_path / "skills/deploy/SKILL.md", PACKAGE)
    link(tmp_path, {".gemini/skills/deploy/SKILL.md": "../../../skills/deploy/SKILL.md"})
    link(
        tmp_path,
        {f".gemini/skills/s{number}/SKILL.md": "../../../gone/SKILL.md" for number in range(10)},
    )

    problems = links_of(tmp_path)

    assert [(p.level, p.count) for p in problems if p.count] == [("error", 7), ("warning", 1)]
    assert sum(p.level == "error" and not p.count for p in problems) == 3


def count_listings(top: Path, folder: str) -> int:
    """Return how often a walk over a source lists one of its folders."""
    listed: list[str] = []

    class CountedTree(FolderTree):
        def list(self, folder: str, limit: int) -> FolderListing:
            listed.append(folder)
            return super().list(folder, limit)

    survey = SourceWalk(CountedTree(top), DEFAULT_SELECTION, Limits())
    for home in survey.layout.homes:
        deque(survey.walk(home), maxlen=0)
    return listed.count(folder)


def test_a_folder_that_many_links_lead_to_is_searched_once(tmp_path: Path) -> None:
    write(tmp_path / "ui/auth.md", RULE)
    for number in range(20):
        write(tmp_path / f"data/{number}/notes.txt", "one")
    link(tmp_path, {f"links/{number}": "../data" for number in range(20)})

    assert count_listings(tmp_path, "data/7") < 20


def test_a_folder_of_many_links_is_not_listed_for_each(tmp_path: Path) -> None:
    write(tmp_path / "skills/pdf/SKILL.md", PACKAGE)
    write(tmp_path / "tools/deploy/SKILL.md", PACKAGE)
    link(tmp_path, {f"skills/{number}": "../tools/deploy" for number in range(20)})

    assert count_listings(tmp_path, "skills") < 20
