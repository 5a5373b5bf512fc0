"""Every rule of validation is documented, and no other."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from skills_mcp.config.sections import ValidationRules
from skills_mcp.features.authoring import markdown, validation
from skills_mcp.features.authoring.package_standard import (
    FIELDS,
    MAX_COMPATIBILITY,
    MAX_DESCRIPTION,
    MAX_LINES,
    MAX_NAME,
)
from skills_mcp.features.authoring.rules import RULE_LEVELS, RULES
from skills_mcp.skills import (
    document,
    lifecycle,
    skill_discovery,
    skill_parser,
    source_layout,
    version_range,
)
from skills_mcp.skills.skill_discovery import MAX_DEPTH, MAX_SKILL_BYTES
from skills_mcp.snapshots import loaded_skills, skill_snapshot
from tests.cli.conftest import Run, run
from tests.docs.pages import DOCS, REFERENCE, blocks, code, codes, prose, table
from tests.docs.test_tutorial import normalised, run_page, steps
from tests.support import write

PAGE = REFERENCE / "validation.md"
GUIDE = DOCS / "how-to" / "check-skills.md"
READERS = (
    loaded_skills,
    skill_discovery,
    document,
    lifecycle,
    version_range,
    skill_parser,
    source_layout,
    skill_snapshot,
    skill_discovery,
)
REFUSED = (
    *(skill_discovery._NOT_PRINTABLE, skill_discovery._UNSAFE, skill_discovery._COLLISION),
    *skill_discovery._REFUSED_KINDS.values(),
)

__all__ = ["run"]


def rows() -> list[dict[str, str]]:
    return [row for row in table(prose(PAGE)) if "Rule" in row]


def rules_of_the_reader() -> Iterator[str]:
    """Yield each rule that is named in a call, with … for what is filled in."""
    for module in READERS:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", "")
                first = node.args[:1] if name in {"fail", "warn"} else []
                named = [word.value for word in node.keywords if word.arg == "rule"]
                texts = (n for n in (*first, *named) if not isinstance(n, ast.Name))
                yield from map(text_of, texts)
    yield from (rule for _, _, rule in REFUSED)
    yield from (skill_discovery._OUTSIDE, "plugin-not-picked")


def text_of(node: ast.expr) -> str:
    return re.sub(r"\{.*?\}", "…", ast.unparse(node)).removeprefix("f").strip("'\"")


def test_every_rule_is_documented_once_and_no_other() -> None:
    documented = [code(row["Rule"]) for row in rows()]

    assert sorted(documented) == sorted({*RULE_LEVELS, *rules_of_the_reader()})
    assert all(all(row.values()) for row in rows())


def test_every_rule_of_the_reader_can_be_chosen() -> None:
    patterns = {rule.replace("…", "*") for rule in rules_of_the_reader()}

    for pattern in patterns:
        assert any(fnmatchcase(rule, pattern) for rule in RULES), pattern
    for rule in RULES - RULE_LEVELS.keys():
        assert any(fnmatchcase(rule, pattern) for pattern in patterns), rule


def test_levels_are_those_of_the_program() -> None:
    documented = {code(row["Rule"]): row["Level"] for row in rows()}

    assert {rule: documented[rule].split(",")[0] for rule in RULE_LEVELS} == RULE_LEVELS
    for level in documented.values():
        assert re.match(r"error|warning", level)


def test_the_fields_of_the_standard_are_listed() -> None:
    [row] = [row for row in rows() if code(row["Rule"]) == "unknown-key"]

    assert codes(row["What is wrong"]) == list(FIELDS)


def test_numbers_are_those_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")

    for words in (
        f"longer than {MAX_NAME} characters",
        f"longer than {MAX_DESCRIPTION:,} characters",
        f"1 to {MAX_COMPATIBILITY} characters",
        f"more than {MAX_LINES} lines",
        f"more than {markdown.MAX_CHARACTERS:,} characters",
        f"more than {ValidationRules().max_tokens:,} tokens",
        f"more than {validation.MAX_SKILLS:,} skills",
        f"larger than {MAX_SKILL_BYTES:,} bytes",
        f"deeper than {MAX_DEPTH} folders",
    ):
        assert words in page, words


def test_the_output_of_the_page_is_the_real_one(run: Run, tmp_path: Path) -> None:
    [shown] = blocks(PAGE, "text")
    head = "---\nname: forms\ndescription: Fill in forms.\n---\nDo it.\n"
    write(tmp_path / "skills/pdf/SKILL.md", head)

    done = run("validate", str(tmp_path))

    assert done.stdout.replace(f"{tmp_path}/", "") == shown.text


def test_the_guide_prints_what_it_says(tmp_path: Path, shell_path: str) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    shown = [step for each in blocks(GUIDE, "console") for step in steps(each)]

    printed = run_page(GUIDE, folder, shell_path)

    for (command, expected), real in zip(shown, printed, strict=True):
        assert normalised(real) == normalised(expected), command
    assert shown
