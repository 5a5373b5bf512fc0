"""A `SKILL.md` among rule files takes none of them away."""

import shutil
from pathlib import Path

import pytest

from skills_mcp.library.skill_folder import derive_skill_format
from tests.skills.contents import take
from tests.support import write

CONTENT = Path(__file__).parents[2] / "fixtures/skills-content"
PACKAGE = "---\nname: pdf\ndescription: Fills forms.\n---\nFill it.\n"
RULE = "---\nkeywords: [salary]\ndescription: Pay.\n---\nPay.\n"


def paths(folder: Path) -> set[str]:
    return {skill.path for skill in take(folder).index.listed}


@pytest.mark.parametrize("file", ["SKILL.md", "skill.md", "skills/SKILL.md", "skills/ui/SKILL.md"])
def test_a_skill_md_beside_rules_takes_none_of_them_away(tmp_path: Path, file: str) -> None:
    shutil.copytree(CONTENT, tmp_path / "content")
    before = paths(tmp_path / "content")
    write(tmp_path / "content" / file, PACKAGE)

    after = paths(tmp_path / "content")

    assert before < after
    assert len(after) == len(before) + 1


def test_a_file_called_skill_with_keywords_is_a_rule_file(tmp_path: Path) -> None:
    for name in ("_index", "salary", "skill"):
        write(tmp_path / f"hr/{name}.md", RULE)

    skills = take(tmp_path).index
    formats = {skill.path: derive_skill_format(skill.file, skill.path) for skill in skills}
    assert formats == {"hr/_index": "rule", "hr/salary": "rule", "hr/skill": "rule"}
    assert take(tmp_path).algorithm == "keyword"


def test_a_rule_file_among_the_files_of_a_package_is_named(tmp_path: Path) -> None:
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    write(tmp_path / "pdf/forms.md", RULE)

    (problem,) = take(tmp_path).problems

    assert problem.rule == "inner-rules"
    assert "forms.md" in problem.reason
